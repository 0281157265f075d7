//! `program` runs programs of the user's for a save.
//!
//! A program gets no input, and of our environment only what finds programs and people: credentials of the store stay
//! with pstore. It leads a process group, so that all it has started ends when its time is up.

use std::{path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

/// What a program has of our environment.
const KEPT: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
/// How much of what a program prints is kept.
const MOST_KEPT: u64 = 64 << 10;
/// How long the output of a program that has ended is read on: one that it has left running may keep it open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A command with a clean environment, in a group of its own.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept)));
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    command
}

/// What a command has printed that must succeed, or how it failed. A program that it leaves running goes on.
pub async fn output(command: &mut Command, limit: Duration) -> Result<String, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).map(Group);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut printed, mut said) = (Vec::new(), Vec::new());
    let ended = async {
        let ended_first = async {
            let status = child.wait().await;
            // What it has printed itself is in the pipes by now.
            tokio::time::sleep(LAST_WORDS).await;
            status
        };
        let status = tokio::select! {
            biased;
            _ = futures::future::join(read(stdout, &mut printed), read(stderr, &mut said)) => None,
            status = ended_first => Some(status),
        };
        match status {
            Some(status) => status,
            None => child.wait().await,
        }
    };
    let ended = tokio::time::timeout(limit, ended).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match ended {
        Err(_) => Err(format!("took longer than {} s, and was killed", limit.as_secs_f64())),
        Ok(Err(error)) => Err(format!("cannot be waited for: {error}")),
        Ok(Ok(status)) if status.success() => {
            // What it has left running on purpose goes on.
            group.into_iter().for_each(std::mem::forget);
            Ok(text(&printed))
        }
        Ok(Ok(status)) => match text(&said).trim_end() {
            "" => Err(format!("failed ({status})")),
            said => Err(format!("failed ({status}): {said}")),
        },
    }
}

/// The beginning of what comes; the rest is read as well, so that nobody waits.
async fn read(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let _ = (&mut from).take(MOST_KEPT).read_to_end(kept).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
}

/// Ends a process group when the command that leads it did not succeed, or is no longer waited for.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}
