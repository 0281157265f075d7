//! `HashingReader` counts, hashes and decompresses the bytes of an archive on their way in.

use std::io::{self, BufReader, Read};

use sha2::Digest;

use super::problem::{Problem, Result};
use crate::{Error, id::Sha256};

/// The largest window that a frame may ask for: what zstd itself allows without being told.
const WINDOW_LOG: u32 = 27;

/// What was read of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The digest of the compressed bytes.
    pub sha256: Sha256,
    /// How many compressed bytes there were.
    pub size: u64,
}

/// The decompressed bytes of an archive, of one frame or many.
pub struct HashingReader<R>(zstd::stream::read::Decoder<'static, BufReader<Hashed<R>>>);

impl<R> std::fmt::Debug for HashingReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Intake")
    }
}

impl<R: Read> HashingReader<R> {
    /// Reads a zstd stream; the bytes below it are counted and hashed as they come.
    pub fn new(source: R) -> Result<Self> {
        let hashed = Hashed { source, hasher: sha2::Sha256::new(), size: 0 };
        let decoder = zstd::stream::read::Decoder::new(hashed);
        let mut decoder = decoder.map_err(Problem::Read)?;
        decoder.window_log_max(WINDOW_LOG).map_err(Problem::Read)?;
        Ok(Self(decoder))
    }

    /// What the archive is, once all of it was read; what was not is read now, no more than
    /// `most` bytes in all.
    pub fn finish(self, most: u64) -> io::Result<Arrived> {
        let mut rest = self.0.finish().into_inner();
        let left = most.saturating_add(1).saturating_sub(rest.size);
        io::copy(&mut (&mut rest).take(left), &mut io::sink())?;
        let sha256 = Sha256::from_bytes(rest.hasher.finalize().into());
        Ok(Arrived { sha256, size: rest.size })
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

struct Hashed<R> {
    source: R,
    hasher: sha2::Sha256,
    size: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read(buffer).map_err(of_source)?;
        self.hasher.update(&buffer[..got]);
        self.size += got as u64;
        Ok(got)
    }
}

/// Marks an error as that of the source, so that it is not taken for damage of the archive.
fn of_source(error: io::Error) -> io::Error {
    match error.get_ref() {
        _ if error.kind() == io::ErrorKind::Interrupted => error,
        Some(inner) if inner.is::<Error>() => error,
        _ => io::Error::other(Error::io("cannot read", "the archive", error)),
    }
}
