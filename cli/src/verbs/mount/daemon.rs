//! The process that answers for a mount.

use std::{
    fs::File,
    io::Write,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use capture::chrome::{
    normalise,
    stop::{self, StopOptions},
};
use fuse::{
    adapter::{Adapter, Options},
    mount::{Kernel, Mount, clean_up, control, is_stale},
};
use serde_json::{Value, json};
use store::{Error, ErrorKind};
use tokio::{
    runtime::Handle,
    signal::unix::SignalKind,
    sync::{Notify, watch},
};

use super::{
    super::{Context, commit, unmount},
    opening, ready, remote,
};
use crate::{
    answer::Answer,
    args::{self, LossArg, MountArgs, Verb},
    failure::Failure,
    signals,
};

/// How often space is given back and the journal looked at.
const TIDY_EVERY: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const THREADS: usize = 6;
/// How long giving an answer may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// A mount that is being served.
pub(in crate::verbs) struct Serving {
    pub(in crate::verbs) context: Context,
    pub(in crate::verbs) mount: Arc<Mount>,
    kernel: Mutex<Kernel>,
    /// It has been unmounted as somebody asked, and what becomes of the session is settled.
    over: AtomicBool,
    /// It is over, and whoever asked for that has been told.
    done: Notify,
    /// Requests are answered one after another: a commit and an unmount do not mix.
    turn: tokio::sync::Mutex<()>,
}

impl Serving {
    pub(in crate::verbs) async fn unmount(self: &Arc<Self>) -> Result<(), Failure> {
        let serving = Arc::clone(self);
        let unmounted = tokio::task::spawn_blocking(move || {
            serving.kernel.lock().unwrap_or_else(PoisonError::into_inner).unmount(false)
        });
        Ok(unmounted.await.unwrap_or_else(|error| Err(Error::Internal { what: error.to_string() }))?)
    }

    /// The daemon ends when the answer to the request at hand has been given.
    pub(in crate::verbs) fn finish(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn has_ended(&self) -> bool {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner).has_ended()
    }
}

pub(super) async fn serve(context: Context, args: &MountArgs) -> Result<Answer, Failure> {
    if args.daemon {
        // What ends the terminal does not end the mount.
        let _ = rustix::process::setsid();
    }
    let begun = begin(&context, args).await;
    let (serving, answer) = match begun {
        Ok(begun) => begun,
        Err(failure) if args.daemon => {
            tell(&remote::sent(&Err(failure)));
            silence(None);
            return Err(Failure::new(ErrorKind::Io, "told already"));
        }
        Err(failure) => return Err(failure),
    };
    if args.daemon {
        tell(&remote::sent(&Ok(answer)));
        silence(Some(&serving.mount.session_path().join("log")));
    } else {
        context.console.say(answer.text.trim_end());
    }
    until_done(&serving, args.on_lock_lost).await;
    Ok(Answer { brief: Some(String::new()), ..Answer::new(serving.mount.status().await, String::new()) })
}

async fn begin(context: &Context, args: &MountArgs) -> Result<(Arc<Serving>, Answer), Failure> {
    let started = Instant::now();
    if is_stale(&args.mountpoint) {
        context
            .console
            .say(&format!("taking away a mount on {} whose daemon is gone", args.mountpoint.display()));
        clean_up(&args.mountpoint)?;
    }
    let opening::Begun { mount, mut warnings } = opening::open(context, args).await?;
    let mount = Arc::new(mount);
    let kernel = match mount_it(&mount, args).await {
        Ok(kernel) => kernel,
        Err(failure) => {
            // Nothing was changed by us; what the session held before is still there.
            if mount.is_resumed() {
                mount.let_go().await
            } else {
                mount.end().await?
            }
            return Err(failure);
        }
    };
    mount.is_ready(started.elapsed());
    if mount.is_resumed() {
        let dirty = mount.fs.dirty_bytes();
        warnings.push(format!(
            "session {} was cut short and is continued, with {dirty} bytes that are not committed",
            mount.session_id()
        ));
    }
    if on_tmpfs(&mount) {
        warnings.push(format!(
            "{} is in memory (tmpfs): what is not committed will not survive a restart of this host",
            mount.session_path().display()
        ));
    }
    if args.load.normalise_exit {
        normalise::normalise_exit(&mount.info.mountpoint)
            .map_err(|error| Error::io("cannot normalise", &mount.info.mountpoint, error))?;
    }
    warnings.iter().for_each(|warning| context.console.warn(warning));
    let serving = Arc::new(Serving {
        context: context.clone(),
        mount,
        kernel: Mutex::new(kernel),
        over: AtomicBool::new(false),
        done: Notify::new(),
        turn: tokio::sync::Mutex::default(),
    });
    let (runtime, asked) = (Handle::current(), Arc::clone(&serving));
    let answer = move |request: Value| runtime.block_on(respond(&asked, request));
    let told = Arc::clone(&serving);
    let answered = move || {
        if told.is_over() {
            told.done.notify_one();
        }
    };
    control::listen(&serving.mount.session_path(), Arc::new(answer), Arc::new(answered))
        .map_err(|error| Error::io("cannot listen in", serving.mount.session_path(), error))?;
    let status = serving.mount.status().await;
    let shown = serving.mount.info.mountpoint.display().to_string();
    Ok((serving, ready(&status, &shown, &warnings)))
}

async fn mount_it(mount: &Arc<Mount>, args: &MountArgs) -> Result<Kernel, Failure> {
    let options = Options {
        mountpoint: mount.info.mountpoint.clone(),
        name: format!("pstore:{}", mount.lineage.name),
        read_only: args.read_only,
        allow_other: args.allow_other,
        threads: THREADS,
    };
    let adapter = Adapter::new(Arc::clone(&mount.fs), Handle::current());
    let mounted = tokio::task::spawn_blocking(move || Kernel::mount(adapter, &options));
    Ok(mounted.await.unwrap_or_else(|error| Err(Error::Internal { what: error.to_string() }))?)
}

/// Waits until the mount is over, and sees to it meanwhile.
async fn until_done(serving: &Arc<Serving>, on_lock_lost: LossArg) {
    let mut terminate = signals::listen(SignalKind::terminate());
    let mut interrupt = signals::listen(SignalKind::interrupt());
    let mut tidy = tokio::time::interval(TIDY_EVERY);
    let mut look = tokio::time::interval(LOOK_EVERY);
    let (lost_sender, mut lost) = watch::channel(false);
    let watching = {
        let mount = Arc::clone(&serving.mount);
        tokio::spawn(async move {
            if let Some(keeper) = mount.keeper() {
                let error = keeper.lost().await;
                tracing::warn!(%error, "lock_lost: what is changed from now on cannot be committed to this profile");
                let _ = lost_sender.send(true);
            }
            std::future::pending::<()>().await
        })
    };
    loop {
        tokio::select! {
            () = serving.done.notified() => break,
            () = signals::next(&mut terminate) => { put_aside(serving).await; break }
            () = signals::next(&mut interrupt) => { put_aside(serving).await; break }
            _ = look.tick() => {
                if serving.has_ended() && !serving.is_over() {
                    put_aside(serving).await;
                    break;
                }
            }
            _ = tidy.tick() => {
                let mount = Arc::clone(&serving.mount);
                let _ = tokio::task::spawn_blocking(move || mount.tidy()).await;
            }
            Ok(()) = lost.changed() => when_lost(serving, on_lock_lost).await,
        }
    }
    watching.abort();
}

/// Somebody ended it without saying what is to become of the changes: they are kept.
async fn put_aside(serving: &Arc<Serving>) {
    let _turn = serving.turn.lock().await;
    if serving.is_over() {
        let _ = tokio::time::timeout(ANSWER_PATIENCE, serving.done.notified()).await;
        return;
    }
    let kernel = Arc::clone(serving);
    let unmounted = tokio::task::spawn_blocking(move || {
        let mut kernel = kernel.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        if kernel.has_ended() { Ok(()) } else { kernel.unmount(true) }
    });
    if let Ok(Err(error)) = unmounted.await {
        tracing::warn!(%error, "it could not be unmounted");
    }
    let mount = &serving.mount;
    if mount.is_at_stake() {
        let console = serving.context.console;
        console.warn(&format!(
            "changes that are not committed are kept in session {}; `pstore mount` continues it",
            mount.session_id()
        ));
        mount.set_aside().await;
    } else if let Err(error) = mount.end().await {
        tracing::warn!(%error, "the session could not be removed");
    }
}

async fn when_lost(serving: &Arc<Serving>, on_lock_lost: LossArg) {
    match on_lock_lost {
        LossArg::Warn => {}
        LossArg::Freeze => serving.mount.fs.make_read_only(),
        LossArg::Kill => {
            let mountpoint = serving.mount.info.mountpoint.clone();
            let stopped =
                tokio::task::spawn_blocking(move || stop::stop(&mountpoint, &StopOptions::default())).await;
            if let Ok(Err(error)) = stopped {
                tracing::warn!(%error, "the browser could not be ended");
            }
        }
    }
}

/// Does what a command line that was sent says.
async fn respond(serving: &Arc<Serving>, request: Value) -> Value {
    if request["status"] == json!(true) {
        return remote::sent(&Ok(Answer::new(serving.mount.status().await, String::new())));
    }
    let words = request["words"].as_array().into_iter().flatten();
    let words: Vec<_> = words.filter_map(|word| Some(word.as_str()?.to_owned().into())).collect();
    let answer = match args::parse_words(words) {
        Ok(invocation) => {
            let _turn = serving.turn.lock().await;
            match &invocation.verb {
                Verb::Commit(args) => commit::serve(serving, args).await,
                Verb::Unmount(args) => unmount::serve(serving, args).await,
                _ => Err(Failure::usage("a mount does not understand that")),
            }
        }
        Err(_) => Err(Failure::usage(
            "the mount was started by another version of pstore, which does not understand this",
        )),
    };
    remote::sent(&answer)
}

fn on_tmpfs(mount: &Mount) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    rustix::fs::statfs(mount.session_path().as_path()).is_ok_and(|found| found.f_type == TMPFS)
}

/// One line for whoever waits.
fn tell(said: &Value) {
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{said}");
    let _ = stdout.flush();
}

/// From now on nobody listens; what is logged goes to `log`.
fn silence(log: Option<&std::path::Path>) {
    let nowhere = || File::options().write(true).open("/dev/null");
    if let Ok(nowhere) = nowhere() {
        let _ = rustix::stdio::dup2_stdout(&nowhere);
    }
    let log = log.and_then(|path| File::options().create(true).append(true).open(path).ok());
    if let Some(log) = log.or_else(|| nowhere().ok()) {
        let _ = rustix::stdio::dup2_stderr(&log);
    }
}
