//! `mcp` turns the arguments of `pstore mcp` into a server for one agent. Stdout is the agent's until it has gone.

use engine::{Engine, failure::Failure, workspace::StatusRequest};
use mcp::{AgentServer, Containers, Workspaces, stdio};

use crate::{answer::Answer, args::McpArgs};

pub(super) async fn run(engine: Engine, args: &McpArgs) -> Result<Answer, Failure> {
    let engine = engine.serving();
    // Whoever starts this sees at once that the directory is no workspace; an agent would see it at its first call.
    let workspace = engine.workspace_status(&StatusRequest { directory: args.workspace.clone() }).await?;
    let server = AgentServer::new(engine, Workspaces::one(workspace.directory));
    let server = match &args.containers {
        // Who may start this may use the daemon as well.
        Some(docker_host) => server.with_containers(Containers::all(docker_host.clone())),
        None => server,
    };
    let outcome = stdio::serve(server).await?;
    Answer::of(&outcome, String::new())
}
