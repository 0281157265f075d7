//! `JournalRoom` sets aside the room that the next journal of a session needs.
//!
//! A commit begins a new journal when its snapshot is stored and current. If the disk of the session is full by then, the
//! session cannot be told so. So a commit that could still be refused takes the room first.

use std::{
    fs::{self, File},
    io,
    path::PathBuf,
};

use rustix::{
    fs::{FallocateFlags, fallocate, fstatvfs},
    io::Errno,
};

use super::{journal, session::SessionDir};

/// Room that is given back with the value, unless a journal has taken it.
#[derive(Debug)]
pub struct JournalRoom(PathBuf);

impl JournalRoom {
    /// Sets so many bytes aside; fails if they are not there.
    pub fn take(session: &SessionDir, bytes: u64) -> io::Result<Self> {
        let room = Self(journal::aside(&session.journal()));
        let file = File::create(&room.0)?;
        match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            Ok(()) => Ok(room),
            // Then at least it is there now.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let found = fstatvfs(&file)?;
                match found.f_bavail.saturating_mul(found.f_frsize) < bytes {
                    true => Err(Errno::NOSPC.into()),
                    false => Ok(room),
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for JournalRoom {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "room that was set aside is given back with the next journal");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

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
}
