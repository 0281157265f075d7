//! Makes the next snapshot of a tree whose changes are known.
//!
//! Unlike a capture, nothing is walked and nothing that has not changed is read, fetched or
//! looked up in an index: unchanged files keep the extents they have in the base, and the
//! base's own table says where their chunks are.

use std::{
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Barred, Finished, ReadBase, SnapshotWriter, Totals, new_tree,
    snapshot::{About, Examined, HoldBack, Outcome, Phases, Report},
};
use crate::{
    Error, Result,
    catalog::{lock::Hold, pointer::Flip, records},
    content::{
        TenantStore,
        chunk_fetcher::startup::{self, First, Guess, StartupRanges},
        ingest::{Cutter, Files, Ingest, Ingested},
        meta::Metadata,
        workers::blocking,
    },
    format::{
        pointer::Target,
        record::Record,
        table::Location,
        tree::{Entry, Extent, Kind},
    },
    id::{ChunkId, FlipId, RecordId},
    name::Lineage,
    ops::{archive::publish, pointer_move, write},
    progress::Progress,
    tree::walk::Skipped,
};

/// What to make a snapshot of, and what to write down about it.
#[derive(Debug)]
pub struct Request {
    /// Where the snapshot goes.
    pub lineage: Lineage,
    /// Where the tree is seen.
    pub path: PathBuf,
    /// What the record says that only the caller knows.
    pub about: About,
    /// How many threads compress.
    pub threads: usize,
    /// What was found about the files.
    pub examined: Examined,
    /// Why the snapshot must not take the place of the current one by itself.
    pub hold_back: Option<HoldBack>,
    /// The chunks of the base that a mount of it read first; without any, what the base says.
    pub first_reads: Vec<ChunkId>,
    /// What is probably read first, where no mount has shown it; without one, nothing is laid out for that.
    pub guess: Option<Guess>,
    /// How much the tenant may have stored when this is done; more is refused.
    pub quota_bytes: Option<u64>,
    /// The id of the flip that moves the pointer to it.
    pub flip_id: FlipId,
    /// How it is published before the pointer is moved to it; without, it is not.
    pub archive: Option<publish::PublishJob>,
}

/// A whole tree; the extents of its changed files are to be found out.
#[derive(Debug)]
pub struct Tree {
    /// The tree, sorted.
    pub entries: Vec<Entry>,
    /// The places of the changed files among the entries, in order.
    pub changed: Vec<usize>,
    /// What was left out of it.
    pub skipped: Skipped,
    /// How many bytes its files have.
    pub bytes: u64,
}

/// The snapshot the tree is built on.
#[derive(Clone, Debug)]
pub struct Base {
    /// The record of the snapshot.
    pub record: Record,
    /// The segments of its tree and tables.
    pub metadata: Arc<Metadata>,
}

/// A snapshot that was stored, as whoever goes on from it wants it.
#[derive(Debug)]
pub struct Stored {
    /// The record of the snapshot.
    pub record: Record,
    /// The segments of its tree and tables.
    pub metadata: Arc<Metadata>,
    /// The tree.
    pub entries: Vec<Entry>,
    /// Where the chunks of the tree lie, in its order.
    pub locations: Vec<Location>,
}

/// Stores `tree` and moves the pointer to it by `hold`; without one, no pointer is moved.
/// `files` gives the content of the changed files in the order of `tree.changed`.
/// `intend` is told the record before it becomes a snapshot.
#[expect(
    clippy::too_many_arguments,
    reason = "each is another party's: the caller's, the mount's, the store's"
)]
pub async fn commit(
    store: &TenantStore,
    request: Request,
    tree: Tree,
    files: Arc<dyn Files + Send>,
    base: Option<Base>,
    hold: Option<&Hold>,
    intend: impl AsyncFnOnce(RecordId) -> Result<()>,
    progress: Arc<dyn Progress>,
) -> Result<(Report, Option<Stored>)> {
    let started = Instant::now();
    let mut request = request;
    if let Some(hold) = hold
        && hold.pointer().await.target() == Target::Nothing
    {
        // Only what would replace something can be held back for that.
        request.hold_back = None;
    }
    progress.begin("commit", tree.entries.len() as u64, tree.bytes);
    let plan = write::Plan {
        lineage: &request.lineage,
        about: request.about.clone(),
        totals: Totals::of(&tree.entries, tree.skipped, tree.bytes),
        source: ("mount", &request.path),
        barred: Barred::Copy,
        quota_bytes: request.quota_bytes,
    };
    let read = async {
        base.map_or_else(|| Ok(ReadBase::default()), |base| ReadBase::decode(base.record, base.metadata))
    };
    let told = Arc::clone(&progress);
    let (writer, old) = SnapshotWriter::begin(store, plan, read, progress).await?;
    let (changed, skipped) = (tree.changed.len() as u64, tree.skipped);
    let mut source = MountSource { store, request: &request, writer, old, hold, capturing: Duration::ZERO };
    let began = Instant::now();
    let written = Box::pin(source.write(tree, files, intend)).await;
    let Ended { mut record, held_back, mut stored } = source.writer.end(written).await?;
    let capture = source.capturing;
    let mut phases = Phases { capture, upload: began.elapsed().saturating_sub(capture), ..Phases::default() };
    let began = Instant::now();
    let (mut flip, job) = (Flip::Unchanged, request.archive.as_ref());
    if let (Some(hold), None) = (hold, &held_back) {
        match &mut stored {
            Some(stored) => {
                (record, flip) = pointer_move::flip(hold, record, request.flip_id, job, told).await?;
                stored.record = record.clone();
            }
            None => {
                let pointer = hold.pointer().await;
                let job = job.filter(|_| pointer.target() == Target::Record(record.record));
                let seen = pointer.contract_only_seen();
                record = pointer_move::named_already(hold.handle(), seen, record, job, told).await?;
            }
        }
    }
    phases.pointer_flip = began.elapsed();
    let files = record.counts.files;
    let outcome = if stored.is_some() { Outcome::Stored } else { Outcome::Unchanged };
    let snapshot_id = super::snapshot::snapshot_id(&record)
        .ok_or_else(|| Error::Internal { what: "a record without content".to_owned() })?;
    let report = Report {
        held_back,
        skipped,
        reused_files: files.saturating_sub(changed),
        read_files: changed,
        phases,
        elapsed: started.elapsed().max(Duration::from_micros(1)),
        ..Report::of(&record, snapshot_id, outcome, flip)
    };
    Ok((report, stored))
}

struct Ended {
    record: Record,
    held_back: Option<HoldBack>,
    /// `None` if nothing has changed.
    stored: Option<Stored>,
}

/// A mount whose changes are being written.
struct MountSource<'a> {
    store: &'a TenantStore,
    request: &'a Request,
    writer: SnapshotWriter,
    /// The entries of the base.
    old: Vec<Entry>,
    hold: Option<&'a Hold>,
    /// How long reading the changed files took.
    capturing: Duration,
}

impl MountSource<'_> {
    async fn write(
        &mut self,
        tree: Tree,
        files: Arc<dyn Files + Send>,
        intend: impl AsyncFnOnce(RecordId) -> Result<()>,
    ) -> Result<Ended> {
        let Tree { mut entries, changed, .. } = tree;
        let request = self.request;
        let (store, places) = (self.store.clone(), self.first_reads());
        let ingest = self.writer.ingest();
        let Request { threads, guess, .. } = *request;
        let rewritten = Arc::new(Rewritten { files, changed, first: places.clone(), guess, ingest, threads });
        let reading = Arc::clone(&rewritten);
        let began = Instant::now();
        let (entries, new, mut ingested) = blocking(move || {
            let all: Vec<usize> = (0..reading.changed.len()).collect();
            let (extents, ingested) = reading.store(&entries, &all)?;
            for (at, extents) in reading.changed.iter().zip(extents) {
                entries[*at].set_extents(extents);
            }
            let tree = new_tree(&store, &entries, |entry, error| Error::InvalidInput {
                what: format!("{} cannot be stored: {error}", entry.path),
            })?;
            Ok((Arc::new(entries), tree, ingested))
        })
        .await?;
        self.capturing = began.elapsed();
        if let Some(base) = self.writer.base()
            && base.lineage() == request.lineage
            && super::snapshot::snapshot_id(base) == Some(new.id)
            && self.holds_all(base, &rewritten, ingested).await
        {
            return Ok(Ended { record: base.clone(), held_back: None, stored: None });
        }
        // From here on the lease exists, so what is barred is known.
        let record = self.writer.open().await?;
        // Both are waited for, whatever becomes of the other: what is intended may be taken back.
        let following = Box::pin(self.writer.follow_base_or_copy(&entries));
        let (copied, intended) = futures::future::join(following, intend(record)).await;
        intended?;
        let copied = copied?;
        let hit = self.hit(&entries, &rewritten.changed);
        if !hit.is_empty() {
            let entries = Arc::clone(&entries);
            ingested = blocking(move || Ok(rewritten.store(&entries, &hit)?.1)).await?;
        }
        let held_back = request.hold_back.clone().or_else(|| request.examined.hold_back.clone());
        let (health, word) = (request.examined.health.clone(), held_back.as_ref().map(|held| held.word));
        let startup = places.plan(&entries);
        let describe = |record: &mut Record| {
            record.startup = startup;
            record.health = health;
            record.held_back = word.map(ToOwned::to_owned);
            record.counts.new_chunks = ingested.new_chunks + copied.new_chunks;
            record.counts.new_bytes = ingested.new_bytes + copied.new_bytes;
        };
        if let (Some(hold), Some(held)) = (self.hold, &held_back) {
            self.writer.tell_held_back(hold.handle(), &held.reason);
        }
        let Finished { record, metadata, .. } = self.writer.finish(new, describe).await?;
        let (entries, locations) = metadata.decode()?;
        let metadata = Arc::new(metadata);
        let (store, kept) = (self.store.clone(), Arc::clone(&metadata));
        let (id, generation) = (record.record, record.generation);
        // The next mount on this host finds it here. Nobody waits for that.
        tokio::task::spawn_blocking(move || kept.remember(&store, id, generation));
        let stored = Some(Stored { record: record.clone(), metadata, entries, locations });
        Ok(Ended { record, held_back, stored })
    }

    /// Whether the base has the bytes of every file that was written again, though they are the same. What it
    /// has lost by now, or had lost before, is to be had in the mount alone.
    async fn holds_all(&self, base: &Record, rewritten: &Rewritten, ingested: Ingested) -> bool {
        if rewritten.changed.is_empty() {
            return true;
        }
        let now = records::current(self.store, &base.lineage(), base.record).await;
        ingested.new_chunks == 0 && now.is_ok_and(|now| now.damage == base.damage)
    }

    /// Those of the changed files, by number, that need a chunk which the base turned out to have lost.
    fn hit(&self, entries: &[Entry], changed: &[usize]) -> Vec<usize> {
        let is_hit = |at: usize| entries[at].chunks().any(|(id, _)| self.writer.has_lost(&id));
        (0..changed.len()).filter(|number| is_hit(changed[*number])).collect()
    }

    /// What is read first, by the mount that commits, or else by those before it.
    fn first_reads(&self) -> StartupRanges {
        match (self.request.first_reads.as_slice(), self.writer.base()) {
            ([], Some(base)) => StartupRanges::of(&startup::reads_of(&base.startup, &self.old), &self.old),
            (first_reads, _) => StartupRanges::of(first_reads, &self.old),
        }
    }
}

/// The changed files of a tree, and what is needed to store them.
struct Rewritten {
    files: Arc<dyn Files + Send>,
    /// The places of their entries.
    changed: Vec<usize>,
    first: StartupRanges,
    guess: Option<Guess>,
    ingest: Arc<Ingest>,
    threads: usize,
}

impl Rewritten {
    /// Stores what is new of those that are `chosen`, by number; blocking. With the extents of each, and
    /// how much was stored so far.
    fn store(&self, entries: &[Entry], chosen: &[usize]) -> Result<(Vec<Vec<Extent>>, Ingested)> {
        let extents = match chosen.is_empty() {
            true => Vec::new(),
            false => {
                let first = First::of(&self.first, self.guess, entries);
                let Self { files, changed, .. } = self;
                self.ingest.run(&Laid { files: &**files, entries, changed, chosen, first }, self.threads)?
            }
        };
        Ok((extents, self.ingest.flush()?))
    }
}

/// Changed files of a tree whose names say what of them is read first.
struct Laid<'a> {
    files: &'a dyn Files,
    entries: &'a [Entry],
    changed: &'a [usize],
    chosen: &'a [usize],
    first: First,
}

impl Files for Laid<'_> {
    fn len(&self) -> usize {
        self.chosen.len()
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()> {
        self.files.read(self.chosen[at], cutter)
    }

    fn is_first(&self, at: usize, part: Range<u64>) -> bool {
        let entry = &self.entries[self.changed[self.chosen[at]]];
        let size = if let Kind::File { size, .. } = entry.kind { size } else { 0 };
        self.first.has(&entry.path, size, part)
    }
}
