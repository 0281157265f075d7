//! `snapshot` stores a container: its file system as an image, its configuration, and its named volumes.
//!
//! The container is paused while the daemon makes an image of it and its volumes are copied, and no longer: what is
//! stored is the container of one moment. What it was found doing it does again, however the snapshot ends.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{Engine, failure::Failure, foreign, names::ActorName, outcome::Outcome, threads};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Hold, Terms},
    },
    content::{TenantStore, workers::blocking},
    format::{
        event::Actor,
        record::{Reason, Record},
    },
    id::{RecordId, SnapshotId},
    name::{Lineage, ProfileName},
    ops::{
        archive::import::{self, Form, Imported},
        pointer_move,
        read::resolve,
        write::snapshot::About,
    },
    scratch::{Kind, Scratch},
};

use super::{
    compose::{self, VolumeCount},
    description::{ContainerDescription, Said, Trigger},
    keep,
    names::{self, default_name},
    parts::parts,
};
use crate::docker::{Container, Docker, Notes, Rest, TemporaryImage, spool};

/// Stores a container as the next snapshot of its name.
#[derive(Clone, Debug)]
pub struct ContainerSnapshotRequest {
    /// The container's name or id.
    pub container: String,
    /// The name of its snapshots; `containers/` and the container's name if it is not said.
    pub name: Option<ProfileName>,
    /// The daemon's address; that of this machine if it is not said.
    pub docker_host: Option<String>,
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
    /// How long it may take in all; as long as it takes if it is not said.
    pub time_limit: Option<Duration>,
    /// A failure is a warning: what asked for the snapshot goes on.
    pub fail_open: bool,
}

impl ContainerSnapshotRequest {
    /// Stores `container` because somebody asked for it.
    pub fn new(container: String) -> Self {
        Self {
            container,
            name: None,
            docker_host: None,
            description: String::new(),
            trigger: Trigger::Manual,
            labels: Vec::new(),
            actor: ActorName::default(),
            wait: Duration::ZERO,
            time_limit: None,
            fail_open: false,
        }
    }
}

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
    let failure = match taken {
        Err(failure) if request.fail_open && failure.kind != ErrorKind::Interrupted => failure,
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

async fn take(
    engine: &Engine,
    request: &ContainerSnapshotRequest,
) -> Result<ContainerSnapshotOutcome, Failure> {
    let began = Instant::now();
    let docker = Docker::connect(request.docker_host.as_deref()).await?;
    let notes = Notes::of(&engine.settings)?;
    let (told, failed) = docker.settle_left(&notes).await;
    told.iter().for_each(|told| engine.say(told));
    failed.iter().for_each(|failure| engine.warn(&failure.message));
    let container = docker.container(&request.container).await?;
    let name = match &request.name {
        Some(name) => name.clone(),
        None => default_name(&container.name)?,
    };
    let lineage = names::lineage(&name);
    let tenant = engine.writable_tenant(&name.tenant).await?;
    let actor = engine.actor(&request.actor);
    let settings = engine.settings.tenant(&name.tenant);
    let handle = LineageHandle::new(tenant.clone(), lineage.clone(), actor.clone());
    let terms = Terms { ttl: settings.lock_ttl, with_process: true };
    let hold = Arc::new(handle.acquire(terms, engine.patience(&name, request.wait)).await?);
    let keeper = hold.keep(settings.lock_renew.max(Duration::from_millis(1)));
    let job = Job {
        engine,
        request,
        docker: &docker,
        notes: &notes,
        container: &container,
        tenant: &tenant,
        lineage,
        actor,
    };
    let stored = tokio::select! {
        stored = Box::pin(job.store(&hold)) => stored,
        error = keeper.lost() => Err(Failure::new(ErrorKind::LockLost, error.to_string())),
    };
    drop(keeper);
    if stored.is_err() {
        // What was cut short has left its notes. The container does not wait for the store.
        let _ = docker.settle_left(&notes).await;
    }
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

struct Job<'a> {
    engine: &'a Engine,
    request: &'a ContainerSnapshotRequest,
    docker: &'a Docker,
    notes: &'a Notes,
    container: &'a Container,
    tenant: &'a TenantStore,
    lineage: Lineage,
    actor: Actor,
}

struct Stored {
    imported: Imported,
    description: ContainerDescription,
    counts: HashMap<String, VolumeCount>,
    paused: Duration,
    warnings: Vec<String>,
}

/// What was copied of the container while it rested.
struct Copied {
    image: TemporaryImage,
    /// Each volume, and the file that has its content.
    volumes: Vec<(String, PathBuf)>,
}

impl Job<'_> {
    async fn store(&self, hold: &Arc<Hold>) -> Result<Stored, Failure> {
        let root = self.engine.cache_root.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = Scratch::make(&root, Kind::Import)?;
        let said = Said {
            trigger: self.request.trigger,
            description: &self.request.description,
            run_id: self.request.actor.run_id.as_deref().filter(|id| !id.is_empty()),
        };
        let description = ContainerDescription::of(self.docker, self.container, said).await?;
        let warnings = description.warnings();
        let began = Instant::now();
        let resting = self.docker.rest(self.container, Rest::Pause, self.notes, self.request.wait);
        let resting = self.limited(began, resting).await?;
        let rests = Instant::now();
        // Another command may have had it at rest until now.
        let description = description.found_as(&resting.found);
        self.engine.step("the container rests");
        let copied = self.limited(began, self.copy(&description, scratch.path())).await;
        resting.resume().await?;
        let paused = rests.elapsed();
        self.engine.step("the container goes on");
        let Copied { image, volumes } = copied?;
        let spooled = scratch.path().join("image.tar");
        let read = self.limited(began, spool(image.read(), &spooled)).await;
        image.remove().await?;
        read?;
        self.engine.step("the daemon's image was read");
        let storing = self.import(hold, description, (scratch.path(), volumes));
        let (imported, description, counts) = self.limited(began, storing).await?;
        Ok(Stored { imported, description, counts, paused, warnings })
    }

    /// Fails when the time is up, or when it is told to end.
    async fn limited<T>(
        &self,
        began: Instant,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let (name, limit) = (&self.container.name, self.request.time_limit);
        let too_late = || {
            let seconds = limit.unwrap_or_default().as_secs_f64();
            Failure::new(
                ErrorKind::Unavailable,
                format!("the snapshot of {name} was not done within {seconds} s"),
            )
            .hint("--timeout allows more; nothing was changed, and the container goes on")
        };
        let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        if left == Some(Duration::ZERO) {
            // Nothing is begun that the daemon would finish for nobody.
            return Err(too_late());
        }
        let until_late = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.engine.interrupt.raised() => Err(Error::Interrupted.into()),
            () = until_late => Err(too_late()),
            done = Box::pin(work) => done,
        }
    }

    async fn copy(&self, description: &ContainerDescription, to: &Path) -> Result<Copied, Failure> {
        let image = self.docker.commit(self.container, self.notes).await?;
        let mut volumes = Vec::new();
        for (number, name) in description.volumes().into_iter().enumerate() {
            let spooled = to.join(format!("volume-{number}.tar"));
            let helper = self.docker.helper(&image.id, &name, self.notes).await?;
            let read = spool(helper.read(), &spooled).await;
            helper.remove().await?;
            read?;
            volumes.push((name, spooled));
        }
        Ok(Copied { image, volumes })
    }

    async fn import(
        &self,
        hold: &Arc<Hold>,
        description: ContainerDescription,
        (scratch, volumes): (&Path, Vec<(String, PathBuf)>),
    ) -> Result<(Imported, ContainerDescription, HashMap<String, VolumeCount>), Failure> {
        let scratch = scratch.to_owned();
        let captured_at_ms = hold.handle().now_ms();
        let (parts, description) =
            on_a_thread(move || parts(&scratch, description, volumes, captured_at_ms)).await?;
        let (reader, writer) = io::pipe().map_err(|error| Error::io("cannot make", "a pipe", error))?;
        let composing = tokio::task::spawn_blocking(move || {
            compose::compose(parts, io::BufWriter::with_capacity(256 << 10, writer))
        });
        let base = match resolve::snapshot(self.tenant, &self.lineage, None).await {
            Ok(record) => Some(record),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => None,
            Err(error) => return Err(error.into()),
        };
        let settings = self.engine.settings.tenant(&self.lineage.name.tenant);
        let request = import::Request {
            lineage: self.lineage.clone(),
            name: format!("the container {}", self.container.name),
            form: Form::Tar,
            source: ("container", self.container.name.clone()),
            manifest: None,
            about: self.about(&description),
            max_bytes: settings.max_profile_bytes,
            quota_bytes: settings.quota_bytes,
            threads: threads(),
            handle: None,
            judge: None,
        };
        let imported =
            import::import(self.tenant, request, base, Box::new(reader), self.engine.progress()).await;
        let counts = composing.await.map_err(|error| Failure::internal(error.to_string()))?;
        let (imported, counts) = match (imported, counts) {
            (Ok(imported), Ok(counts)) => (imported, counts),
            // The writer met a closed pipe because the reader had failed.
            (Err(error), Err(failure)) if failure.kind == ErrorKind::Io => return Err(error.into()),
            (_, Err(failure)) => return Err(failure),
            (Err(error), Ok(_)) => return Err(error.into()),
        };
        let flip_id = hold.handle().new_flip_id();
        let record: Record = imported.record.clone();
        let (record, _) = pointer_move::flip(hold, record, flip_id, None, self.engine.progress()).await?;
        Ok((Imported { record, ..imported }, description, counts))
    }

    fn about(&self, description: &ContainerDescription) -> About {
        let mut labels: std::collections::BTreeMap<String, String> =
            self.request.labels.iter().cloned().collect();
        labels.insert(names::CONTAINER.to_owned(), description.name.clone());
        labels.insert(names::IMAGE.to_owned(), description.image.reference.clone());
        labels.insert(names::TRIGGER.to_owned(), description.trigger.word().to_owned());
        labels.extend(description.run_id.clone().map(|id| (names::RUN_ID.to_owned(), id)));
        About {
            reason: Reason::from(match description.trigger {
                Trigger::BeforeRestore => "before-restore".to_owned(),
                trigger => trigger.word().to_owned(),
            }),
            labels,
            notes: self.request.description.clone(),
            exclusions: Vec::new(),
            ..foreign::about(&self.actor)
        }
    }
}

/// On a thread that may block, where errors are failures.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    blocking(move || Ok(work())).await?
}
