//! Real servers, and what a network does to requests.

#![allow(clippy::unwrap_used)]

mod contract;
mod getting_started;
mod mixed_fleet;
mod network;
mod patience;
mod probe;
mod program;
mod s3;
mod verdict;
mod waiting;
