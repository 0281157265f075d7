//! `time` writes times of day, in UTC.

pub use store::error::utc;
