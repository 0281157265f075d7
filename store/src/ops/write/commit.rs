//! Makes the next snapshot of a tree whose changes are known.
//!
//! Unlike a capture, nothing is walked, and of the base only the segments around changes are read. All others are
//! referred to as they are: their tables say where their chunks lie, and the root, which packs they need.

mod changes;
pub mod whole;

pub use changes::{PutEntry, TreeChange, TreeChanges};

use std::{
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use self::changes::filled;
use super::{
    Barred, Beside, Finished, ReadBase, SnapshotWriter, Totals,
    snapshot::{About, Examined, HoldBack, Outcome, Phases, Report},
};
use crate::{
    Error, Result,
    catalog::{
        lock::Hold,
        pointer::{Flip, VerifiedFlip},
        records,
    },
    content::{
        TenantStore,
        chunk_fetcher::startup::{First, Guess, StartupRanges},
        ingest::{Cutter, Files, Ingest, Ingested},
        snapshot_tree::SnapshotTree,
        tree_editor::{Edited, TreeEditor},
        workers::blocking,
    },
    format::{
        event::Event,
        pointer::Target,
        record::Record,
        tree::{Entry, Extent},
    },
    id::{ChunkId, FlipId, RecordId},
    name::Lineage,
    ops::{archive::publish, pointer_move, write},
    progress::Progress,
};

/// The tree to store, and the facts to write into its record.
#[derive(Debug)]
pub struct Request {
    /// Where the snapshot goes.
    pub lineage: Lineage,
    /// Where the tree is seen.
    pub path: PathBuf,
    /// The caller's part of the record.
    pub about: About,
    /// How many threads compress.
    pub threads: usize,
    /// The findings about the files.
    pub examined: Examined,
    /// Why the snapshot must not take the place of the current one by itself.
    pub hold_back: Option<HoldBack>,
    /// The parts of the base's files that a mount of it read first; without any, the base's own plan.
    pub first_reads: StartupRanges,
    /// Guesses the first reads, where no mount has shown them; without it, chunks are not ordered by them.
    pub guess: Option<Guess>,
    /// How much the tenant may have stored when this is done; more is refused.
    pub quota_bytes: Option<u64>,
    /// The id of the flip that moves the pointer to it.
    pub flip_id: FlipId,
    /// How it is published before the pointer is moved to it; without, it is not.
    pub archive: Option<publish::PublishJob>,
    /// An earlier snapshot of the same changes, if there is one: its chunks are not stored again.
    pub earlier: Option<Base>,
    /// Takes for granted that the base is as it was read, and looks at it while metadata is uploaded. If it is not,
    /// the write ends as if it had been revoked, and must begin anew without this.
    pub trusts_base: bool,
}

/// The snapshot that changes were made to.
#[derive(Clone, Debug)]
pub struct Base {
    /// The record of the snapshot.
    pub record: Record,
    /// Its tree.
    pub tree: Arc<SnapshotTree>,
}

/// A snapshot that was stored, for a mount that goes on from it.
#[derive(Debug)]
pub struct Stored {
    /// The record of the snapshot.
    pub record: Record,
    /// Its tree.
    pub tree: Arc<SnapshotTree>,
    /// The event of the flip, which [`Hold::tell`] is still to store.
    pub untold: Option<Event>,
}

/// Stores `base` with `changes` and moves the pointer to the result by `hold`; without one, no pointer is
/// moved. `files` reads the changed content. `intend` is told the record before it becomes a snapshot.
pub async fn commit(
    store: &TenantStore,
    request: Request,
    (changes, files): (TreeChanges, Arc<dyn Files + Send>),
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
    let TreeChanges { changes, skipped } = changes;
    progress.begin("commit", changes.len() as u64, changes.iter().map(TreeChange::bytes).sum());
    let mut totals = base.as_ref().map(|base| Totals::before(&base.record)).unwrap_or_default();
    totals.counts.skipped = skipped.total();
    let parameters = write::WriteParameters {
        lineage: &request.lineage,
        about: request.about.clone(),
        totals,
        source: ("mount", &request.path),
        barred: Barred::Copy,
        quota_bytes: request.quota_bytes,
    };
    let read = async {
        base.map_or_else(|| Ok(ReadBase::default()), |base| ReadBase::by_need(base.record, base.tree))
    };
    let told = Arc::clone(&progress);
    let writer = SnapshotWriter::begin(store, parameters, read, progress).await?;
    let changed = changes.iter().filter(|change| change.file().is_some()).count() as u64;
    let mut source = MountSource { store, request: &request, writer, hold, capturing: Duration::ZERO };
    let began = Instant::now();
    let written = Box::pin(source.write(changes, files, intend)).await;
    let CommitOutcome { mut record, held_back, mut stored, verified } = source.writer.end(written).await?;
    let capture = source.capturing;
    let mut phases = Phases { capture, upload: began.elapsed().saturating_sub(capture), ..Phases::default() };
    let began = Instant::now();
    let (mut flip, job) = (Flip::Unchanged, request.archive.as_ref());
    if let (Some(hold), None) = (hold, &held_back) {
        match &mut stored {
            Some(stored) => {
                let flip_id = request.flip_id;
                (record, flip, stored.untold) =
                    Box::pin(pointer_move::flip_verified(hold, record, flip_id, verified, job, told)).await?;
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

/// The outcome of a commit's write, before the pointer is moved.
struct CommitOutcome {
    record: Record,
    held_back: Option<HoldBack>,
    /// `None` if nothing has changed.
    stored: Option<Stored>,
    /// Proof that the flip may be tried, if its checks were made.
    verified: Option<VerifiedFlip>,
}

/// A mount whose changes are being written.
struct MountSource<'a> {
    store: &'a TenantStore,
    request: &'a Request,
    writer: SnapshotWriter,
    hold: Option<&'a Hold>,
    /// How long reading the changed files took.
    capturing: Duration,
}

impl MountSource<'_> {
    async fn write(
        &mut self,
        changes: Vec<TreeChange>,
        files: Arc<dyn Files + Send>,
        intend: impl AsyncFnOnce(RecordId) -> Result<()>,
    ) -> Result<CommitOutcome> {
        let request = self.request;
        let places = self.first_reads().await;
        self.writer.learn_base(changes.iter().flat_map(TreeChange::pieces));
        if let Some(earlier) = &request.earlier {
            let read = changes.iter().filter_map(TreeChange::rewritten);
            self.writer.learn_earlier(&earlier.tree, read.map(|(entry, _)| &entry.path)).await;
        }
        let ingest = self.writer.ingest();
        let Request { threads, guess, .. } = *request;
        let rewritten = Arc::new(Rewritten::of(&changes, files, (places.clone(), guess), ingest, threads));
        let reading = Arc::clone(&rewritten);
        let began = Instant::now();
        let (changes, mut ingested) = blocking(move || {
            let all: Vec<usize> = (0..reading.entries.len()).collect();
            let (extents, ingested) = reading.store(&all)?;
            Ok((filled(changes, extents), ingested))
        })
        .await?;
        let Edited { tree: mut new, counts: counted, .. } = self.edit(&changes).await?;
        self.capturing = began.elapsed();
        if let Some(base) = self.writer.base()
            && base.lineage() == request.lineage
            && super::snapshot::snapshot_id(base) == Some(new.id)
            && self.holds_all(base, &rewritten, ingested).await
        {
            return Ok(CommitOutcome { record: base.clone(), held_back: None, stored: None, verified: None });
        }
        // From here on the lease exists, so what is barred is known.
        let record = self.writer.open().await?;
        if let Some(earlier) = &request.earlier {
            self.writer.follow_earlier(&earlier.record).await?;
            let lacking = self.with_chunk(&changes, |id| self.writer.lacks(id));
            if !lacking.is_empty() {
                let again = Arc::clone(&rewritten);
                ingested = blocking(move || Ok(again.store(&lacking)?.1)).await?;
            }
        }
        let is_trusted = request.trusts_base && self.writer.trusts_base(&mut new).await?;
        // On the heap: they are large, and passed on.
        let looking = is_trusted.then(|| Box::pin(self.writer.look_at_base()));
        let uploading = Box::pin(async {
            // Both are waited for, whatever becomes of the other: what is intended may be taken back.
            let looked = async { if let Some(looking) = looking { looking.await } else { Ok(()) } };
            let (looked, intended) = futures::future::join(looked, intend(record)).await;
            intended.and(looked)
        });
        let copied = match is_trusted {
            true => Ingested::default(),
            false => Box::pin(self.writer.follow_base_or_copy(&mut new)).await?,
        };
        // Those that need a chunk which the base turned out to have lost.
        let hit = self.with_chunk(&changes, |id| self.writer.has_lost(id));
        if !hit.is_empty() {
            ingested = blocking(move || Ok(rewritten.store(&hit)?.1)).await?;
        }
        let held_back = request.hold_back.clone().or_else(|| request.examined.hold_back.clone());
        let (health, word) = (request.examined.health.clone(), held_back.as_ref().map(|held| held.word));
        let describe = |record: &mut Record| {
            record.health = health;
            record.held_back = word.map(ToOwned::to_owned);
            counted.apply(&mut record.counts);
            record.counts.new_chunks = ingested.new_chunks + copied.new_chunks;
            record.counts.new_bytes = ingested.new_bytes + copied.new_bytes;
        };
        if let (Some(hold), Some(held)) = (self.hold, &held_back) {
            self.writer.tell_held_back(hold.handle(), &held.reason);
        }
        let beside = Beside { hold: self.hold.filter(|_| held_back.is_none()), uploading };
        let finishing = self.writer.finish_beside(new, Some(&places), beside, describe);
        let (Finished { record, tree, .. }, verified) = Box::pin(finishing).await?;
        let (store, kept) = (self.store.clone(), Arc::clone(&tree));
        let (id, generation) = (record.record, record.generation);
        // The next mount on this host finds it here. Nobody waits for that.
        tokio::task::spawn_blocking(move || kept.remember(&store, id, generation));
        let stored = Some(Stored { record: record.clone(), tree, untold: None });
        Ok(CommitOutcome { record, held_back, stored, verified })
    }

    /// The tree that the changes make of the base. If the base's segments were moved since it was read, they are
    /// read where they are now.
    async fn edit(&mut self, changes: &[TreeChange]) -> Result<Edited> {
        let edited = match self.edited(changes).await {
            Err(Error::Missing { .. }) if self.writer.reopen_base().await? => self.edited(changes).await,
            edited => edited,
        }?;
        self.writer.learn_base(edited.located.iter().map(|(id, location)| (*id, *location)));
        Ok(edited)
    }

    async fn edited(&self, changes: &[TreeChange]) -> Result<Edited> {
        let mut editor = TreeEditor::new(self.store, self.writer.base_tree());
        for change in changes {
            match change {
                TreeChange::Removed(path) => editor.remove(path).await?,
                TreeChange::Put(put) => editor.put(&put.entry).await?,
            }
        }
        editor.finish().await
    }

    /// Whether the base has the bytes of every file that was written again, though they are the same. What it
    /// has lost by now, or had lost before, is to be had in the mount alone.
    async fn holds_all(&self, base: &Record, rewritten: &Rewritten, ingested: Ingested) -> bool {
        if rewritten.entries.is_empty() {
            return true;
        }
        let now = records::current(self.store, &base.lineage(), base.record).await;
        ingested.new_chunks == 0 && now.is_ok_and(|now| now.damage == base.damage)
    }

    /// Those of the changed files, in their order, that need a chunk of this kind.
    fn with_chunk(&self, changes: &[TreeChange], is_such: impl Fn(&ChunkId) -> bool) -> Vec<usize> {
        let is_hit = |entry: &Entry| entry.chunks().any(|(id, _)| is_such(&id));
        let rewritten = changes.iter().filter_map(TreeChange::rewritten).enumerate();
        rewritten.filter(|(_, (entry, _))| is_hit(entry)).map(|(number, _)| number).collect()
    }

    /// The ranges that the mount that commits read first, or else the mounts before it.
    async fn first_reads(&self) -> StartupRanges {
        match (self.writer.base(), self.writer.base_tree()) {
            (Some(base), Some(tree)) if self.request.first_reads.is_empty() => {
                StartupRanges::named_by(&base.startup, &tree).await.unwrap_or_default()
            }
            _ => self.request.first_reads.clone(),
        }
    }
}

/// The changed files of a tree, and the means to store them.
struct Rewritten {
    files: Arc<dyn Files + Send>,
    /// Each with its number among the files.
    entries: Vec<(Entry, usize)>,
    first: First,
    ingest: Arc<Ingest>,
    threads: usize,
}

impl Rewritten {
    fn of(
        changes: &[TreeChange],
        files: Arc<dyn Files + Send>,
        (places, guess): (StartupRanges, Option<Guess>),
        ingest: Arc<Ingest>,
        threads: usize,
    ) -> Self {
        let put: Vec<Entry> = match guess.filter(|_| places.is_empty()) {
            Some(_) => changes.iter().filter_map(TreeChange::entry).cloned().collect(),
            None => Vec::new(),
        };
        let rewritten = changes.iter().filter_map(TreeChange::rewritten);
        let entries = rewritten.map(|(entry, file)| (entry.clone(), file)).collect();
        Self { files, entries, first: First::of(&places, guess, &put), ingest, threads }
    }

    /// Stores the new chunks of the `chosen` files, by number; blocking. Returns the extents of each, and
    /// how much was stored so far.
    fn store(&self, chosen: &[usize]) -> Result<(Vec<Vec<Extent>>, Ingested)> {
        let extents = match chosen.is_empty() {
            true => Vec::new(),
            false => self.ingest.run(&Laid { rewritten: self, chosen }, self.threads)?,
        };
        Ok((extents, self.ingest.flush()?))
    }
}

/// Changed files of a tree whose names tell which parts of them are read first.
struct Laid<'a> {
    rewritten: &'a Rewritten,
    chosen: &'a [usize],
}

impl Files for Laid<'_> {
    fn len(&self) -> usize {
        self.chosen.len()
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()> {
        self.rewritten.files.read(self.rewritten.entries[self.chosen[at]].1, cutter)
    }

    fn is_first(&self, at: usize, part: Range<u64>) -> bool {
        let (entry, _) = &self.rewritten.entries[self.chosen[at]];
        self.rewritten.first.has(&entry.path, entry.size(), part)
    }
}
