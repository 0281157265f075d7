//! Puts the tar stream of a tree together from heads, chunks and zeros.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use sha2::Digest as _;
use tokio::sync::mpsc::Receiver;

use super::{
    Archive, Request,
    chunk_stream::Chunk,
    digest::Digest,
    feed::Next,
    framing::{Frames, zeros},
    members::Members,
};
use crate::{
    Error, Result,
    archive::{members, padding},
    error::IoContext,
    format::tree::{Entry, Extent, Kind},
    id::Sha256,
    progress::{Progress, Tick},
};

const ZEROS: usize = 128 << 10;

/// Counts and digests the bytes that pass through it.
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

/// Writes the archive of a tree that comes from `fed`. How long its stream is must be known if it is to be stated.
pub(super) fn write<W: Write>(
    mut members: Members,
    (fed, tar_bytes): (Receiver<Result<Next>>, Option<u64>),
    request: Request,
    (out, shown): (W, PathBuf),
    progress: &Arc<dyn Progress>,
) -> Result<(Archive, W)> {
    let tally = Tally { out, hasher: sha2::Sha256::new(), bytes: 0 };
    let mut stream = Stream {
        frames: Frames::new(request.framing, tar_bytes, tally).at("cannot write", &shown)?,
        digest: Digest::start(),
        bytes: 0,
        zeros: zeros(ZEROS),
        shown,
    };
    let mut fed = Fed { fed, window: Vec::new().into_iter(), fetched_bytes: 0 };
    let (mut files, mut skipped) = (0, 0);
    while let Some(entries) = fed.entries()? {
        for entry in &entries {
            let Some(head) = members.head(entry) else {
                skipped += 1;
                continue;
            };
            stream.bytes(head.into())?;
            files += u64::from(matches!(entry.kind, Kind::File { .. } | Kind::HardLink { .. }));
            if let Kind::File { size, extents } = &entry.kind {
                for extent in extents {
                    match extent {
                        Extent::Hole(len) => stream.zeros(*len)?,
                        Extent::Inline(bytes) => stream.bytes(Bytes::copy_from_slice(bytes))?,
                        Extent::Chunk { .. } => stream.chunk(&fed.chunk(progress)?)?,
                    }
                }
                stream.zeros(padding(*size) as u64)?;
                progress.tick(Tick { files: 1, bytes: *size, ..Tick::default() });
            }
        }
    }
    stream.zeros(members::END.len() as u64)?;
    let Stream { frames, digest, bytes: tar_size_bytes, shown, .. } = stream;
    let mut tally = frames.finish().at("cannot write", &shown)?;
    if let Some(seal) = request.seal {
        tally.write_all(&seal.frame()).at("cannot write", &shown)?;
    }
    tally.flush().at("cannot write", &shown)?;
    let archive = Archive {
        sha256: Sha256::from_bytes(tally.hasher.finalize().into()),
        size_bytes: tally.bytes,
        tar_sha256: digest.finish()?,
        tar_size_bytes,
        files,
        skipped,
        fetched_bytes: fed.fetched_bytes,
    };
    Ok((archive, tally.out))
}

/// The tree and its chunks, one after the other.
struct Fed {
    fed: Receiver<Result<Next>>,
    window: std::vec::IntoIter<Chunk>,
    fetched_bytes: u64,
}

impl Fed {
    /// The next entries; `None` at the end of the tree.
    fn entries(&mut self) -> Result<Option<Vec<Entry>>> {
        match self.next()? {
            Next::Entries(entries) => Ok(Some(entries)),
            Next::Chunks(_) => Err(Error::Internal { what: "chunks that no entry has".to_owned() }),
            Next::End => Ok(None),
        }
    }

    fn chunk(&mut self, progress: &Arc<dyn Progress>) -> Result<Chunk> {
        loop {
            if let Some(chunk) = self.window.next() {
                return Ok(chunk);
            }
            let Next::Chunks(window) = self.next()? else {
                return Err(Error::Internal { what: "an entry without its chunks".to_owned() });
            };
            self.fetched_bytes += window.fetched_bytes;
            progress.tick(Tick { transferred_bytes: window.fetched_bytes, ..Tick::default() });
            self.window = window.chunks.into_iter();
        }
    }

    fn next(&mut self) -> Result<Next> {
        // The sender has ended before the tree did: nobody waits for the archive any more.
        self.fed.blocking_recv().ok_or(Error::Interrupted)?
    }
}

struct Stream<W: Write> {
    frames: Frames<W>,
    digest: Digest,
    /// How long the stream is so far.
    bytes: u64,
    zeros: Bytes,
    shown: PathBuf,
}

impl<W: Write> Stream<W> {
    fn bytes(&mut self, bytes: Bytes) -> Result<()> {
        self.frames.bytes(&bytes).at("cannot write", &self.shown)?;
        self.bytes += bytes.len() as u64;
        self.digest.update(bytes);
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk) -> Result<()> {
        self.frames.chunk(chunk).at("cannot write", &self.shown)?;
        self.bytes += chunk.raw.len() as u64;
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
