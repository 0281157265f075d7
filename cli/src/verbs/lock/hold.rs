//! `pstore lock hold`

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, sync::Arc, time::Duration};

use serde_json::json;
use store::{
    ErrorKind,
    catalog::lock::{Hold, Terms},
};
use tokio::{
    process::{Child, Command},
    signal::unix::{Signal, SignalKind, signal},
};

use super::{controls, told};
use crate::{answer::Answer, args::HoldArgs, failure::Failure, verbs::Context};

/// How long a command may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(8);

pub(super) async fn run(context: Context, args: &HoldArgs) -> Result<Answer, Failure> {
    let controls = controls(&context, &args.lineage, &args.actor).await?;
    let settings = context.settings.tenant(&controls.lineage().name.tenant);
    let terms = Terms { ttl: settings.lock_ttl, with_process: true };
    let hold = Arc::new(controls.acquire(terms, args.wait).await?);
    let ended = guarded(&context, args, &hold, settings.lock_renew).await;
    let released = hold.release().await;
    let (status, lost) = ended?;
    if let Err(error) = released {
        context.console.warn(&format!("the lock could not be given back ({error}); it expires by itself"));
    }
    let code = code(status);
    let mut document = told::names(controls.lineage());
    document["outcome"] = json!(if lost.is_some() { "lock_lost" } else { "ended" });
    document["command_exit_code"] = json!(code);
    let verdict = lost.map(|message| (ErrorKind::LockLost, message));
    let exit = verdict.is_none().then_some(code);
    Ok(Answer { verdict, exit, ..Answer::new(document, String::new()) })
}

/// Runs the command; how it ended, and why it was stopped if it was.
async fn guarded(
    context: &Context,
    args: &HoldArgs,
    hold: &Arc<Hold>,
    renew_every: Duration,
) -> Result<(ExitStatus, Option<String>), Failure> {
    let keeper = hold.keep(renew_every);
    let (program, arguments) = args.command.split_first().expect("clap wants at least one word");
    let mut command = Command::new(program);
    command.args(arguments).env("PSTORE_LOCK_TOKEN", hold.token().await.to_string());
    command.env("PSTORE_RUN_ID", &hold.controls().actor().run_id);
    let mut signals = Signals::listen()?;
    let mut child = command.spawn().map_err(|error| {
        Failure::new(ErrorKind::Io, format!("{} cannot be started: {error}", program.to_string_lossy()))
    })?;
    loop {
        tokio::select! {
            status = child.wait() => return Ok((ended(status)?, None)),
            lost = keeper.lost() => {
                let message = lost.to_string();
                context.console.warn(&format!("{message}; stopping the command"));
                return Ok((stop(&mut child).await?, Some(message)));
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

fn ended(status: std::io::Result<ExitStatus>) -> Result<ExitStatus, Failure> {
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
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(|error| Failure::internal(format!("no signals: {error}")));
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            hang_up: on(SignalKind::hangup())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> rustix::process::Signal {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return rustix::process::Signal::TERM,
                _ = self.hang_up.recv() => return rustix::process::Signal::HUP,
                _ = self.interrupt.recv() => {}
            }
        }
    }
}
