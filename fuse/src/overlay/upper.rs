//! `Upper` keeps the changed bytes in data files, each byte at the offset it has in its file.
//!
//! One sparse file for each node and generation. Few are held open at a time, whatever the
//! number of files that were changed. Many are synced at once: the file system below puts what it has to write down
//! for each of them into one transaction then, and changes may be waiting for it.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::Mutex;

use super::node::Ino;

const MAX_OPEN: usize = 256;
/// So many are synced at once.
const SYNCS_AT_ONCE: usize = 16;

/// What becomes of a data file that is to be synced and is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Somebody counts on it.
    Refused,
    /// Nobody needs it any more.
    PassedOver,
}

#[derive(Debug)]
pub struct Upper {
    folder: PathBuf,
    open: Mutex<Open>,
    /// A data file was made whose name may not be on disk yet.
    new_names: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    files: HashMap<(Ino, u32), (Arc<File>, u64)>,
    clock: u64,
}

impl Upper {
    /// Data files in `folder`, which exists. Whoever made those that are there may have ended
    /// before their names were on disk.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, open: Mutex::default(), new_names: AtomicBool::new(true) }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The data file, made if it is new.
    pub fn writable(&self, ino: Ino, generation: u32) -> io::Result<Arc<File>> {
        self.open(ino, generation, true)
    }

    pub fn existing(&self, ino: Ino, generation: u32) -> io::Result<Arc<File>> {
        self.open(ino, generation, false)
    }

    fn open(&self, ino: Ino, generation: u32, make: bool) -> io::Result<Arc<File>> {
        let mut open = self.open.lock();
        open.clock += 1;
        let now = open.clock;
        if let Some((file, used)) = open.files.get_mut(&(ino, generation)) {
            *used = now;
            return Ok(Arc::clone(file));
        }
        let path = self.path(ino, generation);
        let mut options = File::options();
        options.read(true).write(true);
        let file = match options.open(&path) {
            Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
                let file = options.create_new(true).open(&path)?;
                self.new_names.store(true, Ordering::Release);
                file
            }
            opened => opened?,
        };
        let file = Arc::new(file);
        if open.files.len() >= MAX_OPEN {
            open.forget_oldest();
        }
        open.files.insert((ino, generation), (Arc::clone(&file), now));
        Ok(file)
    }

    /// Makes the bytes of data files durable.
    pub fn sync(&self, files: &[(Ino, u32)], absent: Absent) -> io::Result<()> {
        let next = AtomicUsize::new(0);
        let some = || -> io::Result<()> {
            while let Some((ino, generation)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.existing(*ino, *generation) {
                    Err(_) if absent == Absent::PassedOver => {}
                    file => file?.sync_data()?,
                }
            }
            Ok(())
        };
        let others = files.len().min(SYNCS_AT_ONCE).saturating_sub(1);
        thread::scope(|scope| {
            // Without room for so many threads it takes longer.
            let spawned = (0..others).map_while(|_| thread::Builder::new().spawn_scoped(scope, some).ok());
            let others: Vec<_> = spawned.collect();
            let failed = |_| io::Error::other("a thread has ended that synced data files");
            let all = others.into_iter().map(|other| other.join().map_err(failed)?);
            // Whoever fails leaves the rest to the others, and all are waited for.
            all.fold(some(), |first, other| first.and(other))
        })
    }

    /// Makes the names of new data files durable.
    pub fn sync_names(&self) -> io::Result<()> {
        // Cleared first: a file made while the directory is flushed is for the next one.
        if self.new_names.swap(false, Ordering::AcqRel)
            && let Err(error) = File::open(&self.folder).and_then(|folder| folder.sync_all())
        {
            self.new_names.store(true, Ordering::Release);
            return Err(error);
        }
        Ok(())
    }

    /// Removes a data file. One that is not there is as good as removed.
    pub fn remove(&self, ino: Ino, generation: u32) {
        self.open.lock().files.remove(&(ino, generation));
        if let Err(error) = fs::remove_file(self.path(ino, generation))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, ino = ino.0, generation, "a data file could not be removed");
        }
    }

    /// Every data file there is.
    pub fn list(&self) -> io::Result<Vec<(Ino, u32)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let parsed = name.to_str().and_then(|name| {
                let (ino, generation) = name.split_once('-')?;
                Some((Ino(u64::from_str_radix(ino, 16).ok()?), generation.parse().ok()?))
            });
            found.extend(parsed);
        }
        Ok(found)
    }

    fn path(&self, ino: Ino, generation: u32) -> PathBuf {
        self.folder.join(format!("{:x}-{generation}", ino.0))
    }
}

impl Open {
    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.files.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key) {
            self.files.remove(&oldest);
        }
    }
}
