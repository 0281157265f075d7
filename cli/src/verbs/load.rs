//! Loading a profile for a Chrome: what `restore` and `run` have in common.

use std::path::Path;

use capture::{
    examination::Place,
    load::{self, Loaded, Outcome, Policy, Upgrade},
};
use engine::{
    Engine,
    failure::{Failure, pointer_repair},
    settings::OnUnavailable,
    unfound,
};
use serde_json::{Value, json};
use store::{
    Error, ErrorKind,
    catalog::clock,
    content::TenantStore,
    format::record::Mode,
    name::{ChromeMajor, Lineage, ProfileName, Tenant},
    ops::{point_of_no_return::PointOfNoReturn, read::resolve::Reference},
    tree::write::Keeping,
};

use crate::args::{CheckArg, LoadArgs};

/// What is loaded, and where to.
pub(super) struct Job<'a> {
    pub profile: &'a ProfileName,
    pub chrome_major: ChromeMajor,
    pub reference: Option<&'a Reference>,
    pub target: &'a Path,
    pub force: bool,
    pub keeping: Keeping,
    pub check: CheckArg,
    pub point_of_no_return: PointOfNoReturn,
    pub host_region: Option<String>,
}

pub(super) async fn load(engine: &Engine, args: &LoadArgs, job: Job<'_>) -> Result<Loaded, Failure> {
    let settings = engine.settings.tenant(&job.profile.tenant);
    let tenant = tenant(engine, job.profile).await?;
    let mut request = load::Request {
        profile: job.profile.clone(),
        chrome_major: job.chrome_major,
        chrome_version: args.chrome_version.clone(),
        reference: job.reference.cloned(),
        upgrade: upgrade(engine, args, &job.profile.tenant),
        target: job.target.to_owned(),
        force: job.force,
        keeping: job.keeping,
        threads: engine::threads(),
        point_of_no_return: job.point_of_no_return,
        policy: Policy {
            allow_hot: settings.modes.contains(&Mode::Hot),
            max_bytes: settings.max_profile_bytes,
            depth: job.check.depth(),
            place: Place::apart(),
            require: args.require,
        },
        host_region: job.host_region.or_else(|| engine.settings.host_region()),
        now_ms: clock::unix_ms(),
        normalise_exit: args.normalise_exit,
        adoption: None,
    };
    let mut loaded = load::load(tenant.as_ref(), &request, engine.progress()).await;
    if let Err(Error::Foreign { .. }) = loaded {
        // What another program has stored is taken in, for which something must be written.
        let tenant = engine.tenant_to_change(&job.profile.tenant).await?;
        request.adoption = Some(engine.adoption(&job.profile.tenant));
        loaded = load::load(Some(&tenant), &request, engine.progress()).await;
    }
    let loaded = loaded.map_err(|error| {
        let lineage = Lineage { name: job.profile.clone(), chrome_major: job.chrome_major };
        match job.reference {
            Some(_) => unfound(&lineage, error),
            None => error.into(),
        }
    })?;
    if loaded.outcome.is_fallback() {
        let reason = loaded.reason.as_deref().unwrap_or_default();
        engine.warn(&format!("{}: starting with an empty profile: {reason}", loaded.outcome.as_str()));
        if loaded.record.is_none() && loaded.outcome == Outcome::ShaMismatch {
            engine.say(&format!(
                "hint: {}",
                pointer_repair(&job.profile.to_string(), Some(&job.chrome_major.to_string()))
            ));
        }
    }
    if loaded.outcome == Outcome::NoPriorState {
        engine.say(&format!("{} has no snapshot yet: starting with an empty profile", job.profile));
    }
    loaded.warnings.iter().for_each(|warning| engine.warn(warning));
    Ok(loaded)
}

/// What is missing where the store cannot be asked which Chrome a profile is of.
pub(super) const NO_MAJOR: &str = "with on_unavailable = \"fresh\" it starts empty if --chrome-major says for which Chrome: the store cannot be asked";

/// Whether something that could not begin for this reason begins with an empty profile, without the store.
pub(super) fn begins_without_store(
    engine: &Engine,
    tenant: &Tenant,
    args: &LoadArgs,
    failure: &Failure,
) -> bool {
    let is_set = engine.settings.tenant(tenant).on_unavailable == OnUnavailable::Fresh;
    is_set
        && !args.require
        && args.upgrade_from.is_none()
        && matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Denied)
}

/// Refuses an upgrade that names no newer Chrome.
pub(super) fn check(args: &LoadArgs, chrome_major: Option<ChromeMajor>) -> Result<(), Failure> {
    match (args.upgrade_from, chrome_major.or_else(|| args.major_of_version())) {
        (Some(from), Some(to)) if from >= to => Err(load::not_older(from, to).into()),
        (Some(from), None) => {
            let message =
                "--upgrade-from goes with --chrome-major, the newer Chrome that is to use the profile";
            let next = u64::from(from) + 1;
            Err(Failure::usage(message)
                .hint(format!("for example --chrome-major {next} --upgrade-from {from}")))
        }
        _ => Ok(()),
    }
}

/// What becomes of a Chrome that has no snapshot yet: as said, or as the tenant has it.
pub(super) fn upgrade(engine: &Engine, args: &LoadArgs, tenant: &Tenant) -> Upgrade {
    match args.upgrade_from {
        Some(major) => Upgrade::From(major),
        None => engine.settings.tenant(tenant).upgrade,
    }
}

/// The tenant; `None` if there is none, or no store at all. One that does not answer is an
/// error: nobody knows what is in it.
async fn tenant(engine: &Engine, profile: &ProfileName) -> Result<Option<TenantStore>, Failure> {
    if engine.location.is_missing() {
        return Ok(None);
    }
    let store = engine.store(engine.purpose_of_keeping().await?).await?;
    match engine.answer(store.tenant(&profile.tenant)).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            match engine.has_archives(&store, &profile.tenant).await {
                true => engine.writable_tenant(&profile.tenant).await.map(Some),
                false => Ok(None),
            }
        }
        found => Ok(Some(found?)),
    }
}

pub(super) fn document(
    job_profile: &ProfileName,
    chrome_major: ChromeMajor,
    target: &Path,
    loaded: &Loaded,
) -> Value {
    let record = loaded.record.as_ref();
    let report = loaded.report.as_ref();
    json!({
        "outcome": loaded.outcome.as_str(),
        "reason": loaded.reason,
        "tenant_id": job_profile.tenant,
        "profile_id": job_profile.profile,
        "chrome_major_version": chrome_major,
        "snapshot_id": record.and_then(|record| Some(record.content.as_ref()?.snapshot_id)),
        "record": record.map(|record| record.record),
        "sha256_prefix": record.map(|record| record.sha256_prefix()),
        "archive_sha256": record.and_then(|record| record.archive_sha256.as_ref()),
        "captured_at_ms": record.map(|record| record.captured_at_ms),
        "target": target,
        "uncompressed_size_bytes": report.map(|report| report.bytes),
        "files": report.map(|report| report.files),
        "fetched_bytes": report.map(|report| report.fetched_bytes),
        "skipped": report.map(|report| report.skipped),
        "lost_xattrs": report.map(|report| report.lost_xattrs),
        "transforms": loaded.transforms,
        "elapsed_ms": report.map(|report| report.elapsed.as_millis() as u64),
        "warnings": loaded.warnings,
    })
}
