//! Running a command of the user's under a lock.

mod preparation;
mod running;
mod signals;

pub(super) use preparation::{prepare, take, take_lock};
pub(super) use signals::Signals;

use std::{ffi::OsString, io, os::unix::process::ExitStatusExt, process::ExitStatus};

use store::{ErrorKind, catalog::lock::Keeper};
use tokio::process::Command;

use self::running::Running;
use super::Context;
use crate::failure::Failure;

/// How a command ended.
pub(super) struct Guarded {
    /// As a shell tells it.
    pub code: u8,
    /// Why it was stopped, if the lock was lost.
    pub lost: Option<String>,
}

/// Runs the command until it ends, or until the lock is lost.
pub(super) async fn run(
    context: &Context,
    signals: &mut Signals,
    command: &[OsString],
    environment: &[(&str, OsString)],
    keeper: &Keeper,
) -> Result<Guarded, Failure> {
    let (program, arguments) = command.split_first().expect("clap wants at least one word");
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    if context.console.json {
        // On stdout there is one document and nothing else.
        command.stdout(io::stderr());
    }
    let mut running = Running::start(command).map_err(|error| {
        Failure::new(ErrorKind::Io, format!("{} cannot be started: {error}", program.to_string_lossy()))
    })?;
    loop {
        tokio::select! {
            status = running.wait() => return Ok(Guarded { code: code(status)?, lost: None }),
            lost = keeper.lost() => {
                let message = lost.to_string();
                context.console.warn(&format!("{message}; stopping the command"));
                return Ok(Guarded { code: code(running.stop().await)?, lost: Some(message) });
            }
            number = signals.next_to_pass_on() => running.signal(number),
        }
    }
}

/// As a shell tells it.
fn code(status: io::Result<ExitStatus>) -> Result<u8, Failure> {
    let status = status
        .map_err(|error| Failure::new(ErrorKind::Io, format!("the command cannot be waited for: {error}")))?;
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
