//! `text` reads and writes what people see: names, sizes, times, patterns.

pub mod escape;
pub mod geo;
pub mod glob;
pub mod path;
pub mod plain;
pub mod reason;
pub mod secret;
pub mod shell;
pub mod size;
pub mod time;
