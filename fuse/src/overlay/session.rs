//! `SessionDir` is the directory of a session; it holds all that the next daemon needs to resume.
//!
//! ```text
//! <sessions>/<id>/session.json   what is mounted, where, by whom
//!                 lock           flocked by the daemon for as long as it lives
//!                 journal        names, attributes, and which bytes changed
//!                 data/          the changed bytes
//! <sessions>/.aside/<id>         a session that somebody has put out of the way
//! ```

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Serialize, de::DeserializeOwned};
use store::{Error, Result, error::IoContext};

const INFO: &str = "session.json";
const ASIDE: &str = ".aside";
const REMOVED: &str = ".removed-";
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOKERS_ARE_DONE: Duration = Duration::from_secs(2);

/// Where sessions are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPlace {
    /// Where mounts find them.
    Here,
    /// Where somebody has put them out of the way.
    Aside,
}

/// A session's directory, held: no other process uses it.
#[derive(Debug)]
pub struct SessionDir {
    path: PathBuf,
    lock: File,
}

impl SessionDir {
    /// Makes the session `id` below `sessions`. It is not one, nor durable, until it says
    /// [what it is about](Self::write_info).
    pub fn create(sessions: &Path, id: &str) -> Result<Self> {
        private(sessions, true).at("cannot make", sessions)?;
        let path = sessions.join(id);
        private(&path, false).at("cannot make", &path)?;
        private(&path.join("data"), false).at("cannot make", &path)?;
        let lock = File::create_new(path.join("lock")).at("cannot make", &path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).at("cannot lock", &path)?;
        Ok(Self { path, lock })
    }

    /// Takes a session that nobody uses; `None` if somebody does, or has just removed it.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        let started = Instant::now();
        loop {
            let taken = Self::locked(path, FlockOperation::NonBlockingLockExclusive)?;
            // Who only looks at it is done at once, and must not make it seem to be in use: its
            // changes would be left behind by whoever wanted to continue it.
            if taken.is_some() || started.elapsed() > LOOKERS_ARE_DONE || Self::look(path)?.is_none() {
                return Ok(taken);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// A session that nobody uses, to be looked at and not changed; `None` if somebody does.
    pub fn look(path: &Path) -> Result<Option<Self>> {
        Self::locked(path, FlockOperation::NonBlockingLockShared)
    }

    fn locked(path: &Path, how: FlockOperation) -> Result<Option<Self>> {
        let lock = match File::open(path.join("lock")) {
            // It was removed, all of it at once.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.exists() => return Ok(None),
            lock => lock.at("cannot open the session", path)?,
        };
        match flock(&lock, how) {
            Ok(()) => Ok(Some(Self { path: path.to_owned(), lock })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(Error::io("cannot lock", path, errno)),
        }
    }

    /// Lets somebody else take it from now on; whoever calls this does nothing more with it.
    pub fn unlock(&self) {
        if let Err(errno) = flock(&self.lock, FlockOperation::Unlock) {
            tracing::warn!(%errno, "a session stays locked until this process ends");
        }
    }

    /// The sessions below `sessions`, oldest first; those included that cannot be read.
    pub fn list(sessions: &Path, place: SessionPlace) -> Result<Vec<PathBuf>> {
        let aside = sessions.join(ASIDE);
        let sessions = if place == SessionPlace::Aside { &aside } else { sessions };
        let mut found = Vec::new();
        let entries = match fs::read_dir(sessions) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries.at("cannot read", sessions)?,
        };
        for entry in entries {
            let path = entry.at("cannot read", sessions)?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if !is_hidden && is_session(&path) {
                found.push(path);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn id(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    pub fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    pub fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Writes what the session is about. When this returns, the session is durable.
    pub fn write_info(&self, info: &impl Serialize) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(info)
            .map_err(|error| Error::Internal { what: format!("{INFO} cannot be written: {error}") })?;
        let sessions = self.path.parent().unwrap_or(&self.path);
        thread::scope(|scope| {
            let named = scope.spawn(|| File::open(sessions)?.sync_all());
            replace(&self.path, INFO, &bytes).at("cannot write", self.path.join(INFO))?;
            let panicked = |_| Err(io::Error::other("a thread panicked"));
            named.join().unwrap_or_else(panicked).at("cannot flush", sessions)
        })
    }

    /// What the session at `path` is about, whoever uses it.
    pub fn read_info<T: DeserializeOwned>(path: &Path) -> Result<T> {
        let path = path.join(INFO);
        let bytes = fs::read(&path).at("cannot read", &path)?;
        serde_json::from_slice(&bytes).map_err(|error| Error::damaged(path.display(), error))
    }

    /// Removes the session and everything in it.
    pub fn remove(&self) -> Result<()> {
        // All of it at once: what is left after an end in between is only rubbish, and nobody
        // takes it for a session that has lost a part.
        let removed = self.path.with_file_name(format!("{REMOVED}{}", self.id()));
        fs::rename(&self.path, &removed).at("cannot remove", &self.path)?;
        let rest = fs::read_dir(removed.parent().unwrap_or(&removed)).into_iter().flatten().flatten();
        for entry in rest.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(REMOVED.as_bytes()))
        {
            let _ = fs::remove_dir_all(entry.path());
        }
        Ok(())
    }

    /// Puts the session at `path`, which may be damaged, where no mount looks for it. Nothing in
    /// it is changed. `None` if somebody uses it; else where it is now.
    pub fn set_aside(path: &Path) -> Result<Option<PathBuf>> {
        let has_lock = path.join("lock").try_exists().unwrap_or(true);
        let held = if has_lock { Self::open(path)? } else { None };
        if has_lock && held.is_none() {
            return Ok(None);
        }
        let aside = path.parent().unwrap_or(path).join(ASIDE);
        let to = aside.join(path.file_name().unwrap_or_default());
        private(&aside, true).at("cannot make", &aside)?;
        fs::rename(path, &to).at("cannot move", path)?;
        for folder in [Some(aside.as_path()), aside.parent()].into_iter().flatten() {
            File::open(folder).and_then(|folder| folder.sync_all()).at("cannot flush", folder)?;
        }
        Ok(Some(to))
    }
}

/// Whether this is a session, whole or not. One that is being made has no description yet, and
/// nothing was written in it.
fn is_session(path: &Path) -> bool {
    match fs::symlink_metadata(path.join(INFO)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_dir(path.join("data")) {
            Ok(mut data) => data.next().is_some(),
            Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        },
        Err(error) => error.kind() != io::ErrorKind::NotADirectory,
        Ok(_) => true,
    }
}

fn private(folder: &Path, with_parents: bool) -> io::Result<()> {
    DirBuilder::new().recursive(with_parents).mode(0o700).create(folder)
}

/// Puts `bytes` in the place of `folder/name`, all of them or none, durably.
pub fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let aside = folder.join(format!(".{name}.new"));
    fs::write(&aside, bytes)?;
    File::open(&aside)?.sync_all()?;
    fs::rename(&aside, folder.join(name))?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_does_not_keep_anybody_from_taking_it() {
        let folder = tempfile::tempdir().unwrap();
        let session = SessionDir::create(folder.path(), "one").unwrap();
        let path = session.path().to_owned();
        assert!(SessionDir::look(&path).unwrap().is_none() && SessionDir::open(&path).unwrap().is_none());
        session.unlock();
        let looking = SessionDir::look(&path).unwrap().unwrap();
        assert!(SessionDir::look(&path).unwrap().is_some());
        let taking = std::thread::spawn(move || SessionDir::open(&path).unwrap().is_some());
        std::thread::sleep(Duration::from_millis(50));
        drop(looking);
        assert!(taking.join().unwrap());
    }
}
