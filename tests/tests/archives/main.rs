//! These tests deal with archives of snapshots, ours and those of other programs.

#![allow(clippy::unwrap_used)]

mod archive;
mod carried;
mod foreign;
mod imported;
mod publish;
mod random;
