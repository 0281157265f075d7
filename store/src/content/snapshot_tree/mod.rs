//! `SnapshotTree` reads a snapshot's tree by need: its root first, then the segments that a caller asks for.
//!
//! A small tree is fetched whole, since that takes one round of requests as its root does. Of a large one the
//! segments that were read last are held, and no more; on a host with a cache they are kept on disk as well.
//!
//! A caller that cannot wait asks for the answer `now`, and gets it, or the part that must be
//! [loaded](SnapshotTree::load) first. Entries are named by path, or by their *ordinal*: how many entries
//! come before them in the whole tree.

mod links;
mod listing;
mod located_segment;
mod now;
mod numbers;
mod recent_results;
mod segments;
pub mod stored_segments;
pub mod stream;
mod windows;

pub use links::Links;
pub use listing::{Below, Child, ChildKind, Children};
pub use now::Absent;
pub use segments::Follow;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use futures::{StreamExt, TryStreamExt};

pub(crate) use self::located_segment::LocatedSegment;
use self::{recent_results::RecentResults, segments::Segments};
use super::{
    TenantStore,
    chunk::Piece,
    meta::{Fresh, Metadata},
};
use crate::{
    Error, Result,
    format::{
        record::{Content, Record},
        root::Root,
        segment::{Segment, covered},
        table::Location,
        tree::{Entry, Kind, TreePath, in_order},
    },
    id::{PackId, RecordId},
};

/// Requests for segments that are made at once.
const REQUESTS_AT_ONCE: usize = 8;

/// The tree of one snapshot.
#[derive(Debug)]
pub struct SnapshotTree {
    segments: Segments,
    /// The segments in which an entry begins, in order.
    begins: Vec<usize>,
    /// For each segment, and for the end, how many entries begin before it.
    before: Vec<u64>,
    links: OnceLock<Arc<Links>>,
    listings: RecentResults<TreePath, Vec<Child>>,
    files: RecentResults<TreePath, TreeFile>,
}

/// An entry, and how many entries come before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// How many entries of the tree come before it.
    pub ordinal: u64,
    /// The entry. The extents of a file may not be complete.
    pub entry: Entry,
}

/// A regular file with the places of its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// The entry, with all its extents.
    pub entry: Entry,
    /// Its chunks, in order.
    pub pieces: Vec<Piece>,
}

impl SnapshotTree {
    /// Reads the root of a snapshot and, of a small one, all segments.
    pub async fn open(store: &TenantStore, record: &Record) -> Result<Self> {
        let content = content(record)?;
        if Metadata::is_small(content) {
            let metadata = Metadata::load(store, record.record, record.generation, content).await?;
            return Self::of_metadata(store, Arc::new(metadata));
        }
        Self::by_need(store, record).await
    }

    /// Reads the root of a snapshot, and all segments if they are few or their root does not say what each covers. No more
    /// than `most` bytes are held for that.
    pub(crate) async fn open_within(
        store: &TenantStore,
        (record, generation): (RecordId, u64),
        content: &Content,
        most: u64,
    ) -> Result<Self> {
        let whole = || Metadata::load_within(store, record, generation, content, most);
        if Metadata::is_small(content) {
            match whole().await {
                // Compressed it takes little.
                Err(Error::InvalidInput { .. }) => {}
                loaded => return Self::of_metadata(store, Arc::new(loaded?)),
            }
        }
        let root = segments::root(store, content).await?;
        if root.is_spanned() {
            return Ok(Self::of_root(store, root));
        }
        Self::of_metadata(store, Arc::new(whole().await?))
    }

    /// Reads the root of a snapshot, however small that is. If it is of version 1, all segments are read to
    /// find out their spans.
    pub async fn by_need(store: &TenantStore, record: &Record) -> Result<Self> {
        let content = content(record)?;
        let root = segments::root(store, content).await?;
        if !root.is_spanned() {
            return Self::of_metadata(store, Arc::new(Metadata::fetch(store, content).await?));
        }
        Ok(Self::of_root(store, root))
    }

    /// The tree of a root with spans.
    pub(crate) fn of_root(store: &TenantStore, root: Root) -> Self {
        Self::new(Segments::by_need(store, root))
    }

    /// Reads it from the bucket and never from this host's cache, to find out whether it is whole there.
    pub async fn from_bucket(store: &TenantStore, record: &Record) -> Result<Self> {
        let content = content(record)?;
        if !Metadata::is_small(content) {
            let root = Metadata::fetch_root(store, content).await?;
            if root.is_spanned() {
                return Ok(Self::new(Segments::by_need(store, root).uncached()));
            }
        }
        Self::of_metadata(store, Arc::new(Metadata::fetch(store, content).await?))
    }

    /// The tree whose segments have all been fetched.
    pub fn of_metadata(store: &TenantStore, metadata: Arc<Metadata>) -> Result<Self> {
        Ok(Self::new(Segments::whole(store, metadata)?))
    }

    /// The tree that a write has made of `base`: its root, and the segments that are new.
    pub(crate) fn of_new(
        store: &TenantStore,
        base: Option<&Self>,
        root: Root,
        fresh: Vec<Fresh>,
    ) -> Result<Self> {
        let fresh = match base.and_then(Self::metadata) {
            Some(base) => base.fill(&root, fresh),
            None => fresh,
        };
        if fresh.iter().all(Option::is_some) {
            let metadata = Metadata::of_fresh(root, fresh);
            let whole =
                metadata.ok_or_else(|| Error::Internal { what: "a segment that is missing".to_owned() })?;
            return Self::of_metadata(store, Arc::new(whole));
        }
        Ok(Self::new(Segments::with_fresh(store, root, fresh, base.map(|base| &base.segments))))
    }

    /// All its segments, if they are at hand.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.segments.metadata()
    }

    fn new(segments: Segments) -> Self {
        let has_first = |at: &usize| segments.first(*at).is_some();
        let begins = (0..segments.len()).filter(has_first).collect();
        let entries = |at| segments.root().segments[at as usize].span.as_ref().map_or(0, |span| span.entries);
        let mut before = vec![0];
        before.extend((0..segments.len() as u64).scan(0, |sum, at| {
            *sum += entries(at);
            Some(*sum)
        }));
        let (listings, files) = (RecentResults::default(), RecentResults::default());
        Self { segments, begins, before, links: OnceLock::new(), listings, files }
    }

    /// Checks all of a tree whose segments have all been fetched: a fault that can be found now need not be
    /// found in the middle of something. Of another, each segment is checked when it is read.
    pub fn check_whole(&self) -> Result<()> {
        self.segments.check_whole()
    }

    /// Holds so many bytes of decoded segments at most, and at least the last one.
    pub fn holding(mut self, bytes: usize) -> Self {
        self.segments.holding(bytes);
        self
    }

    /// Asks `follow` where segments are that are no longer where they were.
    pub fn following(mut self, follow: Arc<dyn Follow>) -> Self {
        self.segments.following(follow);
        self
    }

    /// The list of the tree's segments.
    pub fn root(&self) -> &Root {
        self.segments.root()
    }

    /// How many entries it has.
    pub fn len(&self) -> u64 {
        self.before.last().copied().unwrap_or_default()
    }

    /// Whether it has no entry; a tree of a snapshot has one at least.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sizes of all its files.
    pub fn content_bytes(&self) -> u64 {
        let spans = self.root().segments.iter().filter_map(|segment| segment.span.as_ref());
        spans.map(|span| span.content_bytes).sum()
    }

    /// The packs that it needs, with those of its segments.
    pub fn packs(&self) -> BTreeSet<PackId> {
        let spans = self.root().segments.iter().filter_map(|segment| segment.span.as_ref());
        let of_chunks = spans.flat_map(|span| span.packs.iter().map(|used| used.pack));
        of_chunks.chain(self.root().blobs().map(|blob| blob.pack)).collect()
    }

    /// The entry at a path.
    pub async fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        Ok(self.find(path).await?.map(|found| found.entry))
    }

    /// The entry at a path, and its place in the tree.
    pub async fn find(&self, path: &TreePath) -> Result<Option<FoundEntry>> {
        let Some(at) = self.segment_of(path.as_bytes()) else { return Ok(None) };
        let part = self.segments.read(at).await?;
        Ok(self.found(at, &part, path))
    }

    /// How many entries come before `path`, whether it names one or not.
    pub async fn rank(&self, path: &[u8]) -> Result<u64> {
        let Some(at) = self.segment_of(path) else { return Ok(0) };
        let part = self.segments.read(at).await?;
        let place = part.tree.entries.partition_point(|entry| in_order(entry.path.as_bytes(), path).is_lt());
        Ok(self.before[at] + place as u64)
    }

    /// How many entries come before the first one after `path` and all below it.
    pub async fn rank_after(&self, path: &TreePath) -> Result<u64> {
        if path.is_root() {
            return Ok(self.len());
        }
        self.rank(&[path.as_bytes(), &[listing::AFTER]].concat()).await
    }

    /// The entry with so many before it.
    pub async fn at(&self, ordinal: u64) -> Result<Option<Entry>> {
        let Some(at) = self.segment_at(ordinal) else { return Ok(None) };
        let part = self.segments.read(at).await?;
        Ok(part.tree.entries.get((ordinal - self.before[at]) as usize).cloned())
    }

    /// The file behind an entry: a hard link's is the one it links to. Its extents may not be complete.
    pub async fn behind(&self, entry: &Entry) -> Result<Option<Entry>> {
        match &entry.kind {
            Kind::File { .. } => Ok(Some(entry.clone())),
            Kind::HardLink { target } => self.entry(target).await,
            _ => Ok(None),
        }
    }

    /// The regular file at a path, with where its chunks lie.
    pub async fn file(&self, path: &TreePath) -> Result<Option<TreeFile>> {
        let Some(at) = self.segment_of(path.as_bytes()) else { return Ok(None) };
        let part = self.segments.read(at).await?;
        let Ok(place) = part.tree.entries.binary_search_by(|entry| entry.path.cmp(path)) else {
            return Ok(None);
        };
        let mut entry = part.tree.entries[place].clone();
        let mut pieces = part.pieces(place);
        let mut next = at + 1;
        while covered(&entry) < entry.size() {
            let more = self.segments.continued(next, &entry.path).await?;
            pieces.extend(more.continued_pieces());
            if let Kind::File { extents, .. } = &mut entry.kind {
                extents.extend(more.tree.continued.iter().cloned());
            }
            next += 1;
        }
        entry.check().map_err(|error| error.of(format!("the file {path}")))?;
        Ok(matches!(entry.kind, Kind::File { .. }).then_some(TreeFile { entry, pieces }))
    }

    /// The chunks with these numbers, counted over the whole tree, in this order; numbers that no chunk has are
    /// left out. Reads the segments that name them.
    pub async fn chunks(&self, numbers: impl IntoIterator<Item = u64>) -> Result<Vec<Piece>> {
        let ends: Vec<u64> = self
            .root()
            .segments
            .iter()
            .scan(0, |sum, segment| {
                *sum += u64::from(segment.chunks);
                Some(*sum)
            })
            .collect();
        let place = |number: u64| {
            let at = ends.partition_point(|end| *end <= number);
            let first = at.checked_sub(1).map_or(0, |before| ends[before]);
            (at < ends.len()).then_some((at, (number - first) as usize))
        };
        let places: Vec<(usize, usize)> = numbers.into_iter().filter_map(place).collect();
        let segments: BTreeSet<usize> = places.iter().map(|(at, _)| *at).collect();
        let read = futures::stream::iter(segments)
            .map(|at| async move { Ok::<_, Error>((at, self.read(at).await?)) });
        let read: HashMap<usize, Arc<LocatedSegment>> = read.buffered(REQUESTS_AT_ONCE).try_collect().await?;
        Ok(places.into_iter().filter_map(|(at, number)| read.get(&at)?.piece(number)).collect())
    }

    fn found(&self, at: usize, part: &LocatedSegment, path: &TreePath) -> Option<FoundEntry> {
        let place = part.tree.entries.binary_search_by(|entry| entry.path.cmp(path)).ok()?;
        Some(FoundEntry { ordinal: self.before[at] + place as u64, entry: part.tree.entries[place].clone() })
    }

    /// The segment in which the entry with this ordinal begins.
    fn segment_at(&self, ordinal: u64) -> Option<usize> {
        let after = self.before.partition_point(|before| *before <= ordinal);
        after.checked_sub(1).filter(|at| *at < self.segments.len())
    }

    /// The segment in which an entry of this path would begin.
    fn segment_of(&self, path: &[u8]) -> Option<usize> {
        let is_before = |at: &usize| {
            let first = self.segments.first(*at).map_or(&[][..], TreePath::as_bytes);
            in_order(first, path).is_le()
        };
        let after = self.begins.partition_point(is_before);
        self.begins.get(after.checked_sub(1)?).copied()
    }

    /// The segments that have the entry of this path, if there is one.
    pub(crate) fn segments_of(&self, path: &TreePath) -> impl Iterator<Item = usize> + use<'_> {
        let first = self.segment_of(path.as_bytes());
        let continues = |at: &usize| {
            let segment = self.root().segments.get(*at);
            segment.and_then(|segment| segment.span.as_ref()).is_some_and(|span| span.continues)
        };
        let later = first.into_iter().flat_map(move |first| (first + 1..).take_while(continues));
        first.into_iter().chain(later)
    }

    /// The first segment after `at` in which an entry begins.
    fn next_of(&self, at: usize) -> Option<usize> {
        self.begins.get(self.begins.partition_point(|begins| *begins <= at)).copied()
    }

    /// Keeps all segments for the next write or read on this host, if they are at hand.
    pub(crate) fn remember(&self, store: &TenantStore, record: RecordId, generation: u64) {
        if let Some(metadata) = self.metadata() {
            metadata.remember(store, record, generation);
        }
    }

    /// A segment as it is stored, and where its chunks lie.
    pub(crate) async fn opened(&self, at: usize) -> Result<(Segment, Vec<Location>)> {
        self.segments.opened(at).await
    }

    /// A segment, decoded.
    pub(crate) async fn read(&self, at: usize) -> Result<Arc<LocatedSegment>> {
        self.segments.read(at).await
    }
}

fn content(record: &Record) -> Result<&Content> {
    let missing = || Error::damaged(format!("record {}", record.record), "it has no content");
    record.content.as_ref().ok_or_else(missing)
}
