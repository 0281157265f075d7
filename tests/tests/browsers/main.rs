//! These tests run a real Chromium.

#![allow(clippy::unwrap_used)]

mod chrome;
mod damaged;
mod expected;
mod hot;
mod mounted;
mod page;
mod profile;
mod session_cookies;
