//! `WalkLog` records a walk: some forty bytes for each entry, to be gone through again and again.

use std::path::PathBuf;

use super::{
    codec::{put_path, put_state, put_time, put_xattrs, read_path, read_state, read_time, read_xattrs},
    records::{RecordReader, Records},
    walk::{FoundFile, WalkedEntry},
};
use crate::{
    Result,
    format::{
        self,
        bytes::{Put, Reader},
        tree::{Entry, Kind, MAX_PATH_BYTES, MAX_TARGET_BYTES, Meta, TreePath},
    },
};

const DIRECTORY: u8 = 0;
const SYMLINK: u8 = 1;
const HARD_LINK: u8 = 2;
const FILE: u8 = 3;

/// The choice for a file that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It has the content that it had.
    Keep,
    /// It is read in the first run.
    ReadFirst,
    /// It is read in the second run.
    ReadLast,
}

/// An entry as it was written down.
#[derive(Debug)]
pub(crate) struct Logged {
    /// A regular file has neither extents nor extended attributes.
    pub entry: Entry,
    /// Of a regular file: its state, and the choice for it.
    pub file: Option<(FoundFile, Choice)>,
}

#[derive(Debug, Default)]
pub(crate) struct WalkLog {
    records: Records,
    previous: Vec<u8>,
}

impl WalkLog {
    /// A log that keeps the excess over its memory below `folder`.
    pub fn below(folder: Option<PathBuf>) -> Self {
        Self { records: Records::below(folder), previous: Vec::new() }
    }

    /// Adds an entry, which comes after all that were added; `choice` counts if it is a regular file.
    pub fn push(&mut self, found: &WalkedEntry, choice: Choice) {
        let WalkedEntry { entry: Entry { path, meta, kind }, file, .. } = found;
        let previous = &mut self.previous;
        self.records.push(|out| {
            let tag = match (kind, file) {
                (Kind::Directory, _) => DIRECTORY,
                (Kind::Symlink { .. }, _) => SYMLINK,
                (Kind::HardLink { .. }, _) => HARD_LINK,
                (_, file) => FILE + choice as u8 + 3 * u8::from(file.is_some_and(|file| file.sparse)),
            };
            out.push(tag);
            put_path(out, previous, path.as_bytes());
            if let Kind::HardLink { target } = kind {
                return out.put_bytes(target.as_bytes());
            }
            [meta.mode, meta.uid, meta.gid].into_iter().for_each(|number| out.put_varint(number.into()));
            match (kind, file) {
                (_, Some(file)) => put_state(out, &file.state),
                (kind, None) => {
                    put_time(out, meta.mtime);
                    put_xattrs(out, &meta.xattrs);
                    if let Kind::Symlink { target } = kind {
                        out.put_bytes(target);
                    }
                }
            }
        });
    }

    /// All entries, in order.
    pub fn entries(&self) -> LogReader<'_> {
        LogReader { records: self.records.reader(), path: Vec::new() }
    }
}

/// Goes through a log.
#[derive(Clone, Debug)]
pub(crate) struct LogReader<'a> {
    records: RecordReader<'a>,
    path: Vec<u8>,
}

impl Iterator for LogReader<'_> {
    type Item = Result<Logged>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self { records, path } = self;
        records.read_next(|reader| read(reader, path))
    }
}

fn read(reader: &mut Reader<'_>, path: &mut Vec<u8>) -> format::Result<Logged> {
    let tag = reader.u8()?;
    read_path(reader, path)?;
    let entry_path = TreePath::new(path.clone())?;
    if tag == HARD_LINK {
        let target = TreePath::new(reader.bytes(MAX_PATH_BYTES, "a link's target")?)?;
        let entry = Entry { path: entry_path, meta: Meta::default(), kind: Kind::HardLink { target } };
        return Ok(Logged { entry, file: None });
    }
    let number =
        |reader: &mut Reader<'_>| reader.bounded(u32::MAX.into(), "a number").map(|number| number as u32);
    let (mode, uid, gid) = (number(reader)?, number(reader)?, number(reader)?);
    let meta = Meta { mode, uid, gid, ..Meta::default() };
    if tag >= FILE {
        let state = read_state(reader)?;
        let choice = match (tag - FILE) % 3 {
            0 => Choice::Keep,
            1 => Choice::ReadFirst,
            _ => Choice::ReadLast,
        };
        let found = FoundFile { state, sparse: tag >= FILE + 3 };
        let kind = Kind::File { size: state.size, extents: Vec::new() };
        let entry = Entry { path: entry_path, meta: Meta { mtime: state.mtime, ..meta }, kind };
        return Ok(Logged { entry, file: Some((found, choice)) });
    }
    let meta = Meta { mtime: read_time(reader)?, xattrs: read_xattrs(reader)?, ..meta };
    let kind = match tag {
        DIRECTORY => Kind::Directory,
        _ => Kind::Symlink { target: reader.bytes(MAX_TARGET_BYTES, "a symbolic link")?.to_vec() },
    };
    Ok(Logged { entry: Entry { path: entry_path, meta, kind }, file: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{format::tree::Time, tree::walk::FileState};

    #[test]
    fn a_walk_is_read_as_it_was_written_down() {
        let state = FileState {
            device: 7,
            inode: 1 << 40,
            size: 12,
            mtime: Time { seconds: -1, nanos: 999_999_999 },
            ctime: Time { seconds: 1 << 33, nanos: 0 },
        };
        let meta = Meta { mode: 0o4755, uid: 1000, gid: u32::MAX, mtime: state.mtime, ..Meta::default() };
        let with_xattrs = Meta { xattrs: vec![(b"user.x".to_vec(), vec![0; 9])], ..meta.clone() };
        let path = |text: &str| TreePath::new(text).unwrap();
        let entry = |text: &str, meta: &Meta, kind| Entry { path: path(text), meta: meta.clone(), kind };
        let file = || Kind::File { size: 12, extents: Vec::new() };
        let kinds = [
            (entry("", &with_xattrs, Kind::Directory), None),
            (entry("a", &meta, file()), Some((FoundFile { state, sparse: false }, Choice::Keep))),
            (entry("ab", &meta, file()), Some((FoundFile { state, sparse: true }, Choice::Keep))),
            (entry("ab c", &meta, file()), Some((FoundFile { state, sparse: true }, Choice::ReadFirst))),
            (entry("b", &meta, file()), Some((FoundFile { state, sparse: false }, Choice::ReadLast))),
            (entry("c", &Meta::default(), Kind::HardLink { target: path("a") }), None),
            (entry("d", &meta, Kind::Symlink { target: b"../x".to_vec() }), None),
        ];
        let mut log = WalkLog::default();
        for (entry, file) in &kinds {
            let (found, choice) = file.map_or((None, Choice::Keep), |(found, choice)| (Some(found), choice));
            let entry = entry.clone();
            log.push(&WalkedEntry { entry, file: found, has_other_names: false }, choice);
        }
        let again: Vec<_> =
            log.entries().map(|logged| logged.map(|logged| (logged.entry, logged.file)).unwrap()).collect();
        assert_eq!(again, kinds);
    }
}
