//! These tests use the checkpoints of workspaces as agents do: over MCP, with the official clients.

#![allow(clippy::unwrap_used)]

mod containers;
mod inspector;
mod over_http;
mod over_stdio;
mod protocol;
mod scene;
