//! Who holds a profile, who moves its pointer, who writes beside whom.

#![allow(clippy::unwrap_used)]

mod chain;
mod leases;
mod lock;
mod moves;
mod pointer;
mod together;
mod writers;
