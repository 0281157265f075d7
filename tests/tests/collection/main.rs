//! What no snapshot needs is freed, and nothing else is.

#![allow(clippy::unwrap_used)]

mod burial;
mod gc;
mod repack;
mod settled;
