//! Captures a directory: what changed is stored, the rest is referred to.
//!
//! 1. Walk. Files whose state may be trusted keep the chunks they had.
//! 2. If nothing differs from the current snapshot, that is all.
//! 3. Flush, read, cut and upload the other files; the write's lease is taken before the
//!    first upload.
//! 4. Store the metadata, publish the record, move the pointer.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{
    Error, Result,
    catalog::{
        clock,
        index::{self, IndexUse},
        lease::WriteLease,
        pointer::{self, Flip},
        records,
    },
    content::{
        TenantStore,
        cache::Shelf,
        ingest::{Cutter, Files, Ingest},
        known::{Known, Locations},
        meta::{Metadata, NewTree},
        upload::{Gate, Uploader},
    },
    format::{
        record::{self, CapturedBy, CapturedIn, Counts, Mode, Reason, Record, SCHEMA, Source, State},
        segment::SegmentWriter,
        tree::{Entry, Extent, Kind, TreePath},
    },
    id::{ChunkId, RecordId, SnapshotId},
    name::Lineage,
    progress::{Progress, Tick},
    tree::{
        beneath::Beneath,
        read::{Content, ContentSink},
        stat_cache::StatCache,
        trust::{self, Trust, Writers},
        walk::{FileState, FoundFile, Skipped, Walk, walk},
    },
};

/// How often a write that a collection revoked is started again.
const ATTEMPTS: u32 = 2;

/// What to capture and what to write down about it.
#[derive(Clone, Debug)]
pub struct Request {
    pub lineage: Lineage,
    pub directory: PathBuf,
    /// Read every file, whatever its state says.
    pub rescan: bool,
    /// How many bytes of the tenant's indexes to look at.
    pub index_budget: u64,
    pub threads: usize,
    pub about: About,
}

/// The parts of a record that only the caller knows.
#[derive(Clone, Debug)]
pub struct About {
    pub captured_by: CapturedBy,
    pub captured_in: Option<CapturedIn>,
    pub reason: Reason,
    pub labels: BTreeMap<String, String>,
    pub notes: String,
    pub chrome_last_version: Option<String>,
    pub exit_type: Option<String>,
    pub chrome_uptime_seconds: u64,
    pub exclusions: Vec<String>,
}

/// What a capture did.
#[derive(Clone, Debug)]
pub struct Report {
    pub record: RecordId,
    pub snapshot_id: SnapshotId,
    pub sha256_prefix: String,
    pub outcome: Outcome,
    pub flip: Flip,
    pub counts: Counts,
    pub uncompressed_bytes: u64,
    pub skipped: Skipped,
    /// Files that kept their chunks without being read, and those that were read.
    pub reused_files: u64,
    pub read_files: u64,
    pub index: IndexUse,
    pub elapsed: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new snapshot was stored.
    Stored,
    /// The content is that of a snapshot that exists.
    Unchanged,
}

/// Captures `request.directory` as the next snapshot of its lineage.
pub async fn snapshot(store: &TenantStore, request: &Request, progress: Arc<dyn Progress>) -> Result<Report> {
    let started = Instant::now();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let capture = Capture { store, request, progress: Arc::clone(&progress) };
        match capture.run().await {
            Err(Error::WriteRevoked { record }) if attempt < ATTEMPTS => {
                tracing::warn!(%record, "the write was revoked; starting again");
            }
            Ok(mut report) => {
                report.elapsed = started.elapsed();
                return Ok(report);
            }
            Err(error) => return Err(error),
        }
    }
}

struct Capture<'a> {
    store: &'a TenantStore,
    request: &'a Request,
    progress: Arc<dyn Progress>,
}

/// The snapshot a capture is built on.
struct Base {
    record: Record,
    snapshot_id: Option<SnapshotId>,
}

/// A walk with the files that need no reading filled in.
struct Planned {
    root: Arc<Beneath>,
    walk: Walk,
    to_read: Vec<FoundFile>,
    /// Of the files that keep their chunks.
    kept: Vec<FoundFile>,
    cache_name: Option<String>,
}

impl Capture<'_> {
    async fn run(self) -> Result<Report> {
        let lineage = &self.request.lineage;
        let (base, planned) = futures::future::try_join(self.base(), self.plan()).await?;
        if planned.to_read.is_empty()
            && let Some(base) = &base
        {
            let tree = NewTree::new(self.store, segments(&planned.walk.entries));
            if Some(tree.id) == base.snapshot_id {
                return self.unchanged(&planned, base.record.clone(), Flip::Unchanged, 0);
            }
        }
        self.write(lineage, base, planned).await
    }

    /// The current snapshot, if there is one of ours that can be read.
    async fn base(&self) -> Result<Option<Base>> {
        let Some(read) = pointer::read(self.store, &self.request.lineage).await? else { return Ok(None) };
        let Some(id) = read.pointer.block().and_then(|block| block.record) else { return Ok(None) };
        let (record, _) = records::get(self.store, &self.request.lineage, id).await?;
        if record.state != State::Live {
            return Ok(None);
        }
        Ok(Some(Base { snapshot_id: record.content.as_ref().map(|content| content.snapshot_id), record }))
    }

    /// Walks the directory and finds out which files must be read.
    async fn plan(&self) -> Result<Planned> {
        let directory = self.request.directory.clone();
        let exclusions = self.request.about.exclusions.clone();
        let (store, rescan) = (self.store.clone(), self.request.rescan);
        let planned = blocking(move || {
            let root = Arc::new(Beneath::open(&directory)?);
            let excluded = |path: &TreePath| exclusions.iter().any(|name| name.as_bytes() == path.as_bytes());
            let mut walk = walk(&root, &excluded)?;
            let cache_name = stat_cache_name(&root);
            let cache = match (&cache_name, rescan) {
                (Some(name), false) => load_stat_cache(&store, name),
                _ => StatCache::default(),
            };
            let (mut to_read, mut kept) = (Vec::new(), Vec::new());
            for file in std::mem::take(&mut walk.files) {
                let entry = &mut walk.entries[file.entry];
                match cache.extents(entry.path.as_bytes(), &file.state) {
                    Some(known) => {
                        set_extents(entry, known.to_vec());
                        kept.push(file);
                    }
                    None => to_read.push(file),
                }
            }
            Ok(Planned { root, walk, to_read, kept, cache_name })
        })
        .await?;
        self.progress.begin("snapshot", planned.walk.entries.len() as u64, planned.walk.bytes);
        let kept: u64 = planned.kept.iter().map(|file| file.state.size).sum();
        self.progress.tick(Tick { files: planned.kept.len() as u64, bytes: kept, ..Tick::default() });
        Ok(planned)
    }

    async fn write(&self, lineage: &Lineage, base: Option<Base>, mut planned: Planned) -> Result<Report> {
        let (index_sender, index_receiver) = oneshot::channel();
        let index_task = tokio::spawn({
            let (store, budget) = (self.store.clone(), self.request.index_budget);
            async move {
                let loaded = index::load(&store, budget).await;
                let (locations, used) = loaded.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the tenant's index cannot be read; more may be stored than needed");
                    (Locations::new(), IndexUse::default())
                });
                let _ = index_sender.send(locations);
                used
            }
        });
        let (base_metadata, base_locations) = self.base_metadata(base.as_ref()).await.unzip();
        let base_locations = base_locations.unwrap_or_default();
        let known = Arc::new(Known::new(base_locations, Some(index_receiver)));
        let draft = self.draft(base.as_ref(), &planned.walk);
        let lease = Arc::new(WriteLease::new(self.store.clone(), lineage.clone(), draft, Arc::clone(&known)));
        let uploader = Arc::new(Uploader::new(
            self.store.clone(),
            Arc::clone(&lease) as Arc<dyn Gate>,
            Arc::clone(&self.progress),
        ));
        let ingest = Arc::new(Ingest::new(
            self.store.clone(),
            Arc::clone(&known),
            Arc::clone(&uploader),
            Arc::clone(&self.progress),
        ));
        let mut reading = std::mem::take(&mut planned.to_read);
        let mut read_files = 0;
        let mut seen = Vec::new();
        // Usually once; again for files whose chunks turn out to lie in barred packs.
        let (tree, ingested) = loop {
            read_files += reading.len() as u64;
            let (planned_back, mut read) = self.ingest(planned, reading, &ingest).await?;
            planned = planned_back;
            seen.append(&mut read);
            let ingested = {
                let ingest = Arc::clone(&ingest);
                blocking(move || ingest.flush()).await?
            };
            let tree = NewTree::new(self.store, segments(&planned.walk.entries));
            if base.as_ref().is_some_and(|base| base.snapshot_id == Some(tree.id)) {
                self.remember(&planned, &seen);
                drop((ingest, uploader));
                if let Some(lease) = Arc::into_inner(lease) {
                    lease.abandon().await;
                }
                let base = base.ok_or_else(|| Error::Internal { what: "no base".to_owned() })?;
                return self.unchanged(&planned, base.record, Flip::Unchanged, read_files);
            }
            // The lease exists from here on, so what is barred is known.
            lease.open().await?;
            reading = self.unresolved(&mut planned, &known, &uploader).await?;
            if reading.is_empty() {
                break (tree, ingested);
            }
            tracing::info!(files = reading.len(), "reading files again whose chunks are being collected");
        };
        let twin = self.twin(lineage, base.as_ref(), tree.id).await?;
        let packs = uploader.finish().await?;
        if let Some(twin) = twin {
            drop((ingest, uploader));
            if let Some(lease) = Arc::into_inner(lease) {
                lease.abandon().await;
            }
            self.remember(&planned, &seen);
            let flip = pointer::flip(self.store, lineage, &twin).await?;
            return self.unchanged(&planned, twin, flip, read_files);
        }
        let write = lease.open().await?;
        let chunks = tree.chunks().count() as u64;
        let store = self.store.clone();
        let (known_too, locations) = (Arc::clone(&known), packs.locations.clone());
        let meta = blocking(move || {
            let locate = |id: &ChunkId| locations.get(id).copied().or_else(|| known_too.locate(id));
            tree.seal(&store, write, base_metadata.as_ref(), locate)
        })
        .await?;
        let durable = lease.upload_metadata(packs, &meta).await?;
        drop((ingest, uploader));
        let lease = Arc::into_inner(lease)
            .ok_or_else(|| Error::Internal { what: "the lease is shared".to_owned() })?;
        let content = meta.content.clone();
        let record = lease
            .publish(&durable, |record| {
                record.content = Some(content);
                record.counts.chunks = chunks;
                record.counts.new_chunks = ingested.new_chunks;
                record.counts.new_bytes = ingested.new_bytes;
                record.counts.stored_bytes = durable.stored_bytes;
            })
            .await?;
        meta.metadata.remember(self.store, record.record, record.generation);
        self.remember(&planned, &seen);
        let flip = pointer::flip(self.store, lineage, &record).await?;
        let used = index_task.await.unwrap_or_default();
        Ok(Report {
            outcome: Outcome::Stored,
            index: used,
            ..self.report(&planned, record, flip, read_files)?
        })
    }

    /// Reads files into chunks and fills in their extents.
    async fn ingest(
        &self,
        mut planned: Planned,
        files: Vec<FoundFile>,
        ingest: &Arc<Ingest>,
    ) -> Result<(Planned, Vec<(FoundFile, Option<FileState>, bool)>)> {
        if files.is_empty() {
            return Ok((planned, Vec::new()));
        }
        let (ingest, threads, progress) =
            (Arc::clone(ingest), self.request.threads, Arc::clone(&self.progress));
        blocking(move || {
            trust::flush(&planned.root, &planned.walk.entries, &files)?;
            let before = Writers::now();
            let content = Content::new(&planned.root, &planned.walk.entries, files);
            let extents = ingest.run(&Directory { content: &content, progress: &*progress }, threads)?;
            let read = content.finish();
            let trust = Trust::new(&planned.root, before.and(Writers::now()));
            let mut seen = Vec::with_capacity(read.len());
            for ((file, state), extents) in read.into_iter().zip(extents) {
                // The walk's state was taken before the flush; what was seen while reading counts.
                let trusted = state.is_some_and(|state| trust.allows(&state));
                let entry = &mut planned.walk.entries[file.entry];
                set_extents(entry, extents);
                entry.meta.mtime = state.map_or(entry.meta.mtime, |state| state.mtime);
                seen.push((file, state, trusted));
            }
            Ok((planned, seen))
        })
        .await
    }

    /// Files that refer to a chunk which neither is stored by this write nor may be referred to.
    async fn unresolved(
        &self,
        planned: &mut Planned,
        known: &Arc<Known>,
        uploader: &Arc<Uploader>,
    ) -> Result<Vec<FoundFile>> {
        let entries = std::mem::take(&mut planned.walk.entries);
        let (known, uploader) = (Arc::clone(known), Arc::clone(uploader));
        let (entries, missing) = blocking(move || {
            let resolves = |id: &ChunkId| uploader.locate(id).is_some() || known.locate(id).is_some();
            let missing: Vec<usize> = entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.chunks().any(|(id, _)| !resolves(&id)))
                .map(|(at, _)| at)
                .collect();
            Ok((entries, missing))
        })
        .await?;
        planned.walk.entries = entries;
        let mut files = Vec::new();
        for at in missing {
            let entry = &planned.walk.entries[at];
            let found = planned.kept.iter().find(|file| file.entry == at).copied();
            let file = match found {
                Some(file) => file,
                None => stat_again(&planned.root, at, &entry.path)?,
            };
            planned.kept.retain(|file| file.entry != at);
            files.push(file);
        }
        Ok(files)
    }

    /// A live snapshot with this very content that the pointer never got to.
    async fn twin(&self, lineage: &Lineage, base: Option<&Base>, id: SnapshotId) -> Result<Option<Record>> {
        let newer = records::newer(self.store, lineage, base.map(|base| base.record.record)).await?;
        let same = |record: &Record| {
            record.state == State::Live
                && record.content.as_ref().is_some_and(|content| content.snapshot_id == id)
        };
        Ok(newer.into_iter().rfind(same))
    }

    async fn base_metadata(&self, base: Option<&Base>) -> Option<(Metadata, Locations)> {
        let record = &base?.record;
        let content = record.content.as_ref()?;
        let loaded = Metadata::load(self.store, record.record, record.generation, content).await;
        let decoded = loaded.and_then(|metadata| {
            let (entries, locations) = metadata.decode()?;
            let ids = entries.iter().flat_map(|entry| entry.chunks().map(|(id, _)| id));
            let mut known = Locations::with_capacity(locations.len());
            for (id, location) in ids.zip(locations) {
                known.entry(id).or_insert(location);
            }
            Ok((metadata, known))
        });
        // A damaged base must not keep anybody from storing a good snapshot after it.
        decoded
            .inspect_err(|error| tracing::warn!(record = %record.record, %error, "the current snapshot cannot be built on"))
            .ok()
    }

    fn draft(&self, base: Option<&Base>, walk: &Walk) -> Record {
        let (version, minor, writer) = record::versions();
        let about = self.request.about.clone();
        Record {
            version,
            schema: SCHEMA.to_owned(),
            tenant_id: self.request.lineage.name.tenant.clone(),
            profile_id: self.request.lineage.name.profile.clone(),
            chrome_major_version: self.request.lineage.chrome_major,
            archive_sha256: None,
            archive_size_bytes: None,
            uncompressed_size_bytes: walk.bytes,
            captured_at_ms: clock::unix_ms(),
            captured_by: about.captured_by,
            captured_in: about.captured_in,
            mode: Mode::Cold,
            chrome_uptime_seconds_at_capture: about.chrome_uptime_seconds,
            predecessor_sha256: base.map_or_else(String::new, |base| base.record.sha256()),
            notes: about.notes,
            record: RecordId::from_bytes([0; 16]),
            minor,
            writer,
            state: State::Writing,
            generation: 0,
            lease_seq: 0,
            chunk_key: *self.store.key(),
            parent: base.map(|base| base.record.record),
            reason: about.reason,
            labels: about.labels,
            chrome_last_version: about.chrome_last_version,
            exit_type: about.exit_type,
            counts: count(walk),
            content: None,
            sources: vec![Source { kind: "directory".to_owned(), path: shown(&self.request.directory) }],
            complete: walk.skipped.total() == 0,
            exclusions: about.exclusions,
            transforms: Vec::new(),
            features: Vec::new(),
            unknown: serde_json::Map::new(),
        }
    }

    /// Keeps the states of files that may be trusted next time.
    fn remember(&self, planned: &Planned, seen: &[(FoundFile, Option<FileState>, bool)]) {
        let (Some(cache), Some(name)) = (&self.store.cache, &planned.cache_name) else { return };
        let mut states = StatCache::default();
        let trusted = seen
            .iter()
            .filter(|(.., trusted)| *trusted)
            .filter_map(|(file, state, _)| Some((file.entry, (*state)?)));
        for (entry, state) in planned.kept.iter().map(|file| (file.entry, file.state)).chain(trusted) {
            let entry = &planned.walk.entries[entry];
            if let Kind::File { extents, .. } = &entry.kind {
                states.insert(entry.path.as_bytes(), state, extents.clone());
            }
        }
        cache.write(Shelf::Stat, name, &states.encode());
    }

    fn unchanged(&self, planned: &Planned, record: Record, flip: Flip, read_files: u64) -> Result<Report> {
        let mut report = self.report(planned, record, flip, read_files)?;
        (report.counts.new_chunks, report.counts.new_bytes, report.counts.stored_bytes) = (0, 0, 0);
        Ok(report)
    }

    fn report(&self, planned: &Planned, record: Record, flip: Flip, read_files: u64) -> Result<Report> {
        let content = record
            .content
            .as_ref()
            .ok_or_else(|| Error::Internal { what: "a record without content".to_owned() })?;
        Ok(Report {
            record: record.record,
            snapshot_id: content.snapshot_id,
            sha256_prefix: record.sha256_prefix(),
            outcome: Outcome::Unchanged,
            flip,
            uncompressed_bytes: record.uncompressed_size_bytes,
            counts: record.counts,
            skipped: planned.walk.skipped,
            reused_files: planned.kept.len() as u64,
            read_files,
            index: IndexUse::default(),
            elapsed: Duration::ZERO,
        })
    }
}

/// The files of a directory as the chunk pipeline wants them.
struct Directory<'a> {
    content: &'a Content<'a>,
    progress: &'a dyn Progress,
}

impl Files for Directory<'_> {
    fn len(&self) -> usize {
        self.content.len()
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()> {
        self.content.read(at, &mut CutterSink(cutter))?;
        self.progress.tick(Tick { files: 1, ..Tick::default() });
        Ok(())
    }
}

struct CutterSink<'a, 'b>(&'a mut Cutter<'b>);

impl ContentSink for CutterSink<'_, '_> {
    fn data(&mut self, file: &mut File, most: u64) -> std::io::Result<Result<u64>> {
        self.0.read_from(file, most)
    }

    fn hole(&mut self, len: u64) -> Result<()> {
        self.0.hole(len)
    }

    fn restart(&mut self) {
        self.0.restart();
    }
}

fn segments(entries: &[Entry]) -> Vec<crate::format::segment::Segment> {
    let mut writer = SegmentWriter::default();
    entries.iter().for_each(|entry| writer.push(entry));
    writer.finish()
}

fn set_extents(entry: &mut Entry, new: Vec<Extent>) {
    if let Kind::File { size, extents } = &mut entry.kind {
        *size = new.iter().map(Extent::len).sum();
        *extents = new;
    }
}

fn count(walk: &Walk) -> Counts {
    let mut counts = Counts { skipped: walk.skipped.total(), ..Counts::default() };
    for entry in &walk.entries {
        match entry.kind {
            Kind::File { .. } => counts.files += 1,
            Kind::Directory => counts.directories += 1,
            Kind::Symlink { .. } => counts.symlinks += 1,
            Kind::HardLink { .. } => counts.hard_links += 1,
            _ => {}
        }
    }
    counts
}

fn stat_again(root: &Beneath, entry: usize, path: &TreePath) -> Result<FoundFile> {
    use crate::error::IoContext;
    let fd = root.open_at(path.as_bytes(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    let stat = fd.and_then(|fd| Ok(rustix::fs::fstat(fd)?)).at("cannot look at", root.display(path))?;
    let state = FileState::of(&stat);
    Ok(FoundFile { entry, state, sparse: (stat.st_blocks as u64).saturating_mul(512) < state.size })
}

/// The cache entry of this directory on this file system; none if it cannot be told.
fn stat_cache_name(root: &Beneath) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let path = root.path().canonicalize().ok()?;
    let stat = rustix::fs::fstat(root.fd()).ok()?;
    let file_system = rustix::fs::fstatvfs(root.fd()).ok()?.f_fsid;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&stat.st_dev.to_le_bytes());
    hasher.update(&file_system.to_le_bytes());
    hasher.update(path.as_os_str().as_bytes());
    Some(hasher.finalize().to_hex()[..32].to_owned())
}

fn load_stat_cache(store: &TenantStore, name: &str) -> StatCache {
    let bytes = store.cache.as_ref().and_then(|cache| cache.read(Shelf::Stat, name));
    bytes.and_then(|bytes| StatCache::decode(&bytes).ok()).unwrap_or_default()
}

fn shown(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

/// Runs what computes or blocks on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Internal { what: error.to_string() })?
}
