//! `JournalRoom` sets aside the room that the next journal of a session needs.
//!
//! A commit begins a new journal when its snapshot is stored and current. If the disk of the session is full by then, the
//! session cannot be told so. So a commit that could still be refused takes the room first.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use rustix::{
    fs::{FallocateFlags, fallocate, fstatvfs},
    io::Errno,
};

use super::{journal, session::SessionDir};

/// Room that is given back with the value, unless a journal has taken it.
#[derive(Debug)]
pub struct JournalRoom {
    path: PathBuf,
    /// Open, so that no other file gets its number.
    file: File,
}

impl JournalRoom {
    /// Sets so many bytes aside; fails if they are not there.
    pub fn take(session: &SessionDir, bytes: u64) -> io::Result<Self> {
        let path = journal::aside(&session.journal());
        // What a commit before has left there goes, so that this file is of this room alone.
        unless_gone(fs::remove_file(&path))?;
        let file = File::create(&path)?;
        let room = Self { path, file };
        match fallocate(&room.file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Ok(()) => Ok(room),
            // Then at least it is there now.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let found = fstatvfs(&room.file)?;
                match found.f_bavail.saturating_mul(found.f_frsize) < bytes {
                    true => Err(Errno::NOSPC.into()),
                    false => Ok(room),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives it back, unless a journal has taken it or another room is in its place.
    fn give_back(&self) -> io::Result<()> {
        let (own, found) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        match (own.dev(), own.ino()) == (found.dev(), found.ino()) {
            true => fs::remove_file(&self.path),
            false => Ok(()),
        }
    }
}

impl Drop for JournalRoom {
    fn drop(&mut self) {
        if let Err(error) = unless_gone(self.give_back()) {
            tracing::warn!(%error, "room that was set aside is given back with the next journal");
        }
    }
}

fn unless_gone(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{checkpoint::Checkpoint, journal::Journal},
        *,
    };

    #[test]
    fn a_journal_takes_the_room_that_was_set_aside_for_it() {
        const BYTES: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let session = SessionDir::create(folder.path(), "one").unwrap();
        let base = Checkpoint::fresh(None, &Default::default()).encode();
        let held = || fs::metadata(session.journal()).unwrap().blocks() * 512;
        Journal::create(&session.journal(), &base, &[]).unwrap();
        assert!(held() < BYTES);
        let room = JournalRoom::take(&session, BYTES).unwrap();
        Journal::replace(&session.journal(), &base, &[]).unwrap();
        assert!(held() >= BYTES, "{} bytes", held());
        drop(room);
        assert_eq!(Journal::read(&session.journal()).unwrap().base, base);

        drop(JournalRoom::take(&session, BYTES).unwrap());
        assert!(!journal::aside(&session.journal()).exists(), "nobody has taken it");
        JournalRoom::take(&session, 1 << 60).unwrap_err();
        assert!(!journal::aside(&session.journal()).exists());
    }

    #[test]
    fn a_room_that_another_has_replaced_leaves_that_one_alone() {
        const BYTES: u64 = 1 << 20;
        let folder = tempfile::tempdir().unwrap();
        let session = SessionDir::create(folder.path(), "one").unwrap();
        let base = Checkpoint::fresh(None, &Default::default()).encode();
        Journal::create(&session.journal(), &base, &[]).unwrap();
        let aside = journal::aside(&session.journal());
        let held = |path: &PathBuf| fs::metadata(path).unwrap().blocks() * 512;

        // The first is where it was set aside, or a journal has taken it.
        for is_taken in [false, true] {
            let first = JournalRoom::take(&session, BYTES).unwrap();
            if is_taken {
                Journal::replace(&session.journal(), &base, &[]).unwrap();
            }
            let second = JournalRoom::take(&session, BYTES).unwrap();
            drop(first);
            assert!(held(&aside) >= BYTES, "{} bytes", held(&aside));
            Journal::replace(&session.journal(), &base, &[]).unwrap();
            assert!(held(&session.journal()) >= BYTES, "{} bytes", held(&session.journal()));
            drop(second);
            assert_eq!(Journal::read(&session.journal()).unwrap().base, base);
        }
    }
}
