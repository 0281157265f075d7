//! `Target` is the directory that a restore writes: threads put the fetched bytes into its files.

use std::{
    fmt,
    fs::File,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    Error, Result,
    content::{
        TenantStore,
        reader::{Fetch, Verified},
        workers,
    },
    error::IoContext,
    format::tree::{Entry, Extent, Kind},
    progress::{Progress, Tick},
    tree::write::Staging,
};

/// How much is fetched between two flushes.
const FLUSH_BYTES: u64 = 64 << 20;

/// A range of a pack, with the part of the tree that has its files.
pub(super) type Fetched = (Arc<RestorePart>, Fetch<FilePosition>, Bytes);

/// A chunk's place in a file of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilePosition {
    pub entry: usize,
    pub offset: u64,
}

/// Some entries of a tree, in order.
#[derive(Debug)]
pub(super) struct RestorePart {
    pub entries: Vec<Entry>,
    /// For each entry, how many chunks are still to be written.
    pub remaining: Vec<AtomicU32>,
}

impl RestorePart {
    /// One chunk of a file was written. Whether it was the last.
    pub fn wrote(&self, entry: usize) -> bool {
        self.remaining[entry].fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The files that have no chunks.
    pub fn without_chunks(&self) -> impl Iterator<Item = &Entry> {
        let is_whole = |at: usize| self.remaining[at].load(Ordering::Relaxed) == 0;
        let files = self.entries.iter().enumerate();
        let files = files.filter(move |(at, entry)| matches!(entry.kind, Kind::File { .. }) && is_whole(*at));
        files.map(|(_, entry)| entry)
    }
}

/// The queue of the writers, and the count by which they ask for a flush.
struct WriteQueue {
    fetched: Mutex<Receiver<Fetched>>,
    unflushed_bytes: AtomicU64,
    due: Sender<()>,
}

/// The state that the writers share.
pub(super) struct Target {
    pub store: TenantStore,
    pub staging: Staging,
    pub progress: Arc<dyn Progress>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Target").field(&self.staging).finish()
    }
}

impl Target {
    /// Writes chunks as they come until there are no more.
    pub fn run(&self, fetched: Receiver<Fetched>, threads: usize) -> Result<()> {
        let fetched = Mutex::new(fetched);
        // The disk is put to work while there is still much to decompress, and not only when
        // all is written and nothing is left to do but wait for it.
        let (due, when_due) = channel();
        let writing = WriteQueue { fetched, unflushed_bytes: AtomicU64::new(0), due };
        std::thread::scope(|scope| {
            let flushing = scope.spawn(move || when_due.iter().try_for_each(|()| self.staging.flush()));
            let written = workers::run(threads, || self.write(&writing));
            drop(writing);
            let panicked = |_| Err(Error::Internal { what: "flushing has failed".to_owned() });
            written.and(flushing.join().unwrap_or_else(panicked))
        })
    }

    fn write(&self, writing: &WriteQueue) -> Result<()> {
        loop {
            let next = writing.fetched.lock().recv();
            let Ok((part, fetch, bytes)) = next else { return Ok(()) };
            // Chunks of one file mostly lie side by side.
            let mut open: Option<(usize, File)> = None;
            for want in &fetch.wants {
                let FilePosition { entry, offset } = want.purpose;
                let file = match open.take() {
                    Some((at, file)) if at == entry => file,
                    _ => self.staging.open_file(&part.entries[entry])?,
                };
                let stored = fetch.stored(want, &bytes);
                let chunk =
                    Verified::check(self.store.key(), &want.id, want.location.codec, stored, want.raw_len)
                        .map_err(|error| Error::damaged(format!("pack {}", fetch.pack), error))?;
                let shown = || PathBuf::from(part.entries[entry].path.to_string());
                file.write_all_at(&chunk, offset).at("cannot write", shown())?;
                self.progress.tick(Tick { bytes: chunk.len() as u64, ..Tick::default() });
                if part.wrote(entry) {
                    self.finish_file(&part.entries[entry], &file)?;
                } else {
                    open = Some((entry, file));
                }
            }
            let len = bytes.len() as u64;
            self.progress.tick(Tick { transferred_bytes: len, ..Tick::default() });
            if writing.unflushed_bytes.fetch_add(len, Ordering::Relaxed) + len >= FLUSH_BYTES {
                writing.unflushed_bytes.store(0, Ordering::Relaxed);
                let _ = writing.due.send(());
            }
        }
    }

    /// Writes the part of a file's content that the tree itself holds, and its attributes.
    pub fn finish_file(&self, entry: &Entry, file: &File) -> Result<()> {
        let Kind::File { size, extents } = &entry.kind else { return Ok(()) };
        let mut offset = 0;
        for extent in extents {
            if let Extent::Inline(bytes) = extent {
                file.write_all_at(bytes, offset).at("cannot write", PathBuf::from(entry.path.to_string()))?;
            }
            offset += extent.len();
        }
        self.staging.finish_file(entry, file, *size)?;
        self.progress.tick(Tick { files: 1, ..Tick::default() });
        Ok(())
    }
}
