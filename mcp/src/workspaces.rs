//! `Workspaces` says which workspaces an agent may reach, and finds the one that a call names.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::{Engine, failure::Failure, workspace::StatusRequest};
use store::{
    ErrorKind,
    name::{ProfileName, Tenant},
};
use tokio::runtime::Handle;

/// So many names are told to an agent that has to choose.
const NAMES_TOLD: usize = 20;

/// Says which tenants' workspaces a caller may reach.
type MayReach = Arc<dyn Fn(&Tenant) -> bool + Send + Sync>;

/// The workspaces of an agent.
#[derive(Clone)]
pub struct Workspaces(Reach);

#[derive(Clone)]
enum Reach {
    /// This directory.
    One(PathBuf),
    /// The workspaces directly below a folder that are of the caller's tenants.
    Below(PathBuf, MayReach),
}

impl Workspaces {
    /// A single one, which no call has to name.
    pub fn one(directory: PathBuf) -> Self {
        Self(Reach::One(directory))
    }

    /// Those directly below `folder` whose tenants the caller may act for.
    pub fn below(folder: PathBuf, may_reach: impl Fn(&Tenant) -> bool + Send + Sync + 'static) -> Self {
        Self(Reach::Below(folder, Arc::new(may_reach)))
    }

    /// Whether calls say which workspace they are about.
    pub(crate) fn are_named(&self) -> bool {
        matches!(self.0, Reach::Below(..))
    }

    /// The directory of the workspace that a call names. One that the caller may not reach is none.
    pub(crate) async fn find(&self, engine: &Engine, named: Option<&str>) -> Result<PathBuf, Failure> {
        let (folder, may_reach) = match &self.0 {
            Reach::One(directory) => return Ok(directory.clone()),
            Reach::Below(folder, may_reach) => (folder, may_reach),
        };
        let mut known = reachable(engine, folder, may_reach).await?;
        let names = || {
            let more = if known.len() > NAMES_TOLD { ", …" } else { "" };
            let names: Vec<String> =
                known.iter().take(NAMES_TOLD).map(|(name, _)| name.to_string()).collect();
            format!("give \"workspace\": one of {}{more}", names.join(", "))
        };
        if known.is_empty() {
            return Err(Failure::new(ErrorKind::NotFound, "you have no workspace on this server")
                .hint("the server's operator starts one: pstore workspace start DIRECTORY TENANT/NAME"));
        }
        match named {
            Some(name) => match known.iter().find(|(other, _)| other.to_string() == name) {
                Some((_, directory)) => Ok(directory.clone()),
                None => Err(Failure::new(ErrorKind::NotFound, format!("you have no workspace {name:?}"))
                    .hint(names())),
            },
            None if known.len() == 1 => Ok(known.swap_remove(0).1),
            None => Err(Failure::usage("there are several workspaces").hint(names())),
        }
    }
}

/// The workspaces below a folder that a caller may reach, by name. Those of others are not looked at.
async fn reachable(
    engine: &Engine,
    folder: &Path,
    may_reach: &MayReach,
) -> Result<Vec<(ProfileName, PathBuf)>, Failure> {
    let (engine, folder, may_reach) = (engine.clone(), folder.to_owned(), Arc::clone(may_reach));
    let runtime = Handle::current();
    let found = tokio::task::spawn_blocking(move || {
        let mut found = engine.workspaces_below(&folder)?;
        found.retain(|(name, directory)| {
            // What is no workspace any more, or another one, is passed over, and so is what cannot be read.
            may_reach(&name.tenant) && runtime.block_on(is_there(&engine, name, directory))
        });
        found.sort_by_key(|(name, _)| name.to_string());
        Ok(found)
    });
    found.await.map_err(|error| Failure::internal(error.to_string()))?
}

async fn is_there(engine: &Engine, name: &ProfileName, directory: &Path) -> bool {
    let status = engine.workspace_status(&StatusRequest { directory: directory.to_owned() }).await;
    status.is_ok_and(|status| {
        status.directory == directory
            && (&status.tenant_id, &status.profile_id) == (&name.tenant, &name.profile)
    })
}

impl fmt::Debug for Workspaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reach::One(directory) => write!(f, "{}", directory.display()),
            Reach::Below(folder, _) => write!(f, "{}/*", folder.display()),
        }
    }
}
