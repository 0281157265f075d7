//! Flushes bytes and names to the disk, and refuses all further work once a flush has failed.
//!
//! After a failed fsync the kernel may have dropped the dirty pages and will report
//! success next time. So the write is ambiguous, and the handle is of no use any more: later
//! writes are refused, and so are reads, because what they would show (the new name of a
//! file, from the cache) may be gone after the next crash. Reading it back must not turn an
//! ambiguous write into a successful one.

use std::{
    collections::HashSet,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use parking_lot::Mutex;

use super::{failed, sharing};
use crate::bucket::{BucketError, Result};

#[derive(Debug)]
pub(super) struct Durability {
    store: String,
    poisoned: AtomicBool,
    /// Folders known to be entered durably in their parent, all the way up.
    settled: Mutex<HashSet<PathBuf>>,
    /// How many flushes from now the one is that fails; zero for none.
    #[cfg(test)]
    pub(super) fail_in: std::sync::atomic::AtomicU32,
}

impl Durability {
    pub(super) fn new(store: String) -> Self {
        Self {
            store,
            poisoned: AtomicBool::new(false),
            settled: Mutex::default(),
            #[cfg(test)]
            fail_in: Default::default(),
        }
    }

    /// To be asked before every write, and after every read: what was read before a failure
    /// came from a handle that was still good.
    pub(super) fn check(&self, key: &str) -> Result<()> {
        if !self.poisoned.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(BucketError::Rejected {
            key: key.to_owned(),
            store: self.store.clone(),
            reason: "an earlier fsync failed, so nothing more is written or read through this handle".into(),
        })
    }

    pub(super) fn sync(&self, key: &str, file: &File) -> Result<()> {
        #[cfg(test)]
        let synced = match self.fail_in.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
        {
            Ok(1) => Err(io::Error::other("injected")),
            _ => file.sync_all(),
        };
        #[cfg(not(test))]
        let synced = file.sync_all();
        synced.map_err(|error| self.poison(key, &error))
    }

    pub(super) fn sync_folder(&self, key: &str, folder: &Path) -> Result<()> {
        let folder = File::open(folder).map_err(|error| self.poison(key, &error))?;
        self.sync(key, &folder)
    }

    /// Makes the folder of an object exist durably below `root`, and does `work` meanwhile.
    ///
    /// A folder that another process made a moment ago may not be durable yet, so a
    /// handle syncs every ancestor the first time it meets it, its own or not: all at once,
    /// since a disk takes no longer for several than for one.
    pub(super) fn settle<T>(
        &self,
        key: &str,
        root: &Path,
        folder: &Path,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let is_unsettled = |folder: &&Path| *folder != root && !self.settled().contains(*folder);
        let mut unsettled: Vec<&Path> = folder.ancestors().take_while(is_unsettled).collect();
        unsettled.reverse();
        for folder in &unsettled {
            self.create_folder(key, folder)?;
        }
        let parents = unsettled.iter().filter_map(|folder| folder.parent());
        let (synced, done) = thread::scope(|scope| {
            let syncs: Vec<_> =
                parents.map(|parent| scope.spawn(move || self.sync_folder(key, parent))).collect();
            let done = work();
            let synced = syncs.into_iter().try_for_each(|sync| {
                sync.join().unwrap_or_else(|_| Err(self.poison(key, &io::Error::other("it panicked"))))
            });
            (synced, done)
        });
        synced?;
        self.settled().extend(unsettled.into_iter().map(Path::to_owned));
        done
    }

    fn create_folder(&self, key: &str, folder: &Path) -> Result<()> {
        match sharing::create_folder(folder) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(BucketError::Rejected {
                key: key.to_owned(),
                store: self.store.clone(),
                reason: format!("{} is an object, so it cannot be a folder", folder.display()),
            }),
            Err(error) => Err(failed(folder)(error)),
        }
    }

    fn settled(&self) -> parking_lot::MutexGuard<'_, HashSet<PathBuf>> {
        self.settled.lock()
    }

    fn poison(&self, key: &str, error: &io::Error) -> BucketError {
        self.poisoned.store(true, Ordering::SeqCst);
        tracing::error!(store = %self.store, %error, "fsync failed");
        BucketError::Unavailable {
            key: key.to_owned(),
            store: self.store.clone(),
            reason: format!("fsync failed: {error}"),
        }
    }
}
