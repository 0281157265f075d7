//! `diff` compares two snapshots by their trees alone: no content is fetched.
//!
//! Trees are cut into segments where their content says so, so two snapshots of one profile have most segments
//! alike. Those are not read, unless a chunk that one tree seems to have alone may be in them.

mod comparison;
mod report;
#[cfg(test)]
mod tests;

pub use report::{Change, Diff, Fields, Line, Side, Totals};

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    mem,
    sync::Arc,
    vec,
};

use self::comparison::{ComparedEntry, Comparison};
use super::open::{kept_tree, release};
use crate::{
    Result,
    content::{
        TenantStore,
        snapshot_tree::{
            SnapshotTree,
            stream::{LocatedEntry, TreeStream},
        },
    },
    format::{
        record::Record,
        root::Root,
        tree::{Entry, Kind},
    },
    id::{ChunkId, PackId},
};

/// Compares two trees as streams. What both have alike is not read, and both snapshots are pinned meanwhile.
pub async fn diff(store: &TenantStore, before: &Record, after: &Record) -> Result<Diff> {
    let (before, after) =
        futures::future::try_join(kept_tree(store, before), kept_tree(store, after)).await?;
    let ((kept_before, (_, before)), (kept_after, (_, after))) = (before, after);
    let compared = between(&before, &after).await;
    futures::future::join(release(kept_before), release(kept_after)).await;
    compared
}

/// Compares two trees. Segments that both have alike are not read, unless a chunk that only one tree seems
/// to have may be in them.
pub async fn between(before: &Arc<SnapshotTree>, after: &Arc<SnapshotTree>) -> Result<Diff> {
    let Alike { segments: alike, before: of_before, after: of_after } =
        Alike::of(before.root(), after.root());
    let mut comparison = Comparison::default();
    let totals = &mut comparison.diff.totals;
    (totals.bytes_before, totals.bytes_after) = (before.content_bytes(), after.content_bytes());
    totals.unchanged = alike.iter().map(|(_, at)| entries_of(after.root(), *at)).sum();
    let mut left = Cursor::new(TreeStream::over(Arc::clone(before), of_before)).await?;
    let mut right = Cursor::new(TreeStream::over(Arc::clone(after), of_after)).await?;
    while let Some(order) = left.order(&right) {
        let a = if order.is_le() { left.take().await? } else { None };
        let b = if order.is_ge() { right.take().await? } else { None };
        let (file_a, file_b) = (linked(before, a.as_ref()).await?, linked(after, b.as_ref()).await?);
        comparison.pair(
            a.as_ref().map(|found| ComparedEntry::of(found, file_a.as_ref())),
            b.as_ref().map(|found| ComparedEntry::of(found, file_b.as_ref())),
        );
    }
    // What is in one tree's part alone may be in what both have alike.
    let unsure = comparison.packs_of_unshared();
    let has = |root: &Root, at: usize, packs: &HashSet<PackId>| {
        let span = root.segments[at].span.as_ref();
        span.is_none_or(|span| span.packs.iter().any(|used| packs.contains(&used.pack)))
    };
    let may_have =
        |(a, b): &&(usize, usize)| has(before.root(), *a, &unsure.0) || has(after.root(), *b, &unsure.1);
    let segments = alike.iter().filter(may_have).map(|(_, at)| *at).collect();
    let mut stream = TreeStream::over(Arc::clone(after), segments);
    while let Some(entries) = stream.next().await? {
        entries.iter().flat_map(|found| found.entry.chunks()).for_each(|(id, _)| comparison.is_in_both(&id));
    }
    Ok(comparison.finish())
}

/// The file behind a hard link.
async fn linked(tree: &SnapshotTree, found: Option<&LocatedEntry>) -> Result<Option<Entry>> {
    match found.map(|found| &found.entry.kind) {
        Some(Kind::HardLink { target }) => Ok(tree.file(target).await?.map(|file| file.entry)),
        _ => Ok(None),
    }
}

fn entries_of(root: &Root, at: usize) -> u64 {
    root.segments[at].span.as_ref().map_or(0, |span| span.entries)
}

/// The segments that two trees have alike, and those that only one has.
struct Alike {
    /// Where the first has each, and where the second has it.
    segments: Vec<(usize, usize)>,
    before: Vec<usize>,
    after: Vec<usize>,
}

impl Alike {
    fn of(before: &Root, after: &Root) -> Self {
        let places: HashMap<ChunkId, usize> = alone(before).collect();
        let shared = alone(after).filter_map(|(id, at)| Some((*places.get(&id)?, at)));
        let segments: Vec<(usize, usize)> = shared.collect();
        let rest = |root: &Root, taken: HashSet<usize>| {
            (0..root.segments.len()).filter(|at| !taken.contains(at)).collect()
        };
        Self {
            before: rest(before, segments.iter().map(|(at, _)| *at).collect()),
            after: rest(after, segments.iter().map(|(_, at)| *at).collect()),
            segments,
        }
    }
}

/// The segments that say all there is to say of their entries, by id: no file goes on from one or into one, and no
/// hard link is in one, for that changes with its file. None is twice in a tree, since its first path is not.
fn alone(root: &Root) -> impl Iterator<Item = (ChunkId, usize)> + '_ {
    let goes_on = |at: usize| {
        let span = root.segments.get(at).and_then(|segment| segment.span.as_ref());
        span.is_some_and(|span| span.continues)
    };
    let is_alone = move |at: &usize| {
        let span = root.segments[*at].span.as_ref();
        span.is_some_and(|span| span.links == 0 && span.first.is_some()) && !goes_on(*at) && !goes_on(at + 1)
    };
    (0..root.segments.len()).filter(is_alone).map(|at| (root.segments[at].tree.id, at))
}

/// The entries of one tree, one by one.
struct Cursor {
    stream: TreeStream,
    batch: vec::IntoIter<LocatedEntry>,
    next: Option<LocatedEntry>,
}

impl Cursor {
    async fn new(stream: TreeStream) -> Result<Self> {
        let mut cursor = Self { stream, batch: Vec::new().into_iter(), next: None };
        cursor.take().await?;
        Ok(cursor)
    }

    async fn take(&mut self) -> Result<Option<LocatedEntry>> {
        let mut next = self.batch.next();
        if next.is_none()
            && let Some(batch) = self.stream.next().await?
        {
            self.batch = batch.into_iter();
            next = self.batch.next();
        }
        Ok(mem::replace(&mut self.next, next))
    }

    /// The side whose entry comes first; none if both have ended.
    fn order(&self, other: &Self) -> Option<Ordering> {
        match (&self.next, &other.next) {
            (None, None) => None,
            (Some(a), Some(b)) => Some(a.entry.path.cmp(&b.entry.path)),
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
        }
    }
}
