//! Reads files whose holes are not in the stream, as GNU tar and libarchive write them.
//!
//! There are four forms: the map of the parts in the stream is in the header and blocks behind
//! it, in pax records one by one, in one pax record, or before the content. In every form,
//! parts must be in order, within the file, and together as long as the bytes that follow.

use std::{io::Read, vec};

use super::{
    BLOCK_LEN, Block,
    holes::Holes,
    numbers::unsigned_number,
    problem::{Problem, Result},
    read_full,
};
use crate::format;

/// How the names of records about sparse files start.
pub(super) const RECORD: &[u8] = b"GNU.sparse.";

/// The parts that a file may have.
const MAX_PARTS: usize = 1 << 20;
/// A file with more is one without: its zeros are stored as they are.
const MAX_HOLES: usize = 1 << 14;
/// The decimal digits of a number that fits.
const MAX_DIGITS: usize = 20;

/// Where the map is in a header, and in each block behind it: so many parts, then whether
/// there is another block. The header has the length of the file after that.
const PART_LEN: usize = 24;
const HEADER_PARTS: std::ops::Range<usize> = 386..482;
const HEADER_SIZE: std::ops::Range<usize> = 483..495;
const BLOCK_PARTS: std::ops::Range<usize> = 0..504;

/// Offset and length of a part that is in the stream.
type StreamPart = (u64, u64);

/// A header's description of a sparse file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    size: u64,
    parts: Vec<StreamPart>,
    goes_on: bool,
}

impl Head {
    pub(super) fn decode(block: &Block) -> format::Result<Self> {
        let (parts, goes_on) = decode_parts(block, HEADER_PARTS)?;
        Ok(Self { size: unsigned_number(&block[HEADER_SIZE], "real size")?, parts, goes_on })
    }

    /// With the parts that are told in the blocks that follow.
    pub(super) fn read_on(mut self, stream: &mut impl Read) -> Result<(u64, Vec<StreamPart>)> {
        while self.goes_on {
            let block = read_block(stream)?;
            let (parts, goes_on) = decode_parts(&block, BLOCK_PARTS)?;
            if parts.is_empty() {
                return Err(bad("whose map is incomplete"));
            }
            self.parts.extend(parts);
            self.goes_on = goes_on;
            few(self.parts.len() as u64)?;
        }
        Ok((self.size, self.parts))
    }
}

/// The first part without a length is none, and so are those behind it.
fn decode_parts(block: &Block, fields: std::ops::Range<usize>) -> format::Result<(Vec<StreamPart>, bool)> {
    let goes_on = block[fields.end] != 0;
    let told = block[fields].chunks_exact(PART_LEN).map(|field| field.split_at(PART_LEN / 2));
    let told = told.take_while(|(_, len)| len[0] != 0);
    let number = |field| unsigned_number(field, "map of parts");
    let parts =
        told.map(|(offset, len)| Ok((number(offset)?, number(len)?))).collect::<format::Result<_>>()?;
    Ok((parts, goes_on))
}

/// The pax records of a sparse file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SparseRecords {
    /// Its name: the header's own is one for programs that do not know this.
    pub name: Option<Vec<u8>>,
    version: (u64, u64),
    size: Option<u64>,
    count: Option<u64>,
    numbers: Vec<u64>,
}

impl SparseRecords {
    /// Takes in the record called so. `None` if it cannot be one.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let number = || decimal(value);
        match name {
            b"major" => self.version.0 = number()?,
            b"minor" => self.version.1 = number()?,
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = Some(number()?),
            b"numblocks" => self.count = Some(number()?),
            // One after the other, of each part.
            b"offset" if self.numbers.len().is_multiple_of(2) => self.numbers.push(number()?),
            b"numbytes" if !self.numbers.len().is_multiple_of(2) => self.numbers.push(number()?),
            b"map" if value.is_empty() => self.numbers.clear(),
            b"map" => self.numbers = value.split(|byte| *byte == b',').map(decimal).collect::<Option<_>>()?,
            _ => return None,
        }
        Some(())
    }

    /// The file's length and its parts; in the newest form `content` begins with them.
    pub fn read_on(self, content: &mut impl Read) -> Result<(u64, Vec<StreamPart>)> {
        let size = self.size.ok_or_else(|| bad("of unknown length"))?;
        let (numbers, count) = match self.version {
            (0, _) => (self.numbers, self.count),
            (1, 0) => (read_map(content)?, None),
            (major, minor) => return Err(bad(&format!("in version {major}.{minor}, which is not known"))),
        };
        let parts: Vec<StreamPart> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        if 2 * parts.len() != numbers.len() || count.is_some_and(|count| count != parts.len() as u64) {
            return Err(bad("whose map is incomplete"));
        }
        few(parts.len() as u64)?;
        Ok((size, parts))
    }
}

/// Numbers, each on a line of its own: how many parts there are, and those. Whole blocks.
fn read_map(content: &mut impl Read) -> Result<Vec<u64>> {
    let mut lines = Lines { content, block: [0; BLOCK_LEN], at: BLOCK_LEN };
    let count = lines.number()?;
    few(count)?;
    (0..2 * count).map(|_| lines.number()).collect()
}

struct Lines<'a, R> {
    content: &'a mut R,
    block: Block,
    at: usize,
}

impl<R: Read> Lines<'_, R> {
    fn number(&mut self) -> Result<u64> {
        let mut digits = Vec::new();
        loop {
            if self.at == BLOCK_LEN {
                (self.block, self.at) = (read_block(self.content)?, 0);
            }
            let byte = self.block[self.at];
            self.at += 1;
            match byte {
                b'\n' => return decimal(&digits).ok_or_else(|| bad("whose map is no list of numbers")),
                byte if digits.len() < MAX_DIGITS => digits.push(byte),
                _ => return Err(bad("whose map is no list of numbers")),
            }
        }
    }
}

fn read_block(stream: &mut impl Read) -> Result<Block> {
    let mut block = [0; BLOCK_LEN];
    match read_full(stream, &mut block).map_err(Problem::Read)? {
        BLOCK_LEN => Ok(block),
        _ => Err(bad("whose map is cut short")),
    }
}

/// Digits alone.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn few(parts: u64) -> Result<()> {
    match parts <= MAX_PARTS as u64 {
        true => Ok(()),
        false => Err(bad(&format!("of more than {MAX_PARTS} parts"))),
    }
}

fn bad(what: &str) -> Problem {
    Problem::bad(format!("it holds a sparse file {what}"))
}

/// The next part of a file: zeros that are not in the stream, then bytes that are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    pub zeros: u64,
    pub data: u64,
}

/// The rest of a file.
#[derive(Debug, Default)]
pub(super) struct Runs {
    now: Run,
    rest: vec::IntoIter<Run>,
}

impl Runs {
    /// All of it is in the stream.
    pub fn whole(size: u64) -> Self {
        Self { now: Run { zeros: 0, data: size }, ..Self::default() }
    }

    /// A file of `size` bytes, of which the `stored` ones in the stream are these parts; and its
    /// holes.
    pub fn sparse(size: u64, parts: &[StreamPart], stored: u64) -> Result<(Self, Holes)> {
        let (mut runs, mut holes) = (Vec::new(), Vec::new());
        let (mut at, mut told) = (0, 0_u64);
        // What is behind the last part is told by an empty one at the end, or not at all.
        for (offset, len) in parts.iter().copied().filter(|(_, len)| *len > 0).chain([(size, 0)]) {
            let end = offset.checked_add(len).filter(|end| *end <= size);
            let end = end.ok_or_else(|| bad("with a part beyond its end"))?;
            let zeros =
                offset.checked_sub(at).ok_or_else(|| bad("whose parts overlap, or are out of order"))?;
            if zeros > 0 {
                holes.push((at, zeros));
            }
            runs.push(Run { zeros, data: len });
            (at, told) = (end, told + len);
        }
        if told != stored {
            return Err(bad("whose map is not that of its content"));
        }
        if holes.len() > MAX_HOLES {
            holes.clear();
        }
        Ok((Self { now: Run::default(), rest: runs.into_iter() }, holes))
    }

    /// The next run, if there is one.
    pub fn next(&mut self) -> Option<&mut Run> {
        while self.now == Run::default() {
            self.now = self.rest.next()?;
        }
        Some(&mut self.now)
    }

    /// How much of it is in the stream.
    pub fn stored(&self) -> u64 {
        self.now.data + self.rest.as_slice().iter().map(|run| run.data).sum::<u64>()
    }
}

#[cfg(test)]
#[path = "sparse_tests.rs"]
mod tests;
