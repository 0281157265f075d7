//! `program` runs programs of the user's for a save.
//!
//! A program gets no input, and of our environment only what finds programs and people: credentials of the store stay
//! with pstore. It leads a process group, so that all it has started ends when its time is up.

use std::{
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use engine::failure::Failure;
use rustix::process::{Pid, Signal, kill_process_group};
use store::ErrorKind;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    time::error::Elapsed,
};

/// What a program has of our environment.
const KEPT: [&str; 8] = ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
/// How much of what a program says about a failure is kept.
const MOST_SAID: u64 = 64 << 10;
/// How much is handed on at once.
const PIECE_BYTES: usize = 256 << 10;
/// How long the output of a program that has ended is read on: one that it has left running may keep it open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A command with a clean environment, in a group of its own.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(std::env::vars_os().filter(|(name, _)| KEPT.iter().any(|kept| name == kept)));
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    command
}

/// Runs a command, which must succeed; says how it failed. A program that it leaves running goes on, and nobody waits for it.
#[crate::boxed]
pub async fn run(command: &mut Command, limit: Duration) -> Result<(), String> {
    let (mut child, group) = start(command)?;
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
    judge(ended, &said, group, limit)
}

/// Runs a command, and hands all that it prints to `sink`. How the command failed, or why `sink` did.
pub async fn stream(
    command: &mut Command,
    limit: Duration,
    sink: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
) -> Result<Result<(), String>, Failure> {
    let (mut child, group) = match start(command) {
        Ok(started) => started,
        Err(problem) => return Ok(Err(problem)),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut said = Vec::new();
    let ended = async {
        let (handed_on, ()) = futures::future::join(hand_on(stdout, sink), read(stderr, &mut said)).await;
        (handed_on, child.wait().await)
    };
    let ended = match tokio::time::timeout(limit, ended).await {
        Ok((Err(failure), _)) => return Err(failure),
        Ok((Ok(()), status)) => Ok(status),
        Err(elapsed) => Err(elapsed),
    };
    Ok(judge(ended, &said, group, limit))
}

fn start(command: &mut Command) -> Result<(Child, Option<Group>), String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).map(Group);
    Ok((child, group))
}

/// Whether a command has succeeded, and how it failed.
fn judge(
    ended: Result<io::Result<ExitStatus>, Elapsed>,
    said: &[u8],
    group: Option<Group>,
    limit: Duration,
) -> Result<(), String> {
    match ended {
        Err(_) => Err(format!("took longer than {} s, and was killed", limit.as_secs_f64())),
        Ok(Err(error)) => Err(format!("cannot be waited for: {error}")),
        Ok(Ok(status)) if status.success() => {
            // What it has left running on purpose goes on.
            group.into_iter().for_each(std::mem::forget);
            Ok(())
        }
        Ok(Ok(status)) => match String::from_utf8_lossy(said).trim_end() {
            "" => Err(format!("failed ({status})")),
            said => Err(format!("failed ({status}): {said}")),
        },
    }
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
async fn read(from: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let _ = (&mut from).take(MOST_SAID).read_to_end(kept).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
}

/// Ends a process group when the command that leads it did not succeed, or is no longer waited for.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        let mut command = command(Path::new("sh"));
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn all_that_a_program_prints_is_handed_on() {
        let mut got = 0;
        let mut sink = |piece: &[u8]| {
            got += piece.len();
            // Slower than the program, which has ended long before.
            std::thread::sleep(Duration::from_millis(5));
            Ok(())
        };
        stream(&mut shell("head -c 3000000 /dev/zero"), LIMIT, &mut sink).await.unwrap().unwrap();
        assert_eq!(got, 3_000_000);
        let failed = stream(&mut shell("echo no room >&2; exit 3"), LIMIT, &mut |_| Ok(())).await.unwrap();
        assert!(failed.unwrap_err().contains("no room"));
        // Whoever takes no more ends the program.
        let mut refuse = |_: &[u8]| -> Result<(), Failure> { Err(Failure::new(ErrorKind::Io, "full")) };
        stream(&mut shell("exec yes"), LIMIT, &mut refuse).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_program_whose_time_is_up_is_killed_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("sleep 300 & echo $! > {}; wait", folder.path().join("pid").display());
        let failed = run(&mut shell(&script), Duration::from_secs(1)).await.unwrap_err();
        assert!(failed.contains("was killed"), "{failed}");
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        let stat = Path::new("/proc").join(pid.trim()).join("stat");
        let runs = || std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z "));
        while runs() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
