//! A run on a copy of the profile.

use std::{path::Path, sync::Arc, time::Duration};

use capture::load::Loaded;
use fuse::overlay::session::Place as SessionPlace;
use store::{
    catalog::{
        controls::Controls,
        lock::{Hold, Terms},
    },
    name::Lineage,
    ops::snapshot::LockUse,
};

use super::{
    super::{
        Context,
        capture::{self as capturing, Job},
        guard::{self, Browsers, Guarded, Signals},
        load,
        mount::{About, Sessions, Taking, is_named},
        retention,
    },
    Captured, Ended, command,
    place::Place,
};
use crate::{
    args::{LineageArgs, RunArgs},
    failure::Failure,
    progress,
    user::User,
};

pub(super) async fn run(
    context: &Context,
    args: &RunArgs,
    user: Option<&User>,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    warn_of_sessions(context, args)?;
    let settings = context.settings.tenant(&args.profile().tenant);
    let taking = async {
        let lineage = lineage(context, args).await?;
        let tenant = context.writable_tenant(&lineage.name.tenant).await?;
        let controls = Controls::new(tenant, lineage, context.actor(&args.capture.actor));
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        let patience = context.patience(args.profile(), args.wait);
        Ok(controls.acquire(terms, patience).await?)
    };
    let hold = Arc::new(guard::take_lock(signals, &context.interrupt, taking).await?);
    let lineage = hold.controls().lineage();
    let (place, ended) = match Place::choose(context, args, lineage, Some(hold.base().await)) {
        Ok(place) => {
            let ended = session(context, args, signals, &hold, &place, user, settings.lock_renew).await;
            (Some(place), ended)
        }
        Err(failure) => (None, Err(failure)),
    };
    if let Err(error) = hold.release().await {
        context.console.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
    let captured = ended.as_ref().map(|session| matches!(session.captured, Some(Ok(_))));
    match (place, captured) {
        (Some(place), Ok(captured)) => place.finish(context, captured),
        (Some(place), Err(_)) => place.abandon(context).await,
        (None, _) => {}
    }
    let Session { loaded, guarded, captured } = ended?;
    if let Some(Ok(captured)) = &captured {
        retention::prune(context, hold.controls().store(), lineage, &captured.report).await;
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
    guarded: Guarded,
    captured: Option<Result<Captured, Failure>>,
}

async fn session(
    context: &Context,
    args: &RunArgs,
    signals: &mut Signals,
    hold: &Arc<Hold>,
    place: &Place,
    user: Option<&User>,
    renew_every: Duration,
) -> Result<Session, Failure> {
    let keeper = hold.keep(renew_every);
    let lineage = hold.controls().lineage();
    let commitment = context.interrupt.commitment();
    let job = load::Job {
        profile: &lineage.name,
        chrome_major: lineage.chrome_major,
        reference: args.reference()?,
        target: place.path(),
        force: false,
        keeping: Default::default(),
        check: args.capture.checks.check,
        commitment: commitment.clone(),
        host_region: args.capture.host_region.clone(),
    };
    let loading = load::load(context, &args.load, job);
    let loaded = guard::prepare(signals, commitment, loading).await?;
    if let Some(user) = user {
        place.give_to(user)?;
    }
    let command = command::command(args, user, hold, place.path()).await;
    let browsers = Browsers::of(&args.capture, place.path());
    let guarded = guard::run(context, signals, command, user, Some(&keeper), browsers).await?;
    let captured = match guarded.lost {
        Some(_) => None,
        None => Some(capture(context, args, hold, place.path()).await),
    };
    Ok(Session { loaded, guarded, captured })
}

async fn capture(
    context: &Context,
    args: &RunArgs,
    hold: &Hold,
    directory: &Path,
) -> Result<Captured, Failure> {
    let still = capturing::hold_still(directory, &args.capture).await?;
    let remarks = still.remarks();
    let job = Job {
        tenant: hold.controls().store(),
        lineage: hold.controls().lineage().clone(),
        directory,
        actor: hold.controls().actor().clone(),
        lock: LockUse::Held(hold.token().await),
        made_of: None,
    };
    let progress = progress::watch(context.console);
    let report = capturing::capture(context, &args.capture, job, still, progress).await?;
    Ok(Captured { report, remarks })
}

/// The lineage: as said, or the newest there is.
async fn lineage(context: &Context, args: &RunArgs) -> Result<Lineage, Failure> {
    match args.chrome_major.or_else(|| args.load.major_of_version()) {
        Some(chrome_major) => Ok(Lineage { name: args.profile().clone(), chrome_major }),
        None => {
            let asked = LineageArgs { profile: args.profile().clone(), chrome_major: None };
            Ok(context.writable_lineage(&asked).await?.1)
        }
    }
}

/// A copy is of the snapshot; what a mount that was cut short has changed since is not in it.
pub(super) fn warn_of_sessions(context: &Context, args: &RunArgs) -> Result<(), Failure> {
    let (store, profile) = (context.location.shown(), args.profile().to_string());
    let wanted = |path: &Path, about: &About| {
        about.may_be_of(&store, &profile) && !is_named(path, &args.ignore_session)
    };
    let left = Sessions::find(&context.settings, SessionPlace::Here, Taking::Look, wanted)?;
    left.require_readable(&profile)?;
    for candidate in left.unfinished {
        let id = candidate.session.id();
        context.console.warn(&format!(
            "session {id} has changes to {profile} that are not committed and not in the copy; `pstore sessions` shows it"
        ));
    }
    Ok(())
}
