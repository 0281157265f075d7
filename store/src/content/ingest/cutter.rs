//! Reads one file after the other, and has `chunker` cut each into chunks.

use std::{io::Read, ops::Range};

use super::{Ingest, work_queue::WorkQueue};
use crate::{
    Result,
    content::{chunker::Chunker, compress::Compressor},
    error::ReadFault,
    format::tree::Extent,
    progress::Tick,
};

/// The bytes of a file that are read but not cut yet, in memory that serves many files:
/// asking for new memory for each would cost more than reading most of them.
pub(super) struct Window {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    pub fn new(len: usize) -> Self {
        Self { memory: vec![0; len], start: 0, end: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Reads until `most` bytes were read, the window is full or the file ends.
    fn fill(&mut self, reader: &mut impl Read, most: u64) -> std::io::Result<usize> {
        self.memory.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let room = self.memory.len() - self.end;
        let want = room.min(usize::try_from(most).unwrap_or(room));
        let mut total = 0;
        while total < want {
            match reader.read(&mut self.memory[self.end..self.end + want - total]) {
                Ok(0) => break,
                Ok(got) => {
                    self.end += got;
                    total += got;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }
}

/// Takes one file's bytes in order and cuts them.
pub struct Cutter<'a> {
    pub(super) ingest: &'a Ingest,
    pub(super) pool: &'a WorkQueue,
    pub(super) compressor: &'a mut Compressor,
    pub(super) buffer: &'a mut Window,
    pub(super) file: Parts<'a>,
}

/// The parts of a file that are cut so far.
pub(super) struct Parts<'a> {
    pub extents: Vec<Extent>,
    /// How long they are together.
    len: u64,
    /// Whether this part of it is read before most others.
    is_first: &'a dyn Fn(Range<u64>) -> bool,
}

impl<'a> Parts<'a> {
    pub fn new(is_first: &'a dyn Fn(Range<u64>) -> bool) -> Self {
        Self { extents: Vec::new(), len: 0, is_first }
    }

    /// Adds the next part; says whether it is read before most others.
    pub fn push(&mut self, extent: Extent) -> bool {
        let start = self.len;
        self.len += extent.len();
        self.extents.push(extent);
        (self.is_first)(start..self.len)
    }
}

impl std::fmt::Debug for Cutter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cutter").field("extents", &self.file.extents.len()).finish_non_exhaustive()
    }
}

impl Cutter<'_> {
    /// Takes the next bytes from `reader` until it ends or `most` are read; says how many.
    pub fn read_from(&mut self, reader: &mut impl Read, most: u64) -> Result<u64, ReadFault> {
        let mut total = 0;
        while total < most {
            let got = self.buffer.fill(reader, most - total)?;
            if got == 0 {
                break;
            }
            total += got as u64;
            self.cut(false)?;
            self.ingest.progress.tick(Tick { bytes: got as u64, ..Tick::default() });
        }
        Ok(total)
    }

    /// Zeros that take no space.
    pub fn hole(&mut self, len: u64) -> Result<()> {
        self.cut(true)?;
        match self.file.extents.last_mut() {
            _ if len == 0 => {}
            Some(Extent::Hole(before)) => {
                *before += len;
                self.file.len += len;
            }
            _ => {
                self.file.push(Extent::Hole(len));
            }
        }
        self.ingest.progress.tick(Tick { bytes: len, ..Tick::default() });
        Ok(())
    }

    /// The next part of the file is stored already, as `extent`. Everything before it has been
    /// cut.
    pub fn keep(&mut self, extent: Extent) {
        self.ingest.progress.tick(Tick { bytes: extent.len(), ..Tick::default() });
        self.file.push(extent);
    }

    /// The next part of the file is this chunk. Everything before it has been cut.
    pub fn chunk(&mut self, raw: &[u8]) -> Result<()> {
        let Self { ingest, pool, compressor, file, .. } = self;
        ingest.progress.tick(Tick { bytes: raw.len() as u64, ..Tick::default() });
        ingest.take_chunk(pool, compressor, file, raw)
    }

    /// Cuts as this tenant's files are cut.
    pub fn chunker(&self) -> Chunker {
        self.ingest.chunker.clone()
    }

    /// The largest file whose bytes are kept in the tree itself.
    pub fn inline_bytes(&self) -> u64 {
        self.ingest.store.chunking().inline_bytes.into()
    }

    /// Forgets the parts so far: the file changed and is read again.
    pub fn restart(&mut self) {
        self.buffer.clear();
        self.file = Parts::new(self.file.is_first);
    }

    pub(super) fn finish(mut self) -> Result<Vec<Extent>> {
        let inline = self.ingest.store.chunking().inline_bytes as usize;
        let bytes = self.buffer.bytes();
        if self.file.extents.is_empty() && !bytes.is_empty() && bytes.len() <= inline {
            return Ok(vec![Extent::Inline(bytes.to_vec())]);
        }
        self.cut(true)?;
        Ok(self.file.extents)
    }

    fn cut(&mut self, last: bool) -> Result<()> {
        let Self { ingest, pool, compressor, buffer, file } = self;
        let cut = ingest
            .chunker
            .cut_all(buffer.bytes(), last, |raw| ingest.take_chunk(pool, compressor, file, raw))?;
        buffer.start += cut;
        Ok(())
    }
}
