//! Keeps the line of the processes on one machine that wait for the same lock.
//!
//! Each has a file in the host's cache, named so that the first to come sorts first, and holds
//! its flock. The kernel lets go of that when a process ends, so the dead wait for nothing. The
//! line keeps order; the lock keeps data safe. Without a cache nobody stands in line.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::{FlockOperation, flock};

use crate::{content::cache::Cache, name::Lineage};

/// This tenant's folder for them in the host's cache.
const FOLDER: &str = "waiting";

/// A place in the line, given up when it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    path: PathBuf,
    /// The ticket right before it, when the line was last read.
    before: Option<PathBuf>,
    /// Its flock says that the waiting process lives.
    _file: File,
}

impl Ticket {
    pub(super) fn draw(cache: &Cache, lineage: &Lineage) -> Option<Self> {
        let name = format!("{FOLDER}/{}/{}", lineage.name.profile, lineage.chrome_major);
        let drawn = cache.private_folder(&name).and_then(|folder| {
            // To the nanosecond: many may come in one millisecond.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let path = folder.join(format!("{:030}-{}", now.as_nanos(), std::process::id()));
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(Self { path, before: None, _file: file })
        });
        drawn.inspect_err(|error| tracing::debug!(%error, "there is no line to stand in")).ok()
    }

    /// Whether nobody comes before it. Everybody in the line asks this many times in a second, so that
    /// each looks at the one right before it and at no other: a line of a hundred costs a hundred looks.
    pub(super) fn is_first(&mut self) -> bool {
        if self.before.as_deref().is_some_and(waits) {
            return false;
        }
        self.before = self.earlier().into_iter().rev().find(|path| waits(path));
        self.before.is_none()
    }

    /// How many came before and wait still.
    pub(super) fn ahead(&self) -> usize {
        self.earlier().iter().filter(|path| waits(path)).count()
    }

    /// The files of the earlier tickets, the first to come first.
    fn earlier(&self) -> Vec<PathBuf> {
        let folder = self.path.parent().unwrap_or(&self.path);
        let others = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut earlier: Vec<PathBuf> = others.filter(|path| *path < self.path).collect();
        earlier.sort_unstable();
        earlier
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether somebody holds the file. One of the dead is removed.
fn waits(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        // One that was just made and is not held yet was made after ours, or is about to be held:
        // its owner then finds itself behind us, which harms nobody.
        Ok(()) => {
            let _ = fs::remove_file(path);
            false
        }
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::StoreId;

    fn line(folder: &Path) -> impl Fn() -> Ticket {
        let cache = Cache::new(folder, StoreId::from_parts(1, [1; 10]), &"acme".parse().unwrap());
        let lineage =
            "acme/alice".parse().map(|name| Lineage { name, chrome_major: 131.try_into().unwrap() });
        let lineage = lineage.unwrap();
        move || Ticket::draw(&cache, &lineage).unwrap()
    }

    #[test]
    fn whoever_comes_first_is_first_and_the_next_follows() {
        let folder = tempfile::tempdir().unwrap();
        let draw = line(folder.path());
        let [mut first, mut second, mut third] = [draw(), draw(), draw()];
        assert_eq!([first.ahead(), second.ahead(), third.ahead()], [0, 1, 2]);
        assert!(first.is_first() && !second.is_first() && !third.is_first());
        drop(second);
        assert_eq!([first.ahead(), third.ahead()], [0, 1]);
        assert!(first.is_first() && !third.is_first());
        drop(first);
        assert_eq!(third.ahead(), 0);
        assert!(third.is_first());
    }

    #[test]
    fn the_dead_do_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let draw = line(folder.path());
        let dead = draw();
        let path = dead.path.clone();
        drop(dead);
        File::create(&path).unwrap();
        assert!(draw().is_first());
        assert!(!path.exists());
    }
}
