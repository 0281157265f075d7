//! `snapshots_delete` deletes a checkpoint.

use engine::{
    failure::Failure,
    workspace::{DeleteCheckpointRequest, Origin},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    checkpoint::{self, Checkpoint},
    tool::{Effect, Tool},
};

/// Which checkpoint to delete.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The checkpoint: an id from snapshots_list, or a name.
    checkpoint: String,
}

/// The checkpoint that was deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// How many checkpoints can be taken now before one has to be deleted.
    free_slots: u64,
    /// The checkpoint.
    deleted: Checkpoint,
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_delete",
        "Delete a checkpoint",
        "Delete a checkpoint that is not needed any more, which frees its slot. The files of the workspace stay as they are; \
         what only this checkpoint has is lost.",
        Effect::Destroys { is_idempotent: false },
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let checkpoint = checkpoint::named(&call, &input.checkpoint).await?;
    let request = DeleteCheckpointRequest { directory: call.directory.clone(), checkpoint };
    let done = call.engine.workspace_delete(&request).await.map_err(checkpoint::advised)?;
    let left = checkpoint::all(&call).await?;
    let used = left.checkpoints.iter().filter(|fields| fields.origin == Origin::Manual).count() as u64;
    Ok(Output { free_slots: left.manual_max.saturating_sub(used), deleted: done.deleted.into() })
}
