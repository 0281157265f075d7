//! Registers the requests that are under way, and who waits for them.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{ChunkFetcher, internal};
use crate::{
    Error, Result,
    bucket::{BucketError, RetryPolicy},
    content::{
        chunk::{Chunk, Piece},
        chunk_cache::NewFrame,
        reader::{Fetch, Want, plan},
    },
    format::layout,
    id::PackId,
};

/// The outcome of fetching a chunk. All who waited for it share a failure.
type Outcome = Result<Chunk, Arc<Error>>;
type Landing = watch::Sender<Option<Outcome>>;

/// A chunk that is being fetched.
#[derive(Clone, Debug)]
pub(super) struct Flight(watch::Receiver<Option<Outcome>>);

impl Flight {
    /// Whether it will never land: its fetcher is gone.
    fn is_lost(&self) -> bool {
        self.0.has_changed().is_err() && self.0.borrow().is_none()
    }
}

/// A chunk that is there, or will be.
#[derive(Debug)]
pub(super) enum Ticket {
    Here(Chunk),
    Coming(Flight),
}

impl Ticket {
    pub async fn chunk(self) -> Result<Chunk> {
        let mut flight = match self {
            Self::Here(chunk) => return Ok(chunk),
            Self::Coming(Flight(flight)) => flight,
        };
        let landed = flight.wait_for(Option::is_some).await;
        match landed.as_deref() {
            Ok(Some(Ok(chunk))) => Ok(chunk.clone()),
            Ok(Some(Err(error))) => Err(repeated(error)),
            _ => Err(Error::Interrupted),
        }
    }
}

/// The same error once more, for the next who waited.
fn repeated(error: &Error) -> Error {
    match error {
        Error::Missing { object, by } => Error::Missing { object: object.clone(), by },
        Error::Damaged { object, reason } => Error::damaged(object, reason),
        Error::Bucket(BucketError::Truncated { key, actual, start, end }) => {
            let (key, actual, start, end) = (key.clone(), *actual, *start, *end);
            BucketError::Truncated { key, actual, start, end }.into()
        }
        Error::Bucket(BucketError::Unavailable { key, store, reason }) => {
            let (key, store, reason) = (key.clone(), store.clone(), reason.clone());
            BucketError::Unavailable { key, store, reason }.into()
        }
        Error::Bucket(BucketError::Denied { key, reason }) => {
            BucketError::Denied { key: key.clone(), reason: reason.clone() }.into()
        }
        error => Error::Internal { what: error.to_string() },
    }
}

impl ChunkFetcher {
    /// A ticket for each piece, and those that nobody is fetching yet, for the caller to fetch.
    pub(super) fn register(&self, pieces: &[Piece]) -> (Vec<Ticket>, Vec<Want<Landing>>) {
        let mut wants = Vec::new();
        let mut flights = self.flights();
        let tickets = pieces
            .iter()
            .map(|piece| {
                if let Some(flight) = flights.get(&piece.id).filter(|flight| !flight.is_lost()) {
                    return Ticket::Coming(flight.clone());
                }
                // It may have landed since it was looked for.
                if let Some(chunk) = self.memory.get(&piece.id) {
                    return Ticket::Here(chunk);
                }
                let (purpose, flight) = watch::channel(None);
                flights.insert(piece.id, Flight(flight.clone()));
                let Piece { id, raw_len, location } = *piece;
                wants.push(Want { id, raw_len, location, purpose });
                Ticket::Coming(Flight(flight))
            })
            .collect();
        drop(flights);
        (tickets, wants)
    }

    /// Fetches pieces that nobody waits for, as slots for that become free.
    pub(super) async fn fetch_ahead(self: &Arc<Self>, pieces: Vec<Piece>) {
        if let Some(disk) = self.disk.clone() {
            let _ = self.runtime.spawn_blocking(move || disk.refresh()).await;
        }
        let wants = pieces.into_iter().map(|piece| {
            let Piece { id, raw_len, location } = piece;
            Want { id, raw_len, location, purpose: piece }
        });
        for planned in plan(wants) {
            let Ok(slot) = Arc::clone(&self.background).acquire_owned().await else { return };
            // Booked only now: until its turn comes, a reader that wants a chunk fetches it.
            let wanted: Vec<Piece> =
                planned.wants.iter().map(|want| want.purpose).filter(|piece| !self.has(piece)).collect();
            let (_, wants) = self.register(&wanted);
            let fetcher = Arc::clone(self);
            self.runtime.spawn(async move {
                let _slot = slot;
                for fetch in plan(wants) {
                    fetcher.fetch(fetch, true).await;
                }
            });
        }
    }

    /// Makes one request, and lands every chunk of it.
    pub(super) async fn fetch(self: &Arc<Self>, fetch: Fetch<Landing>, ahead: bool) {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        match self.range(fetch.pack, fetch.start, fetch.end).await {
            Ok(bytes) => {
                let wanted = fetch.wants.iter().map(|want| u64::from(want.location.stored_len)).sum();
                self.counters.fetched(bytes.len() as u64, wanted, ahead);
                let fetcher = Arc::clone(self);
                let unpacked =
                    self.runtime.spawn_blocking(move || fetcher.unpack(fetch, &bytes, ahead)).await;
                match unpacked {
                    Ok(damaged) => self.fetch_again(damaged).await,
                    Err(error) => tracing::warn!(error = %internal(error), "chunks were not unpacked"),
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for want in fetch.wants {
                    self.complete(want, Err(Arc::clone(&error)));
                }
            }
        }
    }

    /// Lands the whole chunks, and gives back the others.
    fn unpack(&self, fetch: Fetch<Landing>, bytes: &Bytes, ahead: bool) -> Vec<Want<Landing>> {
        let mut frames = Vec::new();
        let mut damaged = Vec::new();
        let Fetch { pack, start, end, wants } = fetch;
        let range = Fetch { pack, start, end, wants: Vec::new() };
        for want in wants {
            let stored = bytes.slice_ref(range.stored(&want, bytes));
            match Chunk::check(self.store.key(), &want.id, want.location.codec, &stored, want.raw_len) {
                Ok(chunk) => {
                    if ahead {
                        self.counters.prefetched(want.id, want.location.stored_len);
                    }
                    frames.push(NewFrame { id: want.id, codec: want.location.codec, stored });
                    self.complete(want, Ok(chunk));
                }
                Err(_) => damaged.push(want),
            }
        }
        // After everybody has what they waited for.
        let len = frames.iter().map(|frame| frame.stored.len() as u64).sum();
        if let Some(disk) = &self.disk
            && disk.expect(len)
        {
            disk.insert(frames);
        }
        damaged
    }

    /// Chunks that came damaged once more, each by itself: it may have happened on the way.
    async fn fetch_again(&self, damaged: Vec<Want<Landing>>) {
        for want in damaged {
            let location = want.location;
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            let answer = self.range(location.pack, location.offset, location.end()).await;
            let checked = answer.and_then(|bytes| {
                self.counters.fetched(bytes.len() as u64, 0, false);
                Chunk::check(self.store.key(), &want.id, location.codec, &bytes, want.raw_len)
                    .map_err(|error| Error::damaged(format!("pack {}", location.pack), error))
            });
            self.complete(want, checked.map_err(Arc::new));
        }
    }

    /// A chunk is in memory before its flight is over, so that nobody misses both.
    fn complete(&self, want: Want<Landing>, outcome: Outcome) {
        if let Ok(chunk) = &outcome {
            self.memory.put(want.id, chunk);
        }
        self.flights().remove(&want.id);
        want.purpose.send_replace(Some(outcome));
    }

    async fn range(&self, pack: PackId, start: u64, end: u64) -> Result<Bytes> {
        let policy = RetryPolicy { deadline: self.limits.deadline, ..RetryPolicy::default() };
        let mut attempts = policy.start();
        let ends = Instant::now() + self.limits.longest_wait();
        loop {
            let left = ends.saturating_duration_since(Instant::now());
            let patience = self.limits.patience.min(left);
            let error = match timeout(patience, self.store.pack_range(pack, start, end)).await {
                Ok(Err(Error::Bucket(error))) if error.is_retryable() => error,
                Ok(answer) => return answer,
                Err(_) => BucketError::Unavailable {
                    key: layout::pack(&self.store.tenant, pack).to_string(),
                    store: self.store.bucket.describe(),
                    reason: format!("nothing came within {patience:?}"),
                },
            };
            // A reader waits in the kernel, where only a signal that ends it reaches it: its time is over
            // when it is.
            if Instant::now() >= ends || !attempts.again(&error).await || Instant::now() >= ends {
                return Err(error.into());
            }
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
        }
    }
}
