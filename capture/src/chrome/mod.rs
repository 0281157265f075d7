//! `chrome` knows the browser: who runs on a user-data-dir, how it is ended, and what the profile tells.
//!
//! Everything here blocks, and is about Linux: processes are seen through `/proc`. A process
//! is known by its number *and* its start time, so that a number that was used again is never
//! taken for the process it was.

mod arguments;
pub mod devtools;
mod json_edit;
pub mod normalise;
mod open_files;
mod process;
pub mod processes;
pub mod profile;
pub mod singleton;
mod singleton_lock;
mod sockets;
pub mod startup;
pub mod stop;

pub use process::Identity;
