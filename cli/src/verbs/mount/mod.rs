//! `pstore mount`: the command that waits until the mount is ready, and the daemon behind it.

mod alone;
mod choice;
mod daemon;
mod diverged;
mod found;
mod opening;
pub(super) mod remote;
mod rescue;
mod resume;
mod search;
mod serving;

use std::{pin::pin, process::Stdio};

use engine::{failure::Failure, interrupt::Interrupt};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use store::ErrorKind;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use super::Engine;
use crate::{answer::Answer, args::MountArgs};

pub(super) use choice::Notes;
pub(super) use engine::host::mountpoint::{Mountpoint, open_to, temporary};
pub(super) use found::{About, Candidate, Sessions, Taking, Unreadable};
pub(super) use rescue::rescue;
pub(super) use search::is_named;
pub(super) use serving::{EndedBy, Serving};

pub(super) async fn run(engine: Engine, args: &MountArgs) -> Result<Answer, Failure> {
    check(&engine, args)?;
    if args.foreground || args.daemon {
        return daemon::serve(engine, args).await;
    }
    start(&engine.interrupt).await
}

/// Refuses what is wrong with the arguments and the place alone.
fn check(engine: &Engine, args: &MountArgs) -> Result<(), Failure> {
    if args.source.chosen().is_some() && !args.read_only && !args.fork {
        let message = "a chosen snapshot can be mounted with --read-only or --fork";
        return Err(
            Failure::usage(message).hint("`pstore rollback` makes it the current one, to go on from there")
        );
    }
    if args.load.upgrade_from.is_some() && (args.read_only || args.fork) {
        return Err(Failure::usage("--upgrade-from goes with a mount that takes the lock"));
    }
    super::load::check(&args.load, args.chrome_major)?;
    // A mountpoint whose daemon is stuck would not even tell that it is stale.
    remote::live(&engine.settings)?;
    if fuse::mount::is_stale(&args.mountpoint) {
        return Ok(());
    }
    let shown = args.mountpoint.display();
    let mut entries = std::fs::read_dir(&args.mountpoint).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(ErrorKind::NotFound, format!("there is no directory {shown}"))
                .hint(format!("`mkdir -p {shown}` makes it"))
        }
        _ => Failure::new(ErrorKind::Io, format!("{shown} cannot be mounted on: {error}")),
    })?;
    engine.location.keep_apart(&args.mountpoint)?;
    if entries.next().is_some() {
        let failure = Failure::new(ErrorKind::TargetExists, format!("{shown} is not empty"));
        return Err(failure.hint("mount on an empty directory; `pstore mounts` shows what is mounted"));
    }
    Ok(())
}

/// Starts the daemon and waits until it says that the mount is ready, or why it is not. If this command
/// is interrupted, so is the daemon, which gives back what it has taken.
async fn start(interrupt: &Interrupt) -> Result<Answer, Failure> {
    let failed = |what: String| Failure::new(ErrorKind::Io, what);
    let program =
        std::env::current_exe().map_err(|error| failed(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--daemon").stdin(Stdio::null()).stdout(Stdio::piped());
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
                return Err(Failure::new(ErrorKind::Interrupted, "interrupted before the mount was ready"));
            }
        }
    }
    match serde_json::from_str::<Value>(&line) {
        Ok(said) => remote::received(said),
        Err(_) => {
            let status = child.wait().await.map(|status| status.to_string()).unwrap_or_default();
            Err(failed(format!("the daemon ended before the mount was ready ({status})")))
        }
    }
}

/// What is told when the mount is ready.
fn ready(status: &Value, mountpoint: &str, warnings: &[String]) -> Answer {
    let mut document = status.clone();
    document["warnings"] = json!(warnings);
    let profile = format!("{}/{}", text(status, "tenant_id"), text(status, "profile_id"));
    let what = match status["sha256_prefix"].as_str() {
        Some(sha) => format!("{profile} {sha}"),
        None => format!("{profile} (empty)"),
    };
    let how = match text(status, "mode") {
        "read_only" => ", read-only",
        "fork" => ", a fork",
        _ if status["resumed"] == json!(true) => ", continued",
        _ => "",
    };
    let text = format!("mounted {what} on {mountpoint}{how}\n");
    Answer { brief: Some(format!("{mountpoint}\n")), ..Answer::new(document, text) }
}

fn text<'a>(status: &'a Value, field: &str) -> &'a str {
    status[field].as_str().unwrap_or_default()
}
