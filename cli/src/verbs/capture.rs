//! Capturing a profile: what `snapshot` and `run` have in common.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use capture::{
    CRASHED,
    chrome::{
        profile::{self, Facts},
        singleton::{self, Lock},
        stop::{self, StopError, StopOptions, Stopped},
    },
    examiner::ProfileExaminer,
    expect::Awaited,
    load,
    marker::{self, Marker},
};
use engine::{Engine, LOCK_TOKEN, failure::Failure, text::size};
use store::{
    Error, ErrorKind,
    catalog::expectations,
    content::{TenantStore, workers::blocking},
    format::{
        WRITER,
        event::Actor,
        record::{CapturedBy, CapturedIn},
    },
    id::RecordId,
    name::{Lineage, ProfileName},
    ops::{
        gc::quota,
        retention,
        write::snapshot::{self, About, HoldBack, LockUse, Report, Request},
    },
    progress::Progress,
};
use tokio::runtime::Handle;

use crate::args::{CaptureArgs, ModeArg};

/// How much of the tenant's indexes a snapshot looks at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;
/// How many snapshots are named whose deletion would help.
const WAYS: usize = 3;
const HOT_MODE_PAGE: &str = "docs/hot-mode.md";

/// A directory that holds still.
pub(super) struct Still {
    pub facts: Facts,
    stopped: Stopped,
    marker: Marker,
}

impl Still {
    pub(super) fn marker(&self) -> &Marker {
        &self.marker
    }

    /// What a person should know about the directory, whatever is in it.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.facts.path_is_too_long() {
            remarks.push(format!(
                "the directory's path is longer than {} bytes: Chrome silently does without some databases there",
                profile::MAX_PATH_BYTES
            ));
        }
        if let Some(Lock { host, pid }) = &self.stopped.lock_of_another_host {
            remarks.push(format!(
                "the directory has the lock of a Chrome on {host:?} (process {pid}), which was left there and is \
                 not stored: if that one still runs, what it has not written is missing; if not, remove \
                 SingletonLock, or no Chrome starts here"
            ));
        }
        remarks
    }
}

/// Refuses what is wrong with the arguments alone, before anything is touched.
pub(super) fn check(args: &CaptureArgs) -> Result<(), Failure> {
    labels(args)?;
    if args.mode == ModeArg::Hot {
        let what = "--mode hot, a capture while the browser runs,".to_owned();
        return Err(Error::NotImplemented { what, page: HOT_MODE_PAGE.to_owned() }.into());
    }
    Ok(())
}

/// Ends the browser, and learns what the profile says.
pub(super) async fn hold_still(directory: &Path, args: &CaptureArgs) -> Result<Still, Failure> {
    let options = StopOptions { allow_stop: !args.no_stop, wait: args.stop_wait, ..StopOptions::default() };
    let directory = directory.to_owned();
    let still = blocking(move || {
        let stopped = stop::stop(&directory, &options).map_err(|error| in_use(&directory, error))?;
        singleton::remove_stale(&directory).map_err(|error| {
            Error::io("cannot remove the links of a browser that is gone from", &directory, error)
        })?;
        let marker = Marker::read(&directory)
            .map_err(|error| Error::io("cannot read", directory.join(marker::NAME), error))?;
        Ok(Still { facts: Facts::read(&directory), stopped, marker })
    });
    Ok(still.await?)
}

pub(super) fn in_use(directory: &Path, error: StopError) -> Error {
    match error {
        StopError::Look { source, .. } => Error::io("cannot see who uses", directory, source),
        error => Error::InUse { path: directory.to_owned(), by: error.to_string() },
    }
}

/// What is to be captured, and under which lock.
pub(super) struct Job<'a> {
    pub tenant: &'a TenantStore,
    pub lineage: Lineage,
    pub directory: &'a Path,
    pub actor: Actor,
    pub lock: LockUse,
    /// What the directory was made of, if only that may be replaced.
    pub made_of: Option<Option<RecordId>>,
}

/// Captures a directory that holds still.
pub(super) async fn capture(
    engine: &Engine,
    args: &CaptureArgs,
    job: Job<'_>,
    still: Still,
    progress: Arc<dyn Progress>,
) -> Result<Report, Failure> {
    let Job { tenant, lineage, directory, actor, lock, made_of } = job;
    engine.step(&format!("{} holds still, and is captured for {lineage}", directory.display()));
    let settings = engine.settings.tenant(&lineage.name.tenant);
    require_room(engine, tenant, &lineage, args).await?;
    let examiner = examiner(args, Some(still.stopped.clone()), (tenant, &lineage.name));
    let hold_back = still.marker.fallback.as_ref().filter(|_| !args.replace_after_fallback).map(|reason| {
        let reason = format!("the session had started afresh ({reason}), and would replace a good snapshot");
        HoldBack { word: "fallback", reason }
    });
    let request = Request {
        directory: directory.to_owned(),
        max_bytes: Some(settings.max_profile_bytes),
        quota_bytes: settings.quota_bytes,
        rescan: args.rescan,
        index_budget: INDEX_BUDGET_BYTES,
        threads: engine::threads(),
        about: about(engine, args, &actor, still)?,
        actor,
        lock,
        made_of,
        examiner: Some(Arc::new(examiner)),
        hold_back,
        archive: Some(super::export::policy(engine, &lineage.name.tenant)),
        lineage,
    };
    let held = matches!(request.lock, LockUse::Held(_));
    let stop = engine.interrupt.raised();
    let report = snapshot::snapshot(tenant, &request, progress, stop).await;
    if let Err(error @ Error::QuotaExceeded { .. }) = report {
        return Err(over_quota(tenant, error).await);
    }
    let report = report.map_err(|error| match stored(&error) {
        Some(record) => Failure::from(error).hint(moving(&request.lineage, record)),
        None if error.kind() == ErrorKind::LockLost && held => Failure::from(error).hint(format!(
            "the token given with --lock-token or in {LOCK_TOKEN} is not that of this profile's lock now; \
             `pstore lock show` and `pstore log` tell whose it is"
        )),
        None => error.into(),
    })?;
    if report.held_back.is_none()
        && let Err(error) = Marker::remove(directory)
    {
        engine.warn(&format!("{} could not be removed: {error}", directory.join(marker::NAME).display()));
    }
    Ok(report)
}

/// Judges captures of a profile by what is expected of it.
fn examiner(
    args: &CaptureArgs,
    stopped: Option<Stopped>,
    (tenant, name): (&TenantStore, &ProfileName),
) -> ProfileExaminer {
    ProfileExaminer { policy: args.checks.policy(), stopped, expected: expected(tenant, name) }
}

/// What is expected of a profile, read on a thread that may block.
pub(super) fn expected(tenant: &TenantStore, name: &ProfileName) -> Awaited {
    let (tenant, name, runtime) = (tenant.clone(), name.clone(), Handle::current());
    Awaited::new(move || runtime.block_on(expectations::read(&tenant, &name)))
}

/// Refuses a named checkpoint for which the profile's rules leave no room.
pub(super) async fn require_room(
    engine: &Engine,
    tenant: &TenantStore,
    lineage: &Lineage,
    args: &CaptureArgs,
) -> Result<(), Failure> {
    let policy = engine.settings.retention(&lineage.name).policy;
    Ok(retention::require_room(tenant, lineage, &policy, &args.reason.0).await?)
}

/// Of what is refused for its size, says what would free how much.
pub(super) async fn over_quota(tenant: &TenantStore, error: Error) -> Failure {
    let failure = Failure::from(error);
    if failure.kind != ErrorKind::QuotaExceeded {
        return failure;
    }
    let Ok(advice) = quota::advice(tenant).await else { return failure };
    let mut ways = Vec::new();
    if advice.collectable_bytes > 0 {
        let bytes = size::bytes(advice.collectable_bytes);
        ways.push(format!("`pstore gc {}` frees {bytes}", tenant.tenant));
    }
    for (lineage, sha, bytes) in advice.snapshots.iter().take(WAYS).filter(|(.., bytes)| *bytes > 0) {
        let Lineage { name, chrome_major } = lineage;
        ways.push(format!(
            "`pstore delete {name} --chrome-major {chrome_major} --sha {sha}` and then gc {}",
            size::bytes(*bytes)
        ));
    }
    match ways.is_empty() {
        true => failure.hint("nothing can be freed: every snapshot is current or tagged"),
        false => failure.hint(ways.join("; ")),
    }
}

/// What a commit of a mount needs to know of a profile that holds still.
pub(super) fn judged(
    engine: &Engine,
    args: &CaptureArgs,
    actor: &Actor,
    still: Still,
    fallback: Option<&str>,
    of: (&TenantStore, &ProfileName),
) -> Result<(About, Arc<ProfileExaminer>, Option<HoldBack>), Failure> {
    let examiner = examiner(args, Some(still.stopped.clone()), of);
    let hold_back = afresh(args, fallback);
    let about = About { fallback: fallback.map(str::to_owned), ..about(engine, args, actor, still)? };
    Ok((about, Arc::new(examiner), hold_back))
}

/// Why what began as an empty profile does not take the place of what could not be loaded.
pub(super) fn afresh(args: &CaptureArgs, fallback: Option<&str>) -> Option<HoldBack> {
    fallback.filter(|_| !args.replace_after_fallback).map(|reason| {
        let reason = format!("the session had started afresh ({reason}), and would replace a good snapshot");
        HoldBack { word: "fallback", reason }
    })
}

/// What is known of a session whose browser is long gone.
pub(super) fn about_rescued(
    engine: &Engine,
    args: &CaptureArgs,
    actor: &Actor,
    fallback: Option<String>,
) -> Result<About, Failure> {
    let still = Still {
        facts: Facts::default(),
        stopped: Stopped::default(),
        marker: Marker { fallback, ..Marker::default() },
    };
    about(engine, args, actor, still)
}

/// What a person should know about the profile in a snapshot.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(health) = &report.health else { return warnings };
    for found in &health.damaged {
        warnings.push(format!("the database {} is damaged: {}", found.path, found.problem));
    }
    for found in &health.unchecked {
        warnings.push(format!("the database {} was not checked: {}", found.path, found.problem));
    }
    if let Some(cookies) = health.cookies.as_ref().filter(|cookies| cookies.v11 > 0) {
        warnings.push(format!(
            "{} of {} cookies are encrypted with a key of this host (v11) and will not decrypt elsewhere; \
             run Chrome with --password-store=basic",
            cookies.v11, cookies.rows
        ));
    }
    if health.cookies.as_ref().is_some_and(|cookies| cookies.rows > 0) && !health.local_state {
        warnings.push("there is no `Local State`: what is encrypted cannot be read without it".to_owned());
    }
    if health.ended == "killed" {
        warnings.push(
            "the browser did not end by itself and was killed: what it had not written is lost".to_owned(),
        );
    }
    warnings
}

/// The snapshot that was stored before things went wrong.
fn stored(error: &Error) -> Option<RecordId> {
    match error {
        Error::PointerNotFlipped { record, .. } => Some(*record),
        Error::LockLost { record, .. } | Error::PointerMoved { record, .. } => *record,
        _ => None,
    }
}

/// The command that moves the pointer to what is stored already.
pub(super) fn moving(lineage: &Lineage, record: RecordId) -> String {
    let Lineage { name, chrome_major } = lineage;
    format!(
        "`pstore rollback {name} --chrome-major {chrome_major} --sha {record} --confirm` moves the pointer to it"
    )
}

/// What to say of a snapshot that was stored and held back.
pub(super) fn held_back(report: &Report) -> Option<(ErrorKind, String)> {
    let held = report.held_back.as_ref()?;
    let message = format!(
        "snapshot {} is stored, but is not made the current one: {}",
        report.sha256_prefix, held.reason
    );
    Some((ErrorKind::HeldBack, message))
}

fn about(engine: &Engine, args: &CaptureArgs, actor: &Actor, still: Still) -> Result<About, Failure> {
    let Still { facts, stopped, marker } = still;
    let region = args.host_region.clone().or_else(|| engine.settings.host_region());
    let crashed = (stopped.crashed || facts.says_crashed).then_some(CRASHED);
    // For programs that know only the contract's manifest.
    let upgraded = marker.transforms.iter().map(String::as_str).filter(|word| load::is_upgrade(word));
    let notes: Vec<&str> = [args.notes.as_str()]
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
            egress_ip_geo: args.egress_geo.clone().or_else(|| engine.settings.egress_geo()),
            unknown: Default::default(),
        }),
        reason: args.reason.0.clone(),
        labels: labels(args)?,
        notes,
        chrome_last_version: facts.last_version,
        exit_type: facts.exit_type,
        chrome_uptime_seconds: stopped.uptime.map_or(0, |uptime: Duration| uptime.as_secs()),
        fallback: marker.fallback,
        transforms: marker.transforms,
        exclusions: profile::EXCLUSIONS.iter().copied().chain([marker::NAME]).map(str::to_owned).collect(),
    })
}

fn labels(args: &CaptureArgs) -> Result<BTreeMap<String, String>, Failure> {
    let mut labels = BTreeMap::new();
    for (key, value) in &args.labels {
        if labels.insert(key.clone(), value.clone()).is_some() {
            return Err(Failure::usage(format!("the label {key:?} is given twice")));
        }
    }
    Ok(labels)
}
