//! `mcp` defines the arguments of `pstore mcp`.

use std::path::PathBuf;

use clap::Args;

/// Offer the checkpoints of a workspace to an agent, over MCP on stdin and stdout
///
/// An agent's program starts this command, and its tools take checkpoints, compare, and give files back. Runs until stdin
/// is closed. `pstore serve --workspaces` offers the same over HTTP.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace start ./project acme/agent-7
  pstore mcp --workspace ./project")]
pub(crate) struct McpArgs {
    /// The directory of the workspace
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: PathBuf,
}
