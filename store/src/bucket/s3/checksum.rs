//! Adds the checksum that goes with every body, so that the server refuses a body that was changed on its way
//! instead of storing it.
//!
//! The probe finds out which checksum a server verifies, by sending wrong ones, and keeps it
//! with its verdict: a server that ignores a checksum takes it and stores anything.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use aws_smithy_types::base64;
use bytes::Bytes;
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use super::unreadable;
use crate::bucket::{Body, Result};

/// A body up to this is summed up where it is; a longer one would keep others waiting.
const AT_ONCE_BYTES: u64 = 256 << 10;
const PIECE_BYTES: u64 = 1 << 20;

/// The checksum of bodies that a server verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checksum {
    /// `x-amz-checksum-crc32c`: a processor has an instruction for it.
    Crc32c,
    /// `Content-MD5`: older than the others, and known to servers that know none of them.
    ContentMd5,
    /// Nothing.
    Unchecked,
}

impl Checksum {
    /// Those there are, the cheapest first.
    pub const ALL: [Self; 2] = [Self::Crc32c, Self::ContentMd5];

    /// As its header wants it.
    pub(super) fn of(self, bytes: &[u8]) -> Option<String> {
        let mut sum = Sum::new(self)?;
        sum.add(bytes);
        Some(sum.finish())
    }

    /// Of a part of a body.
    pub(super) async fn of_part(self, body: &Body, part: Range<u64>) -> Result<Option<String>> {
        match body {
            Body::Bytes(bytes) => {
                let bytes = bytes.slice(part.start as usize..part.end as usize);
                Ok(self.of_bytes(bytes).await)
            }
            Body::File { path, .. } => {
                let from = path.clone();
                let summed = tokio::task::spawn_blocking(move || self.of_file(&File::open(from)?, part));
                let summed = summed.await.unwrap_or_else(|error| Err(io::Error::other(error)));
                summed.map_err(|error| unreadable(path, error))
            }
        }
    }

    async fn of_bytes(self, bytes: Bytes) -> Option<String> {
        if bytes.len() as u64 <= AT_ONCE_BYTES {
            return self.of(&bytes);
        }
        let aside = bytes.clone();
        let summed = tokio::task::spawn_blocking(move || self.of(&aside)).await;
        summed.unwrap_or_else(|_| self.of(&bytes))
    }

    fn of_file(self, file: &File, part: Range<u64>) -> io::Result<Option<String>> {
        let Some(mut sum) = Sum::new(self) else { return Ok(None) };
        let mut piece = vec![0; PIECE_BYTES.min(part.end - part.start) as usize];
        let mut at = part.start;
        while at < part.end {
            let piece = &mut piece[..PIECE_BYTES.min(part.end - at) as usize];
            file.read_exact_at(piece, at)?;
            sum.add(piece);
            at += piece.len() as u64;
        }
        Ok(Some(sum.finish()))
    }
}

enum Sum {
    Crc32c(u32),
    Md5(Box<Md5>),
}

impl Sum {
    fn new(checksum: Checksum) -> Option<Self> {
        match checksum {
            Checksum::Crc32c => Some(Self::Crc32c(0)),
            Checksum::ContentMd5 => Some(Self::Md5(Box::default())),
            Checksum::Unchecked => None,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            Self::Md5(sum) => sum.update(bytes),
        }
    }

    fn finish(self) -> String {
        match self {
            Self::Crc32c(sum) => base64::encode(sum.to_be_bytes()),
            Self::Md5(sum) => base64::encode(sum.finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_what_everybody_takes_them_for() {
        assert_eq!(Checksum::Crc32c.of(b"123456789").as_deref(), Some("4waSgw=="));
        assert_eq!(Checksum::ContentMd5.of(b"").as_deref(), Some("1B2M2Y8AsgTpgAmY7PhCfg=="));
        assert_eq!(Checksum::Unchecked.of(b"x"), None);
    }

    #[tokio::test]
    async fn a_part_is_summed_up_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("body");
        let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 5).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let len = bytes.len() as u64;
        let bodies = [Body::from(bytes.clone()), Body::File { path, len }];
        for checksum in Checksum::ALL {
            for part in [0..len, 3..len, 0..0, PIECE_BYTES..2 * PIECE_BYTES + 1] {
                let expected = checksum.of(&bytes[part.start as usize..part.end as usize]);
                for body in &bodies {
                    assert_eq!(checksum.of_part(body, part.clone()).await.unwrap(), expected);
                }
            }
        }
    }
}
