//! These tests run a real Chromium.

#![allow(clippy::unwrap_used)]

mod chrome;
mod expected;
mod mounted;
mod profile;
