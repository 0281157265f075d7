//! Reads chunks back in few ranged requests; `Verified` checks every frame against the id of its chunk.

use std::{borrow::Cow, collections::HashMap};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};

use super::TenantStore;
use crate::{
    Error, Result,
    bucket::BucketError,
    format::{
        frame::{self, Codec},
        layout,
        pack::{EntryKind, PackEntry},
        table::Location,
    },
    id::{ChunkId, ChunkKey, PackId},
};

/// Two wanted chunks this close together are fetched with the bytes between.
const MAX_GAP: u64 = 64 * 1024;
/// A request does not grow beyond this.
const MAX_RANGE: u64 = 4 << 20;
const REQUESTS_AT_ONCE: usize = 4;

/// Bytes that were checked against their id: there is no other way to have one.
#[derive(Debug)]
pub struct Verified<'a>(Cow<'a, [u8]>);

impl<'a> Verified<'a> {
    /// Decompresses a frame, and checks that it is the chunk `id`.
    pub fn check(key: &ChunkKey, id: &ChunkId, codec: Codec, stored: &'a [u8], raw_len: u32) -> Result<Self> {
        let raw = frame::decode(codec, stored, raw_len as usize)
            .map_err(|error| error.of(format!("chunk {id}")))?;
        let found = key.id_of(&raw);
        if found != *id {
            return Err(Error::damaged(format!("chunk {id}"), format!("its content is that of {found}")));
        }
        Ok(Self(raw))
    }

    /// The bytes, which may be the caller's for good.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_owned()
    }

    /// The bytes, without a copy of those that are stored as they are; `stored` is the checked frame.
    pub(crate) fn into_shared(self, stored: &'a Bytes) -> Bytes {
        match self.0 {
            Cow::Borrowed(raw) => stored.slice_ref(raw),
            Cow::Owned(raw) => raw.into(),
        }
    }
}

impl std::ops::Deref for Verified<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A chunk somebody wants, with a note on its use.
#[derive(Clone, Copy, Debug)]
pub struct Want<T> {
    /// The chunk's id.
    pub id: ChunkId,
    /// How many bytes it has uncompressed.
    pub raw_len: u32,
    /// Where its frame lies.
    pub location: Location,
    /// The caller's note about its use of the chunk.
    pub purpose: T,
}

impl<T> Want<T> {
    /// The directory entry of a pack that holds the chunk as `stored`, at any offset.
    pub fn entry(&self, codec: Codec, stored: &[u8]) -> PackEntry {
        PackEntry {
            id: self.id,
            kind: EntryKind::Data,
            codec,
            offset: 0,
            stored_len: stored.len() as u32,
            raw_len: self.raw_len,
            crc: crc32c::crc32c(stored),
        }
    }
}

/// One request: a range of a pack and the chunks wanted from it, by offset.
#[derive(Clone, Debug)]
pub struct Fetch<T> {
    /// The pack to read from.
    pub pack: PackId,
    /// The first byte to read.
    pub start: u64,
    /// The end of the range.
    pub end: u64,
    /// The chunks in it.
    pub wants: Vec<Want<T>>,
}

/// Groups wanted chunks into requests, packs in the order they are first wanted.
pub fn plan<T>(wants: impl IntoIterator<Item = Want<T>>) -> Vec<Fetch<T>> {
    plan_over(MAX_GAP, wants)
}

/// The same, where up to `max_gap` bytes that are not wanted are no reason for another request.
pub(crate) fn plan_over<T>(max_gap: u64, wants: impl IntoIterator<Item = Want<T>>) -> Vec<Fetch<T>> {
    let mut packs: Vec<(PackId, Vec<Want<T>>)> = Vec::new();
    let mut places = HashMap::new();
    for want in wants {
        let place = *places.entry(want.location.pack).or_insert_with(|| {
            packs.push((want.location.pack, Vec::new()));
            packs.len() - 1
        });
        packs[place].1.push(want);
    }
    let mut fetches: Vec<Fetch<T>> = Vec::new();
    for (pack, mut wants) in packs {
        wants.sort_by_key(|want| want.location.offset);
        for want in wants {
            let (start, end) = (want.location.offset, want.location.end());
            match fetches.last_mut() {
                Some(last)
                    if last.pack == pack
                        && start <= last.end + max_gap
                        && end.max(last.end) - last.start <= MAX_RANGE =>
                {
                    last.end = last.end.max(end);
                    last.wants.push(want);
                }
                _ => fetches.push(Fetch { pack, start, end, wants: vec![want] }),
            }
        }
    }
    fetches
}

impl<T> Fetch<T> {
    /// The stored bytes of `want`, which is one of ours, within `fetched`.
    pub fn stored<'a>(&self, want: &Want<T>, fetched: &'a [u8]) -> &'a [u8] {
        let start = (want.location.offset - self.start) as usize;
        &fetched[start..start + want.location.stored_len as usize]
    }
}

impl TenantStore {
    /// Fetches the wanted chunks, a few requests at a time, as [`plan`] orders them.
    pub fn fetched<T>(
        &self,
        wants: impl IntoIterator<Item = Want<T>>,
    ) -> impl Stream<Item = (Fetch<T>, Result<Bytes>)> {
        let fetch = move |fetch: Fetch<T>| async move {
            let bytes = self.pack_range(fetch.pack, fetch.start, fetch.end).await;
            (fetch, bytes)
        };
        stream::iter(plan(wants)).map(fetch).buffered(REQUESTS_AT_ONCE)
    }

    /// A range of a pack. A pack that is missing or too short is damage, and says so.
    pub(crate) async fn pack_range(&self, pack: PackId, start: u64, end: u64) -> Result<Bytes> {
        let key = layout::pack(&self.tenant, pack);
        self.bucket.get_range(&key, start..end).await.map_err(|error| match error {
            BucketError::NotFound { key } => Error::Missing { object: key, by: "a snapshot needs it" },
            error => error.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{PackSeq, RecordId};

    fn want(seq: u32, offset: u64, stored_len: u32) -> Want<()> {
        let pack = PackId { write: RecordId::from_parts(1, [1; 10]), seq: PackSeq::Data(seq) };
        let location = Location { pack, offset, stored_len, codec: Codec::Zstd };
        Want { id: ChunkKey::from_bytes([1; 32]).id_of(b"x"), raw_len: 1, location, purpose: () }
    }

    #[test]
    fn a_gap_that_is_too_large_makes_another_request() {
        for (max_gap, requests) in [(0, 3), (99, 3), (100, 2), (4800, 1)] {
            let wants = [want(0, 0, 100), want(0, 200, 100), want(0, 5100, 100)];
            assert_eq!(plan_over(max_gap, wants).len(), requests, "{max_gap}");
        }
    }

    #[test]
    fn neighbours_share_a_request_and_packs_do_not() {
        let fetches = plan([
            want(0, 5000, 100),
            want(1, 16, 50),
            want(0, 16, 100),
            want(0, 16, 100),
            want(0, 900_000, 10),
            want(0, 5100, (MAX_RANGE - 100) as u32),
        ]);
        let spans: Vec<_> = fetches.iter().map(|f| (f.pack.seq, f.start, f.end, f.wants.len())).collect();
        assert_eq!(
            spans,
            [
                (PackSeq::Data(0), 16, 5100, 3),
                (PackSeq::Data(0), 5100, 5000 + MAX_RANGE, 2),
                (PackSeq::Data(1), 16, 66, 1)
            ]
        );
    }

    #[test]
    fn wrong_bytes_never_become_verified() {
        let key = ChunkKey::from_bytes([1; 32]);
        let id = key.id_of(b"right");
        assert_eq!(&*Verified::check(&key, &id, Codec::Raw, b"right", 5).unwrap(), b"right");
        Verified::check(&key, &id, Codec::Raw, b"wrong", 5).unwrap_err();
        Verified::check(&key, &id, Codec::Raw, b"righ", 5).unwrap_err();
        Verified::check(&key, &id, Codec::Zstd, b"right", 5).unwrap_err();
    }
}
