//! `snapshots_changes` tells which files differ between a checkpoint and now.

use engine::{
    failure::Failure,
    workspace::{ChangeKind, ChangeTotals, ChangesRequest, WorkspaceChange},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    checkpoint::{self, Checkpoint},
    page::{self, Page},
    tool::{Effect, Tool},
};

const USUAL: u32 = 50;
const MOST: u32 = 500;

/// What to compare.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The checkpoint to compare with: an id from snapshots_list, or a name. The newest if it is not said.
    #[serde(default)]
    since: Option<String>,
    /// Only this file, or what is below this folder.
    #[serde(default)]
    path: Option<String>,
    /// So many paths at most: 50 if it is not said, 500 at most. The counts are of all.
    #[serde(default)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// What differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// How many paths differ in all.
    total: u64,
    /// How many of each kind.
    #[serde(flatten)]
    counts: ChangeTotals,
    /// The checkpoint that was compared with.
    since: Checkpoint,
    /// The paths of this page, in order.
    changes: Vec<Changed>,
    /// Ask for the next page with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A path that differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Changed {
    /// In what way.
    change: ChangeKind,
    /// The path from the top of the workspace.
    path: String,
    /// Its size at the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_before: Option<u64>,
    /// Its size now.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_after: Option<u64>,
}

impl From<WorkspaceChange> for Changed {
    fn from(change: WorkspaceChange) -> Self {
        let WorkspaceChange { change, path, size_before, size_after, .. } = change;
        Self { change, path, size_before, size_after }
    }
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_changes",
        "Show what changed",
        "Tell which files were created, modified or deleted since a checkpoint, by whatever program, with counts first.",
        Effect::Reads,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let request = ChangesRequest {
        directory: call.directory.clone(),
        since: checkpoint::named_if(&call, input.since.as_deref()).await?,
        path: input.path.as_deref().map(|path| call.path(path)).transpose()?,
        offset: page::offset(input.cursor.as_deref())?,
        limit: Some(page::limit(input.limit, USUAL, MOST)?),
    };
    let found = call.engine.workspace_changes(&request).await.map_err(checkpoint::advised)?;
    let more = found.next_offset.map(|offset| offset.to_string());
    let Page { items, next_cursor } =
        page::cut(found.changes.into_iter().map(Changed::from), request.offset, u64::MAX);
    Ok(Output {
        total: found.totals.all(),
        counts: found.totals,
        since: found.since.into(),
        changes: items,
        next_cursor: next_cursor.or(more),
    })
}
