//! `copied` runs a command on a copy of the profile.

use std::{path::Path, sync::Arc, time::Duration};

use capture::load::Loaded;
use fuse::overlay::session::SessionPlace;
use store::{
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Hold, Terms},
    },
    name::{Lineage, WIP},
    ops::{
        read::resolve::Reference,
        work_in_progress,
        write::snapshot::{LockUse, Outcome},
    },
};

use super::{
    command,
    request::RunRequest,
    run_end::{Captured, RunEnd},
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
    loads::{LoadJob, LoadOptions},
    mount::{
        sessions::{About, Sessions, Taking, is_named},
        wip,
    },
    names::LineageName,
    observer::CaptureSource,
};

pub(super) async fn run(
    engine: &Engine,
    request: &RunRequest,
    user: Option<&User>,
    signals: &mut Signals,
) -> Result<RunEnd, Failure> {
    warn_of_sessions(engine, request)?;
    let settings = engine.settings.tenant(&request.profile().tenant);
    let taking = async {
        let lineage = lineage(engine, request).await?;
        let tenant = engine.writable_tenant(&lineage.name.tenant).await?;
        let handle = LineageHandle::new(tenant, lineage, engine.actor(&request.capture.actor));
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        let patience = engine.patience(request.profile(), request.wait);
        Ok(handle.acquire(terms, patience).await?)
    };
    let hold = Arc::new(supervise::take_lock(signals, &engine.interrupt, taking).await?);
    let lineage = hold.handle().lineage();
    let left = wip::before_a_copy(engine, &hold, request.from_wip).await;
    let chosen = match &left {
        Ok(_) => WorkDir::choose(engine, request, lineage, Some(hold.base().await)),
        Err(failure) => Err(failure.clone()),
    };
    let (workdir, ended) = match chosen {
        Ok(workdir) => {
            let ended = session(engine, request, signals, &hold, &workdir, user, settings.lock_renew).await;
            (Some(workdir), ended)
        }
        Err(failure) => (None, Err(failure)),
    };
    if let (Ok(Some(left)), Ok(Session { captured: Some(Ok(captured)), .. })) = (&left, &ended)
        && captured.report.held_back.is_none()
        && (request.from_wip || captured.report.outcome == Outcome::Stored)
        && let Err(error) = work_in_progress::end(hold.handle(), &[], Some(*left)).await
    {
        tracing::warn!(%error, "the hint at work in progress could not be removed");
    }
    if let Err(error) = hold.release().await {
        engine.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
    let captured = ended.as_ref().map(|session| matches!(session.captured, Some(Ok(_))));
    match (workdir, captured) {
        (Some(workdir), Ok(captured)) => workdir.finish(engine, captured),
        (Some(workdir), Err(_)) => workdir.abandon(engine).await,
        (None, _) => {}
    }
    let Session { loaded, command_end, captured } = ended?;
    if let Some(Ok(captured)) = &captured {
        engine.prune(hold.handle().store(), lineage, &captured.report).await;
    }
    Ok(RunEnd {
        lineage: lineage.clone(),
        mounted: false,
        load: loaded.into(),
        command_end,
        captured,
        session: None,
    })
}

struct Session {
    loaded: Loaded,
    command_end: CommandEnd,
    captured: Option<Result<Captured, Failure>>,
}

async fn session(
    engine: &Engine,
    request: &RunRequest,
    signals: &mut Signals,
    hold: &Arc<Hold>,
    workdir: &WorkDir,
    user: Option<&User>,
    renew_every: Duration,
) -> Result<Session, Failure> {
    let keeper = hold.keep(renew_every);
    let lineage = hold.handle().lineage();
    let point_of_no_return = engine.interrupt.point_of_no_return();
    let work = Reference::Word(WIP.to_owned());
    let job = LoadJob {
        profile: &lineage.name,
        chrome_major: lineage.chrome_major,
        reference: request.from_wip.then_some(&work).or(request.reference()?),
        target: workdir.path(),
        force: false,
        keeping: Default::default(),
        check: request.capture.checks.depth,
        point_of_no_return: point_of_no_return.clone(),
        host_region: request.capture.host_region.clone(),
    };
    // A caller who names what to start from wants that, and no empty profile in its place.
    let options = LoadOptions { require: request.load.require || request.from_wip, ..request.load.clone() };
    let loading = engine.load(&options, job);
    let loaded = supervise::prepare(signals, point_of_no_return, loading).await?;
    if let Some(user) = user {
        workdir.give_to(user)?;
    }
    let command = command::command(request, user, hold, workdir.path()).await?;
    let browsers = Browsers::of(&request.capture, workdir.path());
    let command_end = supervise::run(engine, signals, command, user, Some(&keeper), browsers).await?;
    let captured = match command_end.lost {
        Some(_) => None,
        None => {
            let capture = capture(engine, request, hold, workdir.path());
            Some(
                engine
                    .observe_capture(
                        &lineage.name,
                        CaptureMode::Cold,
                        CaptureSource::Directory,
                        capture,
                        |captured| &captured.report,
                    )
                    .await,
            )
        }
    };
    Ok(Session { loaded, command_end, captured })
}

async fn capture(
    engine: &Engine,
    request: &RunRequest,
    hold: &Hold,
    directory: &Path,
) -> Result<Captured, Failure> {
    let profile = ProfileToCapture::stop(directory, &request.capture).await?;
    let remarks = profile.remarks();
    let job = CaptureJob {
        tenant: hold.handle().store(),
        lineage: hold.handle().lineage().clone(),
        directory,
        actor: hold.handle().actor().clone(),
        lock: LockUse::Held(hold.token().await),
        made_of: None,
    };
    let report = engine.capture(&request.capture, job, profile, engine.progress()).await?;
    Ok(Captured { report, remarks })
}

/// The lineage: as said, or the newest there is.
async fn lineage(engine: &Engine, request: &RunRequest) -> Result<Lineage, Failure> {
    match request.major() {
        Some(chrome_major) => Ok(Lineage { name: request.profile().clone(), chrome_major }),
        None => {
            let asked = LineageName { profile: request.profile().clone(), chrome_major: None };
            Ok(engine.writable_lineage(&asked).await?.1)
        }
    }
}

/// A copy is of the snapshot; what a mount that was cut short has changed since is not in it.
pub(super) fn warn_of_sessions(engine: &Engine, request: &RunRequest) -> Result<(), Failure> {
    let (store, profile) = (engine.location.shown(), request.profile().to_string());
    let wanted = |path: &Path, about: &About| {
        about.may_be_of(&store, &profile) && !is_named(path, &request.ignore_session)
    };
    let left = Sessions::find(&engine.settings, SessionPlace::Here, Taking::Look, wanted)?;
    left.require_readable(&profile)?;
    for candidate in left.unfinished {
        let id = candidate.session.id();
        engine.warn(&format!(
            "session {id} has changes to {profile} that are not committed and not in the copy; `pstore sessions` shows it"
        ));
    }
    Ok(())
}
