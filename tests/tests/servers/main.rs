//! These tests use real servers, and do to requests what a network does.

#![allow(clippy::unwrap_used)]

mod authorities;
mod contract;
mod getting_started;
mod mixed_fleet;
mod network;
mod patience;
mod probe;
mod program;
mod s3;
mod serve;
mod verdict;
mod waiting;
