//! `docker` talks to a Docker daemon over its API: containers and their states, helpers, archives, images.

mod connection;
mod containers;
mod helper;
mod notes;
mod problem;
mod rest;
mod streams;

pub use connection::Docker;
pub use containers::{Container, Status};
pub use helper::{Helper, Provisional, TemporaryImage};
pub use notes::Notes;
pub use problem::failure;
pub use rest::{Rest, Resting, SetAside};
pub use streams::{spool, stream_of};
