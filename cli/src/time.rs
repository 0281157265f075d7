//! Times of day, in UTC.

pub(crate) use store::error::utc;
