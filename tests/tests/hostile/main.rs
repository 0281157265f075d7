//! These tests deal with tenants, neighbours, archives and databases that wish us ill.

#![allow(clippy::unwrap_used)]

mod archives;
mod databases;
mod local_user;
mod tenant;
