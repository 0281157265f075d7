//! `change` compares the profiles of two snapshots: cookies per site, settings, extensions, and
//! origins that keep something.
//!
//! It never returns values, neither of cookies nor of settings.

pub(crate) mod cookie_sites;
pub mod names;
pub(crate) mod origins;
pub mod settings;
pub mod sites;
pub mod storage;
