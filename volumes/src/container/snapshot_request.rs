//! `ContainerSnapshotRequest` says which container is stored, why, and how long that may take.

use std::time::Duration;

use engine::{interrupt::Interrupt, names::ActorName};
use store::name::{ProfileName, Tenant};

use super::description::Trigger;

/// Stores a container as the next snapshot of its name.
#[derive(Clone, Debug)]
pub struct ContainerSnapshotRequest {
    /// The container's name or id.
    pub container: String,
    /// The name of its snapshots; the container's own, within `tenant`, if it is not said.
    pub name: Option<ProfileName>,
    /// Whose snapshots they are if `name` is not said; those of `containers` if this is not said either.
    pub tenant: Option<Tenant>,
    /// The daemon's address; that of this machine if it is not said.
    pub docker_host: Option<String>,
    /// Only a container that says by its label `pstore.tenant` that it is this tenant's.
    pub only_of: Option<Tenant>,
    /// What somebody writes about the snapshot.
    pub description: String,
    /// The moment of the run.
    pub trigger: Trigger,
    /// Remarks to find it by.
    pub labels: Vec<(String, String)>,
    /// The actor. Its run is written down with the snapshot.
    pub actor: ActorName,
    /// How long to wait for somebody else who holds the lock.
    pub wait: Duration,
    /// How long it may take in all, but for the wait; as long as it takes if it is not said.
    pub time_limit: Option<Duration>,
    /// What is under way is given up when this is raised. The engine's interrupt then ends only what comes before the
    /// container rests. If it is not said, the engine's interrupt ends all.
    pub ending: Option<Interrupt>,
    /// A failure is a warning: what asked for the snapshot goes on.
    pub fail_open: bool,
}

impl ContainerSnapshotRequest {
    /// Stores `container` because somebody asked for it.
    pub fn new(container: String) -> Self {
        Self {
            container,
            name: None,
            tenant: None,
            docker_host: None,
            only_of: None,
            description: String::new(),
            trigger: Trigger::Manual,
            labels: Vec::new(),
            actor: ActorName::default(),
            wait: Duration::ZERO,
            time_limit: None,
            ending: None,
            fail_open: false,
        }
    }
}
