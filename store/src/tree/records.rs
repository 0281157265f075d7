//! `Records` holds any number of small things, to be read in the order in which they were added.
//!
//! The first blocks of bytes are in memory, the others in a file without a name. So any number of records takes little
//! memory.

use std::{borrow::Cow, fs::File, os::unix::fs::FileExt, path::PathBuf};

use crate::{
    Error, Result,
    format::{self, bytes::Reader},
    scratch,
};

/// Blocks of this size go back to the system when they are no longer needed.
const BLOCK_BYTES: usize = 1 << 20;
/// So many blocks stay in memory.
const IN_MEMORY: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Records {
    blocks: Vec<Block>,
    /// The block that is being filled.
    last: Vec<u8>,
    /// Where the file is made; without a folder, all is in memory.
    folder: Option<PathBuf>,
    file: Option<(File, u64)>,
}

#[derive(Debug)]
enum Block {
    Memory(Vec<u8>),
    File { offset: u64, len: usize },
}

impl Records {
    /// Records that keep all but a few blocks in a file below `folder`.
    pub fn below(folder: Option<PathBuf>) -> Self {
        Self { folder, ..Self::default() }
    }

    /// Adds a record that `encode` writes.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.last.len() >= BLOCK_BYTES {
            self.put_away();
        }
        encode(&mut self.last);
    }

    /// The next record begins a block, whose number this is.
    pub fn begin_block(&mut self) -> usize {
        if !self.last.is_empty() {
            self.put_away();
        }
        self.blocks.len()
    }

    /// From the first to the last.
    pub fn reader(&self) -> RecordReader<'_> {
        self.reader_from(0)
    }

    /// From the first of a block to the last.
    pub fn reader_from(&self, block: usize) -> RecordReader<'_> {
        RecordReader { records: self, next: block, block: Cow::Borrowed(&[]), at: 0 }
    }

    fn put_away(&mut self) {
        let block = match self.write() {
            Some(block) => block,
            // A host whose disk is full may have memory.
            None => {
                self.last.shrink_to_fit();
                Block::Memory(std::mem::take(&mut self.last))
            }
        };
        self.blocks.push(block);
        self.last.clear();
    }

    /// Writes the last block to the file, if it belongs there and that succeeds.
    fn write(&mut self) -> Option<Block> {
        if self.blocks.len() < IN_MEMORY {
            return None;
        }
        if self.file.is_none() {
            let made = scratch::unnamed_file(self.folder.as_ref()?);
            self.folder = self.folder.take().filter(|_| made.is_ok());
            self.file = made.ok().map(|file| (file, 0));
        }
        let (file, end) = self.file.as_mut()?;
        file.write_all_at(&self.last, *end).ok()?;
        let block = Block::File { offset: *end, len: self.last.len() };
        *end += self.last.len() as u64;
        Some(block)
    }

    /// The block with this number.
    fn block(&self, at: usize) -> Option<Result<Cow<'_, [u8]>>> {
        match self.blocks.get(at) {
            Some(Block::Memory(bytes)) => Some(Ok(Cow::Borrowed(bytes))),
            Some(Block::File { offset, len }) => Some(self.read(*offset, *len).map(Cow::Owned)),
            None if at == self.blocks.len() && !self.last.is_empty() => Some(Ok(Cow::Borrowed(&self.last))),
            None => None,
        }
    }

    fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.file.as_ref().map(|(file, _)| file.read_exact_at(&mut bytes, offset));
        match read {
            Some(Ok(())) => Ok(bytes),
            Some(Err(error)) => Err(internal(format!("what was put aside cannot be read: {error}"))),
            None => Err(internal("what was put aside is gone".to_owned())),
        }
    }
}

/// Goes through records.
#[derive(Clone, Debug)]
pub(crate) struct RecordReader<'a> {
    records: &'a Records,
    /// The number of the block after this one.
    next: usize,
    block: Cow<'a, [u8]>,
    /// Where in the block the next record begins.
    at: usize,
}

impl RecordReader<'_> {
    /// Decodes the next record by `read`, which must read all of it; `None` after the last.
    pub fn read_next<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'_>) -> format::Result<T>,
    ) -> Option<Result<T>> {
        if self.at >= self.block.len() {
            match self.records.block(self.next)? {
                Ok(block) => (self.block, self.at) = (block, 0),
                Err(error) => return Some(Err(error)),
            }
            self.next += 1;
        }
        let mut reader = Reader::new(&self.block[self.at..]);
        // Nobody but this process has had it.
        let read =
            read(&mut reader).map_err(|error| internal(format!("a record was not written well: {error}")));
        self.at = self.block.len() - reader.remaining();
        Some(read)
    }
}

fn internal(what: String) -> Error {
    Error::Internal { what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bytes::Put;

    fn fill(records: &mut Records) -> Vec<Vec<u8>> {
        let texts: Vec<Vec<u8>> =
            (0..5000_u32).map(|at| at.to_le_bytes().repeat(at as usize % 700)).collect();
        texts.iter().for_each(|text| records.push(|out| out.put_bytes(text)));
        texts
    }

    fn read(records: &Records) -> Vec<Vec<u8>> {
        let mut reader = records.reader();
        let next = || reader.read_next(|reader| Ok(reader.bytes(1 << 20, "a text")?.to_vec()));
        std::iter::from_fn(next).map(Result::unwrap).collect()
    }

    #[test]
    fn what_was_added_is_read_in_order_wherever_it_lies() {
        let folder = tempfile::tempdir().unwrap();
        let mut aside = Records::below(Some(folder.path().join("new")));
        let mut in_memory = Records::default();
        let texts = fill(&mut aside);
        fill(&mut in_memory);
        let in_file = |records: &Records| {
            records.blocks.iter().filter(|block| matches!(block, Block::File { .. })).count()
        };
        assert!(in_file(&aside) >= 3 && in_file(&in_memory) == 0, "{}", aside.blocks.len());
        assert!(read(&aside) == texts && read(&in_memory) == texts);
        let left: Vec<_> = std::fs::read_dir(folder.path().join("new")).unwrap().collect();
        assert!(left.is_empty(), "the file has no name: {left:?}");
    }

    #[test]
    fn where_no_file_can_be_made_all_is_in_memory() {
        let mut records = Records::below(Some("/proc/none".into()));
        let texts = fill(&mut records);
        assert!(records.file.is_none() && read(&records) == texts);
    }
}
