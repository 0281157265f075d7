//! `without_store` runs a command without the store, which could not be reached: it starts with an empty profile.
//!
//! Nobody holds a lock meanwhile. The capture at the end takes the lock as a snapshot does, and replaces nothing by
//! itself, since the session had started with an empty profile.

use std::path::Path;

use capture::load::{self, Outcome};
use store::{
    catalog::lock::Terms,
    name::Lineage,
    ops::{read::resolve::Reference, write::snapshot::LockUse},
};

use super::{
    command, copied,
    request::RunRequest,
    run_end::{Captured, Load, RunEnd},
    workdir::WorkDir,
};
use crate::{
    Engine,
    captures::{CaptureJob, CaptureMode, ProfileToCapture},
    failure::Failure,
    host::{
        supervise::{self, Browsers, CommandEnd, Signals},
        user::User,
    },
    loads::NO_MAJOR,
    observer::CaptureSource,
    outcome::LoadResult,
};

/// Whether a run that could not begin for this reason begins without the store.
pub(super) fn is_wanted(
    engine: &Engine,
    request: &RunRequest,
    reference: Option<&Reference>,
    failure: &Failure,
) -> bool {
    // Who names a snapshot wants that one, and no empty profile in its place.
    let is_named = reference.is_some() || request.from_wip;
    !is_named && engine.begins_without_store(&request.load, &request.profile().tenant, failure)
}

pub(super) async fn run(
    engine: &Engine,
    request: &RunRequest,
    user: Option<&User>,
    signals: &mut Signals,
    failure: Failure,
) -> Result<RunEnd, Failure> {
    let Some(chrome_major) = request.major() else {
        return Err(failure.hint(NO_MAJOR));
    };
    let lineage = Lineage { name: request.profile().clone(), chrome_major };
    copied::warn_of_sessions(engine, request)?;
    engine.warn(&format!(
        "{}: starting with an empty profile, without a lock: {}",
        Outcome::FreshFallback.as_str(),
        failure.message
    ));
    let workdir = WorkDir::choose(engine, request, &lineage, None)?;
    let session = session(engine, request, user, signals, &lineage, &workdir).await;
    match &session {
        Ok((_, captured)) => workdir.finish(engine, captured.is_ok()),
        Err(_) => workdir.abandon(engine).await,
    }
    let (command_end, captured) = session?;
    let reason = Some(failure.message);
    let load = Load { outcome: Outcome::FreshFallback, reason, warnings: Vec::new() };
    Ok(RunEnd { lineage, mounted: false, load, command_end, captured: Some(captured), session: None })
}

async fn session(
    engine: &Engine,
    request: &RunRequest,
    user: Option<&User>,
    signals: &mut Signals,
    lineage: &Lineage,
    workdir: &WorkDir,
) -> Result<(CommandEnd, Result<Captured, Failure>), Failure> {
    let point_of_no_return = engine.interrupt.point_of_no_return().clone();
    let emptied = async { Ok(load::afresh(workdir.path(), point_of_no_return)?) };
    engine.observe_load(&lineage.name, emptied, |()| (LoadResult::FreshFallback, None)).await?;
    if let Some(user) = user {
        workdir.give_to(user)?;
    }
    let actor = engine.actor(&request.capture.actor);
    let command = command::told(request, user, (&actor.run_id, ""), workdir.path())?;
    let browsers = Browsers::of(&request.capture, workdir.path());
    let command_end = supervise::run(engine, signals, command, user, None, browsers).await?;
    let capture = capture(engine, request, lineage, workdir.path());
    let captured = engine
        .observe_capture(&lineage.name, CaptureMode::Cold, CaptureSource::Directory, capture, |captured| {
            &captured.report
        })
        .await;
    Ok((command_end, captured))
}

async fn capture(
    engine: &Engine,
    request: &RunRequest,
    lineage: &Lineage,
    directory: &Path,
) -> Result<Captured, Failure> {
    let profile = ProfileToCapture::stop(directory, &request.capture).await?;
    let remarks = profile.remarks();
    let settings = engine.settings.tenant(&lineage.name.tenant);
    let tenant = engine.writable_tenant(&lineage.name.tenant).await?;
    let job = CaptureJob {
        tenant: &tenant,
        lineage: lineage.clone(),
        directory,
        actor: engine.actor(&request.capture.actor),
        lock: LockUse::Take {
            terms: Terms { ttl: settings.lock_ttl, with_process: true },
            renew_every: settings.lock_renew,
            patience: engine.patience(&lineage.name, request.wait),
        },
        made_of: None,
    };
    let report = engine.capture(&request.capture, job, profile, engine.progress()).await?;
    engine.prune(&tenant, lineage, &report).await;
    Ok(Captured { report, remarks })
}
