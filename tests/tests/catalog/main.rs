//! These tests hold profiles, move their pointers, and write beside others.

#![allow(clippy::unwrap_used)]

mod chain;
mod leases;
mod lock;
mod moves;
mod pointer;
mod survey;
mod together;
mod writers;
