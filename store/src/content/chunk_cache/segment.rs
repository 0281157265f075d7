//! Reads and writes one segment of the cache: a table of slots, then stored frames.
//!
//! ```text
//! 0       "pstore-chunks/1\n"
//! 16      1024 slots of 48 bytes: chunk id, offset, stored length, codec, CRC-32C of these
//! 53248   frames
//! ```
//!
//! A frame is written before its slot, so a slot that checks names bytes that were written.
//! An empty slot ends the table; one that does not check is skipped.

use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
    str::FromStr,
};

use rustix::{
    fs::{FallocateFlags, FlockOperation},
    io::Errno,
};

use crate::{
    format::{frame::Codec, pack::MAX_STORED_LEN},
    id::{self, ChunkId},
};

const MAGIC: &[u8; 16] = b"pstore-chunks/1\n";
const SLOT_LEN: usize = 48;
const SLOTS: u32 = 1024;
pub(super) const DATA_START: u64 = 53_248;
/// The slot of a chunk that proved damaged.
const DEAD: [u8; SLOT_LEN] = [0xff; SLOT_LEN];

/// A segment's file name; nothing else is taken for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(u64);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for Name {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let name = Self(u64::from_str_radix(text, 16).map_err(drop)?);
        if name.to_string() == text { Ok(name) } else { Err(()) }
    }
}

/// Where a frame lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub offset: u32,
    pub stored_len: u32,
    pub codec: Codec,
}

impl Slot {
    fn encode(&self, id: &ChunkId) -> [u8; SLOT_LEN] {
        let mut bytes = [0; SLOT_LEN];
        bytes[..32].copy_from_slice(id.as_bytes());
        bytes[32..36].copy_from_slice(&self.offset.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.stored_len.to_le_bytes());
        bytes[40] = self.codec.to_u8();
        let crc = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SLOT_LEN]) -> Option<(ChunkId, Self)> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if crc32c::crc32c(&bytes[..44]) != word(44) {
            return None;
        }
        let mut id = [0; 32];
        id.copy_from_slice(&bytes[..32]);
        let codec = Codec::from_parts(bytes[40], 0, "").ok()?;
        Some((ChunkId::from_bytes(id), Self { offset: word(32), stored_len: word(36), codec }))
    }

    fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.stored_len)
    }
}

fn slot_at(at: u32) -> u64 {
    MAGIC.len() as u64 + u64::from(at) * SLOT_LEN as u64
}

type FilledSlot = (u32, ChunkId, Slot);

/// The slots from `from` on, and where the table ends.
pub(super) fn slots(path: &Path, from: u32) -> io::Result<(Vec<FilledSlot>, u32)> {
    if from >= SLOTS {
        return Ok((Vec::new(), SLOTS));
    }
    table(&open(path, false)?, from)
}

fn table(file: &File, from: u32) -> io::Result<(Vec<FilledSlot>, u32)> {
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0)?;
    if magic != *MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a segment"));
    }
    let mut bytes = vec![0; (SLOTS - from) as usize * SLOT_LEN];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], slot_at(from) + read as u64)? {
            0 => break,
            count => read += count,
        }
    }
    let mut found = Vec::new();
    let mut next = from;
    for slot in bytes[..read].as_chunks::<SLOT_LEN>().0 {
        if *slot == [0; SLOT_LEN] {
            break;
        }
        found.extend(Slot::decode(slot).map(|(id, slot)| (next, id, slot)));
        next += 1;
    }
    Ok((found, next))
}

/// Reads a frame to the start of `buffer`, which grows as it must.
pub(super) fn read<'a>(path: &Path, slot: &Slot, buffer: &'a mut Vec<u8>) -> io::Result<(File, &'a [u8])> {
    // Never allocated on a length's word alone.
    if slot.stored_len > MAX_STORED_LEN {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let len = slot.stored_len as usize;
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    let file = open(path, false)?;
    file.read_exact_at(&mut buffer[..len], slot.offset.into())?;
    Ok((file, &buffer[..len]))
}

/// Makes others not stumble over a slot whose chunk is damaged.
pub(super) fn kill(path: &Path, at: u32, id: &ChunkId) -> io::Result<()> {
    let file = open(path, true)?;
    let mut slot = [0; SLOT_LEN];
    file.read_exact_at(&mut slot, slot_at(at))?;
    if slot[..32] == id.as_bytes()[..] {
        file.write_all_at(&DEAD, slot_at(at))?;
    }
    Ok(())
}

fn open(path: &Path, write: bool) -> io::Result<File> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    File::options().read(true).write(write).custom_flags(nofollow.bits() as i32).open(path)
}

/// A segment in the hands of the one process that appends to it.
#[derive(Debug)]
pub(super) struct Appender {
    pub name: Name,
    file: File,
    slots: u32,
    end: u64,
    capacity: u64,
}

impl Appender {
    /// A segment that takes all its space at once. The caller has made room for it.
    pub fn create(folder: &Path, segment_bytes: u32, len: usize) -> io::Result<Self> {
        let capacity = u64::from(segment_bytes);
        if DATA_START + len as u64 > capacity {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame larger than a segment"));
        }
        let name = Name(u64::from_le_bytes(id::random()));
        let path = folder.join(name.to_string());
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let taken = lock(&file).and_then(|()| {
            match rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, capacity) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(errno) => return Err(errno.into()),
            }
            file.write_all_at(MAGIC, 0)
        });
        taken.inspect_err(|_| drop(fs::remove_file(&path)))?;
        Ok(Self { name, file, slots: 0, end: DATA_START, capacity })
    }

    /// A segment that its maker has left with room for `len` bytes.
    pub fn adopt(folder: &Path, segment_bytes: u32, len: usize) -> Option<Self> {
        let names =
            fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        names.into_iter().find_map(|name: Name| {
            let file = open(&folder.join(name.to_string()), true).ok()?;
            // Most are full, which their length tells.
            file.metadata().ok().filter(|meta| meta.len() + len as u64 <= segment_bytes.into())?;
            lock(&file).ok()?;
            let (found, slots) = table(&file, 0).ok()?;
            let end = found.iter().map(|(_, _, slot)| slot.end()).max().unwrap_or(DATA_START);
            let adopted =
                Self { name, file, slots, end: end.max(DATA_START), capacity: segment_bytes.into() };
            adopted.fits(len).then_some(adopted)
        })
    }

    pub fn fits(&self, len: usize) -> bool {
        self.slots < SLOTS && self.end + len as u64 <= self.capacity
    }

    /// The frame first, its slot second.
    pub fn append(&mut self, id: &ChunkId, codec: Codec, stored: &[u8]) -> io::Result<(u32, Slot)> {
        let too_long = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let offset = u32::try_from(self.end).map_err(too_long)?;
        let stored_len = u32::try_from(stored.len()).map_err(too_long)?;
        let (at, slot) = (self.slots, Slot { offset, stored_len, codec });
        self.file.write_all_at(stored, self.end)?;
        self.file.write_all_at(&slot.encode(id), slot_at(at))?;
        self.end = slot.end();
        self.slots += 1;
        Ok((at, slot))
    }
}

/// Excludes other appenders and evictors for as long as the file is open.
pub(super) fn lock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}
