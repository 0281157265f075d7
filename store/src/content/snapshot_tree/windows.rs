//! `Windows` fetches chosen segments of a tree in order: many of them with one request, and a bounded way ahead.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};

use super::SnapshotTree;
use crate::{
    Error, Result,
    content::{
        TenantStore,
        reader::{Fetch, Verified, Want, plan_over},
        workers::beside,
    },
    format::{
        root::{Blob, Root, SegmentRef},
        table::Location,
    },
    id::ChunkKey,
};

/// How much is fetched together, as it is stored.
const WINDOW_BYTES: u64 = 2 << 20;
/// The one that is waited for, and one behind it.
const WINDOWS_AHEAD: usize = 2;
const REQUESTS_OF_A_WINDOW: usize = 8;
/// Blobs this close together are fetched with the bytes between.
const MAX_GAP: u64 = 32 * 1024;

/// A segment and its table.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Its place among the tree's segments.
    pub at: usize,
    tree: Bytes,
    table: Bytes,
    /// Whether they were checked and decompressed.
    is_verified: bool,
}

impl Fetched {
    /// Both, checked against their ids; `segment` is the root's entry for them.
    pub fn verified(self, key: &ChunkKey, segment: &SegmentRef) -> Result<(Bytes, Bytes)> {
        if self.is_verified {
            return Ok((self.tree, self.table));
        }
        let check = |blob: &Blob, stored: &Bytes| {
            Verified::check(key, &blob.id, blob.codec, stored, blob.raw_len)
                .map(|verified| verified.into_shared(stored))
                .map_err(|error| Error::damaged(format!("pack {}", blob.pack), error))
        };
        Ok((check(&segment.tree, &self.tree)?, check(&segment.table, &self.table)?))
    }
}

/// Segments that are on their way, in the order of the tree.
pub(super) struct Windows(BoxStream<'static, Result<Vec<Fetched>>>);

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Windows")
    }
}

impl Windows {
    /// Of these segments of a tree, counted from 0. They are fetched unless the whole tree is at hand.
    pub fn new(tree: &Arc<SnapshotTree>, chosen: impl Iterator<Item = usize>) -> Self {
        Self::of(tree, chosen, |tree, at| Some(tree.segments.metadata()?.segment(at)))
    }

    /// The same; segments that this host has kept are not fetched.
    pub fn at_hand(tree: &Arc<SnapshotTree>, chosen: impl Iterator<Item = usize>) -> Self {
        Self::of(tree, chosen, |tree, at| tree.segments.at_hand(at))
    }

    fn of(
        tree: &Arc<SnapshotTree>,
        chosen: impl Iterator<Item = usize>,
        at_hand: fn(&SnapshotTree, usize) -> Option<(Bytes, Bytes)>,
    ) -> Self {
        let runs = stream::iter(runs(tree.root(), chosen));
        let tree = Arc::clone(tree);
        let fetch = move |run: Vec<usize>| {
            let tree = Arc::clone(&tree);
            async move {
                let held = run.iter().filter_map(|at| Some(held(*at, at_hand(&tree, *at)?)));
                let mut found: Vec<Fetched> = held.collect();
                let has = |at: &usize| found.iter().any(|found| found.at == *at);
                let rest: Vec<usize> = run.iter().filter(|at| !has(at)).copied().collect();
                if !rest.is_empty() {
                    let fetched =
                        beside(async move { fetch(tree.segments.store(), tree.root(), &rest).await });
                    found.extend(fetched.await?);
                    found.sort_unstable_by_key(|found| found.at);
                }
                Ok(found)
            }
        };
        Self(runs.map(fetch).buffered(WINDOWS_AHEAD).boxed())
    }

    /// The next of them; never an empty list.
    pub async fn next(&mut self) -> Result<Option<Vec<Fetched>>> {
        self.0.try_next().await
    }
}

fn held(at: usize, (tree, table): (Bytes, Bytes)) -> Fetched {
    Fetched { at, tree, table, is_verified: true }
}

/// Runs of segments that together are about a window long.
fn runs(root: &Root, chosen: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    let (mut runs, mut bytes): (Vec<Vec<usize>>, u64) = (Vec::new(), 0);
    for at in chosen {
        let SegmentRef { tree, table, .. } = &root.segments[at];
        let more = u64::from(tree.stored_len) + u64::from(table.stored_len);
        match runs.last_mut() {
            Some(run) if bytes.saturating_add(more) <= WINDOW_BYTES => {
                run.push(at);
                bytes += more;
            }
            _ => {
                runs.push(vec![at]);
                bytes = more;
            }
        }
    }
    runs
}

async fn fetch(store: &TenantStore, root: &Root, run: &[usize]) -> Result<Vec<Fetched>> {
    let blobs = run.iter().flat_map(|at| [root.segments[*at].tree, root.segments[*at].table]);
    let wants = blobs.enumerate().map(|(place, blob)| want(blob, place));
    let get = |fetch: Fetch<usize>| async move {
        let bytes = store.pack_range(fetch.pack, fetch.start, fetch.end).await?;
        Ok::<_, Error>((fetch, bytes))
    };
    let fetched: Vec<(Fetch<usize>, Bytes)> = stream::iter(plan_over(MAX_GAP, wants))
        .map(get)
        .buffer_unordered(REQUESTS_OF_A_WINDOW)
        .try_collect()
        .await?;
    let mut found: Vec<Fetched> = run
        .iter()
        .map(|at| Fetched { at: *at, tree: Bytes::new(), table: Bytes::new(), is_verified: false })
        .collect();
    for (fetch, bytes) in &fetched {
        for want in &fetch.wants {
            let stored = bytes.slice_ref(fetch.stored(want, bytes));
            let Fetched { tree, table, .. } = &mut found[want.purpose / 2];
            *if want.purpose % 2 == 0 { tree } else { table } = stored;
        }
    }
    Ok(found)
}

fn want(blob: Blob, purpose: usize) -> Want<usize> {
    let Blob { id, pack, offset, stored_len, raw_len, codec } = blob;
    Want { id, raw_len, location: Location { pack, offset, stored_len, codec }, purpose }
}
