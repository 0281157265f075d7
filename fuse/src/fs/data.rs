//! `data` writes a program's bytes into the overlay's data files, and makes and finds holes.

use std::{ops::Range, os::unix::fs::FileExt, sync::atomic::Ordering};

use parking_lot::Mutex;

use store::{
    content::chunk_fetcher::ReadAhead,
    format::tree::{MAX_FILE_BYTES, Time},
};

use super::{Answer, Fs, State, errno, gate::Pass, handles::What};
use crate::{
    Errno, Result,
    attributes::now,
    overlay::{change::Change, node::Ino, nodes::FoundNode},
};

/// What is to be done with a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// It may be written later; the file reaches to its end, unless `keep_size`.
    Reserve { keep_size: bool },
    /// It becomes a hole.
    Punch,
    /// It becomes zeros; the file reaches to its end, unless `keep_size`.
    Zero { keep_size: bool },
}

/// What is looked for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    Data,
    Hole,
}

impl Fs {
    pub fn open(&self, ino: Ino, writes: bool) -> Answer<u64> {
        let state = self.read_state();
        state.node(ino)?.file().ok_or(Errno::INVAL)?;
        if writes && self.is_read_only() {
            return Err(Errno::ROFS.into());
        }
        let read_ahead = Mutex::new(ReadAhead::default());
        Ok(self.handles.open(ino, writes, What::File { read_ahead }))
    }

    pub fn close(&self, handle: u64) {
        if let Some(handle) = self.handles.close(handle) {
            self.drop_if_unused(handle.ino);
        }
    }

    /// Writes, says how much: less than all of it if there was no room for more.
    pub fn write(&self, _: &Pass<'_>, ino: Ino, offset: u64, data: &[u8]) -> Answer<usize> {
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        if end > MAX_FILE_BYTES {
            return Err(Errno::FBIG.into());
        }
        if data.is_empty() {
            return Ok(0);
        }
        let written = self.put(ino, offset, data, now())?;
        self.written_bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    /// As [`Self::write`], for the kernel that writes what it has kept: it takes no notice of how much was written, so
    /// whatever is missing is an error.
    pub fn write_all(&self, pass: &Pass<'_>, ino: Ino, offset: u64, data: &[u8]) -> Answer<usize> {
        let mut written = 0;
        while written < data.len() {
            written += self.write(pass, ino, offset + written as u64, &data[written..])?;
        }
        Ok(written)
    }

    /// As [`Self::write`], as if at `time`. The caller sees to it that no commit begins meanwhile.
    pub(super) fn put(&self, ino: Ino, offset: u64, data: &[u8], time: Time) -> Answer<usize> {
        loop {
            let generation = self.change_state()?.generation_for(ino)?;
            let file = self.upper.writable(ino, generation).map_err(errno)?;
            let written = write_some(&file, data, offset)?;
            let crc = crc32c::crc32c(&data[..written]);
            let len = written as u64;
            let mut state = self.change_state()?;
            // A truncation beside this may have made that data file one that takes no more bytes.
            if state.generation_for(ino)? == generation {
                state.make(&Change::Write { ino, generation, offset, len, crc, time })?;
                return Ok(written);
            }
        }
    }

    pub fn allocate(&self, _: &Pass<'_>, ino: Ino, range: Range<u64>, what: Allocation) -> Answer<()> {
        if range.end > MAX_FILE_BYTES {
            return Err(Errno::FBIG.into());
        }
        let mut state = self.change_state()?;
        let (size, time) = (state.node(ino)?.file().ok_or(Errno::NODEV)?.size, now());
        let (offset, len) = (range.start, range.end - range.start);
        let change = match what {
            Allocation::Reserve { keep_size } if keep_size || range.end <= size => return Ok(()),
            Allocation::Reserve { .. } => Change::Truncate { ino, size: range.end, time },
            Allocation::Punch => Change::Zero { ino, offset, len, extend: false, time },
            Allocation::Zero { keep_size } => Change::Zero { ino, offset, len, extend: !keep_size, time },
        };
        state.make(&change)?;
        Ok(())
    }

    /// The first data, or the first hole, at or after `offset`.
    pub fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Answer<u64> {
        let state = self.read_state();
        let node = state.node(ino)?;
        let file = node.file().ok_or(Errno::INVAL)?;
        if offset >= file.size {
            return Err(Errno::NXIO.into());
        }
        let inside = file.holes().into_iter().find(|hole| hole.end > offset);
        match (what, inside) {
            (Seek::Data, Some(hole)) if hole.start <= offset => {
                if hole.end < file.size {
                    Ok(hole.end)
                } else {
                    Err(Errno::NXIO.into())
                }
            }
            (Seek::Data, _) => Ok(offset),
            (Seek::Hole, Some(hole)) => Ok(hole.start.max(offset)),
            (Seek::Hole, None) => Ok(file.size),
        }
    }
}

impl State {
    /// The generation that the next bytes of a file go to.
    fn generation_for(&self, ino: Ino) -> Answer<u32> {
        // One that is in the table knows which data files it has had.
        let last = self.nodes.table.last_generation(ino);
        let node = self.node(ino)?;
        let file = node.file().ok_or(Errno::INVAL)?;
        Ok(match (&node, last) {
            (FoundNode::Clean(_), Some(last)) => last + 1,
            _ => file.generation_for(self.nodes.table.epoch),
        })
    }
}

/// As much as there is room for; an error only if there is none at all.
fn write_some(file: &std::fs::File, data: &[u8], offset: u64) -> Result<usize> {
    let mut written = 0;
    while written < data.len() {
        match file.write_at(&data[written..], offset + written as u64) {
            Ok(0) => break,
            Ok(len) => written += len,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if written == 0 => return Err(errno(error)),
            Err(_) => break,
        }
    }
    if written == 0 { Err(Errno::IO) } else { Ok(written) }
}
