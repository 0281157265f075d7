//! `host` deals with the machine: directories, users, signals, commands, places to mount on.

pub mod mountpoint;
pub mod private;
pub mod signals;
pub mod supervise;
pub mod user;
