//! `Tool` joins the description of a tool, which agents read, with the function that carries the tool out.

use std::{fmt, future::Future, pin::Pin};

use engine::failure::Failure;
use rmcp::model::{JsonObject, Tool as Definition, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{answer::ToolAnswer, call::Call};

/// What a tool does to the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Reads,
    /// It adds a checkpoint or a directory, and changes nothing that is there.
    Adds,
    /// It adds a snapshot of a container, which rests for that. The oldest ones make room.
    Stores,
    /// It changes or removes what is there.
    Destroys {
        /// The same call once more changes nothing.
        is_idempotent: bool,
    },
}

impl Effect {
    fn annotations(self) -> ToolAnnotations {
        let (destroys, is_idempotent) = match self {
            Self::Reads => (false, true),
            Self::Adds => (false, false),
            Self::Stores => (true, false),
            Self::Destroys { is_idempotent } => (true, is_idempotent),
        };
        // A workspace with its checkpoints, and the containers of a host, are all that a tool reaches.
        ToolAnnotations::new()
            .read_only(self == Self::Reads)
            .destructive(destroys)
            .idempotent(is_idempotent)
            .open_world(false)
    }
}

type Doing = Pin<Box<dyn Future<Output = Result<ToolAnswer, Failure>> + Send>>;

/// One tool.
pub(crate) struct Tool {
    /// As agents are told of it.
    pub(crate) definition: Definition,
    /// What it does.
    pub(crate) effect: Effect,
    run: Box<dyn Fn(Call, JsonObject) -> Doing + Send + Sync>,
}

impl Tool {
    /// A tool that takes an `I` and answers an `O`.
    pub(crate) fn new<I, O, F>(
        name: &'static str,
        title: &'static str,
        description: &'static str,
        effect: Effect,
        run: fn(Call, I) -> F,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + Send + 'static,
        O: Serialize + JsonSchema + 'static,
        F: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let definition = Definition::new(name, description, JsonObject::new())
            .with_title(title)
            .with_input_schema::<I>()
            .with_output_schema::<O>()
            .with_annotations(effect.annotations());
        let run = move |call: Call, arguments: JsonObject| -> Doing {
            Box::pin(async move {
                let input = serde_json::from_value(Value::Object(arguments)).map_err(|error| {
                    Failure::usage(format!("these are not the arguments of {name}: {error}"))
                        .hint(format!("call {name} with the arguments that its input schema has"))
                })?;
                ToolAnswer::new(&run(call, input).await?)
            })
        };
        Self { definition, effect, run: Box::new(run) }
    }

    /// Carries a call out.
    pub(crate) fn run(&self, call: Call, arguments: JsonObject) -> Doing {
        (self.run)(call, arguments)
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.definition.name)
    }
}
