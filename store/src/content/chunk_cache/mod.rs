//! `ChunkCache` keeps fetched chunks on this host's disk, for every process that needs them.
//!
//! ```text
//! <cache root>/<store>/<tenant>/chunks/<16 hex digits>   segments of fixed size
//! <cache root>/chunks.lock                               held while segments are made or evicted
//! ```
//!
//! Stored frames lie in segments, so that a few hundred files hold any number of chunks. A
//! segment takes its whole size from the disk when it is made, and counts as that, so the
//! limits hold before a byte is inserted, even if other processes insert at the same time. One process
//! appends to a segment and holds its flock meanwhile; the least recently used segment that
//! nobody appends to is evicted first.
//!
//! Nothing here is trusted: a chunk is checked against its id whenever it is read, so a torn
//! write, a damaged disk or a stranger's file costs a fetch and nothing else. No file is held
//! open for reading, so what is evicted is free at once.

mod eviction;
mod segment;
#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;

use self::segment::{Appender, Name, Slot};
use super::{
    cache::{Cache, make_private},
    chunk::Chunk,
};
use crate::{
    format::frame::Codec,
    id::{ChunkId, ChunkKey},
};

/// The shortest time between two looks for insertions of other processes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The shortest time between two marks of use on a segment that is read.
const TOUCH_AGAIN: Duration = Duration::from_secs(60);
/// The most bytes that may wait to be inserted; beyond them chunks are not cached.
const MAX_PENDING_BYTES: u64 = 32 << 20;

/// How much of the host the chunks of all stores and tenants may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes of chunks to keep on disk.
    pub max_bytes: u64,
    /// How many files to keep on disk.
    pub max_files: u64,
    /// The bytes that must stay free on the file system.
    pub min_free_bytes: u64,
    /// How many further files the file system must have room for.
    pub min_free_inodes: u64,
    /// How long a segment, which is one file, may become.
    pub segment_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 4 << 30,
            max_files: 4096,
            min_free_bytes: 1 << 30,
            min_free_inodes: 10_000,
            segment_bytes: 16 << 20,
        }
    }
}

/// A frame to be kept.
#[derive(Clone, Debug)]
pub struct NewFrame {
    /// The chunk's id.
    pub id: ChunkId,
    /// How the frame is stored.
    pub codec: Codec,
    /// The bytes of the frame.
    pub stored: Bytes,
}

/// One tenant's chunks on this host.
///
/// Lock order: the appender before the index; neither is held while a chunk is read.
#[derive(Debug)]
pub struct ChunkCache {
    folder: PathBuf,
    host_root: PathBuf,
    limits: Limits,
    index: Mutex<Index>,
    appender: Mutex<Option<Appender>>,
    pending_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Index {
    places: HashMap<ChunkId, CachedChunk>,
    segments: HashMap<Name, SegmentState>,
    looked: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct CachedChunk {
    segment: Name,
    at: u32,
    slot: Slot,
}

/// This process's knowledge of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentState {
    slots: u32,
    touched: Option<Instant>,
}

impl ChunkCache {
    /// The chunks that `cache` keeps for all processes of this host.
    pub fn new(cache: &Cache, limits: Limits) -> Self {
        Self {
            folder: cache.folder(eviction::FOLDER),
            host_root: cache.host_root().to_owned(),
            limits,
            index: Mutex::default(),
            appender: Mutex::default(),
            pending_bytes: AtomicU64::new(0),
        }
    }

    /// Whether the chunk seems to be here.
    pub fn has(&self, id: &ChunkId) -> bool {
        let mut index = self.index();
        if index.looked.is_none() {
            self.look(&mut index);
        }
        index.places.contains_key(id)
    }

    /// Learns the insertions and evictions of other processes, unless that was just done.
    pub(crate) fn refresh(&self) {
        let mut index = self.index();
        if index.looked.is_none_or(|looked| looked.elapsed() > LOOK_AGAIN) {
            self.look(&mut index);
        }
    }

    /// The chunk, if it is here and whole. One that is not is dropped.
    pub fn read(&self, key: &ChunkKey, id: &ChunkId, raw_len: u32) -> Option<Chunk> {
        thread_local! {
            static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let place = *self.index().places.get(id)?;
        let path = self.folder.join(place.segment.to_string());
        let read = STORED.with_borrow_mut(|buffer| {
            let (file, stored) = segment::read(&path, &place.slot, buffer).ok()?;
            let chunk = Chunk::check(key, id, place.slot.codec, stored, raw_len).ok()?;
            Some((file, chunk))
        });
        if let Some((file, chunk)) = read {
            self.touch(place.segment, &file);
            return Some(chunk);
        }
        tracing::debug!(%id, path = %path.display(), "a cached chunk is useless and is dropped");
        self.index().places.remove(id);
        let _ = segment::kill(&path, place.at, id);
        None
    }

    /// Takes note that `bytes` wait to be inserted; `false` if too much does already.
    pub fn expect(&self, bytes: u64) -> bool {
        let pending = self.pending_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if pending > MAX_PENDING_BYTES {
            self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        pending <= MAX_PENDING_BYTES
    }

    /// Keeps the [expected](Self::expect) frames. A failure is logged: the cache is a convenience.
    pub fn insert(&self, frames: Vec<NewFrame>) {
        let bytes: u64 = frames.iter().map(|frame| frame.stored.len() as u64).sum();
        if let Err(error) = self.try_insert(frames) {
            tracing::debug!(folder = %self.folder.display(), %error, "fetched chunks were not cached");
        }
        self.pending_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn try_insert(&self, frames: Vec<NewFrame>) -> io::Result<()> {
        let mut appender = self.appender.lock();
        for frame in frames {
            if self.has(&frame.id) {
                continue;
            }
            if eviction::is_short(&self.host_root, &self.limits)? {
                // Our own segment is no better than others.
                *appender = None;
                eviction::make(&self.host_root, &self.limits, 0)?;
            }
            let full = appender.as_ref().is_none_or(|open| !open.fits(frame.stored.len()));
            if full {
                *appender = None;
                *appender = Some(self.new_appender(frame.stored.len())?);
            }
            let Some(open) = &mut *appender else { continue };
            match open.append(&frame.id, frame.codec, &frame.stored) {
                Ok((at, slot)) => self.learn(open.name, at, frame.id, slot),
                Err(error) => {
                    *appender = None;
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// A segment to append to: one that was left unfinished, else a new one in room that is
    /// made for it.
    fn new_appender(&self, len: usize) -> io::Result<Appender> {
        make_private(&self.folder)?;
        let _lock = eviction::lock(&self.host_root)?;
        if let Some(found) = Appender::adopt(&self.folder, self.limits.segment_bytes, len) {
            return Ok(found);
        }
        eviction::evict_for(&self.host_root, &self.limits, 1)?;
        Appender::create(&self.folder, self.limits.segment_bytes, len)
    }

    fn learn(&self, segment: Name, at: u32, id: ChunkId, slot: Slot) {
        let mut index = self.index();
        index.places.insert(id, CachedChunk { segment, at, slot });
        index.segments.entry(segment).or_default().slots = at + 1;
    }

    fn look(&self, index: &mut Index) {
        index.looked = Some(Instant::now());
        let names: Vec<Name> = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        let before = index.segments.len();
        index.segments.retain(|name, _| names.contains(name));
        if index.segments.len() < before {
            let Index { places, segments, .. } = index;
            places.retain(|_, place| segments.contains_key(&place.segment));
        }
        for name in names {
            let seen = index.segments.entry(name).or_default();
            let from = seen.slots;
            let Ok((slots, next)) = segment::slots(&self.folder.join(name.to_string()), from) else {
                continue;
            };
            seen.slots = next;
            for (at, id, slot) in slots {
                index.places.entry(id).or_insert(CachedChunk { segment: name, at, slot });
            }
        }
    }

    fn touch(&self, segment: Name, file: &fs::File) {
        let mut index = self.index();
        let Some(seen) = index.segments.get_mut(&segment) else { return };
        if seen.touched.is_none_or(|touched| touched.elapsed() > TOUCH_AGAIN) {
            seen.touched = Some(Instant::now());
            let _ = file.set_modified(SystemTime::now());
        }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }
}
