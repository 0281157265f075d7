//! `mcp` defines the arguments of `pstore mcp`.

use std::path::PathBuf;

use clap::Args;

/// Offer the checkpoints of a workspace to an agent, over MCP on stdin and stdout
///
/// An agent's program starts this command, and its tools take checkpoints, compare, and give files back. Runs until stdin
/// is closed. With --containers, they store Docker containers, too. `pstore serve --workspaces` offers the same over HTTP.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace start ./project acme/agent-7
  pstore mcp --workspace ./project
  pstore mcp --workspace ./project --containers unix:///var/run/docker.sock")]
pub(crate) struct McpArgs {
    /// The directory of the workspace
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: PathBuf,
    /// Let the agent store containers of this Docker daemon, for the tenant of the workspace
    #[arg(long, value_name = "URL")]
    pub(crate) containers: Option<String>,
}
