//! `watcher` is the process beside a workspace: it sees what happens, takes the automatic checkpoints, and answers those who
//! ask over a socket in the workspace's folder.
//!
//! Everything works without it. One that is killed leaves nothing to clean up: its lock ends with it, and the next
//! checkpoint finds what was not seen.

pub(crate) mod client;
mod inotify;

use std::{
    collections::HashSet,
    fs::File,
    io::Write,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fuse::mount::control;
use parking_lot::Mutex;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, flock},
};
use serde_json::{Value, json};
use store::ErrorKind;
use tokio::{
    runtime::Handle,
    sync::{Notify, mpsc},
};

use self::{client::Verb, inotify::InotifyWatch};
use super::{
    folder::WorkspaceFolder,
    life::{is_too_soon, wanted_of},
    outcome::{CheckpointOutcome, CheckpointResult, Method, Origin, RevertOutcome, WorkspaceOutcome},
    request::{CheckpointRequest, RevertRequest, StartRequest, Trigger},
    session_db::SessionDb,
    slots,
    wanted::Wanted,
};
use crate::{
    Engine,
    failure::Failure,
    host::signals,
    mount::{
        call::{self, Call},
        live::LiveMount,
    },
};

/// What happens within this time is written down together.
const TOGETHER: Duration = Duration::from_millis(50);
/// How often somebody who has nothing to see looks whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Checkpoints that were handed over and wait for their turn.
const WAITING: usize = 4;

/// A workspace that this process watches.
#[derive(Debug)]
pub struct Watching {
    shared: Arc<Shared>,
    handed: mpsc::Receiver<Wanted>,
    /// How the workspace is.
    pub outcome: WorkspaceOutcome,
    /// Holds the lock that says that somebody watches.
    _living: File,
}

/// Where it is known from what happens.
#[derive(Debug)]
enum Sight {
    /// From the kernel.
    Kernel(Mutex<InotifyWatch>),
    /// From the daemon of the mount that the workspace is, which notes everything.
    Mount(LiveMount),
}

#[derive(Debug)]
struct Shared {
    engine: Engine,
    folder: WorkspaceFolder,
    sight: Sight,
    runtime: Handle,
    hand_over: mpsc::Sender<Wanted>,
    /// An automatic checkpoint waits for its turn.
    is_handed: AtomicBool,
    is_over: AtomicBool,
    /// Told when the workspace is not there any more.
    gone: Notify,
}

impl Engine {
    /// Watches a workspace in this process, until [`Watching::until_done`] returns.
    #[crate::boxed]
    pub async fn watch_workspace(&self, request: &StartRequest) -> Result<Watching, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let living = live(&folder)?;
        let sight = match self.workspace_mount(&folder) {
            Some(live) => Sight::Mount(live),
            None => Sight::Kernel(Mutex::new(self.open_inotify(&folder).await?)),
        };
        let (hand_over, handed) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            engine: self.clone(),
            folder,
            sight,
            runtime: Handle::current(),
            hand_over,
            is_handed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            gone: Notify::new(),
        });
        let (answering, runtime) = (Arc::clone(&shared), Handle::current());
        let answer = Arc::new(move |call: Value| runtime.block_on(answering.answer(call)));
        control::listen(&shared.folder.path, answer, Arc::new(|| ()))
            .map_err(|error| Failure::new(ErrorKind::Io, format!("nobody could ask the watcher: {error}")))?;
        let seeing = Arc::clone(&shared);
        let spawned = thread::Builder::new().name("watch".to_owned()).spawn(move || seeing.see());
        spawned.map_err(|error| Failure::new(ErrorKind::Io, format!("no thread to watch with: {error}")))?;
        let outcome = self.told_of_workspace(&shared.folder)?;
        Ok(Watching { shared, handed, outcome, _living: living })
    }
}

impl Engine {
    async fn open_inotify(&self, folder: &WorkspaceFolder) -> Result<InotifyWatch, Failure> {
        let (directory, path) = (folder.directory().to_owned(), folder.session_db());
        let opened =
            tokio::task::spawn_blocking(move || InotifyWatch::open(&directory, SessionDb::open(&path)?));
        let inotify = opened.await.map_err(|error| Failure::internal(error.to_string()))??;
        if !inotify.is_complete() {
            self.warn("not every directory can be watched; checkpoints find what was not seen");
        }
        Ok(inotify)
    }
}

impl Watching {
    /// Where the log of this process goes.
    pub fn log(&self) -> PathBuf {
        self.shared.folder.path.join("log")
    }

    /// Takes the automatic checkpoints until this process is told to end, or the workspace is not there any more: its
    /// directory has gone, or is another. What has changed by then is in a last one.
    #[crate::boxed]
    pub async fn until_done(mut self) {
        let mut told_to_end = std::pin::pin!(signals::told_to_end());
        loop {
            tokio::select! {
                () = &mut told_to_end => break,
                handed = self.handed.recv() => {
                    let Some(wanted) = handed else { break };
                    self.shared.is_handed.store(false, Ordering::SeqCst);
                    self.shared.take_automatic(&wanted, false).await;
                }
                () = self.shared.gone.notified() => return,
                () = tokio::time::sleep(self.shared.until_due()) => {
                    if self.shared.is_gone() {
                        return;
                    }
                    self.shared.take_automatic(&automatic(Trigger::Interval, ""), false).await;
                }
            }
        }
        self.shared.take_automatic(&automatic(Trigger::RunEnd, "the watcher was ended"), true).await;
        self.shared.is_over.store(true, Ordering::SeqCst);
    }
}

fn automatic(trigger: Trigger, description: &str) -> Wanted {
    Wanted {
        origin: Origin::Auto,
        name: None,
        trigger,
        description: description.to_owned(),
        run_id: String::new(),
        spared: None,
        patience_ms: None,
        again: None,
    }
}

/// Says that this process watches, for as long as the file is open.
fn live(folder: &WorkspaceFolder) -> Result<File, Failure> {
    let path = folder.path.join(client::PID);
    let failed = |error: std::io::Error| Failure::new(ErrorKind::Io, format!("{}: {error}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    let began = Instant::now();
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        // Whoever looks whether somebody watches has the lock for a moment.
        if began.elapsed() < LOOK_EVERY {
            thread::sleep(Duration::from_millis(5));
            continue;
        }
        let shown = folder.directory().display();
        return Err(Failure::new(ErrorKind::InUse, format!("{shown} is watched already"))
            .hint(format!("`pstore workspace stop {shown}` ends the watcher")));
    }
    file.set_len(0)
        .and_then(|()| (&file).write_all(std::process::id().to_string().as_bytes()))
        .map_err(failed)?;
    Ok(file)
}

impl Shared {
    /// Writes down what happens, until it is over.
    fn see(&self) {
        let inotify = match &self.sight {
            Sight::Kernel(inotify) => inotify,
            Sight::Mount(live) => return self.ask_mount(live),
        };
        let fd = match inotify.lock().fd().try_clone_to_owned() {
            Ok(fd) => fd,
            Err(error) => return tracing::error!(%error, "nothing can be watched"),
        };
        let patience = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        while !self.is_over.load(Ordering::SeqCst) {
            let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&patience));
            if ready.is_ok_and(|ready| ready > 0) {
                thread::sleep(TOGETHER);
                self.drain();
            }
        }
    }

    /// Writes down what the daemon of the mount has noted, until it is over. Whoever takes a checkpoint or reverts does so
    /// itself, and tells what is before and what after.
    fn ask_mount(&self, live: &LiveMount) {
        while !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(LOOK_EVERY);
            if self.is_gone() {
                self.gone.notify_one();
                return;
            }
            let Ok(Some(_lock)) = self.folder.try_lock() else { continue };
            let Ok(mut db) = SessionDb::open(&self.folder.session_db()) else { continue };
            let none = HashSet::new();
            self.runtime.block_on(self.engine.take_events(live, &mut db, u64::MAX, &none));
        }
    }

    /// Whether the workspace is not there any more; then it is over.
    fn is_gone(&self) -> bool {
        let Err(failure) = self.folder.require_same() else { return false };
        tracing::warn!("there is nothing to watch any more: {}", failure.message);
        self.is_over.store(true, Ordering::SeqCst);
        true
    }

    /// Writes down what the kernel has told so far.
    fn drain(&self) {
        let Sight::Kernel(inotify) = &self.sight else { return };
        if let Err(failure) = inotify.lock().drain() {
            tracing::warn!(error = %failure.message, "events could not be written down; the next checkpoint finds them");
        }
    }

    /// How long until the next automatic checkpoint.
    fn until_due(&self) -> Duration {
        let last = self.folder.slots().map(|slots| slots.last_auto_ms).unwrap_or_else(|_| slots::now_ms());
        let interval_ms = self.folder.settings.auto_interval.saturating_mul(1000);
        let due = last.saturating_add(interval_ms);
        // A clock that was set back does not put it off for longer than that.
        Duration::from_millis(due.saturating_sub(slots::now_ms()).min(interval_ms)).max(TOGETHER)
    }

    /// Takes an automatic checkpoint; whatever goes wrong is counted, and the watcher goes on.
    async fn take_automatic(&self, wanted: &Wanted, even_if_too_soon: bool) {
        let taken = async {
            let lock = self.folder.lock().await?;
            self.drain();
            match even_if_too_soon {
                true => self.engine.take_checkpoint(&self.folder, &lock, wanted).await.map(|_| ()),
                false => {
                    let outcome = self.engine.checkpoint_here(&self.folder, &lock, wanted).await?;
                    match (outcome.outcome, outcome.warning) {
                        // Where not even that can be counted, it is due again at once.
                        (CheckpointResult::Failed, warning) => {
                            Err(Failure::new(ErrorKind::Io, warning.unwrap_or_default()))
                        }
                        (_, warning) => {
                            warning.into_iter().for_each(|warning| tracing::info!("{warning}"));
                            Ok(())
                        }
                    }
                }
            }
        };
        if let Err(failure) = taken.await {
            tracing::warn!("{}", failure.message);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn answer(&self, call: Value) -> Value {
        let Ok(call) = serde_json::from_value::<Call>(call) else {
            return json!(call::unknown().document());
        };
        match serde_json::from_value::<Verb>(json!(call.verb)) {
            Ok(Verb::Checkpoint) => call::sent(&self.checkpoint(call).await),
            Ok(Verb::Revert) => call::sent(&self.revert(call).await),
            Err(_) => json!(call::unknown().document()),
        }
    }

    async fn checkpoint(&self, call: Call) -> Result<CheckpointOutcome, Failure> {
        let wanted = wanted_of(&call::understood::<CheckpointRequest>(call)?)?;
        if wanted.origin == Origin::Manual {
            let lock = self.folder.lock().await?;
            self.drain();
            return self.engine.checkpoint_here(&self.folder, &lock, &wanted).await;
        }
        if is_too_soon(&self.folder, wanted.trigger)? || self.is_handed.swap(true, Ordering::SeqCst) {
            return Ok(CheckpointOutcome::nothing(self.method(), CheckpointResult::TooSoon));
        }
        match self.hand_over.try_send(wanted) {
            Ok(()) => Ok(CheckpointOutcome::nothing(self.method(), CheckpointResult::HandedOver)),
            Err(_) => Ok(CheckpointOutcome::nothing(self.method(), CheckpointResult::TooSoon)),
        }
    }

    fn method(&self) -> Method {
        self.engine.method_of(&self.folder)
    }

    async fn revert(&self, call: Call) -> Result<RevertOutcome, Failure> {
        let request: RevertRequest = call::understood(call)?;
        let lock = self.folder.lock().await?;
        self.drain();
        let root = self.folder.directory();
        let silence = |paths: &[PathBuf]| {
            let inner = |path: &PathBuf| Some(path.strip_prefix(root).ok()?.as_os_str().as_bytes().to_vec());
            self.silence(paths.iter().filter_map(inner).collect());
        };
        let reverted = self.engine.revert_here(&self.folder, &lock, &request, silence).await;
        self.drain();
        self.silence(HashSet::new());
        reverted
    }

    fn silence(&self, paths: HashSet<Vec<u8>>) {
        if let Sight::Kernel(inotify) = &self.sight {
            inotify.lock().silence(paths);
        }
    }
}
