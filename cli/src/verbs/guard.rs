//! Running a command of the user's under a lock.

mod preparation;
mod running;
mod signals;

pub(super) use preparation::{prepare, take, take_lock};
pub(super) use signals::Signals;

use std::{
    ffi::OsString, io, os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, sync::Arc,
    time::Duration,
};

use capture::chrome::stop::{self, Ended};
use engine::{failure::Failure, host::user::User};
use store::{Error, ErrorKind, catalog::lock::LockRenewer};
use tokio::process::Command;

use self::running::Running;
use super::Engine;
use crate::args::CaptureArgs;

/// How a command ended.
pub(super) struct Guarded {
    /// As a shell tells it.
    pub code: u8,
    /// Why it was stopped, if the lock was lost.
    pub lost: Option<String>,
}

/// The command, without anything said of its environment.
pub(super) fn command(words: &[OsString]) -> Command {
    let (program, arguments) = words.split_first().expect("clap wants at least one word");
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs the command until it ends, or until the lock is lost, if there is one.
pub(super) async fn run(
    engine: &Engine,
    signals: &mut Signals,
    mut command: Command,
    user: Option<&User>,
    keeper: Option<&LockRenewer>,
    browsers: Option<Browsers<'_>>,
) -> Result<Guarded, Failure> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    if engine.observer.owns_stdout() {
        // On stdout there is one document and nothing else.
        command.stdout(io::stderr());
    }
    let mut running = Running::start(command, user)
        .map_err(|error| Failure::new(ErrorKind::Io, format!("{program} cannot be started: {error}")))?;
    let mut browsers = browsers;
    loop {
        tokio::select! {
            status = running.wait() => return Ok(Guarded { code: code(status)?, lost: None }),
            lost = lost(keeper) => {
                let message = lost.to_string();
                engine.warn(&format!("{message}; stopping the command"));
                close(engine, browsers).await;
                return Ok(Guarded { code: code(running.stop().await)?, lost: Some(message) });
            }
            number = signals.next_to_pass_on() => {
                close(engine, browsers.take()).await;
                running.signal(number);
            }
        }
    }
}

/// Ends when the lock is lost.
async fn lost(keeper: Option<&LockRenewer>) -> Arc<Error> {
    match keeper {
        Some(keeper) => keeper.lost().await,
        None => std::future::pending().await,
    }
}

/// The browsers that run on the profile of a command, whoever has started them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Browsers<'a> {
    pub profile: &'a Path,
    /// How long they may take to close.
    pub wait: Duration,
}

impl<'a> Browsers<'a> {
    /// Unless they may not be stopped.
    pub(super) fn of(args: &CaptureArgs, profile: &'a Path) -> Option<Self> {
        (!args.no_stop).then_some(Self { profile, wait: args.stop_wait })
    }
}

/// Has the browsers close before anybody is told to end: by most signals, and with a parent that
/// is gone, they end at once and drop what they have not written.
async fn close(engine: &Engine, browsers: Option<Browsers<'_>>) {
    let Some(Browsers { profile, wait }) = browsers else { return };
    let profile = profile.to_owned();
    let closed = tokio::task::spawn_blocking(move || stop::close(&profile, wait)).await;
    match closed {
        Ok(Ok(Ended::Killed)) => {
            engine.warn("the browser did not end by itself and was killed: what it had not written is lost")
        }
        Ok(Err(error)) => engine.warn(&format!("the browser could not be closed: {error}")),
        _ => {}
    }
}

/// As a shell tells it.
fn code(status: io::Result<ExitStatus>) -> Result<u8, Failure> {
    let status = status
        .map_err(|error| Failure::new(ErrorKind::Io, format!("the command cannot be waited for: {error}")))?;
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
