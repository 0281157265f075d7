//! Running a command of the user's under a lock.

use std::{ffi::OsString, io, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use store::{ErrorKind, catalog::lock::Keeper};
use tokio::{
    process::{Child, Command},
    signal::unix::{Signal, SignalKind},
};

use super::Context;
use crate::{failure::Failure, signals};

/// How long a command may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(8);

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
    let mut signals = Signals::listen();
    let mut child = command.spawn().map_err(|error| {
        Failure::new(ErrorKind::Io, format!("{} cannot be started: {error}", program.to_string_lossy()))
    })?;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(Guarded { code: code(ended(status)?), lost: None }),
            lost = keeper.lost() => {
                let message = lost.to_string();
                context.console.warn(&format!("{message}; stopping the command"));
                return Ok(Guarded { code: code(stop(&mut child).await?), lost: Some(message) });
            }
            number = signals.next() => pass_on(&child, number),
        }
    }
}

/// SIGTERM, and SIGKILL if that does not help in time.
async fn stop(child: &mut Child) -> Result<ExitStatus, Failure> {
    pass_on(child, rustix::process::Signal::TERM);
    match tokio::time::timeout(PATIENCE, child.wait()).await {
        Ok(status) => ended(status),
        Err(_) => {
            child.start_kill().ok();
            ended(child.wait().await)
        }
    }
}

fn pass_on(child: &Child, number: rustix::process::Signal) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended just now.
        rustix::process::kill_process(pid, number).ok();
    }
}

fn ended(status: io::Result<ExitStatus>) -> Result<ExitStatus, Failure> {
    status.map_err(|error| Failure::new(ErrorKind::Io, format!("the command cannot be waited for: {error}")))
}

/// As a shell tells it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// What others tell us to do is told to the command: it decides when it is done. An
/// interrupt from the terminal reaches it by itself.
struct Signals {
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
    interrupt: Option<Signal>,
}

impl Signals {
    fn listen() -> Self {
        Self {
            terminate: signals::listen(SignalKind::terminate()),
            hang_up: signals::listen(SignalKind::hangup()),
            interrupt: signals::listen(SignalKind::interrupt()),
        }
    }

    async fn next(&mut self) -> rustix::process::Signal {
        loop {
            tokio::select! {
                () = signals::next(&mut self.terminate) => return rustix::process::Signal::TERM,
                () = signals::next(&mut self.hang_up) => return rustix::process::Signal::HUP,
                () = signals::next(&mut self.interrupt) => {
                    if !signals::have_a_terminal() {
                        return rustix::process::Signal::INT;
                    }
                }
            }
        }
    }
}
