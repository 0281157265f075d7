//! `Journal` writes changes in the order they were made, each checked and numbered.
//!
//! ```text
//! file   = "pstore/journal/1\n" frame*
//! frame  = length u32 · crc32c of the rest u32 · number u64 · payload
//! ```
//!
//! The [base](super::checkpoint) that the changes start from comes first: frame 0, and before
//! it, if one frame is not enough, its earlier parts, which count up from 2⁶³. The changes
//! follow, counting up from 1. A frame that is cut short or whose checksum is wrong ends the
//! journal: what comes after it was never promised to anybody.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{FallocateFlags, fallocate};

use super::{change::Change, checkpoint::Checkpoint};

pub const MAGIC: &[u8] = b"pstore/journal/1\n";
const HEADER: usize = 16;
/// No frame holds more.
const MAX_PAYLOAD: usize = 256 << 20;
/// So much of a base goes into one frame.
const PART: usize = 16 << 20;
/// The number of the first part of a base that has more than one.
const FIRST_PART: u64 = 1 << 63;
/// A journal is not worth shortening before it is so long.
const LONG: u64 = 16 << 20;
/// Space that is set aside, so that a full disk does not keep anybody from deleting.
const HEADROOM: u64 = 256 << 10;

#[derive(Debug)]
pub struct Journal {
    file: Arc<File>,
    len: u64,
    /// Up to where space has been set aside.
    reserved: u64,
    next: u64,
    /// When it is longer than this, a new one from where things are is worth its while.
    enough: u64,
    /// A change could be written only in part, and not taken back: nothing may follow.
    broken: bool,
}

/// A journal as it was found.
#[derive(Debug)]
pub struct JournalContents {
    pub base: Vec<u8>,
    pub changes: Vec<(u64, Change)>,
    /// How much of it the base takes.
    pub base_len: u64,
    /// How much of it was whole.
    pub len: u64,
    /// Bytes after that.
    pub rest: u64,
}

impl Journal {
    /// Makes a journal at `path`, which must not exist, and makes it durable. What the
    /// directory says is for the caller to make durable.
    pub fn create(path: &Path, base: &[u8], changes: &[Change]) -> io::Result<Self> {
        Self::create_in_parts(path, base, PART, changes)
    }

    /// Makes a journal that takes the place of the one at `path`, once all of it is on disk and
    /// can be read back: until the rename nothing has happened to that one. What the directory
    /// says is for the caller to make durable. It takes the [room](super::journal_room) that was set aside for it.
    pub fn replace(path: &Path, base: &[u8], changes: &[Change]) -> io::Result<Self> {
        let aside = aside(path);
        let replaced = made_aside(&aside).and_then(|file| {
            let journal = Self::write_in_parts(file, base, PART, changes)?;
            let found = Self::read(&aside)?;
            let same = found.base == base && found.changes.iter().map(|(_, change)| change).eq(changes);
            if !same || Checkpoint::decode(base).is_err() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a new journal cannot be read"));
            }
            fs::rename(&aside, path)?;
            Ok(journal)
        });
        if replaced.is_err() {
            // On a full disk it has what room there was.
            let _ = fs::remove_file(&aside);
        }
        replaced
    }

    fn create_in_parts(path: &Path, base: &[u8], part: usize, changes: &[Change]) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        Self::write_in_parts(file, base, part, changes)
    }

    fn write_in_parts(file: File, base: &[u8], part: usize, changes: &[Change]) -> io::Result<Self> {
        let mut out = BufWriter::new(&file);
        out.write_all(MAGIC)?;
        let mut len = MAGIC.len() as u64;
        let mut put = |number: u64, payload: &[u8]| -> io::Result<u64> {
            out.write_all(&header(number, payload)?)?;
            out.write_all(payload)?;
            len += (HEADER + payload.len()) as u64;
            Ok(len)
        };
        let parts = base.len().div_ceil(part).max(1);
        for at in 0..parts {
            let number = if at + 1 < parts { FIRST_PART + at as u64 } else { 0 };
            put(number, &base[at * part..base.len().min((at + 1) * part)])?;
        }
        for (at, change) in changes.iter().enumerate() {
            put(at as u64 + 1, &change.encode())?;
        }
        out.flush()?;
        drop(out);
        file.sync_all()?;
        Ok(Self::at(file, len, changes.len() as u64 + 1, len))
    }

    /// A journal that takes the change `next` at `len`. It was `base` long when it was begun.
    fn at(file: File, len: u64, next: u64, base: u64) -> Self {
        let enough = LONG.max(base.saturating_mul(2));
        Self { file: Arc::new(file), len, reserved: 0, next, enough, broken: false }
    }

    /// Reads the journal at `path`.
    pub fn read(path: &Path) -> io::Result<JournalContents> {
        let bytes = fs::read(path)?;
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("it is not a journal of this version"))?;
        let mut base = Vec::new();
        for at in 0.. {
            let (number, part, after) = frame(rest)
                .filter(|(number, ..)| *number == 0 || *number == FIRST_PART + at)
                .ok_or_else(|| bad("its first record is damaged"))?;
            base.extend_from_slice(part);
            rest = after;
            if number == 0 {
                break;
            }
        }
        let base_len = (bytes.len() - rest.len()) as u64;
        let mut changes = Vec::new();
        while let Some((number, payload, after)) = frame(rest) {
            if number != changes.len() as u64 + 1 {
                break;
            }
            // A whole frame that means nothing was written by another version.
            let change = Change::decode(payload).map_err(|error| bad(&error.to_string()))?;
            changes.push((number, change));
            rest = after;
        }
        Ok(JournalContents {
            base,
            changes,
            base_len,
            len: (bytes.len() - rest.len()) as u64,
            rest: rest.len() as u64,
        })
    }

    /// Goes on after what was found, and drops what follows it. What was found is durable then.
    pub fn resume(path: &Path, found: &JournalContents) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        file.set_len(found.len)?;
        file.sync_all()?;
        Ok(Self::at(file, found.len, found.changes.len() as u64 + 1, found.base_len))
    }

    /// Appends a change: after this it survives the end of this process. Says its number.
    pub fn append(&mut self, change: &Change) -> io::Result<u64> {
        if self.broken {
            return Err(io::Error::from(rustix::io::Errno::IO));
        }
        let payload = change.encode();
        let bytes = [&header(self.next, &payload)?, payload.as_slice()].concat();
        self.reserve(bytes.len() as u64);
        if let Err(error) = self.file.write_all_at(&bytes, self.len) {
            // Half a change would end the journal for a reader, so nothing may come after it.
            self.broken = self.file.set_len(self.len).is_err();
            self.reserved = 0;
            return Err(error);
        }
        self.len += bytes.len() as u64;
        self.next += 1;
        Ok(self.next - 1)
    }

    /// Sets space aside. That it cannot be done is no error: the write will tell.
    fn reserve(&mut self, len: u64) {
        if self.len + len + HEADROOM / 2 > self.reserved {
            let end = self.len + len + HEADROOM;
            if fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.len, end - self.len).is_ok() {
                self.reserved = end;
            } else {
                // Not asked again for every change on a file system that cannot do it.
                self.reserved = self.len + len + HEADROOM;
            }
        }
    }

    /// To be made durable without holding up who appends.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// The number of the last change.
    pub fn last(&self) -> u64 {
        self.next - 1
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.next == 1
    }

    /// Whether it is so much longer than what it began with that a new one would be shorter by
    /// more than it takes to write.
    pub fn is_long(&self) -> bool {
        self.len > self.enough
    }

    /// It could not be shortened, and is to grow before that is tried again.
    pub fn stays_long(&mut self) {
        self.enough = self.enough.max(self.len + LONG);
    }
}

/// Where a journal is written that takes the place of the one at `path`.
pub(super) fn aside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// The file there, empty.
fn made_aside(aside: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(aside)?;
    // One that is empty may have room, which a truncation would give back.
    if file.metadata()?.len() > 0 {
        file.set_len(0)?;
    }
    Ok(file)
}

/// What comes before a payload. One that no reader would take is refused here.
fn header(number: u64, payload: &[u8]) -> io::Result<[u8; HEADER]> {
    if payload.len() > MAX_PAYLOAD {
        return Err(io::Error::from(rustix::io::Errno::TOOBIG));
    }
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[8..].copy_from_slice(&number.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[8..]), payload);
    header[4..8].copy_from_slice(&crc.to_le_bytes());
    Ok(header)
}

/// The first frame: its number, its payload, and what follows.
fn frame(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let word = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let (len, crc) = (word(0)? as usize, word(4)?);
    if len > MAX_PAYLOAD || rest.len() < len {
        return None;
    }
    let number = u64::from_le_bytes(header[8..].try_into().ok()?);
    (crc32c::crc32c(&bytes[8..HEADER + len]) == crc).then(|| (number, &rest[..len], &rest[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::node::Ino;

    fn change(n: u64) -> Change {
        Change::Sync { ino: Ino(n), number: n }
    }

    /// Bases of no byte to several frames, the last of them full, short or with a single byte.
    fn bases() -> impl Iterator<Item = Vec<u8>> {
        [0, 1, PART - 1, PART, PART + 1, 4 * PART, 4 * PART + 3]
            .map(|len| (0..len).map(|at| (at * 7) as u8).collect())
            .into_iter()
    }

    /// Of the frames that the tests write.
    const PART: usize = 8;

    #[test]
    fn a_journal_is_read_up_to_its_first_bad_frame() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for base in bases() {
            let mut journal = Journal::create_in_parts(&path, &base, PART, &[change(1)]).unwrap();
            let begun = journal.len();
            assert_eq!(journal.append(&change(2)).unwrap(), 2);
            let whole = journal.len();
            journal.append(&change(3)).unwrap();
            drop(journal);
            let bytes = fs::read(&path).unwrap();
            for cut in whole as usize..bytes.len() {
                fs::write(&path, &bytes[..cut]).unwrap();
                let found = Journal::read(&path).unwrap();
                assert_eq!(found.base, base);
                assert_eq!(found.changes, [(1, change(1)), (2, change(2))]);
                assert_eq!((found.len, found.rest), (whole, cut as u64 - whole));
                assert_eq!(found.base_len + (whole - begun), begun);
            }
            for at in whole as usize..bytes.len() {
                let mut bad = bytes.clone();
                bad[at] ^= 0x40;
                fs::write(&path, &bad).unwrap();
                assert_eq!(Journal::read(&path).unwrap().changes.len(), 2);
            }
            let found = Journal::read(&path).unwrap();
            let mut journal = Journal::resume(&path, &found).unwrap();
            assert_eq!(journal.append(&change(9)).unwrap(), 3);
            assert_eq!(Journal::read(&path).unwrap().changes[2], (3, change(9)));
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_base_of_which_anything_is_missing_or_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for base in bases() {
            let len = Journal::create_in_parts(&path, &base, PART, &[]).unwrap().len();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes.len() as u64, len);
            for at in 0..bytes.len() {
                fs::write(&path, &bytes[..at]).unwrap();
                Journal::read(&path).unwrap_err();
                let mut bad = bytes.clone();
                bad[at] ^= 0x40;
                fs::write(&path, &bad).unwrap();
                Journal::read(&path).unwrap_err();
            }
            fs::remove_file(&path).unwrap();
        }
    }

    /// A frame in which a part is left out, or comes twice, is whole all the same.
    #[test]
    fn the_parts_of_a_base_are_all_there_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        Journal::create_in_parts(&path, &[5; 3 * PART], PART, &[]).unwrap();
        let bytes = fs::read(&path).unwrap();
        let (magic, frames) = bytes.split_at(MAGIC.len());
        let frames: Vec<&[u8]> = frames.chunks(HEADER + PART).collect();
        let read = |order: &[usize]| {
            let frames: Vec<u8> = order.iter().flat_map(|at| frames[*at]).copied().collect();
            fs::write(&path, [magic, &frames].concat()).unwrap();
            Journal::read(&path).map(|found| found.base.len())
        };
        assert_eq!(read(&[0, 1, 2]).unwrap(), 3 * PART);
        for wrong in [&[0, 1][..], &[0, 0, 1, 2], &[1, 0, 2], &[1, 2]] {
            read(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_base_that_one_frame_could_not_hold_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let base = vec![3; super::PART + 1];
        Journal::create(&path, &base, &[change(1)]).unwrap();
        let found = Journal::read(&path).unwrap();
        assert!(found.base == base && found.changes == [(1, change(1))]);
        // No frame is longer than what a reader takes, and none shorter than what was said.
        header(1, &vec![0; MAX_PAYLOAD + 1]).unwrap_err();
        const { assert!(super::PART <= MAX_PAYLOAD && MAX_PAYLOAD <= u32::MAX as usize) };
    }

    #[test]
    fn a_journal_that_cannot_be_read_takes_nobodys_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let base = Checkpoint::fresh(None, &Default::default()).encode();
        Journal::create(&path, &base, &[change(1)]).unwrap();
        let before = fs::read(&path).unwrap();
        Journal::replace(&path, b"no base", &[]).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something is left of it");
        fs::write(path.with_extension("new"), "what a crash has left").unwrap();
        Journal::replace(&path, &base, &[change(7)]).unwrap();
        assert_eq!(Journal::read(&path).unwrap().changes, [(1, change(7))]);
    }

    #[test]
    fn a_journal_is_long_when_it_is_twice_as_long_as_its_base() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let value = Some(vec![0; 60 << 10]);
        let large = Change::Xattr { ino: Ino(1), name: b"x".to_vec(), value, time: Default::default() };
        let mut journal = Journal::create(&path, &vec![1; 2 * LONG as usize], &[]).unwrap();
        let begun = journal.len();
        while !journal.is_long() {
            journal.append(&large).unwrap();
        }
        assert!(journal.len() > 2 * begun && journal.len() < 2 * begun + (64 << 10));
        let found = Journal::read(&path).unwrap();
        assert!(Journal::resume(&path, &found).unwrap().is_long());
        journal.stays_long();
        assert!(!journal.is_long());
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        fs::write(&path, b"pstore/journal/2\n").unwrap();
        Journal::read(&path).unwrap_err();
        fs::write(&path, MAGIC).unwrap();
        Journal::read(&path).unwrap_err();
    }
}
