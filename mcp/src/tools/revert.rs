//! `snapshots_revert` gives a file, a folder or everything back as a checkpoint has it.

use engine::{
    failure::Failure,
    workspace::{RevertAction, RevertOutcome, RevertRequest, RevertedPath},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::ErrorKind;

use crate::{
    call::Call,
    checkpoint::{self, Checkpoint},
    page::{self, Page},
    tool::{Effect, Tool},
};

const USUAL: u32 = 50;
const MOST: u32 = 500;

/// What to give back.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file or folder, from the top of the workspace.
    #[serde(default)]
    path: Option<String>,
    /// Instead of `path`: true for the whole workspace.
    #[serde(default)]
    all: bool,
    /// The checkpoint: an id from snapshots_list, or a name. The newest that contains the path if it is not said.
    #[serde(default)]
    checkpoint: Option<String>,
    /// True to be told what would be done, without doing it.
    #[serde(default)]
    preview: bool,
    /// So many paths at most in the answer: 50 if it is not said, 500 at most. The counts are of all.
    #[serde(default)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before; only with `preview`.
    #[serde(default)]
    cursor: Option<String>,
}

/// What was given back.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// Whether it was done; a preview does nothing.
    reverted: bool,
    /// Paths that are as the checkpoint has them again.
    restored: u64,
    /// Paths that were removed, for the checkpoint does not have them.
    removed: u64,
    /// The checkpoint that the files are from.
    checkpoint: Checkpoint,
    /// The checkpoint of how it was before: revert to it to undo this.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<Checkpoint>,
    /// The paths of this page, in order.
    paths: Vec<Reverted>,
    /// How many paths are not in this page.
    more_paths: u64,
    /// Of a preview: ask for the next page with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// What to make of it, if that is not plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// A path that a revert changes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Reverted {
    /// What is done.
    action: RevertAction,
    /// The path from the top of the workspace.
    path: String,
}

impl From<RevertedPath> for Reverted {
    fn from(RevertedPath { action, path, .. }: RevertedPath) -> Self {
        Self { action, path }
    }
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_revert",
        "Take changes back",
        "Give a file, a folder or the whole workspace back as a checkpoint has it: content, modes and times. What was created \
         since is removed. What is overwritten is kept in a checkpoint first (`undo`).",
        Effect::Destroys { is_idempotent: true },
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let (limit, offset) = (page::limit(input.limit, USUAL, MOST)?, page::offset(input.cursor.as_deref())?);
    if offset > 0 && !input.preview {
        return Err(Failure::usage("a revert is not done page by page")
            .hint("leave \"cursor\" out, or give \"preview\": true to see which paths it would change"));
    }
    let path = match (&input.path, input.all) {
        (Some(path), false) => Some(call.path(path)?),
        (None, true) => None,
        (Some(_), true) => {
            return Err(
                Failure::usage("\"path\" and \"all\" exclude each other").hint("give only one of them")
            );
        }
        (None, false) => {
            return Err(Failure::usage("it is not said what to give back")
                .hint("give \"path\" for a file or a folder, or \"all\": true for the whole workspace"));
        }
    };
    let to = checkpoint::named_if(&call, input.checkpoint.as_deref()).await?;
    let request =
        RevertRequest { directory: call.directory.clone(), path, to, of: None, preview: input.preview };
    let done =
        call.engine.workspace_revert(&request).await.map_err(|failure| no_such_path(failure, &input))?;
    let note = note(&done, &input);
    let RevertOutcome { reverted, checkpoint, before, restored, removed, paths } = done;
    let total = paths.len() as u64;
    let Page { items, next_cursor } = page::page(paths.into_iter().map(Reverted::from), offset, limit);
    Ok(Output {
        reverted,
        restored,
        removed,
        checkpoint: checkpoint.into(),
        undo: before.map(Checkpoint::from),
        more_paths: total.saturating_sub(offset + items.len() as u64),
        paths: items,
        next_cursor: next_cursor.filter(|_| input.preview),
        note,
    })
}

fn note(done: &RevertOutcome, input: &Input) -> Option<String> {
    if done.restored + done.removed > 0 {
        return None;
    }
    let older = match &input.path {
        Some(path) => format!(
            "snapshots_history with \"path\": {path:?} tells which checkpoints have another version of it"
        ),
        None => "snapshots_list has older checkpoints".to_owned(),
    };
    Some(format!("nothing differs from this checkpoint, so nothing is to be done; {older}"))
}

fn no_such_path(failure: Failure, input: &Input) -> Failure {
    match (&input.path, failure.kind) {
        (Some(path), ErrorKind::NotFound) => failure.hint(format!(
            "call snapshots_history with \"path\": {path:?} to see which checkpoints have it, or snapshots_changes for the paths \
             that differ"
        )),
        _ => checkpoint::advised(failure),
    }
}
