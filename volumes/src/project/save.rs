//! `save` stores the state of a project in ten steps: all of it, or nothing.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{Engine, captures::CaptureOptions, failure::Failure, names::ActorName, outcome::Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    catalog::{
        clock,
        lineage_handle::LineageHandle,
        lock::{Hold, LockRenewer, Terms},
    },
    content::TenantStore,
    error::utc,
    id::RecordId,
    name::{Profile, Tenant},
    scratch::{self, Scratch},
};

use super::{
    METADATA, containers,
    file::{Keep, Project, Service},
    gather::{self, Gathered},
    hooks,
    metadata::{self, Metadata, Reason},
    note::Note,
    opened, places, recover, service, sqlite,
    step::Step,
    store_state,
    volume::VolumeKind,
};
use crate::docker::Resting;

/// How often to look whether another command of the project has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Saves the state of a project.
#[derive(Clone, Debug)]
pub struct SaveRequest {
    /// The project file.
    pub file: PathBuf,
    /// Why.
    pub reason: Reason,
    /// Remarks to find it by. No key may stand there twice.
    pub labels: Vec<(String, String)>,
    /// The actor.
    pub actor: ActorName,
    /// How long to wait for somebody else who saves or restores the project.
    pub wait: Duration,
    /// The address of the Docker daemon; that of the project file if it is not said, else that of this machine.
    pub docker_host: Option<String>,
    /// Refuse folders that other users than root and that of this process could put links in the place of.
    pub no_links: bool,
}

/// A state of a project that was saved.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SaveOutcome {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The project of the tenant.
    pub project_id: Profile,
    /// The record of the snapshot.
    pub record: RecordId,
    /// The first digits of the snapshot's id, as other commands take them.
    pub sha256_prefix: String,
    /// What is known of it.
    pub snapshot: Metadata,
    /// The bytes of all files.
    pub size_bytes: u64,
    /// The bytes of chunks that were not stored before.
    pub new_bytes: u64,
    /// The bytes that these chunks take in the store.
    pub stored_bytes: u64,
    /// For how long services rested.
    pub rested_ms: u64,
    /// Older states that were removed, by the first digits of their ids.
    pub removed: Vec<String>,
    /// Warnings, though it was saved.
    pub warnings: Vec<String>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// How long it took, exactly.
    #[serde(skip)]
    pub elapsed: Duration,
}

impl Outcome for SaveOutcome {}

/// Saves the state of a project.
#[crate::boxed]
pub async fn save(engine: &Engine, request: &SaveRequest) -> Result<SaveOutcome, Failure> {
    let began = Instant::now();
    let options =
        CaptureOptions { labels: request.labels.clone(), ..CaptureOptions::new(request.reason.of_record()) };
    options.check()?;
    let project = at(engine, Step::Resolve, async {
        let project = resolve(engine, &request.file, request.docker_host.as_deref()).await?;
        let project = Project { no_links: request.no_links, ..project };
        if project.no_links {
            places::require_fixed_places(&project)?;
        }
        Ok(project)
    })
    .await?;
    let locked = at(engine, Step::Lock, lock(engine, &project, &request.actor, request.wait)).await?;
    let outcome = under_lock(engine, &project, locked, request).await?;
    Ok(SaveOutcome { elapsed: began.elapsed(), elapsed_ms: began.elapsed().as_millis() as u64, ..outcome })
}

/// Does a step, and names it in what it tells.
async fn at<T>(
    engine: &Engine,
    step: Step,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tracing::info!(step = step.number(), name = step.name(), "save");
    engine.say(&step.to_string());
    work.await.map_err(|failure| {
        tracing::warn!(step = step.number(), name = step.name(), error = failure.message, "save failed");
        Failure { message: format!("{step}: {}", failure.message), ..failure }
    })
}

/// Reads a project file, and checks that the places it names are there. What a dead command has left is undone first: its
/// services go on, and its folders are in place again, though this command may fail.
#[crate::boxed]
pub async fn resolve(engine: &Engine, file: &Path, docker_host: Option<&str>) -> Result<Project, Failure> {
    let mut project = Project::read(file)?.at_docker_host(docker_host);
    recover::recover(engine, &project).await;
    containers::locate_volumes(&mut project).await?;
    let folders = project
        .volumes
        .iter()
        .filter(|(_, volume)| !matches!(volume.kind, VolumeKind::Postgres(_)))
        .map(|(name, volume)| (format!("the folder of volume {name:?}"), &volume.path));
    let state = ("the state".to_owned(), &project.state);
    for (what, path) in [state].into_iter().chain(folders) {
        if !fs::metadata(path).is_ok_and(|found| found.is_dir()) {
            let message = format!("there is no folder {}, which is {what}", path.display());
            return Err(Failure::new(ErrorKind::NotFound, message)
                .hint(format!("{} says where it is", project.file.display())));
        }
        engine.location.keep_apart(path)?;
    }
    places::require_apart(&project)?;
    Ok(project)
}

/// The right to work on a project.
#[derive(Debug)]
pub struct Locked {
    /// The tenant's part of the store.
    pub tenant: TenantStore,
    /// The lock.
    pub hold: Arc<Hold>,
    /// Keeps the lock.
    pub renewer: LockRenewer,
    /// What is to be undone.
    pub note: Note,
}

/// Takes the lock of a project. A service that somebody has left at rest goes on first.
#[crate::boxed]
pub async fn lock(
    engine: &Engine,
    project: &Project,
    actor: &ActorName,
    wait: Duration,
) -> Result<Locked, Failure> {
    let tenant = engine.writable_tenant(&project.name.tenant).await?;
    let lineage = opened::lineage(&project.name);
    let handle = LineageHandle::new(tenant.clone(), lineage, engine.actor(actor));
    let settings = engine.settings.tenant(&project.name.tenant);
    let terms = Terms { ttl: settings.lock_ttl, with_process: true };
    let hold = Arc::new(handle.acquire(terms, engine.patience(&project.name, wait)).await?);
    let renewer = hold.keep(settings.lock_renew);
    let deadline = Instant::now() + wait;
    let taken = loop {
        match recover::take_note(engine, project).await {
            // Whoever had the lock runs its post-save hooks yet.
            Err(failure) if failure.kind == ErrorKind::LockHeld && Instant::now() < deadline => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            taken => break taken,
        }
    };
    match taken {
        Ok(note) => Ok(Locked { tenant, hold, renewer, note }),
        Err(failure) => {
            drop(renewer);
            release(engine, &hold).await;
            Err(failure)
        }
    }
}

/// Gives the lock back. If that fails it expires by itself.
#[crate::boxed]
pub async fn release(engine: &Engine, hold: &Hold) {
    if let Err(error) = hold.release().await {
        engine.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
}

async fn under_lock(
    engine: &Engine,
    project: &Project,
    locked: Locked,
    request: &SaveRequest,
) -> Result<SaveOutcome, Failure> {
    let Locked { tenant, hold, renewer, mut note } = locked;
    let _unsettled = engine.interrupt.unsettle();
    let saved = {
        let job = Job { engine, project, tenant: &tenant, hold: &hold, request };
        whole(engine, &renewer, job.run(&mut note)).await
    };
    // Both are done whatever has happened; what has failed is told if nothing did before. If the save has failed, the
    // services may be at rest yet, and the store may not answer: they do not wait for it.
    let mut resumed = Ok(());
    if saved.is_err() {
        resumed = at(engine, Step::Resume, recover::undo(engine, project, &mut note)).await;
    }
    let released = at(engine, Step::Release, async {
        drop(renewer);
        release(engine, &hold).await;
        Ok(())
    });
    released.await?;
    if saved.is_ok() {
        resumed = at(engine, Step::Resume, recover::undo(engine, project, &mut note)).await;
    }
    let outcome = saved?;
    match resumed {
        Ok(()) => Ok(outcome),
        Err(failure) => Err(failure.hint(format!(
            "the state is saved as {}; the next `pstore project` command tries again",
            outcome.sha256_prefix
        ))),
    }
}

/// Work under a lock, until somebody interrupts it or the lock is lost.
pub async fn whole<T>(
    engine: &Engine,
    renewer: &LockRenewer,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        () = engine.interrupt.raised() => Err(Error::Interrupted.into()),
        error = renewer.lost() => Err(Failure::new(error.kind(), error.to_string())),
    }
}

/// Saves the state as the one before a restore, under the lock of that. Nothing is removed for it: what is to be
/// restored may be among what would be.
#[crate::boxed]
pub async fn before_restore(
    engine: &Engine,
    project: &Project,
    locked: &mut Locked,
    actor: &ActorName,
) -> Result<SaveOutcome, Failure> {
    let request = SaveRequest {
        file: project.file.clone(),
        reason: Reason::BeforeRestore,
        labels: Vec::new(),
        actor: actor.clone(),
        wait: Duration::ZERO,
        docker_host: project.docker_host.clone(),
        no_links: project.no_links,
    };
    let project = Project { keep: Keep::All, ..project.clone() };
    let Locked { tenant, hold, renewer, note } = locked;
    let job = Job { engine, project: &project, tenant, hold, request: &request };
    let saved = whole(engine, renewer, job.run(note)).await;
    // Its hooks would start what the restore needs ended: they run when that is done.
    let post_save = std::mem::take(&mut note.pending.post_save);
    let resumed = at(engine, Step::Resume, recover::undo(engine, &project, note)).await;
    (note.pending.post_save, note.pending.project_file) = (post_save, project.file.clone());
    note.write()?;
    resumed?;
    saved
}

/// The moment that is saved.
struct Checkpoint {
    workspace: Scratch,
    taken_at_ms: u64,
    /// When the first service was brought to rest.
    began: Instant,
    /// The services that are containers.
    containers: Vec<Resting>,
}

/// A save under its lock.
struct Job<'a> {
    engine: &'a Engine,
    project: &'a Project,
    tenant: &'a TenantStore,
    hold: &'a Hold,
    request: &'a SaveRequest,
}

impl Job<'_> {
    async fn run(&self, note: &mut Note) -> Result<SaveOutcome, Failure> {
        let Self { engine, project, .. } = *self;
        at(engine, Step::Hooks, async {
            note.pending.post_save = project.post_save.clone();
            note.pending.project_file = project.file.clone();
            note.write()?;
            hooks::run(engine, project, &project.pre_save).await
        })
        .await?;
        at(engine, Step::Quiesce, gather::flush(project)).await?;
        let shared = sqlite::OPEN_FILES.read().await;
        let Checkpoint { workspace, taken_at_ms, began, containers } =
            at(engine, Step::Checkpoint, self.checkpoint(note)).await?;
        let (gathered, rested) = at(engine, Step::Copy, async {
            gather::folders(project, workspace.path(), shared).await?;
            // What was copied needs them no longer.
            for resting in note.pending.resting.iter().rev() {
                resting.resume().await?;
            }
            let is_any = !(note.pending.resting.is_empty() && containers.is_empty());
            let mut went_on = None;
            for container in containers.into_iter().rev() {
                let name = container.found.name.clone();
                if !container.resume().await? {
                    went_on = Some(crate::docker::went_on(&name));
                }
            }
            if let Some(failure) = went_on {
                return Err(failure);
            }
            let rested = if is_any { began.elapsed() } else { Duration::ZERO };
            note.pending.resting.clear();
            note.write()?;
            Ok((gather::databases(project, workspace.path()).await?, rested))
        })
        .await?;
        let metadata =
            at(engine, Step::Metadata, self.metadata(workspace.path(), gathered, taken_at_ms)).await?;
        at(engine, Step::Index, self.store(workspace, metadata, rested)).await
    }

    /// Brings the services of generic volumes to rest, and makes the folder in which the state is gathered.
    async fn checkpoint(&self, note: &mut Note) -> Result<Checkpoint, Failure> {
        let parent = self.project.workspace.clone().unwrap_or_else(std::env::temp_dir);
        self.engine.location.keep_apart(&parent).ok();
        scratch::sweep(&parent);
        let workspace = Scratch::make(&parent, scratch::Kind::Save)?;
        let named = self.project.volumes.values().filter_map(|volume| match &volume.kind {
            VolumeKind::Generic { services } => Some(services),
            _ => None,
        });
        let named: BTreeSet<&str> = named.flatten().map(String::as_str).collect();
        for name in &named {
            if let Some(Service::Process { pid_file }) = self.project.services.get(*name) {
                note.pending.resting.push(service::find(name, pid_file)?);
            }
        }
        note.write()?;
        let began = Instant::now();
        for number in 0..note.pending.resting.len() {
            let mut service = note.pending.resting[number].clone();
            let noted = |service: &service::Resting| {
                note.pending.resting[number] = service.clone();
                note.write()
            };
            for process in service.pause(noted).await? {
                let name = &service.service;
                self.engine.warn(&format!(
                    "process {} of service {name:?} is another user's and goes on while files are copied",
                    process.pid
                ));
            }
        }
        // Each has a note of its own.
        let containers = containers::rest(self.engine, self.project, &named, self.request.wait).await?;
        Ok(Checkpoint { workspace, taken_at_ms: clock::unix_ms(), began, containers })
    }

    async fn metadata(
        &self,
        workspace: &Path,
        gathered: Gathered,
        taken_at_ms: u64,
    ) -> Result<Metadata, Failure> {
        let parent = opened::find(self.engine, self.tenant, &self.project.name, None).await;
        let parent = match parent {
            Ok(saved) => Some(saved.metadata.snapshot_id),
            Err(failure) if failure.kind == ErrorKind::NotFound => None,
            Err(failure) if failure.kind == ErrorKind::Damaged => {
                self.engine.warn(&format!("the state before this one cannot be named: {}", failure.message));
                None
            }
            Err(failure) => return Err(failure),
        };
        let (volume_manifests, state_digest) = gather::manifests(self.project, workspace, gathered).await?;
        let metadata = Metadata {
            snapshot_id: metadata::uuid(taken_at_ms),
            timestamp: format!("{}.{:03}Z", utc(taken_at_ms).replace(' ', "T"), taken_at_ms % 1000),
            parent_snapshot_id: parent,
            reason: self.request.reason,
            app_version: self.project.app_version.clone(),
            state_digest,
            volume_manifests,
            labels: self.request.labels.iter().cloned().collect(),
        };
        let text = serde_json::to_string_pretty(&metadata)
            .map_err(|error| Failure::internal(format!("the metadata cannot be written: {error}")))?;
        let path = workspace.join(METADATA);
        fs::write(&path, format!("{text}\n")).map_err(|error| Error::io("cannot write", &path, error))?;
        Ok(metadata)
    }

    /// Stores the workspace, moves the pointer, and removes what is superseded.
    async fn store(
        &self,
        workspace: Scratch,
        metadata: Metadata,
        rested: Duration,
    ) -> Result<SaveOutcome, Failure> {
        let Self { engine, project, tenant, hold, .. } = *self;
        let report = store_state::store(engine, tenant, hold, workspace.path(), &metadata);
        let report = report.await?;
        let gone = workspace.path().to_owned();
        if let Err(error) = workspace.remove() {
            engine.warn(&format!("{} could not be removed: {error}", gone.display()));
        }
        let mut warnings = warnings(&metadata);
        let removed = match project.keep {
            Keep::One if warnings.is_empty() => {
                let (removed, failed) = store_state::prune(tenant, hold, report.record).await;
                warnings.extend(failed);
                removed
            }
            Keep::One => {
                warnings.push("a database is damaged, so older states are kept".to_owned());
                Vec::new()
            }
            Keep::All => Vec::new(),
        };
        warnings.extend(places::left_out(project));
        warnings.iter().for_each(|warning| engine.warn(warning));
        Ok(SaveOutcome {
            tenant_id: project.name.tenant.clone(),
            project_id: project.name.profile.clone(),
            record: report.record,
            sha256_prefix: report.sha256_prefix.clone(),
            snapshot: metadata,
            size_bytes: report.uncompressed_bytes,
            new_bytes: report.counts.new_bytes,
            stored_bytes: report.counts.stored_bytes,
            rested_ms: rested.as_millis() as u64,
            removed,
            warnings,
            elapsed_ms: 0,
            elapsed: Duration::ZERO,
        })
    }
}

/// What a user should know of the content.
fn warnings(metadata: &Metadata) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, volume) in &metadata.volume_manifests {
        for database in volume.sqlite.iter().filter(|database| database.integrity_check != "ok") {
            let problem = database.integrity_check.lines().next().unwrap_or_default();
            warnings.push(format!("{} of volume {name} is damaged: {problem}", database.path));
        }
    }
    warnings
}
