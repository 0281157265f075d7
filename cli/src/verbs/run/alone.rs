//! A run without the store, which could not be reached: it starts with an empty profile.
//!
//! Nobody holds a lock meanwhile. What is captured in the end takes the lock as a snapshot does, and
//! replaces nothing by itself, since the session had started afresh.

use std::path::Path;

use capture::load::{self, Outcome};
use engine::{
    captures::{CaptureJob, StoppedProfile},
    failure::Failure,
    host::user::User,
};
use store::{
    catalog::lock::Terms,
    name::{ChromeMajor, Lineage},
    ops::{read::resolve::Reference, write::snapshot::LockUse},
};

use super::{
    super::{
        Engine,
        guard::{self, Browsers, Signals},
        load as loading,
    },
    Captured, Ended, Load, command, copied,
    place::Place,
};
use crate::args::RunArgs;

/// Whether a run that could not begin for this reason begins without the store.
pub(super) fn is_wanted(
    engine: &Engine,
    args: &RunArgs,
    reference: Option<&Reference>,
    failure: &Failure,
) -> bool {
    // Who names a snapshot wants that one, and no empty profile in its place.
    reference.is_none() && loading::begins_without_store(engine, &args.profile().tenant, &args.load, failure)
}

pub(super) async fn run(
    engine: &Engine,
    args: &RunArgs,
    user: Option<&User>,
    signals: &mut Signals,
    failure: Failure,
) -> Result<Ended, Failure> {
    let Some(chrome_major) = major(args) else {
        return Err(failure.hint(loading::NO_MAJOR));
    };
    let lineage = Lineage { name: args.profile().clone(), chrome_major };
    copied::warn_of_sessions(engine, args)?;
    engine.warn(&format!(
        "{}: starting with an empty profile, without a lock: {}",
        Outcome::FreshFallback.as_str(),
        failure.message
    ));
    let place = Place::choose(engine, args, &lineage, None)?;
    let session = session(engine, args, user, signals, &lineage, &place).await;
    match &session {
        Ok((_, captured)) => place.finish(engine, captured.is_ok()),
        Err(_) => place.abandon(engine).await,
    }
    let (guarded, captured) = session?;
    let reason = Some(failure.message);
    let load = Load { outcome: Outcome::FreshFallback, reason, warnings: Vec::new() };
    Ok(Ended { lineage, mounted: false, load, guarded, captured: Some(captured), session: None })
}

/// For which Chrome, as far as that was said.
fn major(args: &RunArgs) -> Option<ChromeMajor> {
    args.chrome_major.or_else(|| args.load.major_of_version())
}

async fn session(
    engine: &Engine,
    args: &RunArgs,
    user: Option<&User>,
    signals: &mut Signals,
    lineage: &Lineage,
    place: &Place,
) -> Result<(guard::CommandEnd, Result<Captured, Failure>), Failure> {
    load::afresh(place.path(), engine.interrupt.point_of_no_return().clone())?;
    if let Some(user) = user {
        place.give_to(user)?;
    }
    let options = args.capture.options();
    let actor = engine.actor(&options.actor);
    let command = command::told(args, user, (&actor.run_id, ""), place.path())?;
    let browsers = Browsers::of(&options, place.path());
    let guarded = guard::run(engine, signals, command, user, None, browsers).await?;
    Ok((guarded, capture(engine, args, lineage, place.path()).await))
}

async fn capture(
    engine: &Engine,
    args: &RunArgs,
    lineage: &Lineage,
    directory: &Path,
) -> Result<Captured, Failure> {
    let options = args.capture.options();
    let profile = StoppedProfile::stop(directory, &options).await?;
    let remarks = profile.remarks();
    let settings = engine.settings.tenant(&lineage.name.tenant);
    let tenant = engine.writable_tenant(&lineage.name.tenant).await?;
    let job = CaptureJob {
        tenant: &tenant,
        lineage: lineage.clone(),
        directory,
        actor: engine.actor(&options.actor),
        lock: LockUse::Take {
            terms: Terms { ttl: settings.lock_ttl, with_process: true },
            renew_every: settings.lock_renew,
            patience: engine.patience(&lineage.name, args.wait),
        },
        made_of: None,
    };
    let report = engine.capture(&options, job, profile, engine.progress()).await?;
    engine.prune(&tenant, lineage, &report).await;
    Ok(Captured { report, remarks })
}
