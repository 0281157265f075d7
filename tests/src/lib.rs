//! `tests` holds the helpers that tests against real servers and real processes share.

// Everything here runs in tests only, where a panic is how a failure is told.
#![allow(clippy::unwrap_used)]

pub mod archive;
pub mod binary;
pub mod certificates;
pub mod chain;
pub mod checker;
pub mod chromium;
pub mod contract;
pub mod contract_client;
pub mod disk;
pub mod docker;
pub mod explorer;
pub mod forge;
pub mod interrupter;
pub mod kill_at;
pub mod many_profiles;
pub mod mount_fixture;
pub mod mutation;
pub mod overlay;
pub mod page;
pub mod postgres;
pub mod power;
mod process;
pub mod profile_fixture;
pub mod prometheus;
pub mod proxy;
pub mod random;
pub mod served;
pub mod server;
pub mod soak;
pub mod store_fixture;
pub mod systemd;
pub mod tarball;
pub mod terminal;
pub mod textfile_exporter;
pub mod tree;
pub mod vectors;

/// A name nobody else has, safe in keys, paths and bucket names.
pub fn unique_name() -> String {
    format!("{:016x}", getrandom::u64().unwrap())
}
