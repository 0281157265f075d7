//! What no snapshot needs is freed, and nothing else is.

#![allow(clippy::unwrap_used)]

mod gc;
mod repack;
mod settled;
