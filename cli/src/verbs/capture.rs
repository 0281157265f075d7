//! Captures, asked for with the words of the command line.

use std::{path::Path, sync::Arc};

use capture::examiner::ProfileExaminer;
use engine::{
    Engine,
    captures::{self, Judgement, StoppedProfile},
    failure::Failure,
};
use store::{
    ErrorKind,
    content::TenantStore,
    format::event::Actor,
    name::{Lineage, ProfileName},
    ops::write::snapshot::{About, HoldBack, Report},
};

use crate::args::CaptureArgs;

pub(super) use engine::captures::{over_quota, rollback_to as moving};

pub(super) fn check(args: &CaptureArgs) -> Result<(), Failure> {
    args.options().check()
}

pub(super) async fn hold_still(directory: &Path, args: &CaptureArgs) -> Result<StoppedProfile, Failure> {
    StoppedProfile::stop(directory, &args.options()).await
}

pub(super) async fn require_room(
    engine: &Engine,
    tenant: &TenantStore,
    lineage: &Lineage,
    args: &CaptureArgs,
) -> Result<(), Failure> {
    engine.require_room(tenant, lineage, &args.options()).await
}

pub(super) fn judged(
    engine: &Engine,
    args: &CaptureArgs,
    actor: &Actor,
    profile: StoppedProfile,
    fallback: Option<&str>,
    of: (&TenantStore, &ProfileName),
) -> Result<(About, Arc<ProfileExaminer>, Option<HoldBack>), Failure> {
    let Judgement { about, examiner, hold_back } =
        engine.judge(&args.options(), actor, profile, fallback, of)?;
    Ok((about, examiner, hold_back))
}

pub(super) fn afresh(args: &CaptureArgs, fallback: Option<&str>) -> Option<HoldBack> {
    args.options().fallback_hold_back(fallback)
}

pub(super) fn about_rescued(
    engine: &Engine,
    args: &CaptureArgs,
    actor: &Actor,
    fallback: Option<String>,
) -> Result<About, Failure> {
    captures::about_rescued(engine, &args.options(), actor, fallback)
}

/// The verdict on a snapshot that was stored and held back.
pub(super) fn held_back(report: &Report) -> Option<(ErrorKind, String)> {
    let held = report.held_back.as_ref()?;
    let message = format!(
        "snapshot {} is stored, but is not made the current one: {}",
        report.sha256_prefix, held.reason
    );
    Some((ErrorKind::HeldBack, message))
}
