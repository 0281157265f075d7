//! `power` is a disk in memory whose power may fail: it knows the flushed data, keeps its would-be content
//! after each request, and can refuse any one of them.
//!
//! The content of a disk after a power failure lies between two extremes: only flushed data, and all written data.
//! Names and bytes are independent: a name may have reached the disk, or be gone from it, though the bytes written
//! before have not.

mod image;
mod served;

use std::{path::Path, sync::Arc, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};

use fuser::{BackgroundSession, Config, MountOption};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

pub use image::{Image, Reached};
use served::Served;

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The request with this number, and no other.
    Once(usize),
    /// That one and all after it.
    From(usize),
}

/// The disk, mounted for as long as the value exists.
#[derive(Debug)]
pub struct Disk {
    shared: Arc<Shared>,
    folder: TempDir,
    session: Option<BackgroundSession>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    now: Image,
    /// Its content before each request that changes or flushes something.
    before: Vec<Image>,
    trouble: Option<(Trouble, i32)>,
    /// Writes to files of this name wait.
    held: Option<String>,
    waiting: usize,
    /// How long each flush takes.
    flush_time: Duration,
}

impl Disk {
    pub fn new() -> Self {
        let (folder, shared) = (tempfile::tempdir().unwrap(), Arc::new(Shared::default()));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("pstore-test".to_owned())];
        // So that others go on while one waits.
        config.n_threads = Some(8);
        let session = fuser::spawn_mount(Served(Arc::clone(&shared)), folder.path(), &config).unwrap();
        // It answers from here on.
        std::fs::metadata(folder.path()).unwrap();
        Self { shared, folder, session: Some(session) }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// All written data is flushed, and the history is forgotten.
    pub fn settle(&self) {
        let mut state = self.shared.lock();
        state.now.flush_all();
        state.before.clear();
    }

    /// How many requests have changed or flushed something.
    pub fn requests(&self) -> usize {
        self.shared.lock().before.len()
    }

    /// Its content before each of those, and its present content.
    pub fn images(&self) -> Vec<Image> {
        let state = self.shared.lock();
        state.before.iter().chain([&state.now]).cloned().collect()
    }

    /// Its present content.
    pub fn image(&self) -> Image {
        self.shared.lock().now.clone()
    }

    /// Has requests answered with this error; without, there is no trouble any more.
    pub fn trouble(&self, trouble: Option<(Trouble, rustix::io::Errno)>) {
        self.shared.lock().trouble = trouble.map(|(trouble, errno)| (trouble, errno.raw_os_error()));
    }

    /// Has every flush from now on take so long.
    pub fn slow_down(&self, flush_time: Duration) {
        self.shared.lock().flush_time = flush_time;
    }

    /// Has writes to files of this name wait until the value is dropped.
    pub fn hold_writes_to(&self, name: &str) -> Held<'_> {
        self.shared.lock().held = Some(name.to_owned());
        Held(&self.shared)
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still uses it keeps it; nobody else finds it.
        unmount(self.path(), UnmountFlags::DETACH).ok();
        drop(self.session.take());
    }
}

/// Writes wait while this exists.
#[derive(Debug)]
pub struct Held<'a>(&'a Shared);

impl Held<'_> {
    /// Returns when a write waits.
    pub fn wait(&self) {
        let mut state = self.0.lock();
        while state.waiting == 0 {
            self.0.changed.wait(&mut state);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.lock().held = None;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Before a request that changes or flushes something.
    fn request(&self) -> Result<MutexGuard<'_, State>, i32> {
        let mut state = self.lock();
        let number = state.before.len();
        let image = state.now.clone();
        state.before.push(image);
        match state.trouble {
            Some((Trouble::Once(at), errno)) if at == number => Err(errno),
            Some((Trouble::From(at), errno)) if at <= number => Err(errno),
            _ => Ok(state),
        }
    }
}
