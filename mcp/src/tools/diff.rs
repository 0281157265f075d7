//! `snapshots_diff` shows how the text of one file differs between a checkpoint and now.

use engine::{
    failure::Failure,
    workspace::{ChangeKind, WorkspaceDiffRequest},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    checkpoint::{self, Checkpoint},
    page::{self, Page},
    tool::{Effect, Tool},
};

const USUAL: u32 = 200;
const MOST: u32 = 2000;
/// Lines that are longer are cut: a single one could fill a context.
const MAX_LINE_CHARS: usize = 500;

/// What to compare.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The file, from the top of the workspace.
    path: String,
    /// The checkpoint to compare with: an id from snapshots_list, or a name. The newest if it is not said.
    #[serde(default)]
    since: Option<String>,
    /// Lines around each change: 3 if it is not said.
    #[serde(default)]
    context: Option<u32>,
    /// So many lines of the diff at most: 200 if it is not said, 2000 at most.
    #[serde(default)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// How the file differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// Lines that were added since the checkpoint.
    added_lines: u64,
    /// Lines that were removed since the checkpoint.
    removed_lines: u64,
    /// In what way the file differs; null if it does not.
    change: Option<ChangeKind>,
    /// The path from the top of the workspace.
    path: String,
    /// Its size at the checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_before: Option<u64>,
    /// Its size now.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_after: Option<u64>,
    /// Whether it is text; else there is no diff, and the sizes are all that is told.
    is_text: bool,
    /// The checkpoint that was compared with.
    since: Checkpoint,
    /// The unified diff from the checkpoint to now: `-` is how it was, `+` is how it is.
    diff: String,
    /// Ask for the next lines with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_diff",
        "Show how a file changed",
        "Show how the text of one file differs between a checkpoint and now, as a unified diff.",
        Effect::Reads,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let (limit, offset) = (page::limit(input.limit, USUAL, MOST)?, page::offset(input.cursor.as_deref())?);
    let request = WorkspaceDiffRequest {
        directory: call.directory.clone(),
        path: call.path(&input.path)?,
        since: checkpoint::named_if(&call, input.since.as_deref()).await?,
        context: input.context.map(u64::from),
    };
    let found =
        call.engine.workspace_diff(&request).await.map_err(|failure| no_such_path(failure, &input.path))?;
    let Page { items, next_cursor } = page::page(found.diff.lines().map(cut), offset, limit);
    Ok(Output {
        added_lines: found.added_lines,
        removed_lines: found.removed_lines,
        change: found.change,
        path: found.path,
        size_before: found.size_before,
        size_after: found.size_after,
        is_text: found.is_text,
        since: found.since.into(),
        diff: items.join("\n"),
        next_cursor,
    })
}

/// A path that neither the checkpoint nor the directory has.
fn no_such_path(failure: Failure, path: &str) -> Failure {
    match failure.kind {
        store::ErrorKind::NotFound => failure.hint(format!(
            "call snapshots_changes to see which paths differ, or snapshots_history with \"path\": {path:?}"
        )),
        _ => failure,
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}… ({} characters)", &line[..end], line.chars().count()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_does_not_fill_the_answer() {
        assert_eq!(cut("+short"), "+short");
        let long = cut(&format!("+{}", "ä".repeat(100_000)));
        assert!(long.ends_with("… (100001 characters)") && long.chars().count() < 600, "{long}");
    }
}
