//! A run on a copy of the profile.

use std::{path::Path, sync::Arc, time::Duration};

use capture::load::Loaded;
use engine::{
    captures::{CaptureJob, StoppedProfile},
    failure::Failure,
    host::user::User,
    loads::LoadJob,
    names::LineageName,
};
use fuse::overlay::session::Place as SessionPlace;
use store::{
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Hold, Terms},
    },
    name::Lineage,
    ops::write::snapshot::LockUse,
};

use super::{
    super::{
        Engine,
        guard::{self, Browsers, CommandEnd, Signals},
        mount::{About, Sessions, Taking, is_named},
    },
    Captured, Ended, command,
    place::Place,
};
use crate::args::RunArgs;

pub(super) async fn run(
    engine: &Engine,
    args: &RunArgs,
    user: Option<&User>,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    warn_of_sessions(engine, args)?;
    let settings = engine.settings.tenant(&args.profile().tenant);
    let taking = async {
        let lineage = lineage(engine, args).await?;
        let tenant = engine.writable_tenant(&lineage.name.tenant).await?;
        let controls = LineageHandle::new(tenant, lineage, engine.actor(&args.capture.actor.name()));
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        let patience = engine.patience(args.profile(), args.wait);
        Ok(controls.acquire(terms, patience).await?)
    };
    let hold = Arc::new(guard::take_lock(signals, &engine.interrupt, taking).await?);
    let lineage = hold.controls().lineage();
    let (place, ended) = match Place::choose(engine, args, lineage, Some(hold.base().await)) {
        Ok(place) => {
            let ended = session(engine, args, signals, &hold, &place, user, settings.lock_renew).await;
            (Some(place), ended)
        }
        Err(failure) => (None, Err(failure)),
    };
    if let Err(error) = hold.release().await {
        engine.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
    let captured = ended.as_ref().map(|session| matches!(session.captured, Some(Ok(_))));
    match (place, captured) {
        (Some(place), Ok(captured)) => place.finish(engine, captured),
        (Some(place), Err(_)) => place.abandon(engine).await,
        (None, _) => {}
    }
    let Session { loaded, guarded, captured } = ended?;
    if let Some(Ok(captured)) = &captured {
        engine.prune(hold.controls().store(), lineage, &captured.report).await;
    }
    Ok(Ended {
        lineage: lineage.clone(),
        mounted: false,
        load: loaded.into(),
        guarded,
        captured,
        session: None,
    })
}

struct Session {
    loaded: Loaded,
    guarded: CommandEnd,
    captured: Option<Result<Captured, Failure>>,
}

async fn session(
    engine: &Engine,
    args: &RunArgs,
    signals: &mut Signals,
    hold: &Arc<Hold>,
    place: &Place,
    user: Option<&User>,
    renew_every: Duration,
) -> Result<Session, Failure> {
    let keeper = hold.keep(renew_every);
    let lineage = hold.controls().lineage();
    let point_of_no_return = engine.interrupt.point_of_no_return();
    let options = args.capture.options();
    let job = LoadJob {
        profile: &lineage.name,
        chrome_major: lineage.chrome_major,
        reference: args.reference()?,
        target: place.path(),
        force: false,
        keeping: Default::default(),
        check: options.checks.depth,
        point_of_no_return: point_of_no_return.clone(),
        host_region: args.capture.host_region.clone(),
    };
    let load = args.load.options();
    let loading = engine.load(&load, job);
    let loaded = guard::prepare(signals, point_of_no_return, loading).await?;
    if let Some(user) = user {
        place.give_to(user)?;
    }
    let command = command::command(args, user, hold, place.path()).await?;
    let browsers = Browsers::of(&options, place.path());
    let guarded = guard::run(engine, signals, command, user, Some(&keeper), browsers).await?;
    let captured = match guarded.lost {
        Some(_) => None,
        None => Some(capture(engine, args, hold, place.path()).await),
    };
    Ok(Session { loaded, guarded, captured })
}

async fn capture(
    engine: &Engine,
    args: &RunArgs,
    hold: &Hold,
    directory: &Path,
) -> Result<Captured, Failure> {
    let options = args.capture.options();
    let profile = StoppedProfile::stop(directory, &options).await?;
    let remarks = profile.remarks();
    let job = CaptureJob {
        tenant: hold.controls().store(),
        lineage: hold.controls().lineage().clone(),
        directory,
        actor: hold.controls().actor().clone(),
        lock: LockUse::Held(hold.token().await),
        made_of: None,
    };
    let report = engine.capture(&options, job, profile, engine.progress()).await?;
    Ok(Captured { report, remarks })
}

/// The lineage: as said, or the newest there is.
async fn lineage(engine: &Engine, args: &RunArgs) -> Result<Lineage, Failure> {
    match args.chrome_major.or_else(|| args.load.major_of_version()) {
        Some(chrome_major) => Ok(Lineage { name: args.profile().clone(), chrome_major }),
        None => {
            let asked = LineageName { profile: args.profile().clone(), chrome_major: None };
            Ok(engine.writable_lineage(&asked).await?.1)
        }
    }
}

/// A copy is of the snapshot; what a mount that was cut short has changed since is not in it.
pub(super) fn warn_of_sessions(engine: &Engine, args: &RunArgs) -> Result<(), Failure> {
    let (store, profile) = (engine.location.shown(), args.profile().to_string());
    let wanted = |path: &Path, about: &About| {
        about.may_be_of(&store, &profile) && !is_named(path, &args.ignore_session)
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
