//! `mounted` runs a command on a mount that this process serves.
//!
//! The mount and the lock end with the process. Changes that were not captured stay in the session.

use std::time::Duration;

use capture::load::Outcome;
use fuse::adapter::Owner;
use store::ErrorKind;

use super::{
    command,
    request::RunRequest,
    run_end::{Captured, RunEnd},
};
use crate::{
    Engine,
    failure::Failure,
    host::{
        mountpoint::Mountpoint,
        supervise::{self, Browsers, Signals},
        user::User,
    },
    mount::{
        DestinationRequest, MountRequest, Notes, publish,
        serving::{EndedBy, Serving},
    },
    names::SnapshotName,
    verbs::mount::daemon,
};

/// How long a mount that is being made is waited for when it is not wanted any more: what it
/// may have taken is given back.
const LAST_BREATH: Duration = Duration::from_secs(10);

pub(super) async fn run(
    engine: &Engine,
    request: &RunRequest,
    user: Option<&User>,
    signals: &mut Signals,
) -> Result<RunEnd, Failure> {
    let mountpoint = Mountpoint::make()?;
    if let Some(user) = user {
        mountpoint.open_to(user.gid)?;
    }
    let ended = on(engine, request, user, signals, &mountpoint).await;
    mountpoint.remove(engine);
    ended
}

async fn on(
    engine: &Engine,
    request: &RunRequest,
    user: Option<&User>,
    signals: &mut Signals,
    mountpoint: &Mountpoint,
) -> Result<RunEnd, Failure> {
    let mount_request = mount_request(request, user, mountpoint);
    let beginning = daemon::begin(engine, &mount_request, EndedBy::Command);
    let give_back = async |(serving, _): (std::sync::Arc<Serving>, Notes)| drop(serving.put_aside().await);
    let (serving, notes) =
        supervise::take(signals, &engine.interrupt, beginning, LAST_BREATH, give_back).await?;
    let mount = &serving.mount;
    notes.told().iter().for_each(|warning| engine.warn(warning));
    if notes.outcome == Outcome::NoPriorState {
        engine.say(&format!("{} has no snapshot yet: starting with an empty profile", request.profile()));
    }
    let upkeep = serving.upkeep();
    let (hold, keeper) = (mount.hold().zip(mount.keeper())).expect("a run mounts under the lock");
    let command = command::command(request, user, hold, mountpoint.path()).await;
    let browsers = Browsers::of(&request.capture, mountpoint.path());
    let command_end = match command {
        Ok(command) => supervise::run(engine, signals, command, user, Some(keeper), browsers).await,
        Err(failure) => Err(failure),
    };
    let captured = match &command_end {
        Ok(command_end) if command_end.lost.is_none() => Some(capture(engine, request, &serving).await),
        _ => None,
    };
    let session = serving.put_aside().await;
    drop(upkeep);
    Ok(RunEnd {
        lineage: mount.lineage.clone(),
        mounted: true,
        load: notes.into(),
        command_end: command_end?,
        captured,
        session,
    })
}

async fn capture(
    engine: &Engine,
    request: &RunRequest,
    serving: &std::sync::Arc<Serving>,
) -> Result<Captured, Failure> {
    // What the command has written since then is not here.
    if !serving.is_reached() {
        let mountpoint = serving.mount.info.mountpoint.display();
        let message = format!("somebody has unmounted {mountpoint} while the command ran");
        return Err(Failure::new(ErrorKind::Io, message));
    }
    let _turn = serving.turn().await;
    let asked = DestinationRequest::default();
    let published = publish(engine, &serving.mount, &request.capture, asked, &serving.unwritten).await?;
    serving.work_is_committed(&published.report).await;
    Ok(published.into())
}

/// The same as would be asked of `pstore mount`.
fn mount_request(request: &RunRequest, user: Option<&User>, mountpoint: &Mountpoint) -> MountRequest {
    let source = SnapshotName::current(request.profile().clone());
    MountRequest {
        chrome_major: request.chrome_major,
        ignore_session: request.ignore_session.clone(),
        on_diverged: request.on_diverged.clone(),
        load: request.load.clone(),
        host_region: request.capture.host_region.clone(),
        actor: request.capture.actor.clone(),
        wait: request.wait,
        autosave: request.autosave,
        from_wip: request.from_wip,
        writeback: request.writeback,
        owner: user.map(|user| Owner { uid: user.uid, gid: user.gid }),
        ..MountRequest::new(source, mountpoint.path().to_owned())
    }
}
