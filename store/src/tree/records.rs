//! `Records` holds many small things in a few blocks of bytes, to be read in the order in which they were added.

use crate::format::bytes::Reader;

/// Blocks of this size go back to the system when they are no longer needed.
const BLOCK_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Records {
    blocks: Vec<Vec<u8>>,
}

impl Records {
    /// Adds what `encode` appends.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        match self.blocks.last_mut() {
            Some(last) if last.len() < BLOCK_BYTES => encode(last),
            full => {
                if let Some(full) = full {
                    full.shrink_to_fit();
                }
                let mut block = Vec::new();
                encode(&mut block);
                self.blocks.push(block);
            }
        }
    }

    /// From the first to the last.
    pub fn reader(&self) -> RecordReader<'_> {
        RecordReader { rest: Reader::new(&[]), blocks: self.blocks.iter() }
    }
}

/// Goes through records.
#[derive(Clone, Debug)]
pub(crate) struct RecordReader<'a> {
    rest: Reader<'a>,
    blocks: std::slice::Iter<'a, Vec<u8>>,
}

impl<'a> RecordReader<'a> {
    /// What the next one is read from; `None` after the last. Whoever reads must read all of it.
    pub fn next_record(&mut self) -> Option<&mut Reader<'a>> {
        while self.rest.is_empty() {
            self.rest = Reader::new(self.blocks.next()?);
        }
        Some(&mut self.rest)
    }
}
