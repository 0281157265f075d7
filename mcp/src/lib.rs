//! `mcp` offers agents the checkpoints of a workspace as tools of the Model Context Protocol, and snapshots of containers.
//!
//! ```text
//! stdio, http ──> agent_server ──> tools ──────> engine
//!                      ├──────> workspaces
//!                      └──────> containers ──> volumes
//! ```
//!
//! [`AgentServer`] speaks the protocol, [`Workspaces`] says which directories its caller may reach, [`Containers`] says which
//! containers, and each tool makes one request of [`engine::Engine`] or of [`volumes`]. An answer is short: counts first, lists in pages. A failure says which tool to call next.

#![warn(missing_docs)]

pub mod containers;
pub mod documents;
pub mod http;
pub mod stdio;
pub mod workspaces;

mod agent_server;
mod answer;
mod call;
mod checkpoint;
mod page;
mod progress;
mod relative_path;
mod tool;
mod tools;

pub use agent_server::AgentServer;
pub use containers::Containers;
pub use workspaces::Workspaces;
