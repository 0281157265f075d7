//! These tests run the real code of several processes in chosen orders.

#![allow(clippy::unwrap_used)]

mod archives;
mod collections;
mod erasure;
mod holders;
mod lot;
mod repairs;
mod rules;
mod sessions;
