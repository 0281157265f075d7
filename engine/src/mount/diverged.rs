//! `diverged` settles sessions that cannot be continued: they were interrupted here, and another host has continued
//! the profile.

use std::{path::PathBuf, time::Duration};

use fuse::overlay::session::{SessionDir, SessionPlace};
use store::{ErrorKind, catalog::clock, format::record::Reason, name::ProfileName};

use super::{
    assembly::blocking,
    request::{MountRequest, OnDiverged},
    rescue::{self, RescueRequest},
    sessions::{Sessions, Taking, described},
};
use crate::{Engine, captures::CaptureOptions, failure::Failure};

/// What was set aside is told of again when it is older than this.
const TELL_AGAIN: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Does what was asked for with the session that a mount failed on, and says what. Fails with what
/// the mount failed with if that is not about a session, or is to be decided by a person.
pub(super) async fn settle(
    engine: &Engine,
    args: &MountRequest,
    failure: Failure,
) -> Result<String, Failure> {
    let Some(id) = &failure.diverged else { return Err(failure) };
    match &args.on_diverged {
        OnDiverged::Fail => Err(failure),
        OnDiverged::SetAside => set_aside(engine, &args.source.profile, id).await,
        OnDiverged::RescueAs(name) => rescue_as(engine, args, id, name).await,
    }
}

async fn set_aside(engine: &Engine, profile: &ProfileName, id: &str) -> Result<String, Failure> {
    let path = path_of(engine, id)?;
    let moved = blocking(move || Ok(SessionDir::set_aside(&path)?)).await?;
    moved.ok_or_else(|| Failure::new(ErrorKind::InUse, format!("somebody uses session {id}")))?;
    Ok(format!(
        "{profile} was changed elsewhere since session {id} began here: the session is set aside; {}",
        ways_out(profile, id)
    ))
}

async fn rescue_as(
    engine: &Engine,
    args: &MountRequest,
    id: &str,
    name: &ProfileName,
) -> Result<String, Failure> {
    let profile = &args.source.profile;
    if name == profile {
        let message = format!("--on-diverged rescue-as={name} would replace what is current in {name}");
        return Err(
            Failure::usage(message).hint(format!("another name: --on-diverged rescue-as={name}-rescued"))
        );
    }
    let path = path_of(engine, id)?;
    let found = Sessions::find(&engine.settings, SessionPlace::Here, Taking::Take, |at, _| at == path)?;
    let candidate = found.unfinished.into_iter().next();
    let candidate =
        candidate.ok_or_else(|| Failure::new(ErrorKind::InUse, format!("somebody uses session {id}")))?;
    let request = RescueRequest {
        session: id.to_owned(),
        other: Some(name.clone()),
        force: false,
        capture: CaptureOptions {
            actor: args.actor.clone(),
            host_region: args.host_region.clone(),
            ..CaptureOptions::new(Reason::Autosave)
        },
    };
    let published = Box::pin(rescue::rescue(engine, candidate, &request)).await?;
    let stored = format!(
        "{profile} was changed elsewhere since session {id} began here: the session is snapshot {} of {name}",
        published.report.sha256_prefix
    );
    match published.fields().verdict() {
        None => Ok(stored),
        // It is kept as well, since nothing shows that the snapshot is whole.
        Some(Failure { message: why, .. }) => {
            let aside = set_aside(engine, profile, id).await?;
            Ok(format!("{stored}, which is held back: {why}; {aside}"))
        }
    }
}

fn path_of(engine: &Engine, id: &str) -> Result<PathBuf, Failure> {
    Ok(engine.settings.sessions()?.join(id))
}

fn ways_out(profile: &ProfileName, id: &str) -> String {
    format!(
        "`pstore sessions rescue {id} --as {profile}-rescued` stores it, `pstore sessions discard {id} --confirm` drops it"
    )
}

/// The warnings about sessions of this profile that were set aside long ago.
pub(super) fn left_behind(engine: &Engine, profile: &ProfileName) -> Result<Vec<String>, Failure> {
    let (store, name, now) = (engine.location.shown(), profile.to_string(), clock::unix_ms());
    let mut told = Vec::new();
    for path in SessionDir::list(&engine.settings.sessions()?, SessionPlace::Aside)? {
        let Ok(info) = described(&path) else { continue };
        let age = Duration::from_millis(now.saturating_sub(info.started_at_ms));
        if info.store == store && info.profile == name && age > TELL_AGAIN {
            let id = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            told.push(format!(
                "session {id} of {profile} was set aside, began {} days ago, and is stored nowhere; {}",
                age.as_secs() / 86_400,
                ways_out(profile, &id)
            ));
        }
    }
    Ok(told)
}
