//! `snapshots_fork` makes a workspace of its own from a checkpoint.

use std::path::{Path, PathBuf};

use engine::{failure::Failure, workspace::ForkRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::ErrorKind;

use crate::{
    call::Call,
    checkpoint::{self, Checkpoint},
    tool::{Effect, Tool},
};

/// A longer name is a mistake.
const MAX_NAME_BYTES: usize = 64;

/// What to make.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The name of the new workspace: letters, digits, `-` and `_`. It lies beside this one, as DIRECTORY-NAME.
    name: String,
    /// The checkpoint to begin with: an id from snapshots_list, or a name. The newest if it is not said.
    #[serde(default)]
    checkpoint: Option<String>,
}

/// The workspace that was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// Files that it has.
    files: u64,
    /// The bytes of them.
    bytes: u64,
    /// Its directory.
    directory: PathBuf,
    /// Its own name, as TENANT/NAME.
    workspace: String,
    /// The checkpoint that it began with.
    from: Checkpoint,
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_fork",
        "Fork the workspace",
        "Make a second workspace from a checkpoint, in a new directory beside this one, to try something without touching this \
         one. It has checkpoints of its own.",
        Effect::Adds,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let target = beside(&call.directory, &input.name)?;
    let from = checkpoint::named_if(&call, input.checkpoint.as_deref()).await?;
    let request =
        ForkRequest { directory: call.directory.clone(), target: target.clone(), from, profile: None };
    let made = call.engine.workspace_fork(&request).await.map_err(|failure| match failure.kind {
        ErrorKind::TargetExists => failure.hint("choose another \"name\""),
        _ => checkpoint::advised(failure),
    })?;
    Ok(Output {
        files: made.files,
        bytes: made.bytes,
        directory: made.workspace.directory,
        workspace: format!("{}/{}", made.workspace.tenant_id, made.workspace.profile_id),
        from: made.from.into(),
    })
}

/// A directory beside the workspace. A fork is made nowhere else: an agent may not fill directories that are not its own.
fn beside(workspace: &Path, name: &str) -> Result<PathBuf, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(is_plain) {
        let message = format!("{name:?} cannot be the name of a fork");
        return Err(Failure::usage(message)
            .hint(format!("give 1 to {MAX_NAME_BYTES} letters, digits, `-` and `_`, such as \"try-2\"")));
    }
    let (Some(folder), Some(own)) = (workspace.parent(), workspace.file_name()) else {
        return Err(Failure::usage("the workspace is a whole file system, so nothing can lie beside it"));
    };
    let mut directory = own.to_owned();
    directory.push("-");
    directory.push(name);
    Ok(folder.join(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_lies_beside_its_workspace_and_nowhere_else() {
        let workspace = Path::new("/srv/project");
        assert_eq!(beside(workspace, "try_2").unwrap(), Path::new("/srv/project-try_2"));
        for name in ["", "..", "a/b", "/etc", "a b", "ä", &"a".repeat(65)] {
            assert!(beside(workspace, name).is_err(), "{name}");
        }
        assert!(beside(Path::new("/"), "a").is_err());
    }
}
