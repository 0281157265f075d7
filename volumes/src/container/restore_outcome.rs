//! `ContainerRestoreRequest` asks for a container made of a snapshot, and `ContainerRestoreOutcome` tells of it.

use std::time::Duration;

use engine::{
    names::{ActorName, SnapshotName},
    outcome::Outcome,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::id::{RecordId, SnapshotId};

/// Where a restored container goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreMode {
    /// Beside the old one, with a name and volumes of its own.
    New,
    /// In the place of the container that has its name.
    Replace,
}

/// Makes a container of a snapshot.
#[derive(Clone, Debug)]
pub struct ContainerRestoreRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotName,
    /// The daemon's address; that of this machine if it is not said.
    pub docker_host: Option<String>,
    /// Where it goes.
    pub mode: RestoreMode,
    /// The name of the container; its own, with the time behind it unless it replaces one, if it is not said.
    pub container: Option<String>,
    /// Start it even if it did not run; `Some(false)`: do not start it. As it was if it is not said.
    pub start: Option<bool>,
    /// How long a container that replaces another may take to be healthy.
    pub health_wait: Duration,
    /// Only say what would be done.
    pub dry_run: bool,
    /// The actor.
    pub actor: ActorName,
}

impl ContainerRestoreRequest {
    /// Makes a new container of `snapshot`.
    pub fn new(snapshot: SnapshotName) -> Self {
        Self {
            snapshot,
            docker_host: None,
            mode: RestoreMode::New,
            container: None,
            start: None,
            health_wait: Duration::from_secs(60),
            dry_run: false,
            actor: ActorName::default(),
        }
    }
}

/// How a restore ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreResult {
    /// There is a new container.
    Created,
    /// The container has taken the place of another one.
    Replaced,
    /// Nothing was done: this is what would be.
    Planned,
}

/// A volume that was restored.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RestoredVolume {
    /// Its name in the snapshot.
    pub name: String,
    /// Its name at the daemon.
    pub volume: String,
    /// Where the container has it.
    pub destination: String,
    /// Its files.
    pub files: u64,
    /// The bytes of its files.
    pub bytes: u64,
    /// Whether it was read again and compared.
    pub verified: bool,
}

/// A container that was made of a snapshot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContainerRestoreOutcome {
    /// How it ended.
    pub outcome: RestoreResult,
    /// The container's name.
    pub container: String,
    /// The daemon's id of it.
    pub container_id: Option<String>,
    /// The name of the image that was loaded.
    pub image: String,
    /// Whether the container was started.
    pub started: bool,
    /// Its health, if it was waited for.
    pub health: Option<String>,
    /// The name of the container's snapshots.
    pub name: String,
    /// The snapshot.
    pub snapshot_id: Option<SnapshotId>,
    /// Its record.
    pub record: RecordId,
    /// The first digits of its id.
    pub sha256_prefix: String,
    /// The volumes.
    pub volumes: Vec<RestoredVolume>,
    /// What the replaced container is called now; it is stopped.
    pub set_aside: Option<String>,
    /// The snapshot that was taken of the replaced container first.
    pub before: Option<String>,
    /// Warnings, though it was made.
    pub warnings: Vec<String>,
    /// How long it took.
    pub elapsed_ms: u64,
}

impl Outcome for ContainerRestoreOutcome {}
