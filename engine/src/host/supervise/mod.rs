//! `supervise` runs a command under a lock, passes signals on, and stops the command when the lock is lost.

mod preparation;
mod running;
mod signals;

pub use preparation::{prepare, take, take_lock};
pub use signals::Signals;

use std::{
    ffi::OsString, io, os::unix::process::ExitStatusExt, path::Path, process::ExitStatus, sync::Arc,
    time::Duration,
};

use capture::chrome::stop::{self, Ended};
use store::{Error, ErrorKind, catalog::lock::LockRenewer};
use tokio::process::Command;

use self::running::Running;
use super::user::User;
use crate::{Engine, captures::CaptureOptions, failure::Failure};

/// How a command ended.
#[derive(Clone, Debug)]
pub struct CommandEnd {
    /// As a shell tells it.
    pub code: u8,
    /// Why it was stopped, if the lock was lost.
    pub lost: Option<String>,
}

/// The command, without anything said of its environment.
pub fn command(words: &[OsString]) -> Result<Command, Failure> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| Failure::usage("there is no command to run"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Runs the command until it ends, or until the lock is lost, if there is one.
pub async fn run(
    engine: &Engine,
    signals: &mut Signals,
    mut command: Command,
    user: Option<&User>,
    keeper: Option<&LockRenewer>,
    browsers: Option<Browsers<'_>>,
) -> Result<CommandEnd, Failure> {
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
            status = running.wait() => return Ok(CommandEnd { code: code(status)?, lost: None }),
            lost = lost(keeper) => {
                let message = lost.to_string();
                engine.warn(&format!("{message}; stopping the command"));
                close(engine, browsers).await;
                return Ok(CommandEnd { code: code(running.stop().await)?, lost: Some(message) });
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

/// The browsers that run on the profile of a command, whichever process has started them.
#[derive(Clone, Copy, Debug)]
pub struct Browsers<'a> {
    /// The directory that they use.
    pub profile: &'a Path,
    /// How long they may take to close.
    pub wait: Duration,
}

impl<'a> Browsers<'a> {
    /// Those of a profile, unless they may not be stopped.
    pub fn of(options: &CaptureOptions, profile: &'a Path) -> Option<Self> {
        options.allow_stop.then_some(Self { profile, wait: options.stop_wait })
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
