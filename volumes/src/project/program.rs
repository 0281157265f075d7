//! `program` runs programs of the user's for a save.
//!
//! A program gets no input, and of our environment only what finds programs and people: credentials of the store stay
//! with pstore. It leads a process group, so that all it has started ends when its time is up.

use std::{path::Path, process::Stdio, time::Duration};

use engine::failure::Failure;
use rustix::process::{Pid, Signal, kill_process_group};
use store::ErrorKind;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

/// What a program has of our environment.
const KEPT: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
/// How much of what a program prints is kept.
const MOST_KEPT: usize = 64 << 10;
/// How much is handed on at once.
const PIECE_BYTES: usize = 256 << 10;

/// A command with a clean environment, in a group of its own.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept)));
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    command
}

/// What a command has printed that must succeed, or how it failed.
pub async fn output(command: &mut Command, limit: Duration) -> Result<String, String> {
    let mut printed = Vec::new();
    let mut keep = |piece: &[u8]| {
        printed.extend_from_slice(&piece[..piece.len().min(MOST_KEPT - printed.len())]);
        Ok(())
    };
    match stream(command, limit, &mut keep).await {
        Ok(ended) => ended.map(|()| String::from_utf8_lossy(&printed).into_owned()),
        Err(failure) => Err(failure.message),
    }
}

/// Hands what a command prints to `sink`. How the command failed, or why `sink` did.
pub async fn stream(
    command: &mut Command,
    limit: Duration,
    sink: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
) -> Result<Result<(), String>, Failure> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ok(Err(format!("cannot be started: {error}"))),
    };
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).map(Group);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = async {
        let (read, said) = futures::future::join(hand_on(stdout, sink), read(stderr)).await;
        (read, child.wait().await, said)
    };
    Ok(match tokio::time::timeout(limit, ended).await {
        Err(_) => Err(format!("took longer than {} s, and was killed", limit.as_secs_f64())),
        Ok((Err(failure), ..)) => return Err(failure),
        Ok((_, Err(error), _)) => Err(format!("cannot be waited for: {error}")),
        Ok((_, Ok(status), _)) if status.success() => {
            // What it has left running on purpose goes on.
            group.into_iter().for_each(std::mem::forget);
            Ok(())
        }
        Ok((_, Ok(status), said)) => match said.trim_end() {
            "" => Err(format!("failed ({status})")),
            said => Err(format!("failed ({status}): {said}")),
        },
    })
}

async fn hand_on(
    from: Option<impl AsyncRead + Unpin>,
    sink: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
) -> Result<(), Failure> {
    let Some(mut from) = from else { return Ok(()) };
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match from.read(&mut piece).await {
            Ok(0) => return Ok(()),
            Ok(got) => sink(&piece[..got])?,
            Err(error) => {
                return Err(Failure::new(ErrorKind::Io, format!("cannot read what it prints: {error}")));
            }
        }
    }
}

/// The beginning of what comes; the rest is read as well, so that nobody waits.
async fn read(from: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut from) = from else { return String::new() };
    let mut kept = Vec::new();
    let _ = (&mut from).take(MOST_KEPT as u64).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

/// Ends a process group when the command that leads it did not succeed, or is no longer waited for.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}
