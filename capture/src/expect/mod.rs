//! What must be in a profile, and whether it is.

pub(crate) mod sought;
