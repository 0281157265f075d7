//! Keeps what exists and which of it is current: tenants, records, pointers, locks, events.

mod archives;
pub(crate) mod cas;
pub mod clock;
pub(crate) mod condemned;
pub(crate) mod deletion;
mod ended_records;
pub mod events;
mod existing_packs;
pub mod expectations;
pub mod feed;
pub mod foreign;
pub mod index;
pub mod jobs;
pub mod lease;
pub mod lineage_handle;
pub mod lock;
pub mod metrics;
pub(crate) mod order;
pub mod pins;
pub mod pointer;
pub mod records;
pub mod rules;
pub mod schedules;
pub mod session_root;
pub mod store;
pub mod tombstone;
mod unreadable_records;
