//! `Call` is one call of a tool: the workspace that it is about, the containers that it may store, and the engine that carries
//! it out.

use std::path::{Path, PathBuf};

use engine::{Engine, failure::Failure, workspace::StatusRequest};
use store::name::Tenant;

use crate::{containers::Containers, relative_path::relative};

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Carries it out. Its interrupt is raised when the client does not want the answer any more.
    pub(crate) engine: Engine,
    /// The directory of the workspace.
    pub(crate) directory: PathBuf,
    /// The containers that may be stored; none where they are not offered.
    pub(crate) containers: Option<Containers>,
}

impl Call {
    /// A path as an agent writes it, within the workspace.
    pub(crate) fn path(&self, typed: &str) -> Result<PathBuf, Failure> {
        relative(&self.directory, Path::new(typed))
    }

    /// The containers that may be stored.
    pub(crate) fn containers(&self) -> Result<&Containers, Failure> {
        self.containers.as_ref().ok_or_else(|| Failure::internal("no containers are offered here"))
    }

    /// The tenant of the workspace.
    pub(crate) async fn tenant(&self) -> Result<Tenant, Failure> {
        let request = StatusRequest { directory: self.directory.clone() };
        Ok(self.engine.workspace_status(&request).await?.tenant_id)
    }
}
