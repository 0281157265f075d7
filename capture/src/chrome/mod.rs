//! `chrome` knows the browser: it finds the processes on a user-data-dir, ends them, and reads the profile's own
//! files.
//!
//! Everything here blocks, and needs Linux: it sees processes through `/proc`. It identifies a process by its number
//! *and* its start time, so that it never takes a reused number for the earlier process.

mod arguments;
mod cookie_databases;
mod cookie_writer;
pub mod devtools;
pub mod held_cookies;
mod json_edit;
pub mod normalise;
mod open_files;
mod process;
pub mod processes;
pub mod profile;
mod replace_file;
pub mod singleton;
mod singleton_lock;
mod sockets;
pub mod startup;
pub mod stop;

pub(crate) use cookie_databases::cookie_databases;
pub use process::Identity;
pub(crate) use replace_file::replace;
