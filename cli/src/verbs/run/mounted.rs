//! A run on a mount that this process serves: with it ends whatever it holds, and what was not
//! captured is in the session.

use std::time::Duration;

use capture::load::Outcome;
use engine::{
    failure::Failure,
    host::user::User,
    mount::{Asked, publish},
    names::SnapshotName,
    verbs::mount::{MountRequest, daemon},
};
use fuse::adapter::Owner;
use store::ErrorKind;

use super::{
    super::{
        Engine,
        guard::{self, Browsers, Signals},
        mount::{EndedBy, Mountpoint, Notes, Serving},
    },
    Captured, Ended, command,
};
use crate::args::RunArgs;

/// How long a mount that is being made is waited for when it is not wanted any more: what it
/// may have taken is given back.
const LAST_BREATH: Duration = Duration::from_secs(10);

pub(super) async fn run(
    engine: &Engine,
    args: &RunArgs,
    user: Option<&User>,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let place = Mountpoint::make()?;
    if let Some(user) = user {
        place.open_to(user.gid)?;
    }
    let ended = on(engine, args, user, signals, &place).await;
    place.remove(engine);
    ended
}

async fn on(
    engine: &Engine,
    args: &RunArgs,
    user: Option<&User>,
    signals: &mut Signals,
    place: &Mountpoint,
) -> Result<Ended, Failure> {
    let request = mount_request(args, user, place);
    let beginning = daemon::begin(engine, &request, EndedBy::Command);
    let give_back = async |(serving, _): (std::sync::Arc<Serving>, Notes)| drop(serving.put_aside().await);
    let (serving, notes) = guard::take(signals, &engine.interrupt, beginning, LAST_BREATH, give_back).await?;
    let mount = &serving.mount;
    notes.told().iter().for_each(|warning| engine.warn(warning));
    if notes.outcome == Outcome::NoPriorState {
        engine.say(&format!("{} has no snapshot yet: starting with an empty profile", args.profile()));
    }
    let tidying = serving.tidying();
    let (hold, keeper) = (mount.hold().zip(mount.keeper())).expect("a run mounts under the lock");
    let command = command::command(args, user, hold, place.path()).await;
    let browsers = Browsers::of(&args.capture.options(), place.path());
    let guarded = match command {
        Ok(command) => guard::run(engine, signals, command, user, Some(keeper), browsers).await,
        Err(failure) => Err(failure),
    };
    let captured = match &guarded {
        Ok(guarded) if guarded.lost.is_none() => Some(capture(engine, args, &serving).await),
        _ => None,
    };
    tidying.abort();
    let session = serving.put_aside().await;
    Ok(Ended {
        lineage: mount.lineage.clone(),
        mounted: true,
        load: notes.into(),
        guarded: guarded?,
        captured,
        session,
    })
}

async fn capture(
    engine: &Engine,
    args: &RunArgs,
    serving: &std::sync::Arc<Serving>,
) -> Result<Captured, Failure> {
    // What the command has written since then is not here.
    if !serving.is_reached() {
        let place = serving.mount.info.mountpoint.display();
        let message = format!("somebody has unmounted {place} while the command ran");
        return Err(Failure::new(ErrorKind::Io, message));
    }
    let published = publish(engine, &serving.mount, &args.capture.options(), Asked::default()).await?;
    Ok(published.into())
}

/// The same as would be asked of `pstore mount`.
fn mount_request(args: &RunArgs, user: Option<&User>, place: &Mountpoint) -> MountRequest {
    let source = SnapshotName::current(args.profile().clone());
    MountRequest {
        chrome_major: args.chrome_major,
        ignore_session: args.ignore_session.clone(),
        on_diverged: args.diverged.on_diverged.clone(),
        load: args.load.options(),
        host_region: args.capture.host_region.clone(),
        actor: args.capture.actor.name(),
        wait: args.wait,
        owner: user.map(|user| Owner { uid: user.uid, gid: user.gid }),
        ..MountRequest::new(source, place.path().to_owned())
    }
}
