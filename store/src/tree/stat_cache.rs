//! `StatCacheWriter` and `StatCacheReader` remember a directory as it was captured: its entries, the state and chunks
//! of its files, and the id of the tree they made. So an unchanged file costs a stat, and an unchanged tree no more
//! than its files.
//!
//! A file is known by its state only where [`super::stat_trust`] allows it; see there for why a state
//! that is the same does not always mean content that is the same. Extended attributes are
//! remembered too: setting one changes the ctime, as writing does.
//!
//! The entries have the order of a tree, so both go through them once, beside a walk. They lie in blocks, each with
//! its digest and the path of its last entry. What comes after a damaged one is not known, and that costs time and
//! nothing else.

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};

use super::{
    codec::{
        put_extents, put_other, put_path, put_state, put_xattrs, read_extents, read_path, read_state,
        read_xattrs,
    },
    walk::FileState,
    xattrs::Xattrs,
};
use crate::{
    format::{
        FormatError, Result,
        bytes::{Put, Reader},
        tree::{Entry, Extent, MAX_META_BYTES, MAX_PATH_BYTES, MAX_TARGET_BYTES, Meta, TreePath, in_order},
    },
    id::SnapshotId,
};

const PREFIX: &[u8] = b"pstore/stat/5\n";
/// A block ends with the entry that makes it so long.
const BLOCK_BYTES: usize = 256 << 10;
/// A block that is shorter is written anew with the next entries, so that blocks stay few.
const SHORT_BLOCK_BYTES: usize = BLOCK_BYTES / 4;
const DIGEST_LEN: usize = 32;
/// No entry that is not a regular file takes more.
const MAX_OTHER_BYTES: usize = 2 * (MAX_META_BYTES + MAX_TARGET_BYTES);

const FILE: u8 = 0;
const UNSURE_FILE: u8 = 1;
const OTHER: u8 = 2;

/// The knowledge of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its path below the directory.
    pub path: Vec<u8>,
    pub what: KnownEntry,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KnownEntry {
    /// A regular file. As long as it has this state, it has this content.
    File(KnownFile),
    /// A regular file as it was captured. Nobody can tell by its state whether it has changed since.
    UnsureFile(KnownFile),
    /// Anything else, encoded.
    Other(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownFile {
    pub state: FileState,
    /// Mode, user and group.
    pub rights: [u32; 3],
    pub xattrs: Xattrs,
    pub extents: Vec<Extent>,
}

impl Known {
    /// The file, if it is known to be the one with this state. Its rights are looked at too: they may have changed
    /// after they were looked at, and before its state was.
    pub fn file(&mut self, state: &FileState, meta: &Meta) -> Option<&mut KnownFile> {
        match self.is_unsure() {
            true => None,
            false => self.as_captured(state, meta),
        }
    }

    /// The file as it was captured, if it has this state still; it may have changed all the same.
    pub fn as_captured(&mut self, state: &FileState, meta: &Meta) -> Option<&mut KnownFile> {
        match &mut self.what {
            KnownEntry::File(file) | KnownEntry::UnsureFile(file)
                if file.state == *state && file.rights == rights(meta) =>
            {
                Some(file)
            }
            _ => None,
        }
    }

    /// Whether it is a file that may have changed though its state has not.
    pub fn is_unsure(&self) -> bool {
        matches!(self.what, KnownEntry::UnsureFile(_))
    }
}

fn rights(meta: &Meta) -> [u32; 3] {
    [meta.mode, meta.uid, meta.gid]
}

/// Writes the knowledge of one directory.
#[derive(Debug)]
pub(crate) struct StatCacheWriter<W> {
    out: W,
    block: Vec<u8>,
    previous: Vec<u8>,
}

impl<W: Write> StatCacheWriter<W> {
    /// All entries together make this tree.
    pub fn new(mut out: W, tree: &SnapshotId) -> io::Result<Self> {
        out.write_all(PREFIX)?;
        out.write_all(tree.as_bytes())?;
        out.write_all(blake3::hash(tree.as_bytes()).as_bytes())?;
        Ok(Self { out, block: Vec::new(), previous: Vec::new() })
    }

    /// Adds a file, which comes after all that was added.
    pub fn push_file(
        &mut self,
        path: &[u8],
        state: &FileState,
        meta: &Meta,
        extents: &[Extent],
    ) -> io::Result<()> {
        self.put_file((path, FILE), state, (rights(meta), &meta.xattrs), extents)
    }

    /// The same of a file whose state tells nothing.
    pub fn push_unsure_file(
        &mut self,
        path: &[u8],
        state: &FileState,
        meta: &Meta,
        extents: &[Extent],
    ) -> io::Result<()> {
        self.put_file((path, UNSURE_FILE), state, (rights(meta), &meta.xattrs), extents)
    }

    fn put_file(
        &mut self,
        (path, tag): (&[u8], u8),
        state: &FileState,
        (rights, xattrs): ([u32; 3], &Xattrs),
        extents: &[Extent],
    ) -> io::Result<()> {
        self.push(path, tag, |block| {
            put_state(block, state);
            rights.into_iter().for_each(|number| block.put_varint(number.into()));
            put_xattrs(block, xattrs);
            put_extents(block, extents);
        })
    }

    /// Adds an entry that is no regular file.
    pub fn push_other(&mut self, entry: &Entry) -> io::Result<()> {
        let mut encoded = Vec::new();
        put_other(&mut encoded, entry);
        self.push(entry.path.as_bytes(), OTHER, |block| block.put_bytes(&encoded))
    }

    fn push_known(&mut self, known: &Known) -> io::Result<()> {
        let tag = if known.is_unsure() { UNSURE_FILE } else { FILE };
        match &known.what {
            KnownEntry::File(KnownFile { state, rights, xattrs, extents })
            | KnownEntry::UnsureFile(KnownFile { state, rights, xattrs, extents }) => {
                self.put_file((&known.path, tag), state, (*rights, xattrs), extents)
            }
            KnownEntry::Other(encoded) => self.push(&known.path, OTHER, |block| block.put_bytes(encoded)),
        }
    }

    fn push(&mut self, path: &[u8], tag: u8, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        put_path(&mut self.block, &mut self.previous, path);
        self.block.push(tag);
        encode(&mut self.block);
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.end_block()?;
        self.put_block(&[], &[])?;
        Ok(self.out)
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let (block, last) = (std::mem::take(&mut self.block), std::mem::take(&mut self.previous));
        self.put_block(&last, &block)?;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    fn put_block(&mut self, last: &[u8], entries: &[u8]) -> io::Result<()> {
        let mut head = Vec::new();
        head.put_bytes(last);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head).update(entries);
        self.out.write_all(&((head.len() + entries.len()) as u64).to_le_bytes())?;
        self.out.write_all(hasher.finalize().as_bytes())?;
        self.out.write_all(&head)?;
        self.out.write_all(entries)
    }

    /// Adds a block as it was read.
    fn put_whole(&mut self, block: &Block) -> io::Result<()> {
        self.end_block()?;
        self.out.write_all(&(block.bytes.len() as u64).to_le_bytes())?;
        self.out.write_all(&block.digest)?;
        self.out.write_all(&block.bytes)
    }
}

/// A block as it was read, with how far it was decoded.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    digest: [u8; DIGEST_LEN],
    /// The path of its last entry.
    last: Vec<u8>,
    /// Where its entries begin.
    begin: usize,
    /// How much of it was read.
    read: usize,
    /// Whether its first entry was read, and no other.
    one_read: bool,
}

/// Reads it again, from the first entry to the last.
#[derive(Debug)]
pub(crate) struct StatCacheReader<R> {
    /// `None` if there is nothing more to be had.
    source: Option<R>,
    tree: Option<SnapshotId>,
    /// Whether the end was found where it belongs.
    is_whole: bool,
    block: Block,
    /// The entry that was read last, unless all were.
    current: Option<Known>,
    /// Whether somebody has asked for that one.
    is_found: bool,
}

impl<R: Read> StatCacheReader<R> {
    /// A source that is no stat cache, or one of another version, holds nothing.
    pub fn new(source: Option<R>) -> Self {
        let opened = source.and_then(|mut source| {
            let mut prefix = [0; PREFIX.len()];
            source.read_exact(&mut prefix).ok()?;
            let (mut tree, mut digest) = ([0; DIGEST_LEN], [0; DIGEST_LEN]);
            source.read_exact(&mut tree).and_then(|()| source.read_exact(&mut digest)).ok()?;
            let is_one = prefix == PREFIX && *blake3::hash(&tree).as_bytes() == digest;
            is_one.then(|| (source, SnapshotId::from_bytes(tree)))
        });
        let (source, tree) = opened.unzip();
        let mut reader =
            Self { source, tree, is_whole: false, block: Block::default(), current: None, is_found: false };
        reader.advance();
        reader
    }

    /// The tree that all entries together make.
    pub fn tree(&self) -> Option<SnapshotId> {
        self.tree
    }

    /// Whether all there was has been read.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The knowledge of the entry at `path`, which must come after all that were asked for. `passed` is told
    /// of those before it that nobody has asked for.
    pub fn find(&mut self, path: &TreePath, passed: &mut dyn FnMut(&Known)) -> Option<&mut Known> {
        while let Some(known) = &self.current {
            if in_order(&known.path, path.as_bytes()).is_ge() {
                break;
            }
            if !self.is_found {
                passed(known);
            }
            self.advance();
        }
        let found = self.current.as_mut().filter(|known| known.path == path.as_bytes());
        self.is_found |= found.is_some();
        found
    }

    /// Goes through the rest, as if somebody asked for an entry after it.
    pub fn rest(&mut self, passed: &mut dyn FnMut(&Known)) {
        while let Some(known) = &self.current {
            if !self.is_found {
                passed(known);
            }
            self.advance();
        }
    }

    /// Copies the entries before `path`, or all the rest, and leaves out the one at the path itself.
    pub fn copy<W: Write>(
        &mut self,
        path: Option<&TreePath>,
        writer: &mut StatCacheWriter<W>,
    ) -> io::Result<()> {
        let comes_before = |other: &[u8]| path.is_none_or(|path| in_order(other, path.as_bytes()).is_lt());
        while let Some(known) = &self.current {
            if self.block.one_read && self.block.is_long() && comes_before(&self.block.last) {
                writer.put_whole(&self.block)?;
                self.block.read = self.block.bytes.len();
            } else if comes_before(&known.path) {
                writer.push_known(known)?;
            } else {
                if path.is_some_and(|path| known.path == path.as_bytes()) {
                    self.advance();
                }
                return Ok(());
            }
            self.advance();
        }
        match self.is_whole {
            true => Ok(()),
            false => Err(io::Error::other("a cache of file states was damaged while it was used")),
        }
    }

    fn advance(&mut self) {
        self.is_found = false;
        let previous = self.current.take();
        if self.block.is_over() && !self.next_block() {
            return;
        }
        match self.decode(previous.map(|known| known.path)) {
            Ok(known) => self.current = Some(known),
            Err(error) => {
                tracing::warn!(%error, "the rest of a cache of file states is useless");
                (self.source, self.block) = (None, Block::default());
            }
        }
    }

    fn decode(&mut self, before: Option<Vec<u8>>) -> Result<Known> {
        let block = &mut self.block;
        let mut reader = Reader::new(&block.bytes[block.read..]);
        // The first path of a block shares nothing with the one before.
        let shared = before.clone().filter(|_| block.read > block.begin);
        let mut path = shared.unwrap_or_default();
        read_path(&mut reader, &mut path)?;
        if before.is_some_and(|before| in_order(&before, &path).is_ge()) {
            return Err(FormatError::malformed("file states out of order"));
        }
        let what = match reader.u8()? {
            tag @ (FILE | UNSURE_FILE) => {
                let state = read_state(&mut reader)?;
                let mut rights = [0; 3];
                for number in &mut rights {
                    *number = reader.bounded(u32::MAX.into(), "a number")? as u32;
                }
                let xattrs = read_xattrs(&mut reader)?;
                let file = KnownFile { state, rights, xattrs, extents: read_extents(&mut reader)? };
                if tag == FILE { KnownEntry::File(file) } else { KnownEntry::UnsureFile(file) }
            }
            OTHER => KnownEntry::Other(reader.bytes(MAX_OTHER_BYTES, "an entry")?.to_vec()),
            _ => return Err(FormatError::malformed("an unknown kind of file state")),
        };
        block.one_read = block.read == block.begin;
        block.read = block.bytes.len() - reader.remaining();
        Ok(Known { path, what })
    }

    /// Whether there is one more.
    fn next_block(&mut self) -> bool {
        let Some(source) = &mut self.source else { return false };
        match Block::read(source, std::mem::take(&mut self.block).bytes) {
            Some(block) if block.is_over() => self.is_whole = true,
            Some(block) => {
                self.block = block;
                return true;
            }
            None => tracing::warn!("a block of a cache of file states is damaged"),
        }
        self.source = None;
        false
    }
}

impl Block {
    /// The next one, if it is whole.
    fn read(source: &mut impl Read, mut bytes: Vec<u8>) -> Option<Self> {
        let (mut len, mut digest) = ([0; 8], [0; DIGEST_LEN]);
        source.read_exact(&mut len).and_then(|()| source.read_exact(&mut digest)).ok()?;
        let len = u64::from_le_bytes(len);
        bytes.clear();
        let got = source.take(len).read_to_end(&mut bytes).ok()?;
        if got as u64 != len || *blake3::hash(&bytes).as_bytes() != digest {
            return None;
        }
        let mut reader = Reader::new(&bytes);
        let last = reader.bytes(MAX_PATH_BYTES, "a path").ok()?.to_vec();
        let begin = bytes.len() - reader.remaining();
        Some(Self { bytes, digest, last, begin, read: begin, one_read: false })
    }

    fn is_over(&self) -> bool {
        self.read == self.bytes.len()
    }

    fn is_long(&self) -> bool {
        self.bytes.len() >= SHORT_BLOCK_BYTES
    }
}
