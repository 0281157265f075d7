//! The journal: changes in the order they were made, each checked and numbered.
//!
//! ```text
//! file   = "pstore/journal/1\n" frame*
//! frame  = length u32 · crc32c of the rest u32 · number u64 · payload
//! ```
//!
//! A frame that is cut short or whose checksum is wrong ends the journal: what comes after
//! it was never promised to anybody. The payload of frame 0 is the [base](super::checkpoint)
//! that the changes start from.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use rustix::fs::{FallocateFlags, fallocate};

use super::change::Change;

pub const MAGIC: &[u8] = b"pstore/journal/1\n";
const HEADER: usize = 16;
/// No change is larger; a checkpoint's base may be.
const MAX_PAYLOAD: usize = 256 << 20;
/// Space that is set aside, so that a full disk does not keep anybody from deleting.
const HEADROOM: u64 = 256 << 10;

#[derive(Debug)]
pub struct Journal {
    file: Arc<File>,
    len: u64,
    /// Up to where space has been set aside.
    reserved: u64,
    next: u64,
    /// A change could be written only in part, and not taken back: nothing may follow.
    broken: bool,
}

/// A journal as it was found.
#[derive(Debug)]
pub struct Found {
    pub base: Vec<u8>,
    pub changes: Vec<(u64, Change)>,
    /// How much of it was whole.
    pub len: u64,
    /// Bytes after that.
    pub rest: u64,
}

impl Journal {
    /// Makes a journal at `path`, which must not exist, and makes it durable. What the
    /// directory says is for the caller to make durable.
    pub fn create(path: &Path, base: &[u8], changes: &[Change]) -> io::Result<Self> {
        let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
        let mut bytes = MAGIC.to_vec();
        put_frame(&mut bytes, 0, base);
        for (at, change) in changes.iter().enumerate() {
            put_frame(&mut bytes, at as u64 + 1, &change.encode());
        }
        file.write_all(&bytes)?;
        file.sync_all()?;
        let next = changes.len() as u64 + 1;
        Ok(Self { file: Arc::new(file), len: bytes.len() as u64, reserved: 0, next, broken: false })
    }

    /// Reads the journal at `path`.
    pub fn read(path: &Path) -> io::Result<Found> {
        let bytes = std::fs::read(path)?;
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad("it is not a journal of this version"))?;
        let mut frames = Vec::new();
        while let Some((number, payload, after)) = frame(rest) {
            if number != frames.len() as u64 {
                break;
            }
            frames.push(payload);
            rest = after;
        }
        let mut frames = frames.into_iter();
        let base = frames.next().ok_or_else(|| bad("its first record is damaged"))?.to_vec();
        let mut changes = Vec::new();
        for (at, payload) in frames.enumerate() {
            // A whole frame that means nothing was written by another version.
            let change = Change::decode(payload).map_err(|error| bad(&error.to_string()))?;
            changes.push((at as u64 + 1, change));
        }
        Ok(Found { base, changes, len: (bytes.len() - rest.len()) as u64, rest: rest.len() as u64 })
    }

    /// Goes on after what was found, and drops what follows it.
    pub fn resume(path: &Path, found: &Found) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        file.set_len(found.len)?;
        let next = found.changes.len() as u64 + 1;
        Ok(Self { file: Arc::new(file), len: found.len, reserved: 0, next, broken: false })
    }

    /// Appends a change: after this it survives the end of this process. Says its number.
    pub fn append(&mut self, change: &Change) -> io::Result<u64> {
        if self.broken {
            return Err(io::Error::from(rustix::io::Errno::IO));
        }
        let mut bytes = Vec::with_capacity(96);
        put_frame(&mut bytes, self.next, &change.encode());
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
}

fn put_frame(out: &mut Vec<u8>, number: u64, payload: &[u8]) {
    let start = out.len();
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(payload);
    let crc = crc32c::crc32c(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
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

    #[test]
    fn a_journal_is_read_up_to_its_first_bad_frame() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = Journal::create(&path, b"base", &[change(1)]).unwrap();
        assert_eq!(journal.append(&change(2)).unwrap(), 2);
        let whole = journal.len();
        journal.append(&change(3)).unwrap();
        drop(journal);
        let bytes = std::fs::read(&path).unwrap();
        for cut in whole as usize..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let found = Journal::read(&path).unwrap();
            assert_eq!(found.base, b"base");
            assert_eq!(found.changes, [(1, change(1)), (2, change(2))]);
            assert_eq!((found.len, found.rest), (whole, cut as u64 - whole));
        }
        for at in whole as usize..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x40;
            std::fs::write(&path, &bad).unwrap();
            assert_eq!(Journal::read(&path).unwrap().changes.len(), 2);
        }
        let found = Journal::read(&path).unwrap();
        let mut journal = Journal::resume(&path, &found).unwrap();
        assert_eq!(journal.append(&change(9)).unwrap(), 3);
        assert_eq!(Journal::read(&path).unwrap().changes[2], (3, change(9)));
    }

    #[test]
    fn what_is_no_journal_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, b"pstore/journal/2\n").unwrap();
        Journal::read(&path).unwrap_err();
        std::fs::write(&path, MAGIC).unwrap();
        Journal::read(&path).unwrap_err();
    }
}
