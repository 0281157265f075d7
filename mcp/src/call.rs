//! `Call` is one call of a tool: the workspace that it is about, and the engine that carries it out.

use std::path::{Path, PathBuf};

use engine::{Engine, failure::Failure};

use crate::relative_path::relative;

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Carries it out. Its interrupt is raised when the client does not want the answer any more.
    pub(crate) engine: Engine,
    /// The directory of the workspace.
    pub(crate) directory: PathBuf,
}

impl Call {
    /// A path as an agent writes it, within the workspace.
    pub(crate) fn path(&self, typed: &str) -> Result<PathBuf, Failure> {
        relative(&self.directory, Path::new(typed))
    }
}
