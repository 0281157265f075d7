//! The verbs, one file each: a request, its outcome, and how [`crate::Engine`] gets from one to the other.

pub mod stats;
pub mod tag;
