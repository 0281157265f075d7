//! `Engine::capture` stores a directory whose browser was ended, and `Engine::judge` prepares the commit of a mount.

use std::{path::Path, sync::Arc, time::Duration};

use capture::{
    CRASHED,
    chrome::{
        profile, startup,
        stop::{Ended, Stopped},
    },
    examiner::ProfileExaminer,
    expect::Awaited,
    load,
    marker::{self, Marker},
};
use store::{
    Error, ErrorKind,
    catalog::expectations,
    content::TenantStore,
    format::{
        WRITER,
        event::Actor,
        record::{CapturedBy, CapturedIn},
    },
    id::RecordId,
    name::{Lineage, ProfileName},
    ops::{
        retention,
        write::snapshot::{self, About, HoldBack, LockUse, Report},
    },
    progress::Progress,
};
use tokio::runtime::Handle;

use super::{CaptureOptions, ProfileToCapture, over_quota, rollback_to};
use crate::{Engine, LOCK_TOKEN, engine::threads, failure::Failure};

/// How much of the tenant's indexes a snapshot looks at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;

/// The directory that is captured, and the lock under which it is.
#[derive(Clone, Debug)]
pub struct CaptureJob<'a> {
    /// The tenant's part of the store.
    pub tenant: &'a TenantStore,
    /// The lineage that the snapshot becomes one of.
    pub lineage: Lineage,
    /// The directory.
    pub directory: &'a Path,
    /// The actor.
    pub actor: Actor,
    /// The lock.
    pub lock: LockUse,
    /// The snapshot that the directory was made of, if only that may be replaced; `Some(None)` if there was none.
    pub made_of: Option<Option<RecordId>>,
}

/// The facts about a profile for the commit of a mount, and its examiner.
#[derive(Debug)]
pub struct Judgement {
    /// The facts for the record.
    pub about: About,
    /// The examiner of the databases.
    pub examiner: Arc<ProfileExaminer>,
    /// Why the snapshot must not become the current one.
    pub hold_back: Option<HoldBack>,
}

impl Engine {
    /// Captures a directory whose browser was ended.
    pub async fn capture(
        &self,
        options: &CaptureOptions,
        job: CaptureJob<'_>,
        profile: ProfileToCapture,
        progress: Arc<dyn Progress>,
    ) -> Result<Report, Failure> {
        let CaptureJob { tenant, lineage, directory, actor, lock, made_of } = job;
        self.step(&format!("{} holds still, and is captured for {lineage}", directory.display()));
        let settings = self.settings.tenant(&lineage.name.tenant);
        self.require_room(tenant, &lineage, options).await?;
        let examiner = examiner(options, profile.stopped.clone(), (tenant, &lineage.name));
        let request = snapshot::Request {
            directory: directory.to_owned(),
            max_bytes: Some(settings.max_profile_bytes),
            quota_bytes: settings.quota_bytes,
            rescan: options.rescan,
            second_look: None,
            index_budget: INDEX_BUDGET_BYTES,
            threads: threads(),
            hold_back: options.fallback_hold_back(profile.marker.fallback.as_deref()),
            on_change: snapshot::OnChange::Refuse,
            about: about(self, options, &actor, profile)?,
            actor,
            lock,
            made_of,
            examiner: Some(Arc::new(examiner)),
            archive: Some(self.publish_policy(&lineage.name.tenant)),
            guess: Some(startup::guess),
            lineage,
        };
        let held = matches!(request.lock, LockUse::Held(_));
        let stop = self.interrupt.raised();
        let report = snapshot::snapshot(tenant, &request, progress, stop).await;
        if let Err(error @ Error::QuotaExceeded { .. }) = report {
            return Err(over_quota(tenant, error).await);
        }
        let report = report.map_err(|error| match stored(&error) {
            Some(record) => Failure::from(error).hint(rollback_to(&request.lineage, record)),
            None if error.kind() == ErrorKind::LockLost && held => Failure::from(error).hint(format!(
                "the token given with --lock-token or in {LOCK_TOKEN} is not that of this profile's lock now; \
                 `pstore lock show` and `pstore log` tell whose it is"
            )),
            None => error.into(),
        })?;
        if report.held_back.is_none()
            && let Err(error) = Marker::remove(directory)
        {
            self.warn(&format!("{} could not be removed: {error}", directory.join(marker::NAME).display()));
        }
        Ok(report)
    }

    /// Refuses a named checkpoint for which the profile's rules leave no room.
    pub async fn require_room(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        options: &CaptureOptions,
    ) -> Result<(), Failure> {
        let policy = self.settings.retention(&lineage.name).policy;
        Ok(retention::require_room(tenant, lineage, &policy, &options.reason).await?)
    }

    /// What a commit of a mount needs to know of its profile. `fallback` is the reason why the mount had started
    /// empty, if it had.
    pub fn judge(
        &self,
        options: &CaptureOptions,
        actor: &Actor,
        profile: ProfileToCapture,
        fallback: Option<&str>,
        of: (&TenantStore, &ProfileName),
    ) -> Result<Judgement, Failure> {
        let examiner = Arc::new(examiner(options, profile.stopped.clone(), of));
        let hold_back = options.fallback_hold_back(fallback);
        let about = About { fallback: fallback.map(str::to_owned), ..about(self, options, actor, profile)? };
        Ok(Judgement { about, examiner, hold_back })
    }
}

/// The facts for the record of a session whose browser is long gone.
pub fn about_rescued(
    engine: &Engine,
    options: &CaptureOptions,
    actor: &Actor,
    fallback: Option<String>,
) -> Result<About, Failure> {
    about(engine, options, actor, ProfileToCapture::long_gone(fallback))
}

/// Judges captures of a profile by what is expected of it.
fn examiner(
    options: &CaptureOptions,
    stopped: Stopped,
    (tenant, name): (&TenantStore, &ProfileName),
) -> ProfileExaminer {
    ProfileExaminer {
        policy: options.checks.policy(),
        mode: options.mode.word(),
        stopped: Some(stopped),
        expected: expected(tenant, name),
    }
}

/// The expectations of a profile, read on a thread that may block.
pub fn expected(tenant: &TenantStore, name: &ProfileName) -> Awaited {
    let (tenant, name, runtime) = (tenant.clone(), name.clone(), Handle::current());
    Awaited::new(move || runtime.block_on(expectations::read(&tenant, &name)))
}

/// The snapshot that was stored before things went wrong.
fn stored(error: &Error) -> Option<RecordId> {
    match error {
        Error::PointerNotFlipped { record, .. } => Some(*record),
        Error::LockLost { record, .. } | Error::PointerMoved { record, .. } => *record,
        _ => None,
    }
}

fn about(
    engine: &Engine,
    options: &CaptureOptions,
    actor: &Actor,
    profile: ProfileToCapture,
) -> Result<About, Failure> {
    let ProfileToCapture { facts, stopped, marker } = profile;
    let region = options.host_region.clone().or_else(|| engine.settings.host_region());
    // One that runs says so until it ends.
    let crashed = stopped.crashed || stopped.ended != Ended::Running && facts.says_crashed;
    let crashed = crashed.then_some(CRASHED);
    // For programs that know only the contract's manifest.
    let upgraded = marker.transforms.iter().map(String::as_str).filter(|word| load::is_upgrade(word));
    let notes: Vec<&str> = [options.notes.as_str()]
        .into_iter()
        .chain(crashed)
        .chain(upgraded)
        .filter(|note| !note.is_empty())
        .collect();
    let notes = notes.join("; ");
    Ok(About {
        captured_by: CapturedBy {
            host: actor.host.clone(),
            host_run_id: actor.host_run_id.clone(),
            writer_version: WRITER.to_owned(),
            unknown: Default::default(),
        },
        captured_in: Some(CapturedIn {
            host_region: region.unwrap_or_default(),
            egress_ip_geo: options.egress_geo.clone().or_else(|| engine.settings.egress_geo()),
            unknown: Default::default(),
        }),
        mode: options.mode.word(),
        reason: options.reason.clone(),
        labels: options.label_map()?,
        notes,
        chrome_last_version: facts.last_version,
        exit_type: facts.exit_type,
        chrome_uptime_seconds: stopped.uptime.map_or(0, |uptime: Duration| uptime.as_secs()),
        fallback: marker.fallback,
        transforms: marker.transforms,
        exclusions: profile::EXCLUSIONS.iter().copied().chain([marker::NAME]).map(str::to_owned).collect(),
        in_progress: None,
    })
}
