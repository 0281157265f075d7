//! `serve` is the cell's own program: it takes its order, confines itself, and answers.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    confinement::{Confinement, Sandbox},
    limits,
    messages::{Answer, Order},
};
use crate::{
    change::cookie_sites::{AFTER, BEFORE},
    check_job::{CheckJob, CheckResult},
    db_state::{DbState, Deadline},
    profile_dir::{ProfileDir, with_suffix},
    sqlite::Means,
};

/// Serves the parent of this process. It must have no other threads yet: they would not be
/// confined.
pub fn serve(order: impl Read, answers: impl Write + Send) -> io::Result<()> {
    // There is nobody to tell, and nothing to save.
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    let order: Order = serde_json::from_reader(io::BufReader::new(order))?;
    let answers = Mutex::new(answers);
    match prepare(&order) {
        Ok((dir, sandbox)) => work(&order, &dir, &sandbox, &answers),
        Err(error) => say(&answers, &Answer::Failed(error.to_string())),
    }
}

fn prepare(order: &Order) -> io::Result<(ProfileDir, Sandbox)> {
    let dir = ProfileDir::open(&order.root)?;
    let scratch = File::open(&order.scratch)?;
    let largest = order.jobs.iter().map(|job| bytes(&dir, job)).max().unwrap_or(0);
    order.limits.set(order.threads, largest)?;
    let sandbox = Sandbox::around(dir.fd(), std::os::fd::AsFd::as_fd(&scratch));
    Ok((dir, sandbox))
}

/// Of all that is copied for a check.
fn bytes(dir: &ProfileDir, job: &CheckJob) -> u64 {
    let length = |path: &Path| {
        let file = dir.file(path).ok().flatten();
        file.and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len())
    };
    let whole = |path: &Path| {
        let beside = ["-journal", "-wal"].map(|suffix| length(&with_suffix(path, suffix)));
        beside.into_iter().fold(length(path), u64::saturating_add)
    };
    match job {
        CheckJob::Sqlite(path) => whole(path),
        CheckJob::Cookies(path, ..) | CheckJob::SessionCookies(path, _) => whole(path),
        CheckJob::LevelDb(_) | CheckJob::LevelDbLogs(_) | CheckJob::Storage(_) | CheckJob::Origins(..) => 0,
        CheckJob::Sites(path, _) => {
            [BEFORE, AFTER].map(|side| whole(&Path::new(side).join(path))).into_iter().max().unwrap_or(0)
        }
    }
}

fn work(
    order: &Order,
    dir: &ProfileDir,
    sandbox: &Sandbox,
    answers: &Mutex<impl Write + Send>,
) -> io::Result<()> {
    let deadline = order.time_ms.map_or(Deadline::NEVER, |time| Deadline::after(Duration::from_millis(time)));
    let means = Means { depth: order.depth, deadline, scratch: &order.scratch };
    let (next, broken) = (AtomicUsize::new(0), AtomicBool::new(false));
    let check = || -> io::Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = order.jobs.get(at) else { return Ok(()) };
            say(answers, &Answer::Began(at))?;
            let found = job.check(dir, means);
            let needs_more = match &found {
                CheckResult::Sqlite(checked, _) => checked.state == DbState::out_of_memory(),
                _ => false,
            };
            say(answers, &if needs_more { Answer::OutOfMemory } else { Answer::found(at, found) })?;
        }
    };
    // Nobody begins before all are confined: they share one memory.
    let gate = Mutex::new(());
    let closed = gate.lock();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut started = 0;
        for _ in 1..order.threads.min(order.jobs.len()) {
            let tell = tell.clone();
            let (gate, broken, check) = (&gate, &broken, &check);
            let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                let _ = tell.send(sandbox.close());
                drop(gate.lock());
                broken.fetch_or(check().is_err(), Ordering::Relaxed);
            });
            started += usize::from(thread.is_ok());
        }
        // A wall behind the wall: if it cannot be built, the others stand.
        let _ = limits::no_more_threads();
        let others = told.iter().take(started).collect::<Vec<Confinement>>();
        let all = others.into_iter().fold(sandbox.close(), |all, one| Confinement {
            seccomp: all.seccomp && one.seccomp,
            landlock: all.landlock && one.landlock,
        });
        say(answers, &Answer::Ready(all))?;
        drop(closed);
        check()
    })?;
    if broken.into_inner() { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

fn say(answers: &Mutex<impl Write>, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut answers = answers.lock();
    answers.write_all(&line)?;
    answers.flush()
}
