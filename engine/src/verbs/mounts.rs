//! `mounts` lists the mounts of this host.

use std::path::{Path, PathBuf};

use fuse::mount::{
    info::{Info, Mode},
    status::Status,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    Engine,
    failure::Failure,
    mount::live::{LiveMount, UnreadableMount, status},
    outcome::Outcome,
    settings::Settings,
};

/// Lists what is mounted on this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct MountsRequest {}

/// The mounts of this host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MountsOutcome {
    /// Each mount.
    pub mounts: Vec<ListedMount>,
}

impl Outcome for MountsOutcome {}

/// A mount of this host.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ListedMount {
    /// Its daemon answers.
    Served(Box<ServedMount>),
    /// Its daemon does not answer: it is being started, is ending, or is of another version.
    Unanswered(UnansweredMount),
    /// Its session cannot be read, and its daemon does not answer.
    Unknown(UnknownMount),
}

impl ListedMount {
    /// The session, and why it cannot be read, if it cannot.
    pub fn problem(&self) -> Option<(&str, &str)> {
        match self {
            Self::Served(served) => Some((&served.status.session, served.problem.as_deref()?)),
            Self::Unanswered(_) => None,
            Self::Unknown(UnknownMount { session, problem }) => Some((session, problem)),
        }
    }
}

/// A mount as its daemon tells of it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ServedMount {
    /// The mount.
    #[serde(flatten)]
    pub status: Status,
    /// Why its session cannot be read, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub problem: Option<String>,
}

/// A mount whose session cannot be read, and whose daemon does not answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnknownMount {
    /// Its session.
    pub session: String,
    /// Why its session cannot be read.
    pub problem: String,
}

/// A mount whose daemon does not answer, as its session describes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnansweredMount {
    /// Its session.
    pub session: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The process that serves it.
    pub pid: u32,
    /// Whether it can be changed and committed.
    pub mode: Mode,
    /// The tenant.
    pub tenant_id: String,
    /// The profile of the tenant.
    pub profile_id: String,
    /// The Chrome that uses it.
    pub chrome_major_version: u64,
}

impl Engine {
    /// Lists what is mounted on this host.
    #[crate::boxed]
    pub async fn mounts(&self, request: &MountsRequest) -> Result<MountsOutcome, Failure> {
        mounts(&self.settings, request).await
    }
}

/// Lists what is mounted on this host, of which the store need not be known.
#[crate::boxed]
pub async fn mounts(settings: &Settings, _: &MountsRequest) -> Result<MountsOutcome, Failure> {
    let mut mounts = Vec::new();
    for live in LiveMount::all(settings)? {
        mounts.push(match status(&live.session).await {
            Some(status) => ListedMount::Served(Box::new(ServedMount { status, problem: None })),
            None => ListedMount::Unanswered(live.into()),
        });
    }
    for UnreadableMount { session, problem } in UnreadableMount::all(settings)? {
        mounts.push(match status(&session).await {
            Some(status) => ListedMount::Served(Box::new(ServedMount { status, problem: Some(problem) })),
            None => ListedMount::Unknown(UnknownMount { session: id(&session), problem }),
        });
    }
    Ok(MountsOutcome { mounts })
}

/// The id of the session that lies at `path`.
fn id(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl From<LiveMount> for UnansweredMount {
    fn from(LiveMount { session, info }: LiveMount) -> Self {
        let Info { profile, chrome_major, mode, mountpoint, pid, .. } = info;
        let (tenant_id, profile_id) = profile.split_once('/').unwrap_or((&profile, ""));
        Self {
            session: id(&session),
            mountpoint,
            pid,
            mode,
            tenant_id: tenant_id.to_owned(),
            profile_id: profile_id.to_owned(),
            chrome_major_version: chrome_major,
        }
    }
}
