//! `snapshots_history` tells how one path was at every checkpoint.

use engine::{
    failure::Failure,
    workspace::{FileEvent, PathHistoryRequest, PathKind, PathState, PathVersion},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::ErrorKind;

use crate::{
    call::Call,
    checkpoint,
    page::{self, Page, shortened},
    tool::{Effect, Tool},
};

const USUAL: u32 = 25;
const MOST: u32 = 100;
/// So many of the last events are told.
const EVENTS_TOLD: usize = 10;

/// Which path.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The path, from the top of the workspace.
    path: String,
    /// So many versions at most: 25 if it is not said, 100 at most.
    #[serde(default)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// How the path was.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// How many checkpoints have another version of it than the one before.
    versions_total: u64,
    /// How many times something happened to it; 200 at most.
    events_total: u64,
    /// The path from the top of the workspace.
    path: String,
    /// Where it changed, the newest first. What is between two of them is as the older one.
    versions: Vec<Version>,
    /// Ask for the next page with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// The last things that happened to it, the newest first.
    recent_events: Vec<Event>,
}

/// The path at a checkpoint.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Version {
    /// What to call the checkpoint in other calls; `now` for the workspace as it is.
    checkpoint: String,
    /// The name of the checkpoint, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// When the checkpoint was taken, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    /// What led to the checkpoint: one `before_restore` holds what a revert was about to overwrite.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    /// How it is there, compared with the checkpoint before.
    state: PathState,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<PathKind>,
    /// Its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// What was wrong when the checkpoint was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

impl From<PathVersion> for Version {
    fn from(PathVersion { checkpoint, state, kind, size, .. }: PathVersion) -> Self {
        Self {
            checkpoint: checkpoint.as_ref().map_or_else(|| "now".to_owned(), checkpoint::id),
            name: checkpoint.as_ref().and_then(|fields| fields.name.clone()),
            trigger: checkpoint.as_ref().map(|fields| fields.trigger.word()),
            warning: checkpoint.as_ref().and_then(|fields| fields.warning.as_deref()).map(shortened),
            timestamp: checkpoint.map(|fields| fields.timestamp),
            state,
            kind,
            size,
        }
    }
}

/// Something that happened to the path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Event {
    /// When it was seen, in UTC.
    timestamp: String,
    /// What happened: `created`, `modified`, `deleted` or `restored`.
    action: &'static str,
    /// The path; of a restored one with the checkpoint that it is from.
    path: String,
}

impl From<FileEvent> for Event {
    fn from(FileEvent { timestamp, action, path, .. }: FileEvent) -> Self {
        Self { timestamp, action: action.word(), path }
    }
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_history",
        "Show the history of a file",
        "Tell at which checkpoints one file was created, modified or deleted, to find the one to revert to.",
        Effect::Reads,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let (limit, offset) = (page::limit(input.limit, USUAL, MOST)?, page::offset(input.cursor.as_deref())?);
    let request = PathHistoryRequest { directory: call.directory.clone(), path: call.path(&input.path)? };
    let found = call.engine.workspace_history(&request).await.map_err(no_such_path)?;
    let is_new = |version: &PathVersion| !matches!(version.state, PathState::Unchanged | PathState::Absent);
    if !found.versions.iter().any(is_new) && found.events.is_empty() {
        let message = format!("{} was never there, as far as the checkpoints know", found.path);
        return Err(no_such_path(Failure::new(ErrorKind::NotFound, message)));
    }
    // The state of now is told first, whatever it is.
    let told: Vec<PathVersion> = found
        .versions
        .into_iter()
        .filter(|version| version.checkpoint.is_none() || is_new(version))
        .collect();
    let versions_total = told.iter().filter(|version| version.checkpoint.is_some()).count() as u64;
    let Page { items, next_cursor } = page::page(told.into_iter().map(Version::from), offset, limit);
    Ok(Output {
        versions_total,
        events_total: found.events.len() as u64,
        path: found.path,
        versions: items,
        next_cursor,
        recent_events: found.events.into_iter().take(EVENTS_TOLD).map(Event::from).collect(),
    })
}

fn no_such_path(failure: Failure) -> Failure {
    match failure.kind {
        ErrorKind::NotFound => failure.hint(
            "check how the path is written, from the top of the workspace; snapshots_changes with an older \"since\" lists paths",
        ),
        _ => failure,
    }
}
