//! `AgentServer` answers one agent: it lists the tools, and carries out the calls of them.

use std::{path::PathBuf, sync::Arc, time::Duration};

use engine::{Engine, failure::Failure, interrupt::Interrupt, observer::Observer};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Definition,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use store::ErrorKind;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinError,
};

use crate::{
    answer::{ToolAnswer, failed},
    call::Call,
    containers::Containers,
    progress::CallObserver,
    tool::{Effect, Tool},
    tools,
    workspaces::Workspaces,
};

/// The argument that names one of several workspaces.
const WORKSPACE: &str = "workspace";
/// So many changes may be under way at once; more wait.
const MAX_CHANGES: u32 = 16;
/// So many containers may be stored at once. Each takes up to two minutes, and keeps no other change waiting.
const MAX_STORED: u32 = 4;
/// How long what reads may take to end once nobody wants its answer.
const LAST_BREATH: Duration = Duration::from_secs(2);

const INSTRUCTIONS: &str = "Checkpoints of the directory that you work in. Every change of a file counts, by a shell too. \
Call snapshots_create before something risky. When something is broken: snapshots_changes tells which files differ from a \
checkpoint, snapshots_diff how one file differs, snapshots_history which checkpoints have another version of it, and \
snapshots_revert gives one file, a folder or everything back. A revert takes a checkpoint first, so it can be reverted.";

/// What is said in addition where containers are offered.
const OF_CONTAINERS: &str = " containers_snapshot stores a Docker container: call it when a run begins or ends, and before and after \
an action that a container may suffer from. A snapshot that fails does not break the run. containers_list has what was stored.";

/// Answers an agent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct AgentServer {
    engine: Engine,
    workspaces: Arc<Workspaces>,
    containers: Option<Containers>,
    /// Each change that has begun has one of these until it has ended.
    changing: Arc<Semaphore>,
    /// The same for each container that is being stored.
    storing: Arc<Semaphore>,
}

impl AgentServer {
    /// One whose tools reach these workspaces.
    pub fn new(engine: Engine, workspaces: Workspaces) -> Self {
        let [changing, storing] =
            [MAX_CHANGES, MAX_STORED].map(|most| Arc::new(Semaphore::new(most as usize)));
        Self { engine, workspaces: Arc::new(workspaces), containers: None, changing, storing }
    }

    /// The same, whose agent may store these containers as well.
    pub fn with_containers(self, containers: Containers) -> Self {
        Self { containers: Some(containers), ..self }
    }

    /// The tools that it has.
    fn tools(&self) -> impl Iterator<Item = &'static Tool> + use<> {
        tools::all(self.containers.is_some())
    }

    fn tool(&self, name: &str) -> Option<&'static Tool> {
        tools::find(name, self.containers.is_some())
    }

    /// Waits until all that has begun to change something has ended.
    pub async fn all_changed(&self) {
        let _ = self.changing.acquire_many(MAX_CHANGES).await;
        let _ = self.storing.acquire_many(MAX_STORED).await;
    }

    /// Waits for room to carry a tool out. What only reads needs none.
    async fn room(&self, effect: Effect) -> Option<OwnedSemaphorePermit> {
        let room = match effect {
            Effect::Reads => return None,
            Effect::Stores => &self.storing,
            Effect::Adds | Effect::Destroys { .. } => &self.changing,
        };
        Arc::clone(room).acquire_owned().await.ok()
    }

    /// A tool as this server has it.
    fn described(&self, tool: &Tool) -> Definition {
        let mut definition = tool.definition.clone();
        if self.workspaces.are_named() {
            let mut schema = JsonObject::clone(&definition.input_schema);
            let properties = schema.entry("properties").or_insert_with(|| json!({}));
            if let Some(properties) = properties.as_object_mut() {
                properties.insert(
                    WORKSPACE.to_owned(),
                    json!({
                        "type": ["string", "null"],
                        "description": "The workspace, as TENANT/NAME; only needed if there are several.",
                    }),
                );
            }
            definition.input_schema = Arc::new(schema);
        }
        definition
    }

    /// The workspace that a call is about.
    async fn directory(&self, arguments: &mut JsonObject) -> Result<PathBuf, Failure> {
        let named = match self.workspaces.are_named() {
            true => arguments.remove(WORKSPACE),
            false => None,
        };
        let named = match &named {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name.as_str()),
            Some(_) => return Err(Failure::usage("\"workspace\" is a string, such as \"acme/agent-7\"")),
        };
        self.workspaces.find(&self.engine, named).await
    }

    /// Carries out a call. One that changes something is brought to its end, even if its client goes away.
    async fn carried_out(
        &self,
        tool: &'static Tool,
        mut arguments: JsonObject,
        context: RequestContext<RoleServer>,
    ) -> Result<ToolAnswer, Failure> {
        let directory = self.directory(&mut arguments).await?;
        let interrupt = Interrupt::new();
        let observer = Arc::new(CallObserver::new(Arc::clone(&self.engine.observer)));
        let reports =
            context.meta.get_progress_token().map(|token| observer.reports(context.peer.clone(), token));
        let engine = Engine {
            observer: observer as Arc<dyn Observer>,
            interrupt: interrupt.clone(),
            ..self.engine.clone()
        };
        // On a thread of its own, so that nothing it waits for keeps others waiting; it goes on if this task is dropped.
        let (runtime, containers) = (Handle::current(), self.containers.clone());
        let call = Call { engine, directory, containers };
        let change = tokio::select! {
            biased;
            () = context.ct.cancelled() => return Err(unwanted()),
            room = self.room(tool.effect) => room,
        };
        let mut work = tokio::task::spawn_blocking(move || {
            let told = runtime.block_on(tool.run(call, arguments));
            drop(change);
            told
        });
        let repeated = async {
            match &reports {
                Some(reports) => reports.repeated().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = &mut work => {
                // What was quick is told as well, before the answer.
                if let Some(reports) = &reports {
                    reports.once().await;
                }
                return joined(ended);
            }
            () = repeated => {}
            () = context.ct.cancelled() => {}
        }
        interrupt.raise();
        if tool.effect != Effect::Reads {
            return joined(work.await);
        }
        match tokio::time::timeout(LAST_BREATH, &mut work).await {
            Ok(ended) => joined(ended),
            Err(_) => Err(unwanted()),
        }
    }
}

fn unwanted() -> Failure {
    Failure::new(ErrorKind::Interrupted, "the client does not want the answer any more")
}

fn joined(ended: Result<Result<ToolAnswer, Failure>, JoinError>) -> Result<ToolAnswer, Failure> {
    ended.unwrap_or_else(|error| Err(Failure::internal(format!("the call was cut short: {error}"))))
}

impl ServerHandler for AgentServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new("pstore", env!("CARGO_PKG_VERSION"))
                    .with_title("Checkpoints of a workspace"),
            )
            .with_instructions(match &self.containers {
                Some(_) => format!("{INSTRUCTIONS}{OF_CONTAINERS}"),
                None => INSTRUCTIONS.to_owned(),
            })
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools().map(|tool| self.described(tool)).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Definition> {
        self.tool(name).map(|tool| self.described(tool))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tool(&request.name) else {
            let names: Vec<&str> = self.tools().map(|tool| &*tool.definition.name).collect();
            let message = format!("there is no tool {:?}; the tools are {}", request.name, names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let result = match self.carried_out(tool, request.arguments.unwrap_or_default(), context).await {
            Ok(told) => CallToolResult::from(told),
            Err(failure) => {
                if failure.kind == ErrorKind::Internal {
                    tracing::error!("{}: {}", tool.definition.name, failure.message);
                }
                failed(&failure)
            }
        };
        Ok(result.into())
    }
}
