//! `startup` records the reads of a mount's first seconds, and fetches the same chunks ahead of the reader at
//! the next mount, in a few large requests.

mod guess;
mod ranges;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use futures::{StreamExt, stream};

use super::ChunkFetcher;
use crate::{
    content::{
        chunk::Piece,
        reader::{Fetch, Want, plan},
        snapshot_tree::SnapshotTree,
    },
    format::{
        startup::{MAX_BYTES, Startup},
        table::Location,
        tree::{Entry, Extent, Kind},
    },
    id::ChunkId,
};
pub use guess::{Guess, Ranking, guessed};
pub use ranges::{First, StartupRanges};

/// How long after the first read a start-up lasts.
const SPAN: Duration = Duration::from_secs(20);
/// Requests that a plan aims at; all are sent at once.
const REQUESTS: usize = 8;
/// The most bytes that may be fetched in vain, to need so few requests.
const MAX_GAP_BYTES: u64 = 3 << 20;
/// More chunks than a plan names are not looked for.
const MOST_CHUNKS: usize = 1 << 16;

/// The chunks read first, in order, within bounds.
#[derive(Debug, Default)]
pub(super) struct FirstReads {
    over: AtomicBool,
    reads: Mutex<Reads>,
}

#[derive(Debug, Default)]
struct Reads {
    since: Option<Instant>,
    seen: HashSet<ChunkId>,
    order: Vec<ChunkId>,
    bytes: u64,
}

impl FirstReads {
    pub fn note(&self, pieces: &[Piece]) {
        if self.over.load(Ordering::Relaxed) {
            return;
        }
        let mut reads = self.reads.lock();
        let since = *reads.since.get_or_insert_with(Instant::now);
        for piece in pieces {
            if reads.bytes + u64::from(piece.raw_len) > MAX_BYTES || since.elapsed() > SPAN {
                self.over.store(true, Ordering::Relaxed);
                reads.seen = HashSet::new();
                return;
            }
            if reads.seen.insert(piece.id) {
                reads.order.push(piece.id);
                reads.bytes += u64::from(piece.raw_len);
            }
        }
    }

    pub fn in_order(&self) -> Vec<ChunkId> {
        self.reads.lock().order.clone()
    }
}

/// The chunks a plan names, as [`ChunkFetcher::first_reads`] would give them: for a mount that has
/// read too little to know better.
pub fn reads_of(startup: &Startup, entries: &[Entry]) -> Vec<ChunkId> {
    let chunks: Vec<(ChunkId, u32)> = entries.iter().flat_map(Entry::chunks).collect();
    let mut left = MAX_BYTES;
    let named = startup.chunks(chunks.len() as u64).map(|at| chunks[at as usize]);
    // Also what is named again and again: no plan of ours is so long.
    let within = named.map_while(|(id, len)| {
        left = left.checked_sub(len.into())?;
        Some(id)
    });
    within.collect()
}

/// A chunk of a file, and where in the file it is.
#[derive(Clone, Copy, Debug)]
struct FileChunk {
    id: ChunkId,
    offset: u64,
    len: u32,
}

fn parts(entry: &Entry) -> impl Iterator<Item = FileChunk> + '_ {
    let extents = match &entry.kind {
        Kind::File { extents, .. } => extents.as_slice(),
        _ => &[],
    };
    let mut end = 0;
    extents.iter().filter_map(move |extent| {
        let offset = end;
        end += extent.len();
        match extent {
            Extent::Chunk { id, len } => Some(FileChunk { id: *id, offset, len: *len }),
            _ => None,
        }
    })
}

impl ChunkFetcher {
    /// Fetches in the background the chunks of a snapshot that `startup` names, or, if it
    /// names none, those that `guess` does.
    pub fn follow(
        self: &Arc<Self>,
        startup: &Startup,
        guess: Option<Guess>,
        entries: &[Entry],
        locations: &[Location],
    ) {
        let own;
        let startup = match guess {
            Some(guess) if startup.is_empty() => {
                own = guessed(guess, entries);
                &own
            }
            _ => startup,
        };
        let chunks: Vec<(ChunkId, u32)> = entries.iter().flat_map(Entry::chunks).collect();
        let numbers = startup.chunks(chunks.len().min(locations.len()) as u64);
        self.begin_startup(numbers.map(|at| {
            let ((id, raw_len), location) = (chunks[at as usize], locations[at as usize]);
            Piece { id, raw_len, location }
        }));
    }

    /// The same of a tree that is read by need: only the segments are read that the hints lead to. A guess
    /// takes all names, so it is made of small trees alone.
    pub async fn follow_tree(
        self: Arc<Self>,
        startup: Startup,
        guess: Option<Guess>,
        tree: Arc<SnapshotTree>,
    ) {
        if startup.is_empty() {
            let Some(metadata) = guess.and(tree.metadata()).cloned() else { return };
            let guessed = self.runtime.clone().spawn_blocking(move || {
                if let Ok((entries, locations)) = metadata.decode() {
                    self.follow(&startup, guess, &entries, &locations);
                }
            });
            return guessed.await.unwrap_or_default();
        }
        let count = tree.root().segments.iter().map(|segment| u64::from(segment.chunks)).sum();
        match tree.chunks(startup.chunks(count).take(MOST_CHUNKS)).await {
            Ok(pieces) => self.begin_startup(pieces),
            Err(error) => tracing::debug!(%error, "what is read first is not fetched ahead"),
        }
    }

    fn begin_startup(self: &Arc<Self>, pieces: impl IntoIterator<Item = Piece>) {
        let mut left = MAX_BYTES;
        // No plan of ours is so long.
        let within = pieces.into_iter().map_while(|piece| {
            left = left.checked_sub(piece.raw_len.into())?;
            Some(piece)
        });
        let pieces: Vec<Piece> = within.collect();
        if self.is_local() {
            return self.prefetch(pieces);
        }
        let fetcher = Arc::clone(self);
        self.runtime.spawn(async move { fetcher.fetch_startup(pieces).await });
    }

    async fn fetch_startup(self: Arc<Self>, pieces: Vec<Piece>) {
        if let Some(disk) = self.disk.clone() {
            let _ = self.runtime.spawn_blocking(move || disk.refresh()).await;
        }
        let wanted = pieces.into_iter().filter(|piece| !self.has(piece));
        let requests = gather(wanted.collect());
        stream::iter(requests)
            .for_each_concurrent(REQUESTS, |group| {
                let fetcher = Arc::clone(&self);
                async move {
                    // Booked only when its turn has come, as all prefetching is.
                    let (_, wants) = fetcher.register(&group);
                    let start = wants.iter().map(|want| want.location.offset).min();
                    let end = wants.iter().map(|want| want.location.end()).max();
                    if let (Some(start), Some(end)) = (start, end) {
                        let pack = wants[0].location.pack;
                        fetcher.fetch(Fetch { pack, start, end, wants }, true).await;
                    }
                }
            })
            .await;
    }
}

/// Groups pieces into few requests: the smallest gaps are fetched along, as long as that is
/// not too much, until there are few enough. The group that is needed first comes first.
fn gather(pieces: Vec<Piece>) -> Vec<Vec<Piece>> {
    let wants = pieces.into_iter().enumerate().map(|(purpose, piece)| {
        let Piece { id, raw_len, location } = piece;
        Want { id, raw_len, location, purpose }
    });
    let mut groups = plan(wants);
    groups.sort_by_key(|group| (group.pack, group.start));
    let gap = |before: &Fetch<usize>, after: &Fetch<usize>| {
        (before.pack == after.pack).then(|| after.start.saturating_sub(before.end))
    };
    let mut left = MAX_GAP_BYTES;
    while groups.len() > REQUESTS {
        let gaps = groups.windows(2).map(|pair| gap(&pair[0], &pair[1]));
        let smallest = gaps.enumerate().filter_map(|(at, gap)| Some((gap?, at))).min();
        let Some((bytes, at)) = smallest.filter(|(bytes, _)| *bytes <= left) else { break };
        left -= bytes;
        let after = groups.remove(at + 1);
        groups[at].end = groups[at].end.max(after.end);
        groups[at].wants.extend(after.wants);
    }
    groups.sort_by_key(|group| group.wants.iter().map(|want| want.purpose).min());
    let pieces = |group: Fetch<usize>| {
        let wants = group.wants.into_iter();
        wants.map(|Want { id, raw_len, location, .. }| Piece { id, raw_len, location }).collect()
    };
    groups.into_iter().map(pieces).collect()
}
