//! `stdio` serves one agent over stdin and stdout, until it closes them.

use engine::{failure::Failure, host::signals, outcome::Outcome};
use rmcp::{
    ServiceExt,
    service::ServerInitializeError,
    transport::{async_rw::AsyncRwTransport, stdio_pipes},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agent_server::AgentServer;

/// The longest line that is read. Longer ones are passed over.
const MAX_LINE_BYTES: usize = 4 << 20;

/// An agent that was served.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct McpOutcome {
    /// Why it has ended.
    pub ended: McpEnd,
}

/// Why an agent is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpEnd {
    /// It closed stdin.
    Closed,
    /// The process was told to end.
    Stopped,
}

impl Outcome for McpOutcome {}

/// Serves the agent that started this process.
pub async fn serve(server: AgentServer) -> Result<McpOutcome, Failure> {
    let stopped = signals::told_to_end();
    let (read, write) = stdio_pipes();
    let transport = AsyncRwTransport::new_server(read, write).with_max_line_length(MAX_LINE_BYTES);
    let serving = async {
        match server.clone().serve(transport).await {
            Ok(running) => {
                running.waiting().await.map(|_| ()).map_err(|error| Failure::internal(error.to_string()))
            }
            // Who goes away before it has said anything has had what it wanted.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
            Err(error) => Err(Failure::usage(format!("the client does not speak MCP: {error}"))),
        }
    };
    let ended = tokio::select! {
        ended = serving => ended.map(|()| McpOutcome { ended: McpEnd::Closed }),
        _ = stopped => Ok(McpOutcome { ended: McpEnd::Stopped }),
    };
    server.all_changed().await;
    ended
}
