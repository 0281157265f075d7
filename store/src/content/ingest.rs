//! Turns files into chunks on all cores: read, cut, name, look up, compress, pack.
//!
//! Workers take files in order. A worker that finds nothing left to read compresses
//! chunks for those that still read, so that one large file at the end keeps every core
//! busy. Nothing is queued unless somebody is idle, so memory stays bounded by the
//! workers' own buffers and the packs under way.

use std::{
    collections::{HashSet, VecDeque},
    io::Read,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use super::{
    TenantStore,
    chunker::Chunker,
    compress::Compressor,
    known::Known,
    packer::Packer,
    upload::{PACKS_IN_FLIGHT, Uploader},
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
const MAX_QUEUED: usize = 8;
/// Those under way and the one that is filled.
const PACKS_AT_ONCE: usize = PACKS_IN_FLIGHT + 1;

/// The files to turn into chunks.
pub trait Files: Sync {
    /// How many there are.
    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the content of file `at` to `cutter`, in order. Called once for each file,
    /// from any thread.
    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()>;
}

/// How much of what was read had to be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingested {
    pub new_chunks: u64,
    pub new_bytes: u64,
}

/// The shared state of one write's workers.
#[derive(Debug)]
pub struct Ingest {
    store: TenantStore,
    known: Arc<Known>,
    uploader: Arc<Uploader>,
    progress: Arc<dyn Progress>,
    chunker: Chunker,
    packer: Mutex<Option<Packer>>,
    buffers: Buffers,
    /// Chunks that some worker of this write stores or has stored.
    claimed: Mutex<HashSet<ChunkId>>,
    /// Whether the uploader was told that there is something to come.
    announced: AtomicBool,
    new_chunks: AtomicU64,
    new_bytes: AtomicU64,
}

struct Task {
    id: ChunkId,
    raw: Vec<u8>,
}

/// What idle workers wait for.
#[derive(Default)]
struct Pool {
    state: Mutex<PoolState>,
    changed: Condvar,
    idle: AtomicUsize,
}

#[derive(Default)]
struct PoolState {
    tasks: VecDeque<Task>,
    next: usize,
    reading: usize,
    failed: bool,
}

impl std::fmt::Debug for dyn Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

impl Ingest {
    pub fn new(
        store: TenantStore,
        known: Arc<Known>,
        uploader: Arc<Uploader>,
        progress: Arc<dyn Progress>,
    ) -> Self {
        let chunker = Chunker::new(store.chunking());
        Self {
            store,
            known,
            uploader,
            progress,
            chunker,
            packer: Mutex::default(),
            buffers: Buffers::new(PACKS_AT_ONCE),
            claimed: Mutex::default(),
            announced: AtomicBool::new(false),
            new_chunks: AtomicU64::new(0),
            new_bytes: AtomicU64::new(0),
        }
    }

    /// Ingests all files, blocking; returns each file's extents.
    pub fn run(&self, files: &dyn Files, threads: usize) -> Result<Vec<Vec<Extent>>> {
        let done: Vec<Mutex<Vec<Extent>>> = (0..files.len()).map(|_| Mutex::default()).collect();
        let pool = Pool::default();
        workers::run(threads, || self.work(files, &pool, &done))?;
        Ok(done.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
    }

    /// Ingests files that come one after the other, blocking: `source` gives them, and the
    /// other threads compress what it has cut.
    pub fn stream<T: Send>(
        &self,
        threads: usize,
        source: impl FnOnce(&mut Feed<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let pool = Pool::default();
        lock(&pool.state).reading = 1;
        let (source, ended) = (Mutex::new(Some(source)), Mutex::new(None));
        workers::run(threads, || {
            if let Some(source) = lock(&source).take() {
                let guard = FailOnDrop(&pool);
                let mut feed = Feed {
                    ingest: self,
                    pool: &pool,
                    compressor: Compressor::new(self.store.chunking().zstd_level)?,
                    buffer: Window::new(READ_BYTES + self.chunker.max()),
                };
                *lock(&ended) = Some(source(&mut feed)?);
                std::mem::forget(guard);
                pool.end_read();
            }
            // Nothing is left to read, only to compress.
            self.work(&NoFiles, &pool, &[])
        })?;
        let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        ended.ok_or_else(|| Error::Internal { what: "a stream has not ended".to_owned() })
    }

    /// Seals what is left and reports; blocking.
    pub fn flush(&self) -> Result<Ingested> {
        if let Some(packer) = lock(&self.packer).take() {
            self.uploader.submit(packer, self.uploader.wait_for_place()?)?;
        }
        // What follows needs memory of its own: the tree, its tables, the index.
        self.buffers.retire();
        Ok(Ingested {
            new_chunks: self.new_chunks.load(Ordering::Relaxed),
            new_bytes: self.new_bytes.load(Ordering::Relaxed),
        })
    }

    fn work(&self, files: &dyn Files, pool: &Pool, done: &[Mutex<Vec<Extent>>]) -> Result<()> {
        // Also when a worker panics, so that nobody waits for it for ever.
        let guard = FailOnDrop(pool);
        let mut buffer = Window::new(READ_BYTES + self.chunker.max());
        let result = Compressor::new(self.store.chunking().zstd_level).and_then(|mut compressor| {
            while let Some(job) = pool.next_job(files.len()) {
                match job {
                    Job::Compress(task) => self.store_chunk(&mut compressor, task.id, &task.raw)?,
                    Job::Read(at) => {
                        buffer.clear();
                        let mut cutter = Cutter {
                            ingest: self,
                            pool,
                            compressor: &mut compressor,
                            buffer: &mut buffer,
                            extents: Vec::new(),
                        };
                        files.read(at, &mut cutter)?;
                        *lock(&done[at]) = cutter.finish()?;
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
        if lock(&self.claimed).contains(&id) || self.known.locate(&id).is_some() {
            return false;
        }
        lock(&self.claimed).insert(id)
    }

    /// Notes a chunk of a file, and stores it unless it is stored.
    fn take_chunk(
        &self,
        pool: &Pool,
        compressor: &mut Compressor,
        extents: &mut Vec<Extent>,
        raw: &[u8],
    ) -> Result<()> {
        let id = self.store.key().id_of(raw);
        extents.push(Extent::Chunk { id, len: raw.len() as u32 });
        if self.claim(id) && !pool.offer(id, raw) {
            self.store_chunk(compressor, id, raw)?;
        }
        Ok(())
    }

    fn store_chunk(&self, compressor: &mut Compressor, id: ChunkId, raw: &[u8]) -> Result<()> {
        let frame = compressor.frame(raw)?;
        let target = self.store.chunking().pack_bytes as usize;
        let full = {
            let mut slot = lock(&self.packer);
            let packer = slot.get_or_insert_with(|| {
                if !self.announced.swap(true, Ordering::Relaxed) {
                    self.uploader.announce();
                }
                Packer::recycling(target + target / 16, &self.buffers)
            });
            packer.push(id, EntryKind::Data, raw.len() as u32, frame);
            if packer.len() < target {
                None
            } else {
                // Waited for with the lock held: while too many packs travel, nobody fills another.
                let place = self.uploader.wait_for_place()?;
                slot.take().map(|packer| (packer, place))
            }
        };
        self.new_chunks.fetch_add(1, Ordering::Relaxed);
        self.new_bytes.fetch_add(raw.len() as u64, Ordering::Relaxed);
        self.progress.tick(Tick { new_bytes: raw.len() as u64, ..Tick::default() });
        full.map_or(Ok(()), |(packer, place)| self.uploader.submit(packer, place))
    }
}

/// Takes files one after the other.
pub struct Feed<'a> {
    ingest: &'a Ingest,
    pool: &'a Pool,
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
            extents: Vec::new(),
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

enum Job {
    Compress(Task),
    Read(usize),
}

struct FailOnDrop<'a>(&'a Pool);

impl Drop for FailOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

impl Pool {
    fn next_job(&self, files: usize) -> Option<Job> {
        let mut state = lock(&self.state);
        loop {
            if state.failed {
                return None;
            }
            if let Some(task) = state.tasks.pop_front() {
                return Some(Job::Compress(task));
            }
            if state.next < files {
                state.next += 1;
                state.reading += 1;
                return Some(Job::Read(state.next - 1));
            }
            if state.reading == 0 {
                return None;
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn end_read(&self) {
        lock(&self.state).reading -= 1;
        self.changed.notify_all();
    }

    fn fail(&self) {
        lock(&self.state).failed = true;
        self.changed.notify_all();
    }

    /// Hands a chunk to an idle worker, if there is one with nothing to do.
    fn offer(&self, id: ChunkId, raw: &[u8]) -> bool {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut state = lock(&self.state);
        if state.tasks.len() >= MAX_QUEUED {
            return false;
        }
        state.tasks.push_back(Task { id, raw: raw.to_vec() });
        drop(state);
        self.changed.notify_one();
        true
    }
}

/// The bytes of a file that are read but not cut yet, in memory that serves many files:
/// asking for new memory for each would cost more than reading most of them.
struct Window {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Window {
    fn new(len: usize) -> Self {
        Self { memory: vec![0; len], start: 0, end: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    fn clear(&mut self) {
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
    ingest: &'a Ingest,
    pool: &'a Pool,
    compressor: &'a mut Compressor,
    buffer: &'a mut Window,
    extents: Vec<Extent>,
}

impl std::fmt::Debug for Cutter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cutter").field("extents", &self.extents.len()).finish_non_exhaustive()
    }
}

impl Cutter<'_> {
    /// Takes the next bytes from `reader` until it ends or `most` are read; says how many.
    pub fn read_from(&mut self, reader: &mut impl Read, most: u64) -> std::io::Result<Result<u64>> {
        let mut total = 0;
        while total < most {
            let got = self.buffer.fill(reader, most - total)?;
            if got == 0 {
                break;
            }
            total += got as u64;
            if let Err(error) = self.cut(false) {
                return Ok(Err(error));
            }
            self.ingest.progress.tick(Tick { bytes: got as u64, ..Tick::default() });
        }
        Ok(Ok(total))
    }

    /// Zeros that take no space.
    pub fn hole(&mut self, len: u64) -> Result<()> {
        self.cut(true)?;
        match self.extents.last_mut() {
            _ if len == 0 => {}
            Some(Extent::Hole(before)) => *before += len,
            _ => self.extents.push(Extent::Hole(len)),
        }
        self.ingest.progress.tick(Tick { bytes: len, ..Tick::default() });
        Ok(())
    }

    /// The next part of the file is stored already, as `extent`. Everything before it has been
    /// cut.
    pub fn keep(&mut self, extent: Extent) {
        self.ingest.progress.tick(Tick { bytes: extent.len(), ..Tick::default() });
        self.extents.push(extent);
    }

    /// The next part of the file is this chunk. Everything before it has been cut.
    pub fn chunk(&mut self, raw: &[u8]) -> Result<()> {
        let Self { ingest, pool, compressor, extents, .. } = self;
        ingest.progress.tick(Tick { bytes: raw.len() as u64, ..Tick::default() });
        ingest.take_chunk(pool, compressor, extents, raw)
    }

    pub fn chunker(&self) -> Chunker {
        self.ingest.chunker.clone()
    }

    /// The largest file whose bytes are kept in the tree itself.
    pub fn inline_bytes(&self) -> u64 {
        self.ingest.store.chunking().inline_bytes.into()
    }

    /// Forgets what was taken so far: the file changed and is read again.
    pub fn restart(&mut self) {
        self.buffer.clear();
        self.extents.clear();
    }

    fn finish(mut self) -> Result<Vec<Extent>> {
        let inline = self.ingest.store.chunking().inline_bytes as usize;
        let bytes = self.buffer.bytes();
        if self.extents.is_empty() && !bytes.is_empty() && bytes.len() <= inline {
            return Ok(vec![Extent::Inline(bytes.to_vec())]);
        }
        self.cut(true)?;
        Ok(self.extents)
    }

    fn cut(&mut self, last: bool) -> Result<()> {
        let Self { ingest, pool, compressor, buffer, extents } = self;
        let cut = ingest
            .chunker
            .cut_all(buffer.bytes(), last, |raw| ingest.take_chunk(pool, compressor, extents, raw))?;
        buffer.start += cut;
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
