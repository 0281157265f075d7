//! `daemon` is the process behind `pstore mount`: it is started, tells when the mount is ready, and serves it.

use std::{ffi::OsString, fs::File, io::Write, path::Path, pin::pin, process::Stdio};

use engine::{
    Engine,
    failure::Failure,
    host::supervise::Signals,
    interrupt::Interrupt,
    mount::{
        call::{self, SentOutcome},
        until_done,
    },
    verbs::mount::{MountOutcome, MountRequest},
    workspace::{StartRequest, WorkspaceOutcome},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use store::ErrorKind;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::answer::Answer;

/// Starts the daemon and waits until it says that the mount is ready, or why it is not. If this command
/// is interrupted, so is the daemon, which gives back what it has taken.
pub(crate) async fn start(interrupt: &Interrupt) -> Result<MountOutcome, Failure> {
    launch(std::env::args_os().skip(1), interrupt, "the mount was ready").await
}

/// As [`start`], with the words of a command that a daemon carries out. Until it says so, it is not so that `ready`.
pub(crate) async fn launch<T: SentOutcome>(
    words: impl IntoIterator<Item = OsString>,
    interrupt: &Interrupt,
    ready: &str,
) -> Result<T, Failure> {
    let failed = |what: String| Failure::new(ErrorKind::Io, what);
    let program =
        std::env::current_exe().map_err(|error| failed(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(program);
    command.args(with_daemon(words)).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(format!("no daemon can be started: {error}")))?;
    let daemon = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        // An error means that it said nothing, and that is seen below.
        let mut said = pin!(stdout.read_line(&mut line));
        tokio::select! {
            _ = &mut said => {}
            () = interrupt.raised() => {
                daemon.map(|daemon| kill_process(daemon, Signal::TERM));
                let _ = said.await;
                return Err(Failure::new(ErrorKind::Interrupted, format!("interrupted before {ready}")));
            }
        }
    }
    match serde_json::from_str::<Value>(&line) {
        Ok(said) => call::received(said),
        Err(_) => {
            let status = child.wait().await.map(|status| status.to_string()).unwrap_or_default();
            Err(failed(format!("the daemon ended before {ready} ({status})")))
        }
    }
}

/// The words with `--daemon`, which is an option only before a `--`.
fn with_daemon(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.insert(at, "--daemon".into());
    words
}

/// Serves a mount until it is over; `is_apart` if another process waits for it to be ready. If none does,
/// `text` makes what is said when it is.
pub(crate) async fn serve(
    engine: Engine,
    request: &MountRequest,
    is_apart: bool,
    text: fn(&MountOutcome) -> String,
) -> Result<Answer, Failure> {
    if is_apart {
        // What ends the terminal does not end the mount.
        let _ = rustix::process::setsid();
    }
    let mut signals = Signals::listen();
    let (serving, outcome) = match engine.serve_mount(request, &mut signals).await {
        Ok(begun) => begun,
        Err(failure) if is_apart => {
            tell(&call::sent::<MountOutcome>(&Err(failure)));
            silence(None);
            return Err(Failure::new(ErrorKind::Io, "told already"));
        }
        Err(failure) => return Err(failure),
    };
    if is_apart {
        let is_told = tell(&call::sent(&Ok(outcome)));
        silence(Some(&serving.mount.session_path().join("log")));
        if !is_told {
            serving.put_aside().await;
            return Err(Failure::new(ErrorKind::Interrupted, "nobody waits for the mount any more"));
        }
    } else {
        engine.say(text(&outcome).trim_end());
    }
    until_done(&serving, &mut signals, request.on_lock_lost).await;
    let status = json!(serving.mount.status().await);
    Ok(Answer { brief: Some(String::new()), ..Answer::new(status, String::new()) })
}

/// Watches a workspace until this process is told to end; another process waits until it watches.
pub(crate) async fn watch(engine: Engine, request: &StartRequest) -> Result<Answer, Failure> {
    let _ = rustix::process::setsid();
    let watching = match engine.watch_workspace(request).await {
        Ok(watching) => watching,
        Err(failure) => {
            tell(&call::sent::<WorkspaceOutcome>(&Err(failure)));
            silence(None);
            return Err(Failure::new(ErrorKind::Io, "told already"));
        }
    };
    let is_told = tell(&call::sent(&Ok(watching.outcome.clone())));
    silence(Some(&watching.log()));
    if !is_told {
        return Err(Failure::new(ErrorKind::Interrupted, "nobody waits for the workspace to be watched"));
    }
    watching.until_done().await;
    Ok(Answer { brief: Some(String::new()), ..Answer::new(json!({}), String::new()) })
}

/// One line for the process that waits; says whether there still is one.
fn tell(said: &Value) -> bool {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{said}").and_then(|()| stdout.flush()).is_ok()
}

/// From now on nobody listens; what is logged goes to `log`.
fn silence(log: Option<&Path>) {
    let nowhere = || File::options().write(true).open("/dev/null");
    if let Ok(nowhere) = nowhere() {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
    }
    let log = log.and_then(|path| File::options().create(true).append(true).open(path).ok());
    if let Some(log) = log.or_else(|| nowhere().ok()) {
        let _ = rustix::stdio::dup2_stderr(&log);
    }
}
