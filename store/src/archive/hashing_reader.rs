//! `HashingReader` counts, hashes and decompresses the bytes of an archive on their way in. A tar stream that is no
//! archive passes as it is.

use std::io::{self, BufReader, Read};

use sha2::Digest;

use super::problem::{Problem, Result};
use crate::{Error, id::Sha256};

/// The largest window that a frame may ask for: the largest that zstd itself allows by default.
const WINDOW_LOG: u32 = 27;
/// How much of a stream that is not compressed is read at a time.
const PLAIN_BYTES: usize = 1 << 20;

/// The digest and the size of an archive that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The digest of the compressed bytes; `None` of a tar stream that is no archive.
    pub sha256: Option<Sha256>,
    /// How many bytes there were, compressed if it is an archive.
    pub size: u64,
}

/// The bytes of a tar stream.
pub struct HashingReader<R>(Intake<R>);

enum Intake<R> {
    /// Decompressed, of one frame or many.
    Archive(zstd::stream::read::Decoder<'static, BufReader<Hashed<R>>>),
    /// As they come, with no digest.
    Tar(BufReader<Counted<R>>),
}

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
        Ok(Self(Intake::Archive(decoder)))
    }

    /// Reads a tar stream that is not compressed. It is no archive that anybody keeps, so it has no digest.
    pub fn plain(source: R) -> Self {
        Self(Intake::Tar(BufReader::with_capacity(PLAIN_BYTES, Counted { source, size: 0 })))
    }

    /// Reads the rest of the stream, to no more than `most` bytes in all, and returns its digest and
    /// size.
    pub fn finish(self, most: u64) -> io::Result<Arrived> {
        let decoder = match self.0 {
            Intake::Archive(decoder) => decoder,
            Intake::Tar(mut rest) => {
                io::copy(&mut rest, &mut io::sink())?;
                return Ok(Arrived { sha256: None, size: rest.into_inner().size });
            }
        };
        let mut rest = decoder.finish().into_inner();
        let left = most.saturating_add(1).saturating_sub(rest.size);
        io::copy(&mut (&mut rest).take(left), &mut io::sink())?;
        let sha256 = Sha256::from_bytes(rest.hasher.finalize().into());
        Ok(Arrived { sha256: Some(sha256), size: rest.size })
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Intake::Archive(decoder) => decoder.read(buffer),
            Intake::Tar(plain) => plain.read(buffer),
        }
    }
}

struct Counted<R> {
    source: R,
    size: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read(buffer).map_err(of_source)?;
        self.size += got as u64;
        Ok(got)
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
