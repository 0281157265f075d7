//! `adapter` translates between the kernel and [`Fs`]. It decides nothing.
//!
//! A thread that takes requests from the kernel never waits for a network or for a commit:
//! what cannot be answered at once is answered by another.

mod agreement;
mod answers;
mod filesystem;
mod killed;
mod listing;
mod opening;
mod translate;
mod view;
mod writing;

pub use view::Owner;

use std::{path::PathBuf, sync::Arc};

use tokio::runtime::Handle;

use self::{killed::killed, view::View};
use crate::{
    Errno, Result,
    fs::{Answer, Fs, Unanswered, answer::load, gate::Pass},
    overlay::base_tree::Missing,
};

/// How far the kernel may read ahead of a reader, in one request.
pub const MAX_READAHEAD: u32 = 1 << 20;

#[derive(Clone, Debug)]
pub struct Adapter {
    fs: Arc<Fs>,
    runtime: Handle,
    view: View,
    /// Whether the kernel keeps writes for a while before it hands them over.
    writeback: bool,
}

impl Adapter {
    /// Whatever must be waited for is waited for on `runtime`.
    pub fn new(fs: Arc<Fs>, runtime: Handle) -> Self {
        Self { fs, runtime, view: View::default(), writeback: false }
    }

    /// Gives the mount to `owner`, if there is one.
    pub fn given_to(self, owner: Option<Owner>) -> Self {
        Self { view: View(owner), ..self }
    }

    /// Answers now, or, if something must be loaded first, where nobody else waits for that.
    fn ask<T: Send + 'static>(
        &self,
        asker: u32,
        ask: impl Fn(&Fs) -> Answer<T> + Send + 'static,
        answer: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        match ask(&self.fs) {
            Ok(found) => answer(Ok(found)),
            Err(Unanswered::Refused(errno)) => answer(Err(errno)),
            Err(Unanswered::Missing(missing)) => {
                let runtime = self.runtime.clone();
                self.aside(move |fs| answer(settled(&runtime, asker, missing, || ask(fs))));
            }
        }
    }

    /// Makes a change now, or, if changes are held up or something must be loaded first, where nobody else waits for
    /// it.
    fn change<T: Send + 'static>(
        &self,
        asker: u32,
        change: impl Fn(&Fs, &Pass<'_>) -> Answer<T> + Send + 'static,
        answer: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let mut first = None;
        if let Some(pass) = self.fs.try_enter() {
            let changed = change(&self.fs, &pass);
            drop(pass);
            match changed {
                Ok(changed) => return answer(Ok(changed)),
                Err(Unanswered::Refused(errno)) => return answer(Err(errno)),
                Err(Unanswered::Missing(missing)) => first = Some(missing),
            }
        }
        let runtime = self.runtime.clone();
        self.aside(move |fs| {
            // Nobody is held up while something is loaded.
            let again = || {
                let pass = fs.enter();
                change(fs, &pass)
            };
            answer(settled(&runtime, asker, first, again));
        });
    }

    /// Does something that takes its time.
    fn aside(&self, work: impl FnOnce(&Arc<Fs>) + Send + 'static) {
        let fs = Arc::clone(&self.fs);
        self.runtime.spawn_blocking(move || work(&fs));
    }
}

/// Loads what is missing, and asks again until there is an answer, or who asked was killed. Blocks.
fn settled<T>(
    runtime: &Handle,
    asker: u32,
    missing: impl Into<Option<Missing>>,
    mut ask: impl FnMut() -> Answer<T>,
) -> Result<T> {
    let mut missing = missing.into();
    loop {
        if let Some(missing) = missing.take() {
            runtime.block_on(async {
                tokio::select! {
                    loaded = load(missing) => loaded,
                    () = killed(asker) => Err(Errno::INTR),
                }
            })?;
        }
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(Unanswered::Refused(errno)) => return Err(errno),
            Err(Unanswered::Missing(more)) => missing = Some(more),
        }
    }
}

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    pub mountpoint: PathBuf,
    /// As `mount` shows it.
    pub name: String,
    pub read_only: bool,
    /// Whether other users may use it.
    pub allow_other: bool,
    pub threads: usize,
    /// Whether what is read ahead costs little: the store is a directory.
    pub near: bool,
    /// Whether the kernel may keep writes for a while: it then hands over more of them at once, and what it has kept is
    /// lost when the daemon is killed.
    pub writeback: bool,
}

/// Whether nobody but root gets in, whom no permission keeps from anything. To check them all the same the kernel would
/// ask for the attributes of a directory after every change of it.
fn is_roots_alone(options: &Options) -> bool {
    !options.allow_other && rustix::process::geteuid().is_root()
}

/// Mounts; the file system answers from then on, and is unmounted when the value is dropped.
pub fn mount(adapter: Adapter, options: &Options) -> std::io::Result<fuser::BackgroundSession> {
    use fuser::{MountOption, SessionACL};
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.name.clone()),
        MountOption::Subtype("pstore".to_owned()),
        MountOption::NoAtime,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    if !is_roots_alone(options) {
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(2));
    config.clone_fd = true;
    let adapter = Adapter { writeback: options.writeback, ..adapter };
    fuser::spawn_mount(adapter, &options.mountpoint, &config)
}
