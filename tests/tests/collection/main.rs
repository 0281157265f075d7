//! These tests free what no snapshot needs, and nothing else.

#![allow(clippy::unwrap_used)]

mod burial;
mod gc;
mod repack;
mod settled;
