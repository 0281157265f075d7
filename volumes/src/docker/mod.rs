//! `docker` talks to a Docker daemon over its API: containers and their states, helpers, archives, images.

mod changes;
mod connection;
mod containers;
mod exec;
mod helper;
mod labels;
mod local;
mod notes;
mod own;
mod problem;
mod rest;
mod set_aside;
mod settle;
mod streams;

pub use connection::Docker;
pub use containers::{Container, Status, is_name};
pub use exec::Executed;
pub use helper::{Helper, Mark, Provisional, TemporaryImage};
pub use labels::OURS;
pub use local::DaemonRoot;
pub use notes::Notes;
pub use problem::failure;
pub use rest::{Rest, Resting, went_on};
pub use set_aside::SetAside;
pub use settle::settle_everywhere;
pub use streams::{spool, stream_of};
