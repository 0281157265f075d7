//! `change` compares the profiles of two snapshots: cookies per site, settings, extensions, and
//! origins that keep something.
//!
//! Values are never told: neither those of cookies nor those of settings.

pub(crate) mod cookie_sites;
pub mod names;
pub(crate) mod origins;
pub mod settings;
pub mod sites;
pub mod storage;
