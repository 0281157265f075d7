//! Times of day, in UTC.

pub use store::error::utc;
