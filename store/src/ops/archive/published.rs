//! `PublishedArchive` reads the archive of a snapshot that lies in the store, whole or in part.

use std::{ops::Range, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256 as Hasher};

use crate::{
    Error, Result,
    bucket::{BucketError, Key},
    content::TenantStore,
    format::{layout, record::Record},
    id::Sha256,
    name::Lineage,
};

/// How much is asked for at a time.
const PIECE_BYTES: u64 = 1 << 20;
/// How many pieces are on their way before they are wanted.
const PIECES_AHEAD: usize = 4;

/// An archive that lies in the store.
#[derive(Clone, Debug)]
pub struct PublishedArchive {
    store: TenantStore,
    key: Key,
    /// Its digest.
    pub sha256: Sha256,
    /// How long it is.
    pub size_bytes: u64,
}

impl PublishedArchive {
    /// The archive that a record names, if it is there.
    pub async fn find(store: &TenantStore, lineage: &Lineage, record: &Record) -> Result<Option<Self>> {
        let named = record.archive_sha256.as_ref().and_then(|sha| sha.parse().ok());
        let (Some(sha256), Some(size_bytes @ 1..)) = (named, record.archive_size_bytes) else {
            return Ok(None);
        };
        let key = layout::archive_key(lineage, &sha256);
        // Its last byte is there only if all of it is.
        match store.bucket.get_range(&key, size_bytes - 1..size_bytes).await {
            Ok(_) => Ok(Some(Self { store: store.clone(), key, sha256, size_bytes })),
            Err(BucketError::NotFound { .. } | BucketError::Truncated { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Where anybody can fetch it for as long as `lifetime`; none if the store has no such places.
    pub async fn link(&self, lifetime: Duration) -> Result<Option<String>> {
        Ok(self.store.bucket.link(&self.key, lifetime).await?)
    }

    /// Its bytes in `range`, piece by piece. If these are all, the last piece comes only if the digest is
    /// right.
    pub fn pieces(self, range: Range<u64>) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
        let Self { store, key, sha256, size_bytes } = self;
        let (is_whole, end, object) = (range == (0..size_bytes), range.end, key.clone());
        let starts = (0..range.end.saturating_sub(range.start).div_ceil(PIECE_BYTES))
            .map(move |at| range.start + at * PIECE_BYTES);
        let pieces =
            stream::iter(starts).map(move |start| {
                let (bucket, key) = (store.bucket.clone(), key.clone());
                async move {
                    bucket.get_range(&key, start..end.min(start + PIECE_BYTES)).await.map_err(Error::from)
                }
            });
        let mut read = (Hasher::new(), 0);
        pieces.buffered(PIECES_AHEAD).and_then(move |piece| {
            let checked = match is_whole {
                true => checked(&mut read, &piece, (&sha256, size_bytes), &object),
                false => Ok(()),
            };
            futures::future::ready(checked.map(|()| piece))
        })
    }
}

/// Adds a piece; fails with the last one if the digest is wrong.
fn checked(
    (hasher, read): &mut (Hasher, u64),
    piece: &[u8],
    (sha256, size_bytes): (&Sha256, u64),
    object: &Key,
) -> Result<()> {
    hasher.update(piece);
    *read += piece.len() as u64;
    if *read < size_bytes || Sha256::from_bytes(hasher.clone().finalize().into()) == *sha256 {
        return Ok(());
    }
    Err(Error::damaged(object, "its SHA-256 is not the one in its record"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_piece_comes_only_if_the_digest_is_right() {
        let object = Key::new("archive").unwrap();
        let right = Sha256::from_bytes(Hasher::digest(b"onetwo").into());
        let ends = |second: &[u8]| {
            let mut read = (Hasher::new(), 0);
            checked(&mut read, b"one", (&right, 6), &object).unwrap();
            checked(&mut read, second, (&right, 6), &object)
        };
        assert!(ends(b"two").is_ok());
        assert!(matches!(ends(b"tvo"), Err(Error::Damaged { .. })));
    }
}
