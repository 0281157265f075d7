//! `process` starts a cell, reads its answers and ends it.

use std::{
    fs::{self, File, Permissions},
    io::{self, Seek, Write},
    os::unix::{
        fs::PermissionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::Signal,
};

use super::{
    Cell, Confinement,
    answer_reader::{Heard, Stop, listen},
    limits::Limits,
    messages::Order,
};
use crate::{check_job::CheckJob, db_state::Deadline, sqlite::Means};

/// So many answers may wait to be looked at.
const WAITING_ANSWERS: usize = 64;

/// How the work of one process came to its end.
#[derive(Debug)]
pub(super) enum End {
    Done,
    OutOfTime,
    OutOfMemory,
    Nonsense,
    Died(ExitStatus),
}

impl Cell {
    /// One process, with its copies in a directory of its own.
    pub(super) fn run(
        &self,
        root: &Path,
        jobs: &[&CheckJob],
        threads: usize,
        means: Means<'_>,
    ) -> io::Result<(Heard, End)> {
        let scratch = tempfile::Builder::new()
            .prefix("cell-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(means.scratch)?;
        let order = Order {
            root: std::path::absolute(root)?,
            scratch: std::path::absolute(scratch.path())?,
            depth: means.depth,
            threads,
            time_ms: means.deadline.remaining().map(|time| time.as_millis() as u64),
            limits: self.limits(threads),
            jobs: jobs.iter().copied().cloned().collect(),
        };
        let mut process = Process::start(self, &order)?;
        let Some(answers) = process.0.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let (tell, told) = mpsc::sync_channel(WAITING_ANSWERS);
        std::thread::scope(|scope| {
            // Goes before the thread is waited for, which may be about to tell something.
            let told = told;
            std::thread::Builder::new().spawn_scoped(scope, move || listen(answers, &tell))?;
            let mut heard = Heard::default();
            let stop = self.hear(&mut heard, &told, jobs, means.deadline);
            // Whatever it does, it is over: its listeners see the end.
            let status = process.end()?;
            for name in heard.found.keys().filter_map(|at| jobs[*at].leaves()) {
                // Its reader finds out whether it is there, and what it is.
                let _ = fs::rename(scratch.path().join(name), means.scratch.join(name));
            }
            if let Some(confinement) = heard.ready {
                let Confinement { seccomp, landlock } = confinement;
                tracing::debug!(
                    pid = process.0.id(), databases = jobs.len(), threads, seccomp, landlock, %status,
                    "databases were examined in a process of their own"
                );
            }
            let end = match stop {
                Err(RecvTimeoutError::Timeout) => End::OutOfTime,
                Err(RecvTimeoutError::Disconnected)
                    if status.success() && heard.found.len() == jobs.len() =>
                {
                    End::Done
                }
                Err(RecvTimeoutError::Disconnected) if status.success() => End::Nonsense,
                Err(RecvTimeoutError::Disconnected) => End::Died(status),
                Ok(Stop::OutOfMemory) => End::OutOfMemory,
                Ok(Stop::Nonsense) => End::Nonsense,
                Ok(Stop::Failed(why)) => return Err(io::Error::other(why)),
            };
            Ok((heard, end))
        })
    }

    /// Listens until there is nothing more to hear, or no more time. When the time is over, answers
    /// that say so are on their way: the grace begins only then, also for who was stopped himself.
    fn hear(
        &self,
        heard: &mut Heard,
        told: &Receiver<Vec<u8>>,
        jobs: &[&CheckJob],
        deadline: Deadline,
    ) -> Result<Stop, RecvTimeoutError> {
        let (mut until, mut in_time) = (deadline, true);
        loop {
            let line = match until.remaining() {
                Some(time) => told.recv_timeout(time),
                None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match line {
                Ok(line) => {
                    if let Err(stop) = heard.hear(&line, jobs) {
                        return Ok(stop);
                    }
                }
                Err(RecvTimeoutError::Timeout) if in_time => {
                    (until, in_time) = (Deadline::after(self.grace), false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn limits(&self, threads: usize) -> Limits {
        let threads = threads as u64;
        Limits {
            memory_bytes: self.memory_bytes.saturating_mul(threads + 1),
            cpu_seconds: self.cpu_seconds.saturating_mul(threads),
        }
    }

    /// The verdict on a database that caused this end, alone.
    pub(super) fn told(&self, end: &End, threads: usize) -> String {
        let Limits { memory_bytes, cpu_seconds } = self.limits(threads);
        let is = |status: &ExitStatus, signal: Signal| status.signal() == Some(signal.as_raw());
        match end {
            End::Done => "its check ended".to_owned(),
            End::OutOfTime => "its check did not end when its time was over".to_owned(),
            End::OutOfMemory => format!("its check takes more than {} MiB of memory", memory_bytes >> 20),
            End::Nonsense => "what its check answered makes no sense".to_owned(),
            End::Died(status) if is(status, Signal::XCPU) => {
                format!("its check takes more than {cpu_seconds} seconds of processor time")
            }
            End::Died(status) if is(status, Signal::XFSZ) => {
                "its check wrote more than all of it and its journal together".to_owned()
            }
            End::Died(status) if is(status, Signal::ABORT) => {
                format!(
                    "its check was aborted, for want of more than {} MiB of memory or by a defect",
                    memory_bytes >> 20
                )
            }
            End::Died(status) => format!("the process of its check ended with {status}"),
        }
    }
}

/// A process that goes when this does. It must be started and ended by one thread: the kernel
/// kills it when the thread that started it ends.
struct Process(Child);

impl Process {
    fn start(cell: &Cell, order: &Order) -> io::Result<Self> {
        // All of it is there from the beginning, so nobody ever waits for it to be read.
        let mut orders = File::from(memfd_create("order", MemfdFlags::CLOEXEC)?);
        orders.write_all(&serde_json::to_vec(order)?)?;
        orders.rewind()?;
        let child = Command::new(&cell.program)
            .arg0("pstore")
            .args(&cell.arguments)
            .env_clear()
            .current_dir("/")
            // What a terminal sends to this one is none of its business.
            .process_group(0)
            .stdin(orders)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let cannot = |error| {
            let program = cell.program.display();
            io::Error::other(format!(
                "no process can be started to examine databases in ({program}): {error}"
            ))
        };
        Ok(Self(child.map_err(cannot)?))
    }

    /// How it has ended, by itself or now.
    fn end(&mut self) -> io::Result<ExitStatus> {
        // What is about to end by itself keeps the status it ends with.
        let _ = self.0.kill();
        self.0.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
