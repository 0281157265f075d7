//! The verbs.

pub mod adopt;
mod again;
pub mod browse;
pub mod commit;
pub mod commitment;
pub mod diff;
pub mod export;
pub mod extract;
pub mod find;
pub mod forecast;
pub mod gc;
pub mod history;
pub mod import;
pub mod moved;
pub mod open;
pub mod publish;
pub mod quota;
pub mod reap;
pub mod repack;
pub mod restore;
pub mod retention;
pub mod snapshot;
pub mod stats;
pub mod tag;
pub mod verify;
mod written;
