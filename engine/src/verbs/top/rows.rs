//! `rows` are the locks, mounts, sessions and rates that `top` shows, each with the command that acts on it.

use std::path::{Path, PathBuf};

use fuse::mount::info::Mode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    copies::CopyFields,
    overview::HeldLock,
    text::shell,
    verbs::{
        lock::LockState,
        mounts::ListedMount,
        sessions::{ListedSession, SessionState, remote::RemoteSession},
    },
};

/// A lock that is not free, and the run that holds it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TopLock {
    /// The lock.
    #[serde(flatten)]
    pub held: HeldLock,
    /// Acts on it.
    pub command: String,
}

impl From<HeldLock> for TopLock {
    fn from(held: HeldLock) -> Self {
        let lineage = &held.lineage;
        let command = match held.lock.state {
            LockState::Expired => format!("pstore reap {}", lineage.tenant_id),
            // Without --confirm it tells what it would do.
            _ => format!(
                "pstore force-unlock {}/{} --chrome-major {} --reason WHY",
                lineage.tenant_id, lineage.profile_id, lineage.chrome_major_version
            ),
        };
        Self { held, command }
    }
}

/// A mount. A field is null if its daemon does not tell.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TopMount {
    /// Its session.
    pub session: String,
    /// The tenant.
    pub tenant_id: Option<String>,
    /// The profile of the tenant.
    pub profile_id: Option<String>,
    /// Whether it can be changed and committed.
    pub mode: Option<Mode>,
    /// Where it is mounted.
    pub mountpoint: Option<PathBuf>,
    /// How many bytes are stored nowhere else.
    pub dirty_bytes: Option<u64>,
    /// How many bytes were fetched from the store.
    pub fetched_bytes: Option<u64>,
    /// When its lock ends unless it is renewed.
    pub lock_expires_at_ms: Option<u64>,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// Acts on it.
    pub command: String,
}

/// As much of a mount as there is in every form of it.
#[derive(Debug, Deserialize)]
pub(super) struct MountFields {
    session: String,
    tenant_id: Option<String>,
    profile_id: Option<String>,
    mode: Option<Mode>,
    mountpoint: Option<PathBuf>,
    dirty_bytes: Option<u64>,
    fetched_bytes: Option<u64>,
    lock: Option<LockEnd>,
    #[serde(default)]
    lock_lost: bool,
    fallback: Option<String>,
    problem: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LockEnd {
    expires_at_ms: u64,
}

impl From<MountFields> for TopMount {
    fn from(fields: MountFields) -> Self {
        let MountFields { session, tenant_id, profile_id, mode, mountpoint, .. } = fields;
        let is_answering = fields.dirty_bytes.is_some();
        let fallback = fields.fallback.map(|why| format!("it began empty: {why}"));
        let problem = match fields.lock_lost {
            true => Some("somebody else has taken its lock".to_owned()),
            false => fields.problem.or(fallback),
        };
        let problem = problem.or_else(|| (!is_answering).then(|| "its daemon does not answer".to_owned()));
        let command = mount_command(mountpoint.as_deref(), mode, fields.lock_lost, fields.dirty_bytes);
        Self {
            session,
            tenant_id,
            profile_id,
            mode,
            mountpoint,
            dirty_bytes: fields.dirty_bytes,
            fetched_bytes: fields.fetched_bytes,
            lock_expires_at_ms: fields.lock.map(|lock| lock.expires_at_ms),
            problem,
            command,
        }
    }
}

impl From<ListedMount> for MountFields {
    fn from(mount: ListedMount) -> Self {
        match mount {
            ListedMount::Served(served) => {
                let status = served.status;
                Self {
                    session: status.session,
                    tenant_id: Some(status.tenant_id.to_string()),
                    profile_id: Some(status.profile_id.to_string()),
                    mode: Some(status.mode),
                    mountpoint: Some(status.mountpoint),
                    dirty_bytes: Some(status.dirty_bytes),
                    fetched_bytes: Some(status.fetched_bytes),
                    lock: status.lock.map(|lock| LockEnd { expires_at_ms: lock.expires_at_ms }),
                    lock_lost: status.lock_lost,
                    fallback: status.fallback,
                    problem: served.problem,
                }
            }
            ListedMount::Unanswered(mount) => Self {
                tenant_id: Some(mount.tenant_id),
                profile_id: Some(mount.profile_id),
                mode: Some(mount.mode),
                mountpoint: Some(mount.mountpoint),
                ..Self::unknown(mount.session)
            },
            ListedMount::Unknown(mount) => {
                Self { problem: Some(mount.problem), ..Self::unknown(mount.session) }
            }
        }
    }
}

impl MountFields {
    fn unknown(session: String) -> Self {
        Self {
            session,
            tenant_id: None,
            profile_id: None,
            mode: None,
            mountpoint: None,
            dirty_bytes: None,
            fetched_bytes: None,
            lock: None,
            lock_lost: false,
            fallback: None,
            problem: None,
        }
    }
}

fn mount_command(place: Option<&Path>, mode: Option<Mode>, lost: bool, dirty: Option<u64>) -> String {
    let Some(place) = place.map(shell::word) else { return "pstore mounts".to_owned() };
    match (mode, dirty) {
        (Some(Mode::Locked), Some(1..)) if !lost => format!("pstore commit {place}"),
        (_, Some(1..)) => format!("pstore unmount {place} --keep"),
        _ => format!("pstore unmount {place}"),
    }
}

/// A session. A field is null if it is not known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TopSession {
    /// Its id, or the digits of a copy.
    pub session: String,
    /// Its host; null if it is this one.
    pub host: Option<String>,
    /// The tenant.
    pub tenant_id: Option<String>,
    /// The profile of the tenant.
    pub profile_id: Option<String>,
    /// `unfinished`, `unreadable`, `set_aside` or `copy`; `kept` of a server, which knows only that it is kept.
    pub state: String,
    /// How long ago it began; of a server, how long ago its host told of it.
    pub age_ms: Option<u64>,
    /// How many bytes were written in it.
    pub dirty_bytes: Option<u64>,
    /// Acts on it.
    pub command: String,
}

impl From<&ListedSession> for TopSession {
    fn from(session: &ListedSession) -> Self {
        let id = &session.session;
        Self {
            session: id.clone(),
            host: None,
            tenant_id: session.tenant_id.clone(),
            profile_id: session.profile_id.clone(),
            state: session.state.as_str().to_owned(),
            age_ms: session.age_ms,
            dirty_bytes: session.dirty_bytes,
            command: match session.state {
                SessionState::Unreadable => format!("pstore sessions set-aside {id}"),
                _ => format!("pstore sessions rescue {id}"),
            },
        }
    }
}

impl From<&CopyFields> for TopSession {
    fn from(copy: &CopyFields) -> Self {
        let command = match (&copy.tenant_id, &copy.profile_id) {
            (Some(tenant), Some(profile)) => {
                let major = copy.chrome_major_version.map(|major| format!(" --chrome-major {major}"));
                let (path, major) = (shell::word(&copy.path), major.unwrap_or_default());
                format!("pstore snapshot {path} {tenant}/{profile}{major}")
            }
            // Without --confirm it tells what would be gone.
            _ => format!("pstore sessions discard {}", copy.copy),
        };
        Self {
            session: copy.copy.clone(),
            host: None,
            tenant_id: copy.tenant_id.clone(),
            profile_id: copy.profile_id.clone(),
            state: "copy".to_owned(),
            age_ms: copy.age_ms,
            dirty_bytes: None,
            command,
        }
    }
}

impl From<&RemoteSession> for TopSession {
    fn from(session: &RemoteSession) -> Self {
        Self {
            session: session.session.to_string(),
            host: Some(session.host.clone()),
            tenant_id: Some(session.tenant_id.to_string()),
            profile_id: Some(session.profile_id.to_string()),
            state: "kept".to_owned(),
            age_ms: Some(session.age_ms),
            dirty_bytes: None,
            command: format!("pstore sessions --remote {}", session.tenant_id),
        }
    }
}

/// Something that is counted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TopRate {
    /// What is counted.
    pub name: String,
    /// Whether bytes are counted.
    pub is_bytes: bool,
    /// All that was counted.
    pub total: f64,
    /// How much is added each second, over the last minute; null before the second look.
    pub per_second: Option<f64>,
}
