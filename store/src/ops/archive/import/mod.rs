//! `import` stores an archive as a snapshot, straight from a stream.
//!
//! 1. The write's lease is taken first: the packs it may refer to are then known for good, so
//!    that a stream, which cannot be read twice, need not be.
//! 2. Content is cut and stored as it comes. Names and attributes are put aside and sorted, for a tree has an order and an
//!    archive has none; nothing is unpacked but the files that somebody wants to look at.
//! 3. Only when all of it was read, its digest is the expected one and the tree is sound,
//!    does the record become live. Until then nothing has happened but some garbage.

mod carry;
mod inspect;
mod sorted_members;
mod sound_members;
mod stream;
pub mod tree_builder;

pub use inspect::{Inspected, Inspector};

use std::{
    io::Read,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Error, Result,
    archive::{hashing_reader::Arrived, problem::Problem, reader::Limits},
    catalog::{index::IndexBudget, lineage_handle::LineageHandle, records},
    content::{
        TenantStore, ingest::Ingested, snapshot_tree::SnapshotTree, unfinished::TakenOver, workers::blocking,
    },
    format::{
        Unknown,
        manifest::Manifest,
        record::{Record, Source, State},
        tree::{Entry, TreePath},
    },
    id::SnapshotId,
    name::Lineage,
    ops::write::{
        self, Barred, Finished, ReadBase, SnapshotWriter, Totals, new_tree,
        snapshot::{About, HoldBack, Outcome, snapshot_id},
    },
    progress::Progress,
    scratch::{self, Scratch},
    tree::walk::Skipped,
};

/// How much of the tenant's indexes is looked at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;
/// The folder of this host's cache for members that are too many for memory.
const ASIDE: &str = "aside";

/// The archive to take in, and the facts to write into its record.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where the snapshot goes.
    pub lineage: Lineage,
    /// The archive's name in messages.
    pub name: String,
    /// The form of the stream.
    pub form: Form,
    /// The source of the bytes, for the record: its kind, and its name.
    pub source: (&'static str, String),
    /// The archive's manifest; it must be true.
    pub manifest: Option<Manifest>,
    /// The facts for the record where the manifest says nothing.
    pub about: About,
    /// An archive that holds more is refused.
    pub max_bytes: u64,
    /// How much the tenant may have stored when this is done; more is refused.
    pub quota_bytes: Option<u64>,
    /// How many threads compress.
    pub threads: usize,
    /// The lineage whose log tells that the snapshot is held back, if it is.
    pub handle: Option<LineageHandle>,
    /// Looks at the databases, which are put aside for it below this directory.
    pub judge: Option<(Arc<dyn Inspector>, PathBuf)>,
    /// Files of the base that belong to the snapshot as they are; the stream has none of them.
    pub carried: Vec<Carried>,
}

/// A file of the base that the new snapshot has, too. The caller knows that its content is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Where the base has it.
    pub from: TreePath,
    /// Where the snapshot has it.
    pub path: TreePath,
}

/// The form of a stream that is taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// An archive: a tar stream compressed by zstd, which the record calls by its digest.
    #[default]
    Archive,
    /// A tar stream that is made while it is read, and that nobody keeps: the record says nothing of it.
    Tar,
}

/// A snapshot that was made of an archive; no pointer was moved.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The record of the snapshot.
    pub record: Record,
    /// The digest of its tree.
    pub snapshot_id: SnapshotId,
    /// Whether it is new.
    pub outcome: Outcome,
    /// Why the pointer should not be moved to it.
    pub held_back: Option<HoldBack>,
    /// The archive, as it came.
    pub arrived: Arrived,
    /// Members that were left out.
    pub skipped: Skipped,
    /// The parts of earlier, unfinished writes of this host that it uses.
    pub taken_over: TakenOver,
    /// How long it took.
    pub elapsed: Duration,
}

/// Stores the tree in `stream` as a snapshot, built on `base` if there is one.
pub async fn import(
    store: &TenantStore,
    request: Request,
    base: Option<Record>,
    stream: Box<dyn Read + Send>,
    progress: Arc<dyn Progress>,
) -> Result<Imported> {
    let started = Instant::now();
    let parameters = write::WriteParameters {
        lineage: &request.lineage,
        about: request.about.clone(),
        totals: Totals::default(),
        source: ("archive", request.name.as_ref()),
        barred: Barred::LeaseFirst,
        quota_bytes: request.quota_bytes,
    };
    // Of a base that cannot be read, the record says nothing either.
    let base = async { Ok(ReadBase::open(store, base).await.if_readable()) };
    let writer = SnapshotWriter::begin(store, parameters, base, Arc::clone(&progress)).await?;
    let carried = carry::entries(&request.carried, writer.base_tree().as_deref()).await?;
    progress.begin("import", 0, request.manifest.as_ref().map_or(0, |of| of.uncompressed_size_bytes));
    let mut source = ArchiveSource { store, request: &request, writer, carried };
    let imported = source.run(stream, progress).await;
    let imported = source.writer.end(imported).await?;
    Ok(Imported { elapsed: started.elapsed(), ..imported })
}

/// An archive whose snapshot is being written.
struct ArchiveSource<'a> {
    store: &'a TenantStore,
    request: &'a Request,
    writer: SnapshotWriter,
    /// What comes from the base.
    carried: Vec<Entry>,
}

impl ArchiveSource<'_> {
    async fn run(&mut self, stream: Box<dyn Read + Send>, progress: Arc<dyn Progress>) -> Result<Imported> {
        self.writer.open_first(IndexBudget::of(INDEX_BUDGET_BYTES)).await?;
        self.writer.learn_whole_base().await;
        carry::require_stored(&self.writer, &self.carried).await?;
        let imported = self.take_in(stream, progress).await;
        self.writer.stop_index();
        imported
    }

    async fn take_in(
        &mut self,
        stream: Box<dyn Read + Send>,
        progress: Arc<dyn Progress>,
    ) -> Result<Imported> {
        let request = self.request;
        // Ours, and not the reading thread's: an import that is given up does not wait for that.
        let scratch = request
            .judge
            .as_ref()
            .map(|(_, below)| Scratch::make(below, scratch::Kind::Import))
            .transpose()?;
        let judge = request.judge.as_ref().zip(scratch.as_ref());
        let judge = judge.map(|((judge, _), scratch)| (Arc::clone(judge), scratch.path().to_owned()));
        let job = stream::ImportJob {
            name: request.name.clone(),
            form: request.form,
            limits: Limits::of(request.max_bytes),
            manifest: request.manifest.clone(),
            exclusions: request.about.exclusions.clone(),
            judge,
            threads: request.threads,
            carried: std::mem::take(&mut self.carried),
            aside: self.store.cache.as_ref().map(|cache| cache.folder(ASIDE)),
        };
        let (store, ingest) = (self.store.clone(), self.writer.ingest());
        let base = self.writer.readable_base().cloned();
        let below = self.writer.base_tree();
        let (read, mut tree, judged, ingested) = blocking(move || {
            let read = job.read(&ingest, stream, &*progress)?;
            let ingested = ingest.flush()?;
            let stream::Read { members, arrived, skipped, bytes } = read;
            let mut totals = Totals::of_none(skipped, bytes);
            let cut = new_tree(&store, below.as_deref().map(SnapshotTree::root), |push| {
                members.finish(&mut |entry| {
                    totals.add(&entry);
                    push(&entry).map_err(|error| Problem::bad(format!("{}: {error}", entry.path)))
                })
            });
            let tree = cut.map_err(|problem| job.error(problem))?;
            let judged = job.judge(base.as_ref())?;
            Ok(((arrived, skipped, totals), tree, judged, ingested))
        })
        .await?;
        drop(scratch);
        // What the base shares with it stays as it is, if that may be referred to; of the rest, every chunk was found
        // or stored under the lease.
        if let Some((id, _)) = self.writer.lacking_in(&mut tree, |_, _| true).await?.first() {
            return Err(Error::Internal { what: format!("chunk {id} was not stored") });
        }
        let snapshot_id = tree.id;
        let held_back = judged.examined.hold_back.clone();
        if let (Some(handle), Some(held)) = (&self.request.handle, &held_back) {
            self.writer.tell_held_back(handle, &held.reason);
        }
        let (arrived, skipped, totals) = read;
        let imported = |record, outcome| Imported {
            record,
            snapshot_id,
            outcome,
            held_back,
            arrived,
            skipped,
            taken_over: TakenOver::default(),
            elapsed: Duration::ZERO,
        };
        if let Some(twin) = self.twin(snapshot_id, &arrived).await? {
            return Ok(imported(twin, Outcome::Unchanged));
        }
        let describe = |record: &mut Record| describe(record, request, &arrived, totals, judged, ingested);
        let Finished { record, tree, taken_over } = self.writer.finish(tree, describe).await?;
        let (store, id, generation) = (self.store.clone(), record.record, record.generation);
        let _ = blocking(move || {
            tree.remember(&store, id, generation);
            Ok(())
        })
        .await;
        Ok(Imported { taken_over, ..imported(record, Outcome::Stored) })
    }

    /// A live snapshot that was made of this very archive.
    async fn twin(&self, id: SnapshotId, arrived: &Arrived) -> Result<Option<Record>> {
        let sha256 = arrived.sha256.map(|sha256| sha256.to_string());
        let same = |record: &Record| snapshot_id(record) == Some(id) && record.archive_sha256 == sha256;
        let live = records::live(self.store, &self.request.lineage).await?;
        Ok(live.into_iter().rfind(|record| record.state == State::Live && same(record)))
    }
}

/// Writes the facts about the archive into the record.
fn describe(
    record: &mut Record,
    request: &Request,
    arrived: &Arrived,
    totals: Totals,
    judged: Inspected,
    ingested: Ingested,
) {
    let (chunks, stored_bytes) = (record.counts.chunks, record.counts.stored_bytes);
    record.complete = totals.counts.skipped == 0;
    record.uncompressed_size_bytes = totals.bytes;
    record.counts = totals.counts;
    (record.counts.chunks, record.counts.stored_bytes) = (chunks, stored_bytes);
    (record.counts.new_chunks, record.counts.new_bytes) = (ingested.new_chunks, ingested.new_bytes);
    if let Some(sha256) = arrived.sha256 {
        record.archive_sha256 = Some(sha256.to_string());
        record.archive_size_bytes = Some(arrived.size);
    }
    let (kind, path) = &request.source;
    record.sources = vec![Source { kind: (*kind).to_owned(), path: path.clone(), unknown: Unknown::new() }];
    record.chrome_last_version = judged.chrome_last_version;
    record.exit_type = judged.exit_type;
    record.health = judged.examined.health;
    record.held_back = judged.examined.hold_back.map(|held| held.word.to_owned());
    let Some(manifest) = &request.manifest else { return };
    record.captured_at_ms = manifest.captured_at_ms;
    record.captured_by = manifest.captured_by.clone();
    record.captured_in = manifest.captured_in.clone();
    record.mode = manifest.mode.clone();
    record.chrome_uptime_seconds_at_capture = manifest.chrome_uptime_seconds_at_capture;
    record.notes = manifest.notes.clone();
    // Told as it is in a manifest; a record takes only what can be one.
    if manifest.predecessor_sha256.parse::<crate::id::Sha256>().is_ok() {
        record.predecessor_sha256 = manifest.predecessor_sha256.clone();
    }
}
