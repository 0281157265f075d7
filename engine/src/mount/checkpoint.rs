//! `checkpoint` has the daemon of a mount take checkpoints of a workspace, and tell what happened to its files.

use std::{path::PathBuf, sync::Arc, time::Duration};

use fuse::mount::{CheckpointRequest, Mount, info::Mode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    ErrorKind,
    catalog::{lineage_handle::LineageHandle, lock::Terms},
    id::{RecordId, SnapshotId},
    name::{ChromeMajor, Lineage, ProfileName},
};

use super::{
    call::{self, Call, SentOutcome},
    live::LiveMount,
    serving::Serving,
};
use crate::{
    Engine,
    engine::threads,
    failure::Failure,
    names::ActorName,
    outcome::Outcome,
    workspace::{
        slots::actor_of,
        wanted::{Wanted, record_facts},
    },
};

/// The verbs in a call of the daemon.
pub(crate) const VERB: &str = "checkpoint";
pub(crate) const EVENTS_VERB: &str = "events";

/// Takes a checkpoint of what is mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MountCheckpointRequest {
    pub directory: PathBuf,
    /// Whose checkpoints they are.
    pub profile: ProfileName,
    pub slot: u64,
    pub wanted: Wanted,
    /// Paths that are left out.
    pub exclusions: Vec<String>,
    /// The checkpoint before.
    pub before: Option<RecordId>,
}

/// A checkpoint that the daemon of a mount has stored.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MountCheckpoint {
    pub record: RecordId,
    #[schemars(with = "String")]
    pub snapshot_id: SnapshotId,
    pub sha256_prefix: String,
    pub files: u64,
    pub bytes: u64,
    pub read_files: u64,
    pub stored_bytes: u64,
    /// How long writers waited.
    pub pause_ms: f64,
    /// The last event that it has.
    pub last_event: u64,
    /// Whether it may lack writes from before that the kernel had kept.
    #[serde(default)]
    pub may_lack_writes: bool,
}

impl Outcome for MountCheckpoint {}

impl SentOutcome for MountCheckpoint {
    fn with_verdict(self, _: Option<Failure>) -> Self {
        self
    }
}

/// Asks what happened to files after an event, and up to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MountEventsRequest {
    /// The chronicle that the numbers are of.
    pub chronicle: u32,
    pub after: u64,
    pub until: u64,
    pub limit: usize,
}

/// What has happened to a file of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Happened {
    Created,
    Modified,
    Deleted,
}

/// An event of a mount.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MountEvent {
    pub happened: Happened,
    /// As text; bytes that are none are the replacement character.
    pub path: String,
    pub size: Option<u64>,
}

/// Events of a mount.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MountEvents {
    pub chronicle: u32,
    pub events: Vec<MountEvent>,
    pub last: u64,
    pub has_more: bool,
}

impl Outcome for MountEvents {}

impl SentOutcome for MountEvents {
    fn with_verdict(self, _: Option<Failure>) -> Self {
        self
    }
}

impl Engine {
    /// The mount of this host and of this engine's store on a directory that takes changes, if there is one.
    pub(crate) fn mount_on(&self, directory: &std::path::Path, profile: &ProfileName) -> Option<LiveMount> {
        let tenant = format!("{}/", profile.tenant);
        let shown = self.location.shown();
        let is_wanted = |live: &LiveMount| {
            live.info.mountpoint == directory
                && live.info.mode != Mode::ReadOnly
                && live.info.store == shown
                && live.info.profile.starts_with(&tenant)
        };
        LiveMount::all(&self.settings).ok()?.into_iter().find(is_wanted)
    }
}

/// Has the daemon of a mount take a checkpoint.
pub(crate) async fn ask(
    live: &LiveMount,
    request: &MountCheckpointRequest,
) -> Result<MountCheckpoint, Failure> {
    call::ask(live.session.clone(), VERB, request).await
}

/// Asks the daemon of a mount what happened.
pub(crate) async fn ask_events(
    live: &LiveMount,
    request: &MountEventsRequest,
) -> Result<MountEvents, Failure> {
    call::ask(live.session.clone(), EVENTS_VERB, request).await
}

/// Takes a checkpoint, in the mount's daemon.
pub(crate) async fn serve(serving: &Arc<Serving>, call: Call) -> Result<MountCheckpoint, Failure> {
    let request: MountCheckpointRequest = call::understood(call)?;
    let (engine, mount) = (&serving.engine, &serving.mount);
    let lineage = Lineage { name: request.profile.clone(), chrome_major: ChromeMajor::WORKSPACE };
    if lineage.name.tenant != mount.lineage.name.tenant {
        let message = format!("{} is another tenant's than the mount", lineage.name);
        return Err(Failure::usage(message));
    }
    if mount.is_cut_off() {
        mount.reach(engine.writable_tenant(&lineage.name.tenant).await?);
    }
    begin_chronicle(mount)?;
    let settings = engine.settings.tenant(&lineage.name.tenant);
    let actor = actor_of(engine.actor(&ActorName::default()), &request.wanted.run_id);
    let handle = LineageHandle::new(mount.tenant()?.clone(), lineage.clone(), actor);
    // The session of a mount goes on from what is current of its own profile, which a checkpoint must not change.
    let is_own = mount.hold().is_some() && lineage == mount.lineage;
    let hold = match is_own {
        true => None,
        false => {
            let terms = Terms { ttl: settings.lock_ttl, with_process: true };
            let patience = engine.patience(&lineage.name, request.wanted.lock_patience());
            Some(Arc::new(handle.acquire(terms, patience).await?))
        }
    };
    let keeper = hold.as_ref().map(|hold| hold.keep(settings.lock_renew.max(Duration::from_millis(1))));
    let exclusions = request.exclusions.clone();
    let facts = record_facts(
        &engine.settings,
        (&request.directory, request.exclusions),
        &request.wanted,
        request.slot,
    );
    let taken = mount
        .checkpoint(CheckpointRequest {
            lineage,
            hold: hold.clone(),
            flip_id: handle.new_flip_id(),
            about: facts,
            threads: threads(),
            max_bytes: Some(settings.max_profile_bytes),
            quota_bytes: settings.quota_bytes,
            exclusions,
            before: request.before,
        })
        .await;
    drop(keeper);
    if let Some(hold) = &hold
        && let Err(error) = hold.release().await
    {
        tracing::warn!(%error, "the lock could not be given back; it expires by itself");
    }
    let taken = taken?;
    let report = taken.report;
    Ok(MountCheckpoint {
        record: report.record,
        snapshot_id: report.snapshot_id,
        sha256_prefix: report.sha256_prefix,
        files: report.counts.files,
        bytes: report.uncompressed_bytes,
        read_files: report.read_files,
        stored_bytes: report.counts.stored_bytes,
        pause_ms: taken.frozen_for.as_secs_f64() * 1000.0,
        last_event: taken.last_event,
        may_lack_writes: taken.may_lack_writes,
    })
}

/// Tells what happened to files, in the mount's daemon. A mount of which no checkpoint was taken begins to note it now.
pub(crate) fn serve_events(serving: &Arc<Serving>, call: Call) -> Result<MountEvents, Failure> {
    let MountEventsRequest { chronicle, after, until, limit } = call::understood(call)?;
    let mount = &serving.mount;
    begin_chronicle(mount)?;
    let told = mount.fs.happenings((chronicle, after), until, limit);
    let unread = |errno| Failure::new(ErrorKind::Io, format!("what happened cannot be told: {errno}"));
    let told = told.map_err(unread)?;
    let told = told.ok_or_else(|| Failure::internal("nothing is noted of this mount".to_owned()))?;
    let events = told.happenings.into_iter().map(|happening| MountEvent {
        happened: match happening.happened {
            fuse::overlay::chronicle::Happened::Created => Happened::Created,
            fuse::overlay::chronicle::Happened::Modified => Happened::Modified,
            fuse::overlay::chronicle::Happened::Deleted => Happened::Deleted,
        },
        path: String::from_utf8_lossy(&happening.path).into_owned(),
        size: happening.size,
    });
    let events = events.collect();
    Ok(MountEvents { chronicle: told.chronicle, events, last: told.last, has_more: told.has_more })
}

fn begin_chronicle(mount: &Mount) -> Result<(), Failure> {
    let path = mount.chronicle_path();
    let failed =
        |error| Failure::new(ErrorKind::Io, format!("{} cannot be written: {error}", path.display()));
    mount.fs.begin_chronicle(&path).map_err(failed)
}
