//! Streams chunks in the order of the tree, verified, a bounded way ahead of the consumer.
//!
//! The tree's order is not that of the packs, so chunks are wanted by the window: within one
//! they are fetched in few ranged requests, and windows are fetched and verified side by side.

use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use crate::{
    Error, Result,
    content::{
        TenantStore,
        chunk::Piece,
        reader::{Fetch, Verified, Want, plan},
        relocator::Relocator,
        workers::blocking,
    },
    format::frame::Codec,
};

/// How much of the tree is wanted at a time, uncompressed.
const WINDOW_BYTES: u64 = 8 << 20;
pub(in crate::ops) const WINDOWS_AHEAD: usize = 3;
const REQUESTS_OF_A_WINDOW: usize = 4;

/// A chunk: as it is, and as it is stored.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Chunk {
    pub raw: Bytes,
    pub stored: Bytes,
    pub codec: Codec,
}

/// A window's chunks, in order, and the bytes that were fetched for them.
#[derive(Debug)]
pub(in crate::ops) struct Window {
    pub chunks: Vec<Chunk>,
    pub fetched_bytes: u64,
}

pub(in crate::ops) fn windows(
    (store, relocator): (TenantStore, Arc<Relocator>),
    pieces: impl Iterator<Item = Piece> + Send + 'static,
) -> impl Stream<Item = Result<Window>> {
    stream::iter(cut(pieces))
        .map(move |pieces| begin((store.clone(), Arc::clone(&relocator)), pieces))
        .buffered(WINDOWS_AHEAD)
}

/// Fetches a window, on a task of its own: it goes on while nobody asks for it.
pub(in crate::ops) fn begin(
    (store, relocator): (TenantStore, Arc<Relocator>),
    pieces: Vec<Piece>,
) -> impl Future<Output = Result<Window>> {
    let task = tokio::spawn(async move { window(store, &relocator, pieces).await });
    async move { task.await.unwrap_or_else(|error| Err(Error::Internal { what: error.to_string() })) }
}

/// Runs of pieces that together are about a window long.
pub(in crate::ops) fn cut(pieces: impl Iterator<Item = Piece>) -> impl Iterator<Item = Vec<Piece>> {
    let mut pieces = pieces.peekable();
    std::iter::from_fn(move || {
        let (mut run, mut bytes) = (Vec::new(), 0);
        while bytes < WINDOW_BYTES
            && let Some(piece) = pieces.next()
        {
            bytes += u64::from(piece.raw_len);
            run.push(piece);
        }
        (!run.is_empty()).then_some(run)
    })
}

async fn window(store: TenantStore, relocator: &Relocator, pieces: Vec<Piece>) -> Result<Window> {
    let count = pieces.len();
    let wants = pieces.into_iter().enumerate().map(|(place, piece)| Want {
        id: piece.id,
        raw_len: piece.raw_len,
        location: piece.location,
        purpose: place,
    });
    let fetch = |fetch: Fetch<usize>| relocator.fetch(&store, fetch);
    let fetched: Vec<(Fetch<usize>, Bytes)> =
        stream::iter(plan(wants)).map(fetch).buffer_unordered(REQUESTS_OF_A_WINDOW).try_concat().await?;
    blocking(move || {
        let fetched_bytes = fetched.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let mut chunks: Vec<Option<Chunk>> = vec![None; count];
        for (fetch, bytes) in &fetched {
            for want in &fetch.wants {
                let stored = bytes.slice_ref(fetch.stored(want, bytes));
                let codec = want.location.codec;
                let raw = Verified::check(store.key(), &want.id, codec, &stored, want.raw_len)
                    .map_err(|error| Error::damaged(format!("pack {}", fetch.pack), error))?
                    .into_shared(&stored);
                chunks[want.purpose] = Some(Chunk { raw, stored, codec });
            }
        }
        let missing = || Error::Internal { what: "a chunk was planned and not fetched".to_owned() };
        let chunks = chunks.into_iter().map(|chunk| chunk.ok_or_else(missing)).collect::<Result<_>>()?;
        Ok(Window { chunks, fetched_bytes })
    })
    .await
}
