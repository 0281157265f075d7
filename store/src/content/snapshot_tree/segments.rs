//! `Segments` fetches, verifies and decodes single segments of a tree, and holds those that were read last.
//!
//! Segments that follow each other mostly lie side by side in a pack. A reader of one often needs the next,
//! so some that follow are fetched in the same request.

use std::{
    collections::HashMap,
    fmt,
    os::unix::fs::FileExt,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::located_segment::LocatedSegment;
use crate::{
    Error, Result,
    content::{
        TenantStore,
        cache::{Cache, CacheKind},
        meta::{Fresh, MAX_GAP, Metadata, check_blob, check_id, check_span, fetch_blob, table_of},
        relocator::LOOKS,
        workers::blocking,
    },
    format::{
        bytes::{Put, Reader},
        layout,
        record::Content,
        root::{Blob, Root, SegmentRef},
        segment::{Segment, SegmentPart},
        table::Location,
        tree::TreePath,
    },
    id::{ChunkId, PackId},
};

/// How many bytes of decoded segments are held: some hundred segments.
const HELD_BYTES: usize = 16 << 20;
/// How many bytes are fetched in one request, unless one segment alone takes more.
const AT_ONCE: u64 = 256 << 10;
/// How many segments are considered for being fetched along.
const NEIGHBOURS: usize = 64;
/// How many bytes of segments are held that this host has made.
const MOST_FRESH: usize = 4 << 20;

/// Knows where the segments of a snapshot are now: a collection may have moved them since its root was read.
#[async_trait]
pub trait Follow: Send + Sync + fmt::Debug {
    /// The present content of the snapshot: its segments and their locations.
    async fn content(&self) -> Result<Content>;
}

/// Segments one after another, by place: each tree with its table.
type Fetched = Vec<(usize, Bytes, Bytes)>;

/// The segments of one tree.
#[derive(Debug)]
pub(super) struct Segments {
    store: TenantStore,
    root: Arc<Root>,
    /// All of them as they are stored, if the tree is small.
    whole: Option<Arc<Metadata>>,
    /// Some that this host has made, by number.
    fresh: HashMap<usize, (Bytes, Bytes)>,
    /// Whether they are kept on this host's disk: not if the store's packs are there already.
    caches: bool,
    held: Mutex<Held>,
    follow: Option<Arc<dyn Follow>>,
    /// The table of segments without chunks: it is one blob, wherever they lie.
    empty_table: OnceLock<(ChunkId, Bytes)>,
    /// The root that says where they are, if they were moved.
    moved: RwLock<Option<Arc<Root>>>,
}

/// The segments that were read last.
#[derive(Debug)]
struct Held {
    parts: HashMap<usize, (Arc<LocatedSegment>, u64)>,
    clock: u64,
    bytes: usize,
    most: usize,
}

impl Default for Held {
    fn default() -> Self {
        Self { parts: HashMap::new(), clock: 0, bytes: 0, most: HELD_BYTES }
    }
}

impl Held {
    fn get(&mut self, at: usize) -> Option<Arc<LocatedSegment>> {
        self.clock += 1;
        let (part, used) = self.parts.get_mut(&at)?;
        *used = self.clock;
        Some(Arc::clone(part))
    }

    fn put(&mut self, at: usize, part: &Arc<LocatedSegment>) {
        self.clock += 1;
        self.bytes += part.bytes;
        if let Some((before, _)) = self.parts.insert(at, (Arc::clone(part), self.clock)) {
            self.bytes -= before.bytes;
        }
        while self.bytes > self.most && self.parts.len() > 1 {
            let oldest = self.parts.iter().min_by_key(|(_, (_, used))| *used).map(|(at, _)| *at);
            let Some((dropped, _)) = oldest.and_then(|oldest| self.parts.remove(&oldest)) else { return };
            self.bytes -= dropped.bytes;
        }
    }
}

/// The root of a snapshot, from this host's disk or the bucket.
pub(super) async fn root(store: &TenantStore, content: &Content) -> Result<Root> {
    let name = content.root.id.to_string();
    let cached = cache_of(store).and_then(|cache| cache.read(CacheKind::Segment, &name));
    if let Some(bytes) = cached.filter(|bytes| store.key().id_of(bytes) == content.root.id)
        && let Ok(root) = Root::decode(&bytes)
    {
        check_id(store, &root, content.snapshot_id)?;
        return Ok(root);
    }
    let root = Metadata::fetch_root(store, content).await?;
    if let Some(cache) = cache_of(store) {
        cache.write(CacheKind::Segment, &name, &root.encode());
    }
    Ok(root)
}

/// Where segments are kept, if that saves anything.
fn cache_of(store: &TenantStore) -> Option<&Arc<Cache>> {
    store.cache.as_ref().filter(|_| !store.is_near())
}

impl Segments {
    /// Of a tree whose segments have been fetched.
    pub fn whole(store: &TenantStore, metadata: Arc<Metadata>) -> Result<Self> {
        let root = metadata.spanned_root()?;
        Ok(Self { whole: Some(metadata), caches: false, ..Self::by_need(store, root) })
    }

    /// Of a tree whose segments are fetched one by one. Its root has spans.
    pub fn by_need(store: &TenantStore, root: Root) -> Self {
        let caches = cache_of(store).is_some();
        let (held, follow, moved) = (Mutex::default(), None, RwLock::default());
        let (store, root, fresh) = (store.clone(), Arc::new(root), HashMap::new());
        let empty_table = OnceLock::new();
        Self { store, root, whole: None, fresh, caches, held, follow, empty_table, moved }
    }

    /// The segments of a tree, some of which this host has just made. If they are many, they are fetched like
    /// the others. Segments that were read of `base` are at hand as well, where they are the same.
    pub fn with_fresh(store: &TenantStore, root: Root, fresh: Vec<Fresh>, base: Option<&Self>) -> Self {
        let mut room = MOST_FRESH;
        let numbered = fresh.into_iter().enumerate().filter_map(|(at, fresh)| Some((at, fresh?)));
        let within = numbered.map_while(|(at, (tree, table))| {
            room = room.checked_sub(tree.len() + table.len())?;
            Some((at, (tree, table)))
        });
        let mut segments = Self { fresh: within.collect(), ..Self::by_need(store, root) };
        if let Some(base) = base {
            segments.held.get_mut().most = base.held.lock().most;
            for (at, part) in base.held_in(&segments.root) {
                segments.held.get_mut().put(at, &part);
            }
        }
        segments
    }

    /// Those that are held and that `root` has as well, by their number there.
    fn held_in(&self, root: &Root) -> Vec<(usize, Arc<LocatedSegment>)> {
        let blobs = |segment: &SegmentRef| (segment.tree.id, segment.table.id);
        let numbers = root.segments.iter().enumerate().map(|(at, segment)| (blobs(segment), at));
        let numbers: HashMap<(ChunkId, ChunkId), usize> = numbers.collect();
        let held = self.held.lock();
        let same = held.parts.iter().filter_map(|(at, (part, _))| {
            Some((*numbers.get(&blobs(&self.root.segments[*at]))?, Arc::clone(part)))
        });
        same.collect()
    }

    /// They are neither read from this host's disk nor kept there.
    pub fn uncached(mut self) -> Self {
        self.caches = false;
        self
    }

    pub fn following(&mut self, follow: Arc<dyn Follow>) {
        self.follow = Some(follow);
    }

    /// Decodes all of them, if all of them have been fetched.
    pub fn check_whole(&self) -> Result<()> {
        self.whole.as_ref().map_or(Ok(()), |metadata| metadata.decode().map(drop))
    }

    pub fn holding(&mut self, bytes: usize) {
        self.held.get_mut().most = bytes;
    }

    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.whole.as_ref()
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn store(&self) -> &TenantStore {
        &self.store
    }

    pub fn len(&self) -> usize {
        self.root.segments.len()
    }

    /// The first entry that begins in a segment.
    pub fn first(&self, at: usize) -> Option<&TreePath> {
        self.root.segments[at].span.as_ref()?.first.as_ref()
    }

    /// The segment at this place, if it is in memory or on this host's disk. One that is damaged counts as
    /// missing: the read that follows reports it.
    pub fn now(&self, at: usize) -> Option<Arc<LocatedSegment>> {
        if let Some(part) = self.held.lock().get(at) {
            return Some(part);
        }
        let (tree, table) = match self.at_hand(at) {
            Some(stored) => stored,
            None => return self.take(at, self.in_file(at)?).ok()?,
        };
        let part = Arc::new(self.decode(at, &tree, &table).ok()?);
        self.held.lock().put(at, &part);
        Some(part)
    }

    /// The segment at this place.
    pub async fn read(&self, at: usize) -> Result<Arc<LocatedSegment>> {
        if let Some(part) = self.now(at) {
            return Ok(part);
        }
        if let Some((tree, table)) = self.at_hand(at) {
            return self.decode(at, &tree, &table).map(Arc::new);
        }
        let fetched = self.fetch_followed(at).await?;
        let missing = || Error::Internal { what: "a segment was not fetched".to_owned() };
        self.take(at, fetched)?.ok_or_else(missing)
    }

    /// The segment at this place as it is stored, and where its chunks lie.
    pub async fn opened(&self, at: usize) -> Result<(Segment, Vec<Location>)> {
        let (tree, table) = match self.at_hand(at) {
            Some(stored) => stored,
            None => {
                let fetched = self.fetch_followed(at).await?.into_iter().find(|(place, ..)| *place == at);
                let missing = || Error::Internal { what: "a segment was not fetched".to_owned() };
                fetched.map(|(_, tree, table)| (tree, table)).ok_or_else(missing)?
            }
        };
        let part = self.decode(at, &tree, &table)?;
        let (chunks, span) = (part.tree.chunks().collect(), part.tree.span);
        Ok((Segment { bytes: tree.into(), chunks, span }, part.locations))
    }

    /// The segment and its table as they are stored but decompressed, if they are in memory or kept on disk.
    pub fn at_hand(&self, at: usize) -> Option<(Bytes, Bytes)> {
        match &self.whole {
            Some(metadata) => Some(metadata.segment(at)),
            None => self.fresh.get(&at).cloned().or_else(|| self.on_disk(at)),
        }
    }

    /// Decodes and holds the fetched segments; returns the one at `at`.
    fn take(&self, at: usize, fetched: Fetched) -> Result<Option<Arc<LocatedSegment>>> {
        let mut wanted = None;
        // It is used last, whatever was fetched along.
        for (place, tree, table) in fetched.into_iter().rev() {
            let segment = &self.root.segments[place];
            if segment.chunks == 0 {
                let _ = self.empty_table.set((segment.table.id, table.clone()));
            }
            let part = Arc::new(self.decode(place, &tree, &table)?);
            self.held.lock().put(place, &part);
            if place == at {
                wanted = Some(part);
            }
        }
        Ok(wanted)
    }

    /// The segment at this place, which must go on with the file at `path`.
    pub async fn continued(&self, at: usize, path: &TreePath) -> Result<Arc<LocatedSegment>> {
        let goes_on = self.root.segments.get(at).and_then(|segment| segment.span.as_ref());
        if !goes_on.is_some_and(|span| span.continues) {
            return Err(Error::damaged("the snapshot's tree", format!("{path} is not complete")));
        }
        self.read(at).await
    }

    /// Fetches a segment from where it is, if it is no longer where it was.
    async fn fetch_followed(&self, at: usize) -> Result<Fetched> {
        let mut looks = 0;
        loop {
            let root = self.places();
            match (self.fetch(&root, at).await, &self.follow) {
                (Err(Error::Missing { .. }), Some(follow)) if looks < LOOKS => {
                    looks += 1;
                    let content = follow.content().await?;
                    let now = self::root(&self.store, &content).await?;
                    let trees =
                        |root: &Root| root.segments.iter().map(|segment| segment.tree.id).collect::<Vec<_>>();
                    if trees(&now) != trees(&self.root) {
                        return Err(Error::damaged(
                            format!("snapshot {}", content.snapshot_id),
                            "its tree is another",
                        ));
                    }
                    *self.moved.write() = Some(Arc::new(now));
                }
                (fetched, _) => return self.keep(&root, fetched?).await,
            }
        }
    }

    /// The root that says where the segments are.
    fn places(&self) -> Arc<Root> {
        self.moved.read().clone().unwrap_or_else(|| Arc::clone(&self.root))
    }

    /// Fetches a segment, with those that follow it side by side in its pack.
    async fn fetch(&self, root: &Root, at: usize) -> Result<Fetched> {
        let segment = &root.segments[at];
        let Some((group, range)) = self.group(root, at) else {
            let (tree, table) =
                (fetch_blob(&self.store, &segment.tree), fetch_blob(&self.store, &segment.table));
            let (tree, table) = futures::future::try_join(tree, table).await?;
            return Ok(vec![(at, tree, table)]);
        };
        let stored = self.store.pack_range(segment.tree.pack, range.0, range.1).await?;
        self.split(root, group, range.0, &stored)
    }

    /// The segments as far as the store's packs are files of this host, which are read at once.
    fn in_file(&self, at: usize) -> Option<Fetched> {
        let root = self.places();
        let (group, range) = self.group(&root, at)?;
        let key = layout::pack(&self.store.tenant, root.segments[at].tree.pack);
        let file = self.store.bucket.file(&key)?.ok()?;
        let mut stored = vec![0; (range.1 - range.0) as usize];
        file.read_exact_at(&mut stored, range.0).ok()?;
        self.split(&root, group, range.0, &stored).ok()
    }

    /// The segments of a group, of whose pack `stored` begins at `start`.
    fn split(&self, root: &Root, group: Vec<usize>, start: u64, stored: &[u8]) -> Result<Fetched> {
        let blob = |blob: &Blob| {
            let start = (blob.offset - start) as usize;
            let part = stored.get(start..start + blob.stored_len as usize);
            check_blob(&self.store, blob, part.unwrap_or_default())
        };
        let segments = group.into_iter().map(|place| (place, &root.segments[place]));
        let table = |segment: &SegmentRef| match self.known_table(segment) {
            Some(table) => Ok(table),
            None => blob(&segment.table),
        };
        segments.map(|(place, segment)| Ok((place, blob(&segment.tree)?, table(segment)?))).collect()
    }

    /// The segments to fetch with the one at `at`, and the range that has them all. `None` if even its own two blobs
    /// lie apart.
    fn group(&self, root: &Root, at: usize) -> Option<(Vec<usize>, (u64, u64))> {
        let pack = root.segments[at].tree.pack;
        let mut range = self.extent(&root.segments[at], pack)?;
        if range.1 - range.0 > AT_ONCE {
            return None;
        }
        let mut group = vec![at];
        for place in (at + 1..self.len()).take(NEIGHBOURS) {
            let Some(next) = self.extent(&root.segments[place], pack) else { break };
            let joined = (range.0.min(next.0), range.1.max(next.1));
            let is_near = next.0 <= range.1 + MAX_GAP && range.0 <= next.1 + MAX_GAP;
            if !is_near || joined.1 - joined.0 > AT_ONCE {
                break;
            }
            range = joined;
            if self.held.lock().parts.contains_key(&place) {
                continue;
            }
            group.push(place);
        }
        Some((group, range))
    }

    /// The beginning and the end of the blobs of a segment that must be fetched, if they lie in `pack` and
    /// close together.
    fn extent(&self, segment: &SegmentRef, pack: PackId) -> Option<(u64, u64)> {
        let SegmentRef { tree, table, .. } = segment;
        let end = |blob: &Blob| blob.offset + u64::from(blob.stored_len);
        if self.known_table(segment).is_some() {
            return (tree.pack == pack).then(|| (tree.offset, end(tree)));
        }
        let range = (tree.offset.min(table.offset), end(tree).max(end(table)));
        let both = u64::from(tree.stored_len) + u64::from(table.stored_len);
        let is_close = range.1 - range.0 <= both + MAX_GAP;
        (tree.pack == pack && table.pack == pack && is_close).then_some(range)
    }

    /// The table of a segment, if it is known without being fetched.
    fn known_table(&self, segment: &SegmentRef) -> Option<Bytes> {
        let (id, table) = self.empty_table.get().filter(|_| segment.chunks == 0)?;
        (*id == segment.table.id).then(|| table.clone())
    }

    /// Keeps the fetched segments on this host's disk.
    async fn keep(&self, root: &Root, fetched: Fetched) -> Result<Fetched> {
        let (Some(cache), true) = (&self.store.cache, self.caches) else { return Ok(fetched) };
        let named = |(at, tree, table): &(usize, Bytes, Bytes)| {
            (cache_name(&root.segments[*at]), tree.clone(), table.clone())
        };
        let (cache, named) = (Arc::clone(cache), fetched.iter().map(named).collect::<Vec<_>>());
        blocking(move || {
            for (name, tree, table) in named {
                let mut bytes = Vec::with_capacity(tree.len() + table.len() + 16);
                bytes.put_bytes(&tree);
                bytes.put_bytes(&table);
                cache.write(CacheKind::Segment, &name, &bytes);
            }
            Ok(())
        })
        .await?;
        Ok(fetched)
    }

    fn on_disk(&self, at: usize) -> Option<(Bytes, Bytes)> {
        let cache = self.store.cache.as_ref().filter(|_| self.caches)?;
        let segment = &self.places().segments[at];
        let bytes = Bytes::from(cache.read(CacheKind::Segment, &cache_name(segment))?);
        let mut reader = Reader::new(&bytes);
        let mut blob = |id: &ChunkId| {
            let found = reader.bytes(usize::MAX >> 1, "a blob").ok()?;
            (self.store.key().id_of(found) == *id).then(|| bytes.slice_ref(found))
        };
        Some((blob(&segment.tree.id)?, blob(&segment.table.id)?))
    }

    fn decode(&self, at: usize, tree: &Bytes, table: &Bytes) -> Result<LocatedSegment> {
        let root = self.places();
        let segment = &root.segments[at];
        let bytes = (tree.len() + table.len()) * 4;
        let tree =
            SegmentPart::read(tree).map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))?;
        check_span(segment, &tree.span)?;
        self.check_order(at, &tree)?;
        let locations = table_of(segment, table)?;
        let named = tree.chunks().count();
        if named != locations.len() {
            let reason = format!("{named} chunks, but {} locations", locations.len());
            return Err(Error::damaged(format!("table segment {}", segment.table.id), reason));
        }
        Ok(LocatedSegment { tree, locations, bytes })
    }

    /// The entries of a segment lie before those of the next.
    fn check_order(&self, at: usize, tree: &SegmentPart) -> Result<()> {
        let next = (at + 1..self.len()).find_map(|next| self.first(next));
        match (tree.entries.last(), next) {
            (Some(last), Some(next)) if last.path >= *next => {
                let segment = self.root.segments[at].tree.id;
                Err(Error::damaged(
                    format!("tree segment {segment}"),
                    format!("{next} comes after {}", last.path),
                ))
            }
            _ => Ok(()),
        }
    }
}

fn cache_name(segment: &SegmentRef) -> String {
    format!("{}-{}", segment.tree.id, segment.table.id)
}
