//! These tests run a real Chromium.

#![allow(clippy::unwrap_used)]

mod busy;
mod chrome;
mod damaged;
mod expected;
mod hot;
mod hot_failures;
mod idle;
mod mounted;
mod page;
mod profile;
mod session_cookies;
mod torn_logs;
