//! `snapshots_create` takes a checkpoint that stays until it is deleted.

use engine::{
    failure::Failure,
    workspace::{CheckpointFields, CheckpointRequest, CheckpointResult, Method, Origin, Trigger},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::ErrorKind;

use crate::{
    call::Call,
    checkpoint::{self, Checkpoint},
    tool::{Effect, Tool},
};

/// Which checkpoint to take.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// A name of its own, such as "before-refactor".
    #[serde(default)]
    name: Option<String>,
    /// Why, in a sentence: it is shown in lists.
    #[serde(default)]
    description: Option<String>,
}

/// The checkpoint that was taken.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// What came of it.
    outcome: CheckpointResult,
    /// The checkpoint.
    #[serde(flatten)]
    checkpoint: Checkpoint,
    /// How many more can be taken before one has to be deleted.
    free_slots: u64,
    /// Files that were read for it; all others have not changed.
    read_files: u64,
    /// Bytes that it added to the store.
    stored_bytes: u64,
    /// How it was taken.
    method: Method,
    /// How long it took.
    elapsed_ms: u64,
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_create",
        "Take a checkpoint",
        "Take a checkpoint of the whole workspace now, before a risky step. It stays until snapshots_delete. Quick: only \
         changed files are read, and only new content is stored.",
        Effect::Adds,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let known = checkpoint::all(&call).await?;
    let manual = || known.checkpoints.iter().filter(|fields| fields.origin == Origin::Manual);
    let used = manual().count() as u64;
    if let Some(name) = &input.name
        && manual().any(|fields| fields.name.as_ref() == Some(name))
    {
        return Err(Failure::new(ErrorKind::TargetExists, format!("there is a checkpoint {name:?} already"))
            .hint(format!(
                "choose another name, or call snapshots_delete with \"checkpoint\": {name:?} first"
            )));
    }
    if used >= known.manual_max {
        // The newest come first.
        let oldest = manual()
            .next_back()
            .map(|fields| fields.name.clone().unwrap_or_else(|| fields.checkpoint.clone()));
        let message = format!("all {} slots for checkpoints are taken", known.manual_max);
        return Err(Failure::new(ErrorKind::QuotaExceeded, message).hint(format!(
            "call snapshots_delete with a checkpoint that you need no longer; the oldest is {:?}, and snapshots_list has all",
            oldest.unwrap_or_default()
        )));
    }
    let request = CheckpointRequest {
        directory: call.directory.clone(),
        name: input.name,
        trigger: Trigger::Manual,
        description: input.description.unwrap_or_default(),
        run_id: String::new(),
    };
    let taken = call.engine.workspace_checkpoint(&request).await.map_err(|failure| match failure.kind {
        ErrorKind::InvalidInput => {
            failure.hint("give a \"name\" such as \"before-refactor\", or leave it out")
        }
        _ => failure,
    })?;
    let Some(fields) = taken.checkpoint else {
        let why = taken.warning.clone().unwrap_or_else(|| "it is not known why".to_owned());
        return Err(Failure::new(ErrorKind::Io, format!("no checkpoint was taken: {why}"))
            .hint("call snapshots_list to see what there is, and try once more"));
    };
    Ok(Output {
        outcome: taken.outcome,
        // Of one that stands for it, because nothing has changed, there may be another.
        checkpoint: CheckpointFields { warning: taken.warning.or(fields.warning), ..fields }.into(),
        free_slots: known.manual_max.saturating_sub(used + 1),
        read_files: taken.read_files,
        stored_bytes: taken.stored_bytes,
        method: taken.method,
        elapsed_ms: taken.elapsed_ms,
    })
}
