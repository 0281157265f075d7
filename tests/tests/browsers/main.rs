//! Real Chromium.

#![allow(clippy::unwrap_used)]

mod chrome;
mod mounted;
mod profile;
