//! `Serving` serves one mount from this process: it mounts the profile, makes it ready for a browser, answers requests
//! one after another, and unmounts. Changes that nobody has committed stay in the session.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use capture::{
    chrome::{held_cookies::Unwritten, normalise},
    examination::Isolation,
    load::{
        self,
        torn_logs::{self, Suspects},
    },
    marker::Marker,
    session_cookies,
};
use fuse::{
    adapter::{Adapter, Options},
    mount::{Kernel, Mount, clean_up, control, info::Mode, is_stale, write_out::WrittenOut},
};
use serde_json::Value;
use store::{
    Error, ErrorKind,
    catalog::clock,
    format::{record::Record, tree::TreePath},
    name::ChromeMajor,
};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};

use super::{autosave::Autosave, choice::Notes, opening, request::MountRequest, without_store};
use crate::{Engine, failure::Failure, observer::Observation, settings::SessionCookies};

const THREADS: usize = 6;
/// How long giving an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// Answers a request that somebody sends to the daemon of a mount.
pub(crate) type Answerer = fn(&Arc<Serving>, &Handle, Value) -> Value;

/// The condition that ends a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The user or program that asks for it.
    Anybody,
    /// The command that is run on it.
    Command,
}

/// A mount that is being served.
#[derive(Debug)]
pub struct Serving {
    /// Carries out requests.
    pub engine: Engine,
    /// The mount.
    pub mount: Arc<Mount>,
    kernel: Mutex<Kernel>,
    ended_by: EndedBy,
    /// It has been unmounted as somebody asked, and what becomes of the session is settled.
    over: AtomicBool,
    /// It is over, and the caller has its answer.
    done: Notify,
    /// Requests are answered one after another: a commit and an unmount do not mix.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// How many wait for a turn: an autosave gives it up for them.
    pub(super) waiting: watch::Sender<usize>,
    pub(super) autosave: Autosave,
    pub(super) autosave_every: Option<Duration>,
    /// The cookies that the browser does not write, as far as captures beside it have shown.
    pub(crate) unwritten: Unwritten,
    /// How much it had read when that was last told.
    told: Mutex<(u64, u64)>,
}

impl Serving {
    /// Opens the profile and mounts it; from then on `answer` is asked what comes of requests.
    pub(crate) async fn begin(
        engine: &Engine,
        args: &MountRequest,
        ended_by: EndedBy,
        answer: Answerer,
    ) -> Result<(Arc<Self>, Notes), Failure> {
        let started = Instant::now();
        if is_stale(&args.mountpoint) {
            engine.say(&format!("taking away a mount on {} whose daemon is gone", args.mountpoint.display()));
            clean_up(&args.mountpoint)?;
        }
        let begun = match opening::open(engine, args).await {
            // The command of a run gets a copy instead.
            Err(failure)
                if ended_by == EndedBy::Anybody && without_store::is_wanted(engine, args, &failure) =>
            {
                without_store::open(engine, args, failure).await
            }
            begun => begun,
        };
        let opening::Begun { mount, mut notes, autosave } = begun?;
        let mount = Arc::new(mount);
        let kernel = match mount_it(engine, &mount, args).await {
            Ok(kernel) => kernel,
            Err(failure) => {
                // Nothing was changed by us; what the session held before is still there.
                if mount.is_resumed() {
                    mount.set_aside().await
                } else {
                    mount.end().await?
                }
                return Err(failure);
            }
        };
        mount.is_ready(started.elapsed());
        if mount.is_resumed() {
            let dirty = mount.fs.dirty_bytes();
            notes.warnings.push(format!(
                "session {} was cut short and is continued, with {dirty} bytes that are not committed",
                mount.session_id()
            ));
        }
        if on_tmpfs(&mount) {
            notes.warnings.push(format!(
                "{} is in memory (tmpfs): what is not committed will not survive a restart of this host",
                mount.session_path().display()
            ));
        }
        let serving = Arc::new(Self {
            engine: engine.clone(),
            mount,
            kernel: Mutex::new(kernel),
            ended_by,
            over: AtomicBool::new(false),
            done: Notify::new(),
            turn: tokio::sync::Mutex::default(),
            waiting: watch::Sender::new(0),
            autosave,
            autosave_every: args.autosave,
            unwritten: Unwritten::default(),
            told: Mutex::default(),
        });
        match serving.prepare(args, notes.transforms.clone(), answer).await {
            Ok(warnings) => {
                notes.warnings.extend(warnings);
                Ok((serving, notes))
            }
            Err(failure) => {
                serving.put_aside().await;
                Err(failure)
            }
        }
    }

    /// Makes it ready for a browser, and says what a person should know about that.
    async fn prepare(
        self: &Arc<Self>,
        args: &MountRequest,
        transforms: Vec<String>,
        answer: Answerer,
    ) -> Result<Vec<String>, Failure> {
        let mut warnings = Vec::new();
        // No browser runs in a workspace.
        let is_profile = self.mount.lineage.chrome_major != ChromeMajor::WORKSPACE;
        if args.mode != Mode::ReadOnly && is_profile {
            let changes = Changes::of(&self.engine, args, &self.mount).await;
            let mountpoint = self.mount.info.mountpoint.clone();
            let changing = tokio::task::spawn_blocking(move || changes.make(&mountpoint, transforms));
            warnings = joined(changing.await)?;
        }
        let (runtime, asked) = (Handle::current(), Arc::clone(self));
        let answer = move |request: Value| answer(&asked, &runtime, request);
        let told = Arc::clone(self);
        let answered = move || {
            if told.is_over() {
                told.done.notify_one();
            }
        };
        control::listen(&self.mount.session_path(), Arc::new(answer), Arc::new(answered))
            .map_err(|error| Error::io("cannot listen in", self.mount.session_path(), error))?;
        Ok(warnings)
    }

    /// Unmounts, unless somebody uses it.
    pub async fn unmount(self: &Arc<Self>) -> Result<(), Failure> {
        let serving = Arc::clone(self);
        let unmounted = tokio::task::spawn_blocking(move || serving.kernel.lock().unmount(false));
        Ok(joined(unmounted.await)?)
    }

    /// The mount ends when the answer to the request at hand has been given.
    pub fn finish(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns when it is over, and the caller has its answer.
    pub(super) async fn done(&self) {
        self.done.notified().await;
    }

    /// Whether the mountpoint still leads to it.
    pub fn is_reached(&self) -> bool {
        self.kernel.lock().is_reached()
    }

    /// Whether it was unmounted, by anybody.
    pub fn has_ended(&self) -> bool {
        self.kernel.lock().has_ended()
    }

    /// Tells the observer how much was read since the last time.
    pub(super) fn tell_reads(&self) {
        let (fetched, cached) = self.mount.read_so_far();
        let before = std::mem::replace(&mut *self.told.lock(), (fetched, cached));
        self.engine.observer.observe(&Observation::MountRead {
            fetched_bytes: fetched.saturating_sub(before.0),
            cached_bytes: cached.saturating_sub(before.1),
        });
    }

    /// Unmounts. What is not stored anywhere is kept for somebody to continue: nobody has said
    /// what is to become of it. Says in which session, if there is something.
    pub async fn put_aside(self: &Arc<Self>) -> Option<String> {
        let _turn = self.turn().await;
        self.tell_reads();
        if self.is_over() {
            let _ = tokio::time::timeout(ANSWER_PATIENCE, self.done.notified()).await;
            return None;
        }
        self.finish();
        let serving = Arc::clone(self);
        let unmounted = tokio::task::spawn_blocking(move || {
            let mut kernel = serving.kernel.lock();
            if kernel.has_ended() || kernel.unmount(false).is_ok() {
                return Ok(());
            }
            // Somebody still uses it, and soon nobody answers: what the kernel has kept comes here before.
            match serving.mount.write_out() {
                Ok(WrittenOut::All) => {}
                Ok(WrittenOut::Moved | WrittenOut::Some) => tracing::warn!("some writes may be lost"),
                Err(error) => tracing::warn!(%error, "some writes may be lost"),
            }
            kernel.unmount(true)
        });
        if let Err(error) = joined(unmounted.await) {
            tracing::warn!(%error, "it could not be unmounted");
        }
        let mount = &self.mount;
        if mount.is_at_stake() {
            self.engine.warn(&format!(
                "changes that are not committed are kept in session {}; `pstore mount` and `pstore run` continue it",
                mount.session_id()
            ));
            mount.set_aside().await;
            return Some(mount.session_id());
        }
        if let Err(error) = mount.end().await {
            tracing::warn!(%error, "the session could not be removed");
        }
        None
    }

    /// Waits until the requests before this one are answered: a commit and an unmount do not mix.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let _waiting = Waiting::begin(&self.waiting);
        self.turn.lock().await
    }

    /// Refuses to end a mount that is there for somebody's command.
    pub(crate) fn require_ended_by_anybody(&self) -> Result<(), Failure> {
        match self.ended_by {
            EndedBy::Anybody => Ok(()),
            EndedBy::Command => Err(self.is_run()),
        }
    }

    fn is_run(&self) -> Failure {
        let (mountpoint, pid) = (self.mount.info.mountpoint.display(), self.mount.info.pid);
        let message = format!("{mountpoint} is there for the command of `pstore run`, process {pid}");
        Failure::new(ErrorKind::InUse, message).hint("it is unmounted when that command ends")
    }
}

/// Somebody who waits for a turn.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|waiting| *waiting += 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

/// Whether the kernel is to keep what is written for a while.
fn writes_back(engine: &Engine, args: &MountRequest) -> bool {
    let settings = engine.settings.tenant(&args.source.profile.tenant);
    args.mode != Mode::ReadOnly && (args.writeback || settings.writeback)
}

async fn mount_it(engine: &Engine, mount: &Arc<Mount>, args: &MountRequest) -> Result<Kernel, Failure> {
    let options = Options {
        mountpoint: mount.info.mountpoint.clone(),
        name: format!("pstore:{}", mount.lineage.name),
        read_only: args.mode == Mode::ReadOnly,
        allow_other: args.allow_other || args.owner.is_some(),
        threads: THREADS,
        near: mount.is_near(),
        writeback: writes_back(engine, args),
    };
    mount.writes_back(options.writeback);
    let adapter = Adapter::new(Arc::clone(&mount.fs), Handle::current()).given_to(args.owner);
    let mounted = tokio::task::spawn_blocking(move || Kernel::mount(adapter, &options));
    Ok(joined(mounted.await)?)
}

/// The changes to a profile before a browser sees it.
struct Changes {
    /// The session goes on: a browser has used it.
    is_resumed: bool,
    /// The logs of the snapshot that were found to end in the middle of a record, and the files that the session has
    /// changed: who wrote them may have been killed. All, if the session stands on a snapshot that nobody has examined.
    suspects: Suspects,
    normalise_exit: bool,
    keep_session_cookies: bool,
}

impl Changes {
    async fn of(engine: &Engine, args: &MountRequest, mount: &Mount) -> Self {
        let settings = engine.settings.tenant(&args.source.profile.tenant);
        let is_resumed = mount.is_resumed();
        let below = mount.record_below().await;
        let suspects = match &below {
            // A new session has them examined.
            Some(record) if is_resumed && load::is_unexamined(record) => Suspects::All,
            _ => {
                let mut files = below.as_ref().map(Record::torn_logs).unwrap_or_default();
                if is_resumed {
                    let path = |path: TreePath| PathBuf::from(OsStr::from_bytes(path.as_bytes()));
                    files.extend(mount.fs.changed_files().into_iter().map(path));
                }
                Suspects::Of(files)
            }
        };
        Self {
            is_resumed,
            suspects,
            normalise_exit: args.load.normalise_exit && !is_resumed,
            keep_session_cookies: settings.session_cookies == SessionCookies::Keep,
        }
    }

    /// Changes what would keep a browser from starting or harm it, or what it is not to see. The marker is how
    /// a commit learns of it.
    fn make(&self, mountpoint: &Path, mut transforms: Vec<String>) -> store::Result<Vec<String>> {
        let cut = torn_logs::mend(mountpoint, &self.suspects, &Isolation::own_cell());
        let mut warnings = cut.warnings;
        let mut marker = Marker::default();
        if self.is_resumed {
            // One that cannot be read stays as it is: the next commit tells.
            let Ok(before) = Marker::read(mountpoint) else { return Ok(warnings) };
            (marker, transforms) = (before.clone(), before.transforms);
        } else {
            warnings.extend(load::remove_leftovers(mountpoint)?);
        }
        if cut.was_cut && !transforms.iter().any(|name| name == torn_logs::TRANSFORM) {
            transforms.push(torn_logs::TRANSFORM.to_owned());
        }
        if self.normalise_exit {
            let changed = normalise::normalise_exit(mountpoint)
                .map_err(|error| Error::io("cannot normalise", mountpoint, error))?;
            if !changed.is_empty() {
                transforms.push(normalise::TRANSFORM.to_owned());
            }
        }
        if self.keep_session_cookies {
            let cell = Isolation::own_cell();
            let kept = load::keep_session_cookies(mountpoint, clock::unix_ms(), &cell);
            warnings.extend(kept.warnings);
            let name = session_cookies::TRANSFORM.to_owned();
            if !kept.changed.is_empty() && !transforms.contains(&name) {
                transforms.push(name);
            }
        }
        if marker.transforms != transforms {
            marker.transforms = transforms;
            marker.write(mountpoint).map_err(|error| Error::io("cannot mark", mountpoint, error))?;
        }
        Ok(warnings)
    }
}

fn on_tmpfs(mount: &Mount) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(mount.session_path().as_path()).is_ok_and(|found| found.f_type == TMPFS)
}

fn joined<T>(ended: Result<store::Result<T>, tokio::task::JoinError>) -> store::Result<T> {
    ended.unwrap_or_else(|error| Err(Error::Internal { what: error.to_string() }))
}
