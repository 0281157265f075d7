//! What exists and which of it is current: tenants, records, pointers.

pub mod clock;
pub mod condemned;
pub mod index;
pub mod lease;
pub mod pointer;
pub mod records;
pub mod store;
