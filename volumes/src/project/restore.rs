//! `restore` writes a saved state to a folder, or puts it in the place of the project's own.
//!
//! The folder appears when all is written and its digest is the one that was saved. In place, the state of now is
//! saved first.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{Engine, failure::Failure, names::ActorName, outcome::Outcome, threads};
use rustix::process::geteuid;
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    content::{TenantStore, workers::blocking},
    id::{self, Nonce},
    name::{Profile, Tenant},
    ops::read::restore::{self, Inspector},
    tree::write::Keeping,
};

use super::{
    FILES, VOLUMES, containers, digest,
    file::{Project, Service},
    metadata::{Metadata, PostgresDump},
    mounted,
    open_files::Watched,
    opened::{self, Saved},
    plan,
    postgres_restore::{self, Filled},
    recover, save,
    service::{self, Found},
    swap,
    volume::{Postgres, VolumeKind, has_password},
};

/// How often to look whether somebody has a file open: one that is beginning or ending may have it for a moment.
const LOOKS: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Restores a saved state.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// The project file.
    pub file: PathBuf,
    /// Which state; the current one if it is not said.
    pub reference: Option<String>,
    /// The folder to make; without one, the state takes the place of the project's own.
    pub to: Option<PathBuf>,
    /// Replace the folder if it exists.
    pub force: bool,
    /// The servers into which databases of Postgres are restored, by the names of their volumes. None may have these
    /// databases with anything in them.
    pub into: Vec<(String, String)>,
    /// Keep set-user-id and set-group-id bits, and attributes other than `user.*`.
    pub preserve_special: bool,
    /// The actor.
    pub actor: ActorName,
    /// How long to wait for somebody else who saves or restores the project.
    pub wait: Duration,
    /// The address of the Docker daemon; that of the project file if it is not said, else that of this machine.
    pub docker_host: Option<String>,
}

/// A saved state that was restored.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProjectRestoreOutcome {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The project of the tenant.
    pub project_id: Profile,
    /// The id of the state.
    pub snapshot_id: String,
    /// The first digits of the snapshot's id.
    pub sha256_prefix: String,
    /// The digest of the state, which what was restored has.
    pub state_digest: String,
    /// The folder that was made, if it was not restored in place.
    pub target: Option<String>,
    /// The volumes that were put in place.
    pub replaced: Vec<String>,
    /// The volumes whose databases were restored into a server.
    pub databases: Vec<String>,
    /// The id of the state that was saved before.
    pub saved_before: Option<String>,
    /// Files.
    pub files: u64,
    /// The bytes of all files.
    pub size_bytes: u64,
    /// Bytes that were fetched.
    pub fetched_bytes: u64,
    /// Warnings, though it was restored.
    pub warnings: Vec<String>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// How long it took, exactly.
    #[serde(skip)]
    pub elapsed: Duration,
}

impl Outcome for ProjectRestoreOutcome {}

/// Restores a saved state.
#[crate::boxed]
pub async fn restore(engine: &Engine, request: &RestoreRequest) -> Result<ProjectRestoreOutcome, Failure> {
    let began = Instant::now();
    let outcome = match &request.to {
        Some(to) => beside(engine, request, to).await?,
        None => in_place(engine, request).await?,
    };
    outcome.warnings.iter().for_each(|warning| engine.warn(warning));
    Ok(ProjectRestoreOutcome {
        elapsed: began.elapsed(),
        elapsed_ms: began.elapsed().as_millis() as u64,
        ..outcome
    })
}

async fn beside(
    engine: &Engine,
    request: &RestoreRequest,
    to: &Path,
) -> Result<ProjectRestoreOutcome, Failure> {
    let project = Project::read(&request.file)?.at_docker_host(request.docker_host.as_deref());
    recover::recover(engine, &project).await;
    engine.location.keep_apart(to)?;
    let tenant = engine.tenant(&project.name.tenant).await?;
    let saved = opened::find(engine, &tenant, &project.name, request.reference.as_deref()).await?;
    require_room(&project, &saved.metadata, request).await?;
    let report = written(engine, &tenant, &saved, to, request).await?;
    restore_databases(engine, &project, &saved.metadata, to, request).await?;
    let target = Some(to.display().to_string());
    let databases = names_of(request);
    Ok(ProjectRestoreOutcome { target, databases, ..outcome(&project, &saved, &report) })
}

/// Writes a state to a folder, and compares its digest before the folder appears.
async fn written(
    engine: &Engine,
    tenant: &TenantStore,
    saved: &Saved,
    target: &Path,
    request: &RestoreRequest,
) -> Result<restore::Report, Failure> {
    let is_root = geteuid().is_root();
    let restoring = restore::Request {
        paths: Vec::new(),
        target: target.to_owned(),
        force: request.force,
        keeping: Keeping { owner: is_root, special: request.preserve_special },
        threads: threads(),
        inspector: Some(Arc::new(DigestInspector { metadata: saved.metadata.clone() })),
        point_of_no_return: engine.interrupt.point_of_no_return().clone(),
    };
    Ok(restore::restore(tenant, &saved.record, &restoring, engine.progress()).await?)
}

/// Compares what was written with the digest that was saved.
#[derive(Debug)]
struct DigestInspector {
    metadata: Metadata,
}

impl Inspector for DigestInspector {
    fn inspect(&self, directory: &Path) -> Result<(), Error> {
        let found = digest::content(directory, &[FILES, VOLUMES])?.digest;
        match found == self.metadata.state_digest {
            true => Ok(()),
            false => Err(Error::IntegrityFailed {
                what: format!("saved state {}", self.metadata.snapshot_id),
                problem: format!(
                    "its digest is {found}, and was {} when it was saved",
                    self.metadata.state_digest
                ),
            }),
        }
    }
}

fn outcome(project: &Project, saved: &Saved, report: &restore::Report) -> ProjectRestoreOutcome {
    let mut warnings = Vec::new();
    if report.made_plain > 0 {
        warnings.push(format!(
            "{} files lost set-user-id bits or attributes; --preserve-special keeps them",
            report.made_plain
        ));
    }
    if report.lost_xattrs > 0 {
        warnings.push(format!("{} attributes could not be set on this file system", report.lost_xattrs));
    }
    ProjectRestoreOutcome {
        tenant_id: project.name.tenant.clone(),
        project_id: project.name.profile.clone(),
        snapshot_id: saved.metadata.snapshot_id.clone(),
        sha256_prefix: saved.record.sha256_prefix(),
        state_digest: saved.metadata.state_digest.clone(),
        target: None,
        replaced: Vec::new(),
        databases: Vec::new(),
        saved_before: None,
        files: report.files,
        size_bytes: report.bytes,
        fetched_bytes: report.fetched_bytes,
        warnings,
        elapsed_ms: 0,
        elapsed: Duration::ZERO,
    }
}

async fn in_place(engine: &Engine, request: &RestoreRequest) -> Result<ProjectRestoreOutcome, Failure> {
    let project = save::resolve(engine, &request.file, request.docker_host.as_deref()).await?;
    let mut locked = save::lock(engine, &project, &request.actor, request.wait).await?;
    let _unsettled = engine.interrupt.unsettle();
    let restored = replaced(engine, &project, &mut locked, request).await;
    // Whatever has happened: folders in place, services as they were.
    let undone = recover::undo(engine, &project, &mut locked.note).await;
    drop(locked.renewer);
    save::release(engine, &locked.hold).await;
    let outcome = restored?;
    undone?;
    Ok(outcome)
}

async fn replaced(
    engine: &Engine,
    project: &Project,
    locked: &mut save::Locked,
    request: &RestoreRequest,
) -> Result<ProjectRestoreOutcome, Failure> {
    // Before a state is saved: it would count for @latest~1.
    let saved = opened::find(engine, &locked.tenant, &project.name, request.reference.as_deref()).await?;
    require_room(project, &saved.metadata, request).await?;
    for (what, place) in plan::places(project, &saved.metadata) {
        mounted::require_movable(&what, &place)?;
    }
    require_unused(project, &saved.metadata).await?;
    let before = save::before_restore(engine, project, locked, &request.actor).await?;
    let nonce = Nonce::from_bytes(id::random()).to_string();
    let staging = plan::beside_of(&project.state, "restore", &nonce);
    locked.note.pending.staging.push(staging.clone());
    locked.note.write()?;
    let writing = written(engine, &locked.tenant, &saved, &staging, request);
    let report = save::whole(engine, &locked.renewer, writing).await?;
    let mut outcome = outcome(project, &saved, &report);
    outcome.databases = names_of(request);
    let (swaps, names, warnings) =
        plan::swaps(project, &saved.metadata, &staging, &nonce, &outcome.databases);
    locked.note.pending.replaced = swaps.clone();
    locked.note.write()?;
    locked.note.pending.replaced = blocking(move || plan::near(swaps)).await?;
    locked.note.write()?;
    // Somebody may have started meanwhile.
    require_unused(project, &saved.metadata).await?;
    let filled = restore_databases(engine, project, &saved.metadata, &staging, request).await?;
    let moving = async {
        if !filled.is_empty() {
            require_unused(project, &saved.metadata).await?;
        }
        swap::forward(&mut locked.note)
    };
    if let Err(failure) = moving.await {
        take_back(engine, filled).await;
        return Err(failure);
    }
    outcome.replaced = names;
    outcome.warnings.extend(warnings);
    outcome.saved_before = Some(before.snapshot.snapshot_id);
    Ok(outcome)
}

/// A volume, the server that it was dumped from, the one to restore to, and the dumps.
type RestoredServer<'a> = (&'a str, &'a Postgres, &'a str, &'a [PostgresDump]);

/// The servers that were named, with their volumes and dumps.
fn servers<'a>(
    project: &'a Project,
    metadata: &'a Metadata,
    request: &'a RestoreRequest,
) -> Result<Vec<RestoredServer<'a>>, Failure> {
    let one = |(name, url): &'a (String, String)| {
        if has_password(url) {
            let message = format!(
                "the server for volume {name:?} is named with a password, which every user of this host could see"
            );
            return Err(Failure::usage(message).hint("~/.pgpass is the place for it"));
        }
        let server = match project.volumes.get(name).map(|volume| &volume.kind) {
            Some(VolumeKind::Postgres(server)) => Some(server),
            _ => None,
        };
        match (server, metadata.volume_manifests.get(name)) {
            (Some(server), Some(manifest)) if !manifest.postgres.is_empty() => {
                Ok((name.as_str(), server, url.as_str(), manifest.postgres.as_slice()))
            }
            _ => {
                let message = format!(
                    "{name:?} is no volume with databases of Postgres, in the project and in the state"
                );
                Err(Failure::usage(message).hint("write --into VOLUME=URL or --into VOLUME=container:NAME"))
            }
        }
    };
    request.into.iter().map(one).collect()
}

/// The volumes whose databases are restored into a server.
fn names_of(request: &RestoreRequest) -> Vec<String> {
    request.into.iter().map(|(name, _)| name.clone()).collect()
}

/// Refuses what a server has in the place of a database, before anything is written.
async fn require_room(
    project: &Project,
    metadata: &Metadata,
    request: &RestoreRequest,
) -> Result<(), Failure> {
    for (_, server, url, dumps) in servers(project, metadata, request)? {
        postgres_restore::require_room(project, (server, url), dumps).await?;
    }
    Ok(())
}

/// Restores databases from the dumps in a folder: those of all volumes, or none.
async fn restore_databases(
    engine: &Engine,
    project: &Project,
    metadata: &Metadata,
    folder: &Path,
    request: &RestoreRequest,
) -> Result<Vec<Filled>, Failure> {
    let mut filled = Vec::new();
    for (name, server, url, dumps) in servers(project, metadata, request)? {
        let dumped = folder.join(VOLUMES).join(name);
        match postgres_restore::restore(engine, project, (server, url), &dumped, dumps).await {
            Ok(one) => filled.push(one),
            Err(failure) => {
                take_back(engine, filled).await;
                return Err(failure);
            }
        }
    }
    Ok(filled)
}

/// Drops the databases of a restore that has failed.
async fn take_back(engine: &Engine, filled: Vec<Filled>) {
    for one in filled.into_iter().rev() {
        one.take_back(engine).await;
    }
}

/// Whoever uses the files of before would go on with them.
async fn require_unused(project: &Project, metadata: &Metadata) -> Result<(), Failure> {
    require_ended(project).await?;
    let (project, metadata) = (project.clone(), metadata.clone());
    let watched = Arc::new(blocking(move || Watched::of(&project, &metadata)).await?);
    let mut looks = 1;
    loop {
        let looking = Arc::clone(&watched);
        let Some(holder) = blocking(move || Ok(looking.holder())).await? else { return Ok(()) };
        if looks == LOOKS {
            let message = format!(
                "process {} ({}) has {} open, and would go on with the files of before",
                holder.pid,
                holder.command,
                holder.path.display()
            );
            return Err(Failure::new(ErrorKind::InUse, message)
                .hint("end it and run this again; or --to DIR restores to another folder"));
        }
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A service that runs would go on with the files that it has open.
async fn require_ended(project: &Project) -> Result<(), Failure> {
    let mut running = None;
    for (name, table) in &project.services {
        if let Service::Process { pid_file } = table
            && service::find(name, pid_file)?.found != Found::Stopped
        {
            running = Some(name.clone());
        }
    }
    match running.or(containers::not_ended(project).await?) {
        None => Ok(()),
        Some(name) => {
            let message = format!("service {name:?} runs, and would go on with the files of before");
            Err(Failure::new(ErrorKind::InUse, message)
                .hint("end it and run this again; or --to DIR restores to another folder"))
        }
    }
}
