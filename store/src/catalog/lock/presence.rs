//! Tells whether the holder of a lock lives, as far as this machine knows.
//!
//! A holder that ends with its process keeps a small file on its machine, which is named by
//! the lock's nonce, and holds the file's flock. The kernel lets go of that when the process
//! ends, however it ends. So one thing alone proves a death: the file is there, nobody holds
//! it, and it names the very write of the lock that the store has. What cannot be seen proves
//! nothing: a process of another user, another container or another machine may live, and its
//! lock expires in its own time.
//!
//! A machine may be resumed from an image of another. It has the same boot id, the same
//! process numbers and the same files then, and its processes the same nonces. That is why
//! the file names the write: once one twin has renewed the lock, the file of the other no
//! longer fits it.

use std::{
    fs::{self, File, OpenOptions},
    io::Read,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, flock};

use crate::{content::cache::Cache, format::lock::Lock, id::Nonce};

/// This tenant's folder for them in the host's cache.
const FOLDER: &str = "holders";
/// How many writes a file names: all that were sent since the last one that was confirmed.
const MOST_MARKS: usize = 8;
/// More than a file of ours has.
const MOST_BYTES: u64 = 1024;
/// For how long after its last renewal a dead holder's file is kept. The lock has expired by then.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// Identifies one write of a lock. One without a mark is like no other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(Option<Nonce>);

impl Mark {
    pub(super) fn of(lock: &Lock) -> Self {
        Self(lock.block().and_then(|block| block.mark))
    }

    pub(super) fn is_same(self, other: Self) -> bool {
        self.0.is_some() && self.0 == other.0
    }

    fn line(self) -> Option<String> {
        self.0.map(|mark| format!("{mark}\n"))
    }
}

/// The file of a holder that lives.
#[derive(Debug)]
pub(super) struct Presence {
    file: File,
    path: PathBuf,
    boot_id: String,
}

impl Presence {
    /// Makes the file for a lock that is about to be taken. Without one the lock is held all
    /// the same, and expires like any other.
    pub(super) fn announce(cache: &Cache, nonce: Nonce) -> Option<Self> {
        let boot_id = boot_id()?;
        let made = cache.private_folder(FOLDER).and_then(|folder| {
            sweep(&folder);
            let path = folder.join(nonce.to_string());
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(Self { file, path, boot_id })
        });
        made.inspect_err(|error| {
            tracing::debug!(%error, "no file tells this machine that the lock's holder lives");
        })
        .ok()
    }

    /// Names the writes of the lock that the store may have. Called before the last of
    /// them is sent.
    pub(super) fn names(&self, marks: &[Mark]) {
        let marks = &marks[marks.len().saturating_sub(MOST_MARKS)..];
        let text: String = std::iter::once(format!("{}\n", self.boot_id))
            .chain(marks.iter().filter_map(|mark| mark.line()))
            .collect();
        let written = self.file.set_len(0).and_then(|()| self.file.write_all_at(text.as_bytes(), 0));
        if let Err(error) = written {
            tracing::debug!(%error, path = %self.path.display(), "a lock's holder could not write its file");
        }
    }

    /// The lock was given back.
    pub(super) fn end(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a holder's file is here and somebody holds it.
pub(super) fn lives(cache: &Cache, nonce: Nonce) -> bool {
    let file = File::open(cache.folder(FOLDER).join(nonce.to_string()));
    file.is_ok_and(|file| flock(file, FlockOperation::NonBlockingLockShared).is_err())
}

/// Whether it is proved that the holder of `lock` is dead.
pub(super) fn is_dead(cache: &Cache, lock: &Lock) -> bool {
    let Some(block) = lock.block() else { return false };
    let path = cache.folder(FOLDER).join(block.nonce.to_string());
    let Ok(mut file) = File::open(path) else { return false };
    // A shared one, so that two who ask at once do not take each other for the holder.
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return false;
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut file).take(MOST_BYTES).read_to_string(&mut text);
    let mut lines = text.split_inclusive('\n');
    let of_this_boot = lines.next().map(str::trim_end).is_some_and(|id| Some(id) == boot_id().as_deref());
    read.is_ok() && of_this_boot && lines.any(|line| Some(line) == Mark::of(lock).line().as_deref())
}

/// Removes files of holders that died long ago.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old =
            changed.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > KEPT_FOR));
        let is_free = |file: File| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_old && File::open(entry.path()).is_ok_and(is_free) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn boot_id() -> Option<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{format::lock::LockBlock, id::StoreId};

    fn cache(folder: &Path) -> Cache {
        Cache::new(folder, StoreId::from_parts(1, [1; 10]), &"acme".parse().unwrap())
    }

    /// The lock as one of its writes left it.
    fn lock(nonce: Nonce, write: u8) -> Lock {
        let text = br#"{"version": 1, "renewed_at_ms": 1000, "expires_at_ms": 9000}"#;
        let mut lock = Lock::decode(text).unwrap();
        let mark = Some(Nonce::from_bytes([write; 16]));
        lock.pstore = Some(LockBlock { mark, ..crate::catalog::lock::block(&lock, nonce, None) });
        lock
    }

    #[test]
    fn a_holder_is_dead_only_if_its_file_is_there_and_nobody_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, nonce) = (cache(folder.path()), Nonce::from_bytes([7; 16]));
        let held = lock(nonce, 0);
        assert!(!is_dead(&cache, &held), "nothing is known of it");
        let presence = Presence::announce(&cache, nonce).unwrap();
        presence.names(&[Mark::of(&held)]);
        assert!(!is_dead(&cache, &held), "it lives");
        drop(presence);
        assert!(is_dead(&cache, &held));
        assert!(!is_dead(&cache, &lock(nonce, 1)), "somebody has renewed it since");
        assert!(!is_dead(&cache, &lock(Nonce::from_bytes([8; 16]), 0)), "another's lock");
    }

    #[test]
    fn a_file_of_another_boot_or_one_that_is_torn_proves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, nonce) = (cache(folder.path()), Nonce::from_bytes([7; 16]));
        let held = lock(nonce, 0);
        drop(Presence::announce(&cache, nonce).unwrap());
        let boot_id = boot_id().unwrap();
        let path = cache.folder(FOLDER).join(nonce.to_string());
        let [first, second] = ["00", "01"].map(|byte| byte.repeat(16));
        for text in [
            String::new(),
            format!("another\n{first}\n"),
            format!("{boot_id}\n"),
            format!("{boot_id}\n{first}"),
            format!("{boot_id}\n{second}\n"),
            format!("{first}\n"),
        ] {
            fs::write(&path, &text).unwrap();
            assert!(!is_dead(&cache, &held), "{text:?}");
        }
        fs::write(&path, format!("{boot_id}\n{first}\n{second}\n")).unwrap();
        assert!(is_dead(&cache, &held) && is_dead(&cache, &lock(nonce, 1)));
        assert!(!is_dead(&cache, &Lock { pstore: None, ..held }), "a lock of the contract");
    }

    #[test]
    fn files_of_the_long_dead_are_swept_and_those_of_the_living_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let [old, living, new] = [1, 2, 3].map(|byte| Nonce::from_bytes([byte; 16]));
        drop(Presence::announce(&cache, old).unwrap());
        let lives = Presence::announce(&cache, living).unwrap();
        for nonce in [old, living] {
            let file = File::open(cache.folder(FOLDER).join(nonce.to_string())).unwrap();
            file.set_modified(SystemTime::now() - 2 * KEPT_FOR).unwrap();
        }
        Presence::announce(&cache, new).unwrap().end();
        let left: Vec<_> =
            fs::read_dir(cache.folder(FOLDER)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [living.to_string().as_str()]);
        drop(lives);
    }
}
