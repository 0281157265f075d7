//! `Copy` is a private copy of a database and its journal, on which recovery may happen.
//!
//! The source is read and nothing else: not locked, not recovered, its directory not
//! written to. The `-shm` file is left out, as SQLite makes it anew from the `-wal`.

use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{SeekFrom as Extent, copy_file_range, ioctl_ficlone, seek};
use tempfile::TempDir;

use super::header::{self, HEADER_BYTES, Identity};
use crate::{
    db_state::Deadline,
    profile_dir::{ProfileDir, with_suffix},
};

/// The copy's own name: no source's name, however odd, reaches SQLite.
const NAME: &str = "database";
const JOURNAL: &str = "-journal";
const WAL: &str = "-wal";

const BUFFER_BYTES: usize = 256 << 10;
/// So much is copied between two looks at the clock.
const PIECE_BYTES: usize = 64 << 20;

/// The copies, in a directory that is removed with this value.
#[derive(Debug)]
pub(super) struct Copy {
    directory: TempDir,
    pub(super) identity: Identity,
    /// Of the database and its journals.
    pub(super) bytes: u64,
    pub(super) database_bytes: u64,
    pub(super) hot_journal: bool,
    /// Whether the journal names a file that SQLite would read, and might remove.
    pub(super) names_another: bool,
    pub(super) wal: bool,
    /// Whether the source changed meanwhile: then the copy says nothing about it.
    pub(super) raced: bool,
}

impl Copy {
    /// `None` if there is no such file; an error of the kind `TimedOut` if it takes too long.
    pub(super) fn make(
        dir: &ProfileDir,
        path: &Path,
        scratch: &Path,
        deadline: Deadline,
    ) -> io::Result<Option<Self>> {
        let Some(database) = dir.file(path)? else { return Ok(None) };
        let (journal, wal) = (dir.file(&with_suffix(path, JOURNAL))?, dir.file(&with_suffix(path, WAL))?);
        let files = [Some(&database), journal.as_ref(), wal.as_ref()];
        let before = states(files)?;
        // An absolute path is never taken for a URI.
        let directory = tempfile::Builder::new()
            .prefix("check-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(std::path::absolute(scratch)?)?;
        let place = directory.path().join(NAME);
        let copy = |from: &File, to: &Path| copy(from, to, deadline);
        let database_copy = copy(&database, &place)?;
        let journal_copy =
            journal.as_ref().map(|journal| copy(journal, &with_suffix(&place, JOURNAL))).transpose()?;
        let wal_copy = wal.as_ref().map(|wal| copy(wal, &with_suffix(&place, WAL))).transpose()?;
        let raced = before != states(files)?;

        // All that is said from here on is said of the copy.
        let length = |file: &Option<File>| -> io::Result<u64> {
            file.as_ref().map_or(Ok(0), |file| Ok(file.metadata()?.len()))
        };
        let (journal_bytes, wal_bytes) = (length(&journal_copy)?, length(&wal_copy)?);
        let database_bytes = database_copy.metadata()?.len();
        let (mut hot_journal, mut names_another) = (false, false);
        if let Some(journal) = &journal_copy {
            hot_journal = header::is_hot(&start(journal, HEADER_BYTES)?, database_bytes);
            let end = part(journal, journal_bytes.saturating_sub(HEADER_BYTES as u64), HEADER_BYTES)?;
            names_another = hot_journal && header::names_another(&end, journal_bytes);
        }
        Ok(Some(Self {
            identity: Identity::of(&start(&database_copy, HEADER_BYTES)?),
            directory,
            bytes: database_bytes + journal_bytes + wal_bytes,
            database_bytes,
            hot_journal,
            names_another,
            wal: wal_bytes > 0,
            raced,
        }))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join(NAME)
    }
}

/// The first bytes of a file.
pub(crate) fn start(file: &File, max: usize) -> io::Result<Vec<u8>> {
    part(file, 0, max)
}

fn part(mut file: &File, offset: u64, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(max as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

type FileTimes = (u64, i64, i64, i64, i64);

fn states(files: [Option<&File>; 3]) -> io::Result<[Option<FileTimes>; 3]> {
    let mut states = [None; 3];
    for (state, file) in states.iter_mut().zip(files) {
        if let Some(file) = file {
            let meta = file.metadata()?;
            *state = Some((meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()));
        }
    }
    Ok(states)
}

/// Shares the blocks where the file system can; else copies everything but holes.
pub(super) fn copy(from: &File, to: &Path, deadline: Deadline) -> io::Result<File> {
    let to = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(to)?;
    let bytes = from.metadata()?.len();
    if bytes == 0 || ioctl_ficlone(&to, from).is_ok() {
        return Ok(to);
    }
    to.set_len(bytes)?;
    let mut at = 0;
    while at < bytes {
        // Where holes are not known, all is data. None left: ENXIO.
        let data = match seek(from, Extent::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => at,
        };
        let end = seek(from, Extent::Hole(data)).unwrap_or(bytes).clamp(data, bytes);
        if end <= at {
            break;
        }
        copy_extent(from, &to, data, end, deadline)?;
        at = end;
    }
    Ok(to)
}

fn copy_extent(from: &File, to: &File, mut at: u64, end: u64, deadline: Deadline) -> io::Result<()> {
    while at < end {
        in_time(deadline)?;
        let (mut read_at, mut write_at) = (at, at);
        let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        match copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), count) {
            Ok(0) => return Ok(()),
            Ok(copied) => at += copied as u64,
            // Whatever it is that the kernel cannot do here, reading and writing can; and
            // if not, that error is the one to tell.
            Err(_) => return copy_by_hand(from, to, at, end, deadline),
        }
    }
    Ok(())
}

fn copy_by_hand(from: &File, to: &File, mut at: u64, end: u64, deadline: Deadline) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    while at < end {
        in_time(deadline)?;
        let wanted = (end - at).min(BUFFER_BYTES as u64) as usize;
        match from.read_at(&mut buffer[..wanted], at) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                to.write_all_at(&buffer[..count], at)?;
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn in_time(deadline: Deadline) -> io::Result<()> {
    if deadline.passed() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
}

#[cfg(test)]
#[path = "copy_tests.rs"]
mod tests;
