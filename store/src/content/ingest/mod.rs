//! Turns files into chunks on all cores: read, cut, name, look up, compress, pack.
//!
//! Workers take files in order. A worker that finds nothing left to read compresses
//! chunks for those that still read, so that one large file at the end keeps every core
//! busy. Nothing is queued unless somebody is idle, so memory stays bounded by the
//! workers' own buffers and the packs under way.

mod cutter;
mod startup_buffer;
mod work_queue;

use std::{
    collections::HashSet,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

pub use cutter::Cutter;
use cutter::{Parts, Window};
use startup_buffer::StartupBuffer;
use work_queue::{FailOnDrop, WorkItem, WorkQueue};

use super::{
    TenantStore,
    chunker::Chunker,
    compress::Compressor,
    dedup_index::DedupIndex,
    packer::Packer,
    upload::{UploadSlot, Uploader},
    workers,
};
use crate::{
    Error, Result,
    bucket::Buffers,
    format::{pack::EntryKind, tree::Extent},
    id::ChunkId,
    progress::{Progress, Tick},
};

const READ_BYTES: usize = 512 * 1024;

/// The files to turn into chunks.
pub trait Files: Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is no file.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the content of file `at` to `cutter`, in order. Called once for each file,
    /// from any thread.
    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()>;

    /// Whether this part of file `at` is read before most others when the snapshot is used:
    /// such parts are stored side by side.
    fn is_first(&self, at: usize, part: Range<u64>) -> bool {
        let _ = (at, part);
        false
    }
}

/// Is told the extents of the file with this number.
pub(crate) type Done<'a> = &'a (dyn Fn(usize, Vec<Extent>) -> Result<()> + Sync);

/// How much of the read content had to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ingested {
    pub new_chunks: u64,
    pub new_bytes: u64,
}

/// The shared state of one write's workers.
#[derive(Debug)]
pub(crate) struct Ingest {
    store: TenantStore,
    known: Arc<DedupIndex>,
    uploader: Arc<Uploader>,
    progress: Arc<dyn Progress>,
    chunker: Chunker,
    packer: Mutex<Option<Packer>>,
    /// Chunks that are read first; they go into the last pack, in one piece.
    aside: Mutex<StartupBuffer>,
    buffers: Buffers,
    /// Chunks that some worker of this write stores, until their pack is sent.
    claimed: Mutex<HashSet<ChunkId>>,
    /// Whether the uploader was told that there is something to come.
    announced: AtomicBool,
    new_chunks: AtomicU64,
    new_bytes: AtomicU64,
}

impl std::fmt::Debug for dyn Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

impl Ingest {
    pub fn new(
        store: TenantStore,
        known: Arc<DedupIndex>,
        uploader: Arc<Uploader>,
        progress: Arc<dyn Progress>,
    ) -> Self {
        let chunker = Chunker::new(store.chunking());
        // Those under way and the one that is filled.
        let buffers = Buffers::new(uploader.most_in_flight() + 1);
        Self {
            store,
            known,
            uploader,
            progress,
            chunker,
            packer: Mutex::default(),
            aside: Mutex::default(),
            buffers,
            claimed: Mutex::default(),
            announced: AtomicBool::new(false),
            new_chunks: AtomicU64::new(0),
            new_bytes: AtomicU64::new(0),
        }
    }

    /// Ingests all files, blocking; returns each file's extents.
    pub fn run(&self, files: &dyn Files, threads: usize) -> Result<Vec<Vec<Extent>>> {
        let done: Vec<Mutex<Vec<Extent>>> = (0..files.len()).map(|_| Mutex::default()).collect();
        self.run_with(files, threads, &|at, extents| {
            *done[at].lock() = extents;
            Ok(())
        })?;
        Ok(done.into_iter().map(|slot| slot.into_inner()).collect())
    }

    /// Ingests all files, blocking; `done` is told each file's extents, nearly in the order of the files, on any
    /// thread.
    pub fn run_with(&self, files: &dyn Files, threads: usize, done: Done<'_>) -> Result<()> {
        let pool = WorkQueue::default();
        workers::run(threads, || self.work(files, &pool, done))
    }

    /// Ingests files that come one after the other, blocking: `source` reads and cuts them, and the
    /// other threads compress the chunks.
    pub fn stream<T: Send>(
        &self,
        threads: usize,
        source: impl FnOnce(&mut Feed<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let pool = WorkQueue::default();
        pool.begin_read();
        let (source, ended) = (Mutex::new(Some(source)), Mutex::new(None));
        workers::run(threads, || {
            if let Some(source) = source.lock().take() {
                let guard = FailOnDrop(&pool);
                let mut feed = Feed {
                    ingest: self,
                    pool: &pool,
                    compressor: Compressor::new(self.store.chunking().zstd_level)?,
                    buffer: Window::new(READ_BYTES + self.chunker.max()),
                };
                *ended.lock() = Some(source(&mut feed)?);
                std::mem::forget(guard);
                pool.end_read();
            }
            // Nothing is left to read, only to compress.
            self.work(&NoFiles, &pool, &|_, _| Ok(()))
        })?;
        let ended = ended.into_inner();
        ended.ok_or_else(|| Error::Internal { what: "a stream has not ended".to_owned() })
    }

    /// Seals the last packs and reports; blocking.
    pub fn flush(&self) -> Result<Ingested> {
        let aside = std::mem::take(&mut *self.aside.lock());
        if !aside.is_empty() {
            let filled = self.packer.lock().as_ref().map_or(0, Packer::len);
            if filled + aside.len() > room(self.pack_bytes()) {
                self.send()?;
            }
            self.pack(|packer| aside.move_to(packer))?;
        }
        self.send()?;
        // What follows needs memory of its own: the tree, its tables, the index.
        self.buffers.retire();
        Ok(Ingested {
            new_chunks: self.new_chunks.load(Ordering::Relaxed),
            new_bytes: self.new_bytes.load(Ordering::Relaxed),
        })
    }

    fn work(&self, files: &dyn Files, pool: &WorkQueue, done: Done<'_>) -> Result<()> {
        // Also when a worker panics, so that nobody waits for it for ever.
        let guard = FailOnDrop(pool);
        let mut buffer = Window::new(READ_BYTES + self.chunker.max());
        let result = Compressor::new(self.store.chunking().zstd_level).and_then(|mut compressor| {
            while let Some(job) = pool.next_job(files.len()) {
                match job {
                    WorkItem::Compress(task) => {
                        self.store_chunk(&mut compressor, task.id, &task.raw, task.is_first)?
                    }
                    WorkItem::Read(at) => {
                        buffer.clear();
                        let is_first = |part| files.is_first(at, part);
                        let mut cutter = Cutter {
                            ingest: self,
                            pool,
                            compressor: &mut compressor,
                            buffer: &mut buffer,
                            file: Parts::new(&is_first),
                        };
                        files.read(at, &mut cutter)?;
                        done(at, cutter.finish()?)?;
                        pool.end_read();
                    }
                }
            }
            Ok(())
        });
        if result.is_ok() {
            std::mem::forget(guard);
        }
        result
    }

    /// Claims the chunk for storing, unless it is stored or claimed already.
    fn claim(&self, id: ChunkId) -> bool {
        // In this order: what is no longer claimed was sent before.
        if self.claimed.lock().contains(&id)
            || self.uploader.locate(&id).is_some()
            || self.known.locate(&id).is_some()
        {
            return false;
        }
        self.claimed.lock().insert(id)
    }

    /// Sends a pack off: from then on its chunks are found there.
    fn submit(&self, packer: Packer, place: UploadSlot) -> Result<()> {
        let sent: Vec<ChunkId> = packer.ids().collect();
        self.uploader.submit(packer, place)?;
        let mut claimed = self.claimed.lock();
        for id in &sent {
            claimed.remove(id);
        }
        Ok(())
    }

    /// Notes a chunk of a file, and stores it unless it is stored.
    fn take_chunk(
        &self,
        pool: &WorkQueue,
        compressor: &mut Compressor,
        file: &mut Parts<'_>,
        raw: &[u8],
    ) -> Result<()> {
        let id = self.store.key().id_of(raw);
        let is_first = file.push(Extent::Chunk { id, len: raw.len() as u32 });
        if self.claim(id) && !pool.offer(id, raw, is_first) {
            self.store_chunk(compressor, id, raw, is_first)?;
        }
        Ok(())
    }

    fn store_chunk(
        &self,
        compressor: &mut Compressor,
        id: ChunkId,
        raw: &[u8],
        is_first: bool,
    ) -> Result<()> {
        let frame = compressor.frame(raw)?;
        if !(is_first && self.aside.lock().push(id, raw.len() as u32, frame)) {
            self.pack(|packer| {
                packer.push(id, EntryKind::Data, raw.len() as u32, frame);
            })?;
        }
        self.new_chunks.fetch_add(1, Ordering::Relaxed);
        self.new_bytes.fetch_add(raw.len() as u64, Ordering::Relaxed);
        self.progress.tick(Tick { new_bytes: raw.len() as u64, ..Tick::default() });
        Ok(())
    }

    fn pack_bytes(&self) -> usize {
        self.store.chunking().pack_bytes as usize
    }

    /// Sends off the pack that is being filled, if there is one.
    fn send(&self) -> Result<()> {
        match self.packer.lock().take() {
            Some(packer) => self.submit(packer, self.uploader.wait_for_slot()?),
            None => Ok(()),
        }
    }

    /// Adds to the pack that is being filled, and sends it off if it is full then.
    fn pack(&self, add: impl FnOnce(&mut Packer)) -> Result<()> {
        let target = self.pack_bytes();
        let full = {
            let mut slot = self.packer.lock();
            let packer = slot.get_or_insert_with(|| {
                if !self.announced.swap(true, Ordering::Relaxed) {
                    self.uploader.announce();
                }
                Packer::recycling(room(target), &self.buffers)
            });
            add(packer);
            if packer.len() < target {
                None
            } else {
                // Waited for with the lock held: while too many packs travel, nobody fills another.
                let place = self.uploader.wait_for_slot()?;
                slot.take().map(|packer| (packer, place))
            }
        };
        full.map_or(Ok(()), |(packer, place)| self.submit(packer, place))
    }
}

/// Takes files one after the other.
pub(crate) struct Feed<'a> {
    ingest: &'a Ingest,
    pool: &'a WorkQueue,
    compressor: Compressor,
    buffer: Window,
}

impl std::fmt::Debug for Feed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Feed")
    }
}

impl Feed<'_> {
    /// Takes the next file, whose content `read` writes to the cutter, in order.
    pub fn file(&mut self, read: impl FnOnce(&mut Cutter<'_>) -> Result<()>) -> Result<Vec<Extent>> {
        self.buffer.clear();
        let mut cutter = Cutter {
            ingest: self.ingest,
            pool: self.pool,
            compressor: &mut self.compressor,
            buffer: &mut self.buffer,
            file: Parts::new(&|_| false),
        };
        read(&mut cutter)?;
        cutter.finish()
    }
}

/// For workers that only compress.
struct NoFiles;

impl Files for NoFiles {
    fn len(&self) -> usize {
        0
    }

    fn read(&self, _: usize, _: &mut Cutter<'_>) -> Result<()> {
        Ok(())
    }
}

/// The buffer for a pack of this size: the last chunk makes it a little larger.
fn room(target: usize) -> usize {
    target + target / 16
}
