//! Puts the tar stream of a tree together from heads, chunks and zeros.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use sha2::Digest as _;
use tokio::sync::mpsc::Receiver;

use super::{
    Archive, Request,
    chunk_stream::{Chunk, Window},
    digest::Digest,
    framing::{Frames, zeros},
};
use crate::{
    Error, Result,
    archive::{
        members::{self, Times},
        padding,
    },
    error::IoContext,
    format::tree::{Entry, Extent, Kind, Meta, TreePath},
    id::Sha256,
    progress::{Progress, Tick},
};

const ZEROS: usize = 128 << 10;

/// The tree, and what is said of it before any content is there.
#[derive(Debug)]
pub(super) struct Members {
    entries: Vec<Entry>,
    /// Of the files that have several names.
    shared: HashMap<TreePath, Meta>,
    times: Times,
}

impl Members {
    pub fn new(entries: Vec<Entry>, times: Times) -> Self {
        let targets: HashSet<&TreePath> = entries
            .iter()
            .filter_map(|entry| match &entry.kind {
                Kind::HardLink { target } => Some(target),
                _ => None,
            })
            .collect();
        let shared = entries
            .iter()
            .filter(|entry| targets.contains(&entry.path))
            .map(|entry| (entry.path.clone(), entry.meta.clone()))
            .collect();
        Self { entries, shared, times }
    }

    fn head(&self, entry: &Entry) -> Option<Vec<u8>> {
        let meta = match &entry.kind {
            Kind::HardLink { target } => self.shared.get(target)?,
            _ => &entry.meta,
        };
        members::head(entry, meta, self.times)
    }

    /// How long the stream is.
    pub fn tar_bytes(&self) -> u64 {
        let member = |entry: &Entry| {
            let size = entry.size();
            self.head(entry).map_or(0, |head| head.len() as u64 + size + padding(size) as u64)
        };
        self.entries.iter().map(member).sum::<u64>() + members::END.len() as u64
    }

    pub fn count(&self, of: impl Fn(&Kind) -> bool) -> u64 {
        self.entries.iter().filter(|entry| of(&entry.kind)).count() as u64
    }

    /// The sizes of all files.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(Entry::size).sum()
    }
}

/// What is written goes by here: it is counted and digested.
struct Tally<W> {
    out: W,
    hasher: sha2::Sha256,
    bytes: u64,
}

impl<W: Write> Write for Tally<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        self.hasher.update(&bytes[..len]);
        self.bytes += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes the archive of `members`, whose chunks come from `windows`.
pub(super) fn write<W: Write>(
    members: &Members,
    windows: Receiver<Result<Window>>,
    request: Request,
    (out, shown): (W, PathBuf),
    progress: &Arc<dyn Progress>,
) -> Result<(Archive, W)> {
    let tar_bytes = members.tar_bytes();
    let tally = Tally { out, hasher: sha2::Sha256::new(), bytes: 0 };
    let mut stream = Stream {
        frames: Frames::new(request.framing, tar_bytes, tally).at("cannot write", &shown)?,
        digest: Digest::start(),
        zeros: zeros(ZEROS),
        shown,
    };
    let mut chunks = Chunks { windows, window: Vec::new().into_iter(), fetched_bytes: 0 };
    for entry in &members.entries {
        let Some(head) = members.head(entry) else { continue };
        stream.bytes(head.into())?;
        if let Kind::File { size, extents } = &entry.kind {
            for extent in extents {
                match extent {
                    Extent::Hole(len) => stream.zeros(*len)?,
                    Extent::Inline(bytes) => stream.bytes(Bytes::copy_from_slice(bytes))?,
                    Extent::Chunk { .. } => stream.chunk(&chunks.take(progress)?)?,
                }
            }
            stream.zeros(padding(*size) as u64)?;
            progress.tick(Tick { files: 1, bytes: *size, ..Tick::default() });
        }
    }
    stream.zeros(members::END.len() as u64)?;
    let Stream { frames, digest, shown, .. } = stream;
    let mut tally = frames.finish().at("cannot write", &shown)?;
    if let Some(seal) = request.seal {
        tally.write_all(&seal.frame()).at("cannot write", &shown)?;
    }
    tally.flush().at("cannot write", &shown)?;
    let archive = Archive {
        sha256: Sha256::from_bytes(tally.hasher.finalize().into()),
        size_bytes: tally.bytes,
        tar_sha256: digest.finish()?,
        tar_size_bytes: tar_bytes,
        files: members.count(|kind| matches!(kind, Kind::File { .. } | Kind::HardLink { .. })),
        skipped: members.entries.iter().filter(|entry| members.head(entry).is_none()).count() as u64,
        fetched_bytes: chunks.fetched_bytes,
    };
    Ok((archive, tally.out))
}

/// The chunks of the tree, one after the other.
struct Chunks {
    windows: Receiver<Result<Window>>,
    window: std::vec::IntoIter<Chunk>,
    fetched_bytes: u64,
}

impl Chunks {
    fn take(&mut self, progress: &Arc<dyn Progress>) -> Result<Chunk> {
        loop {
            if let Some(chunk) = self.window.next() {
                return Ok(chunk);
            }
            // Whoever feeds us has ended before the tree did: nobody waits for the archive any more.
            let window = self.windows.blocking_recv().ok_or(Error::Interrupted)??;
            self.fetched_bytes += window.fetched_bytes;
            progress.tick(Tick { transferred_bytes: window.fetched_bytes, ..Tick::default() });
            self.window = window.chunks.into_iter();
        }
    }
}

struct Stream<W: Write> {
    frames: Frames<W>,
    digest: Digest,
    zeros: Bytes,
    shown: PathBuf,
}

impl<W: Write> Stream<W> {
    fn bytes(&mut self, bytes: Bytes) -> Result<()> {
        self.frames.bytes(&bytes).at("cannot write", &self.shown)?;
        self.digest.update(bytes);
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk) -> Result<()> {
        self.frames.chunk(chunk).at("cannot write", &self.shown)?;
        self.digest.update(chunk.raw.clone());
        Ok(())
    }

    fn zeros(&mut self, mut len: u64) -> Result<()> {
        while len > 0 {
            let next = self.zeros.slice(..usize::try_from(len).unwrap_or(ZEROS).min(ZEROS));
            len -= next.len() as u64;
            self.bytes(next)?;
        }
        Ok(())
    }
}
