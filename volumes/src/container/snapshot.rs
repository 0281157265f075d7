//! `snapshot` stores a container: its file system as an image, its configuration, and its named volumes.
//!
//! The container is paused while the daemon makes an image of it and its volumes are copied, and no longer: what is
//! stored is the container of one moment. What it was found doing it does again, however the snapshot ends.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{Engine, failure::Failure, outcome::Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    ErrorKind,
    catalog::{lineage_handle::LineageHandle, lock::Terms},
    id::{RecordId, SnapshotId},
    name::Tenant,
    ops::archive::import::Imported,
};

use super::{
    compose::VolumeCount,
    cutoff::Cutoff,
    description::Trigger,
    keep,
    names::{self, default_name},
    snapshot_job::{SnapshotJob, Stored},
    snapshot_request::ContainerSnapshotRequest,
};
use crate::docker::{Container, Docker, Notes};

/// Whether there is a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotResult {
    /// It was stored, and is the current one.
    Stored,
    /// It failed, and the caller goes on.
    Failed,
}

/// A volume of a snapshot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StoredVolume {
    /// Its name.
    pub name: String,
    /// Its files.
    pub files: u64,
    /// The bytes of its files.
    pub bytes: u64,
    /// Devices and FIFOs, which are not stored.
    pub left_out: u64,
}

/// The snapshot of a container.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContainerSnapshotOutcome {
    /// Whether there is a snapshot.
    pub outcome: SnapshotResult,
    /// Why there is none.
    pub problem: Option<String>,
    /// The container.
    pub container: String,
    /// The name of its snapshots.
    pub name: Option<String>,
    /// The snapshot.
    pub snapshot_id: Option<SnapshotId>,
    /// Its record.
    pub record: Option<RecordId>,
    /// The first digits of its id.
    pub sha256_prefix: Option<String>,
    /// The moment of the run.
    pub trigger: Trigger,
    /// When it was captured.
    pub captured_at_ms: Option<u64>,
    /// The layers of its image.
    pub layers: u64,
    /// Its volumes.
    pub volumes: Vec<StoredVolume>,
    /// The bytes of image and volumes.
    pub uncompressed_size_bytes: u64,
    /// The bytes of chunks that were not stored before.
    pub new_bytes: u64,
    /// The bytes that these chunks take in the store.
    pub stored_bytes: u64,
    /// How long the container was paused.
    pub paused_ms: u64,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Older snapshots that the limits have removed.
    pub removed: Vec<String>,
    /// Warnings, though it was stored.
    pub warnings: Vec<String>,
}

impl Outcome for ContainerSnapshotOutcome {}

/// Stores a container as the next snapshot of its name.
#[crate::boxed]
pub async fn snapshot(
    engine: &Engine,
    request: &ContainerSnapshotRequest,
) -> Result<ContainerSnapshotOutcome, Failure> {
    request.actor.check()?;
    let taken = Box::pin(take(engine, request)).await;
    let failure = match taken.map_err(|failure| without_address(failure, request)) {
        Err(failure) if request.fail_open && goes_on_without(&failure) => failure,
        taken => return taken,
    };
    let hint = failure.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
    engine.warn(&format!("there is no snapshot of {}: {}{hint}", request.container, failure.message));
    Ok(ContainerSnapshotOutcome {
        outcome: SnapshotResult::Failed,
        problem: Some(failure.message),
        container: request.container.clone(),
        name: request.name.as_ref().map(ToString::to_string),
        snapshot_id: None,
        record: None,
        sha256_prefix: None,
        trigger: request.trigger,
        captured_at_ms: None,
        layers: 0,
        volumes: Vec::new(),
        uncompressed_size_bytes: 0,
        new_bytes: 0,
        stored_bytes: 0,
        paused_ms: 0,
        elapsed_ms: 0,
        removed: Vec::new(),
        warnings: Vec::new(),
    })
}

/// Whether what asked for a snapshot may go on though that has failed so: the container is as it was found, and somebody wants
/// an answer.
pub fn goes_on_without(failure: &Failure) -> bool {
    !matches!(failure.kind, ErrorKind::Interrupted | ErrorKind::CommandFailed)
}

async fn take(
    engine: &Engine,
    request: &ContainerSnapshotRequest,
) -> Result<ContainerSnapshotOutcome, Failure> {
    let began = Instant::now();
    let mut cutoff = Cutoff::new(engine, request);
    let (docker, notes, container) = cutoff.before_rest(Box::pin(find(engine, request))).await?;
    let name = match &request.name {
        Some(name) => name.clone(),
        None => default_name(&container.name, request.tenant.as_ref())?,
    };
    let lineage = names::lineage(&name);
    let tenant = engine.writable_tenant(&name.tenant).await?;
    keep::require_room(engine, &tenant, &lineage).await?;
    let actor = engine.actor(&request.actor);
    let settings = engine.settings.tenant(&name.tenant);
    let handle = LineageHandle::new(tenant.clone(), lineage.clone(), actor.clone());
    let terms = Terms { ttl: settings.lock_ttl, with_process: true };
    let (waits, patience) = (Instant::now(), engine.patience(&name, request.wait));
    let hold = Arc::new(handle.acquire(terms, patience.until(cutoff.is_given_up())).await?);
    cutoff.put_off(waits.elapsed());
    let keeper = hold.keep(settings.lock_renew.max(Duration::from_millis(1)));
    let unsettled = engine.interrupt.unsettle();
    let job = SnapshotJob {
        engine,
        request,
        docker: &docker,
        notes: &notes,
        container: &container,
        cutoff: &cutoff,
        tenant: &tenant,
        lineage,
        actor,
    };
    let stored = tokio::select! {
        stored = Box::pin(job.store(&hold)) => stored,
        error = keeper.lost() => Err(Failure::new(ErrorKind::LockLost, error.to_string())),
    };
    drop(keeper);
    let stored = match stored {
        // What was cut short has left its notes. The container does not wait for the store.
        Err(failure) => Err(docker.settle_failed(&container, &notes).await.err().unwrap_or(failure)),
        stored => stored,
    };
    drop(unsettled);
    if let Err(error) = hold.release().await {
        engine.warn(&format!("the lock of {name} could not be given back; it expires by itself: {error}"));
    }
    let Stored { imported, description, counts, paused, mut warnings } = stored?;
    let removed = match request.trigger {
        // What is about to be restored may be the oldest: the next ordinary snapshot removes what is beyond the limits.
        Trigger::BeforeRestore => Vec::new(),
        _ => keep::apply(engine, &tenant, &names::lineage(&name)).await,
    };
    warnings.iter().for_each(|warning| engine.warn(warning));
    warnings.dedup();
    let Imported { record, snapshot_id, .. } = imported;
    let volumes = description.volumes().into_iter().map(|name| {
        let VolumeCount { files, bytes, left_out } = counts.get(&name).copied().unwrap_or_default();
        StoredVolume { name, files, bytes, left_out }
    });
    Ok(ContainerSnapshotOutcome {
        outcome: SnapshotResult::Stored,
        problem: None,
        container: container.name.clone(),
        name: Some(name.to_string()),
        snapshot_id: Some(snapshot_id),
        record: Some(record.record),
        sha256_prefix: Some(record.sha256_prefix()),
        trigger: request.trigger,
        captured_at_ms: Some(record.captured_at_ms),
        layers: description.image.layers.len() as u64,
        volumes: volumes.collect(),
        uncompressed_size_bytes: record.uncompressed_size_bytes,
        new_bytes: record.counts.new_bytes,
        stored_bytes: record.counts.stored_bytes,
        paused_ms: paused.as_millis() as u64,
        elapsed_ms: began.elapsed().as_millis() as u64,
        removed,
        warnings,
    })
}

/// The daemon, its notes, and the container. First what dead commands have left there is undone.
async fn find(
    engine: &Engine,
    request: &ContainerSnapshotRequest,
) -> Result<(Docker, Notes, Container), Failure> {
    let docker = connect(request).await?;
    let notes = Notes::of(&engine.settings)?;
    let (told, failed) = docker.settle_left(&notes).await;
    told.iter().for_each(|told| engine.say(told));
    failed.iter().for_each(|failure| engine.warn(&failure.message));
    let container = docker.container(&request.container).await;
    let container = match &request.only_of {
        Some(tenant) => of_tenant(&docker, container, &request.container, tenant).await?,
        None => container?,
    };
    Ok((docker, notes, container))
}

/// Where the daemon is, and why it does not answer, is for the operator of a server, and not for its callers.
async fn connect(request: &ContainerSnapshotRequest) -> Result<Docker, Failure> {
    let connected = Docker::connect(request.docker_host.as_deref()).await;
    match request.only_of {
        None => connected,
        Some(_) => connected.map_err(|failure| {
            tracing::warn!("{}", failure.message);
            Failure::new(ErrorKind::Unavailable, "the server cannot reach its Docker daemon")
                .hint("try again later; the log of the server says more")
        }),
    }
}

/// The same failure, as it is told to somebody who only calls a server.
fn without_address(failure: Failure, request: &ContainerSnapshotRequest) -> Failure {
    match (&request.only_of, &request.docker_host) {
        (Some(_), Some(host)) => {
            Failure { message: failure.message.replace(&format!(" at {host}"), ""), ..failure }
        }
        _ => failure,
    }
}

/// The maker of a container says by a label whose it is. A caller is not told of those of others.
async fn of_tenant(
    docker: &Docker,
    found: Result<Container, Failure>,
    name: &str,
    tenant: &Tenant,
) -> Result<Container, Failure> {
    let container = match found {
        Ok(container) => is_theirs(docker, &container, tenant).await.then_some(container),
        // One that is in no state to be stored may be another tenant's; so may those whose ids begin alike.
        Err(failure)
            if matches!(failure.kind, ErrorKind::NotFound | ErrorKind::InUse | ErrorKind::InvalidInput) =>
        {
            None
        }
        Err(failure) => return Err(failure),
    };
    container.ok_or_else(|| {
        let label = names::TENANT_LABEL;
        let message = format!("there is no container {name:?} of the tenant {tenant}");
        Failure::new(ErrorKind::NotFound, message).hint(format!(
            "`docker run --label {label}={tenant} …` makes a container that is the tenant's, if its image has no such label"
        ))
    })
}

/// Whether the maker of the container says so. What the image says as well may be the word of the image's publisher.
async fn is_theirs(docker: &Docker, container: &Container, tenant: &Tenant) -> bool {
    let says_so = |labels: &HashMap<String, String>| {
        labels.get(names::TENANT_LABEL).is_some_and(|label| label == tenant.as_str())
    };
    let labels = container.described.config.as_ref().and_then(|config| config.labels.as_ref());
    labels.is_some_and(says_so)
        && docker.image_labels(container).await.is_some_and(|of_image| !says_so(&of_image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_go_on_beside_a_container_that_rests() {
        for (kind, goes_on) in [
            (ErrorKind::CommandFailed, false),
            (ErrorKind::Interrupted, false),
            (ErrorKind::Unavailable, true),
            (ErrorKind::InvalidInput, true),
        ] {
            assert_eq!(goes_on_without(&Failure::new(kind, "")), goes_on, "{kind:?}");
        }
    }

    #[test]
    fn a_caller_of_a_server_is_not_told_where_the_daemon_is() {
        let tenant: Tenant = "acme".parse().unwrap();
        let request = ContainerSnapshotRequest {
            docker_host: Some("unix:///run/docker.sock".to_owned()),
            ..ContainerSnapshotRequest::new("web".to_owned())
        };
        let message = "there is no container \"web\" at unix:///run/docker.sock";
        let failure = Failure::new(ErrorKind::NotFound, message);
        assert_eq!(without_address(failure.clone(), &request).message, message);
        let request = ContainerSnapshotRequest { only_of: Some(tenant), ..request };
        assert_eq!(without_address(failure, &request).message, "there is no container \"web\"");
    }
}
