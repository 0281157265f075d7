//! `mcp` turns the arguments of `pstore mcp` into a server for one agent. Stdout is the agent's until it has gone.

use std::time::Duration;

use engine::{Engine, failure::Failure, workspace::StatusRequest};
use mcp::{AgentServer, Containers, Workspaces, stdio};
use volumes::project::recover;

use crate::{answer::Answer, args::McpArgs};

/// How long it looks after what dead commands have left at daemons. The next command tries again.
const RECOVERS: Duration = Duration::from_secs(10);

pub(super) async fn run(engine: Engine, args: &McpArgs) -> Result<Answer, Failure> {
    let engine = engine.serving();
    // Whoever starts this sees at once that the directory is no workspace; an agent would see it at its first call.
    let workspace = engine.workspace_status(&StatusRequest { directory: args.workspace.clone() }).await?;
    let server = AgentServer::new(engine.clone(), Workspaces::one(workspace.directory));
    let outcome = match &args.containers {
        // Who may start this may use the daemon as well.
        Some(docker_host) => {
            let server = server.with_containers(Containers::all(docker_host.clone()));
            // The agent does not wait for it. It is not cut off either, if the agent leaves at once.
            let (outcome, ()) = tokio::join!(stdio::serve(server), let_go_on(&engine));
            outcome?
        }
        None => stdio::serve(server).await?,
    };
    Answer::of(&outcome, String::new())
}

/// Lets containers go on that killed commands have left paused. The one that served the agent before may be one of them.
async fn let_go_on(engine: &Engine) {
    if tokio::time::timeout(RECOVERS, recover::recover_all(engine, None)).await.is_err() {
        engine.warn("what dead commands have left could not be undone yet; the next command tries again");
    }
}
