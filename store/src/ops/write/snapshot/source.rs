//! `DirectorySource` writes the snapshot of a directory: it reads the files that must be read, has them
//! examined, and reads those again whose chunks became barred.

mod read;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::{
    CHANGED_MEANWHILE, Capture, CaptureOutcome, Examined, HoldBack, Outcome, Phases, base_parts::BaseParts,
    captured::Captured, changed::changed, is_whole, plan::CapturePlan, reading::before_reading,
};
use crate::{
    Error, Result,
    catalog::{
        index::{IndexBudget, IndexUse},
        lock::Hold,
        pointer::Flip,
        records,
    },
    content::{
        chunk_fetcher::startup::StartupRanges, ingest::Ingested, meta::NewTree, snapshot_tree::SnapshotTree,
        unfinished::TakenOver, workers::blocking,
    },
    format::{health::Health, record::Record},
    id::{RecordId, SnapshotId},
    ops::{
        pointer_move,
        write::{self, Barred, Finished, ReadBase, SnapshotWriter},
    },
    tree::stat_trust::StatTrust,
};

/// However little must be read, so much of the indexes is looked at.
const LEAST_INDEX_BYTES: u64 = 1 << 20;
/// And so much for each byte that must be read.
const INDEX_FOR_EACH_BYTE: u64 = 16;

/// A directory whose snapshot is being written.
pub(super) struct DirectorySource<'a> {
    capture: &'a Capture<'a>,
    writer: SnapshotWriter,
    captured: Captured,
    /// The state of the directory before the first files are read.
    before: Option<StatTrust>,
    /// Tells for each round of reading which of the files may be trusted next time, once that is known.
    rounds: Vec<JoinHandle<StatTrust>>,
    /// The tree that the directory is, once it was cut.
    tree_id: Option<SnapshotId>,
    /// The tree that was stored, to be kept for the next write.
    stored: Option<(Arc<SnapshotTree>, RecordId, u64)>,
    read_files: u64,
    /// Files that keep the chunks they had.
    reused_files: u64,
    /// How long reading and examining took.
    capturing: Duration,
    /// Whether somebody wants the list of files that differ from the base.
    wants_changed: bool,
    base_parts: BaseParts,
    /// The ranges that mounts of the base, or of snapshots before it, read first.
    first_reads: StartupRanges,
    /// Whether the pointer names something.
    replaces: bool,
    examined: Examined,
}

/// How many bytes of indexes are read for what must be read of the directory: they may save that it is stored again.
fn worth_of_an_index(plan: &CapturePlan) -> u64 {
    let to_read = plan.totals.bytes.saturating_sub(plan.kept.1);
    to_read.saturating_mul(INDEX_FOR_EACH_BYTE).max(LEAST_INDEX_BYTES)
}

impl<'a> DirectorySource<'a> {
    pub async fn begin(
        capture: &'a Capture<'a>,
        base: Option<Record>,
        plan: Arc<CapturePlan>,
        replaces: bool,
    ) -> Result<Self> {
        let (store, request) = (capture.store, capture.request);
        let start = write::WriteParameters {
            lineage: &request.lineage,
            about: request.about.clone(),
            totals: plan.totals.clone(),
            source: ("directory", &request.directory),
            barred: Barred::Reread {
                index_budget: IndexBudget {
                    most_bytes: request.index_budget,
                    worth_bytes: worth_of_an_index(&plan),
                },
            },
            quota_bytes: request.quota_bytes,
        };
        let base = async { Ok(ReadBase::open(store, base).await) };
        let writer = SnapshotWriter::begin(store, start, base, Arc::clone(&capture.progress));
        let (writer, before) = futures::future::join(writer, before_reading(&plan, &[])).await;
        let (writer, before) = (writer?, before?);
        // Without findings about the base, all of it would have to be looked at anyway.
        let is_judged = |base: &Record| base.health.as_ref().is_some_and(Health::is_verdict);
        let wants_changed = request.examiner.is_some() && writer.readable_base().is_some_and(is_judged);
        let mut base_parts = BaseParts::default();
        base_parts.learn_touched(&writer, &plan).await?;
        Ok(Self {
            capture,
            first_reads: first_reads(&writer).await,
            wants_changed,
            base_parts,
            writer,
            reused_files: plan.kept.0,
            captured: Captured::new(plan),
            before,
            rounds: Vec::new(),
            tree_id: None,
            stored: None,
            read_files: 0,
            capturing: Duration::ZERO,
            replaces,
            examined: Examined::default(),
        })
    }

    /// Stores the snapshot and moves the pointer to it. With how many files keep the chunks they had.
    pub async fn run(mut self, hold: &Hold) -> Result<(u64, CaptureOutcome)> {
        let began = Instant::now();
        let ended = Box::pin(self.store_all()).await;
        let mut ended = self.writer.end(ended).await?;
        ended.phases.capture = self.capturing;
        ended.phases.upload = began.elapsed().saturating_sub(self.capturing);
        let remembered = self.remember();
        if ended.outcome == Outcome::Stored {
            ended.index = self.writer.index_use().await;
        }
        let mut flip = Ok(ended.flip);
        if ended.held_back.is_none() {
            let (request, progress) = (self.capture.request, Arc::clone(&self.capture.progress));
            let (record, id) = (ended.record.clone(), hold.handle().new_flip_id());
            let began = Instant::now();
            let moved = pointer_move::flip(hold, record, id, request.archive.as_ref(), progress).await;
            ended.phases.pointer_flip = began.elapsed();
            flip = moved.map(|(record, flip)| {
                ended.record = record;
                flip
            });
        }
        remembered.await.map_err(|error| Error::Internal { what: error.to_string() })??;
        ended.flip = flip?;
        Ok((self.reused_files, ended))
    }

    /// Keeps the stat cache and the tree on this host, while the pointer is moved.
    fn remember(&mut self) -> JoinHandle<Result<()>> {
        let (store, captured) = (self.capture.store.clone(), self.captured.clone());
        let (stored, rounds) = (self.stored.take(), std::mem::take(&mut self.rounds));
        let tree_id = self.tree_id;
        tokio::spawn(async move {
            let rounds: Vec<_> = futures::future::join_all(rounds).await.into_iter().collect();
            blocking(move || {
                if let Some((tree, record, generation)) = stored {
                    tree.remember(&store, record, generation);
                }
                // One that ended badly trusts nothing.
                let rounds: Vec<_> = rounds.into_iter().map(Result::unwrap_or_default).collect();
                if let Some(tree_id) = tree_id {
                    captured.remember(&store, &tree_id, &rounds);
                }
                Ok(())
            })
            .await
        })
    }

    async fn store_all(&mut self) -> Result<CaptureOutcome> {
        let mut again = Vec::new();
        let (tree, ingested) = loop {
            let began = Instant::now();
            let ingested = self.read(again).await?;
            let (mut tree, unchanged) = self.judge().await?;
            self.tree_id = Some(tree.id);
            self.capturing += began.elapsed();
            if let Some(base) = self.writer.base().filter(|base| is_whole(base, tree.id)) {
                self.writer.flush().await?;
                return Ok(CaptureOutcome::unchanged(base.clone(), Flip::Unchanged, self.read_files));
            }
            // From here on the lease exists, so what is barred is known.
            self.writer.open().await?;
            let before = self.writer.base_tree();
            Box::pin(self.writer.follow_base()).await?;
            if before.as_ref().map(Arc::as_ptr) != self.writer.base_tree().as_ref().map(Arc::as_ptr) {
                // Segments lie elsewhere by now.
                tree = self.tree().await?;
                self.tree_id = Some(tree.id);
            }
            again = self.read_again(&mut tree).await?;
            if again.is_empty() {
                // A program that writes to the directory now would make files that do not fit together.
                unchanged?;
                break (tree, ingested);
            }
            tracing::info!(files = again.len(), "reading files again whose chunks are being collected");
        };
        let asked = self.capture.request.hold_back.clone().filter(|_| self.replaces);
        let held_back = asked.or_else(|| self.examined.hold_back.take());
        if let Some(twin) = self.twin(&tree).await? {
            self.writer.flush().await?;
            let examiner = self.capture.request.examiner.as_ref();
            let held_back = held_back.or_else(|| examiner.and_then(|examiner| examiner.recalls(&twin)));
            return Ok(CaptureOutcome {
                held_back,
                ..CaptureOutcome::unchanged(twin, Flip::Unchanged, self.read_files)
            });
        }
        if let Some(held) = &held_back {
            self.writer.tell_held_back(&self.capture.handle, &held.reason);
        }
        let (record, taken_over) = self.finish(tree, ingested, held_back.as_ref()).await?;
        Ok(CaptureOutcome {
            outcome: Outcome::Stored,
            record,
            flip: Flip::Unchanged,
            held_back,
            read_files: self.read_files,
            index: IndexUse::default(),
            taken_over,
            phases: Phases::default(),
        })
    }

    /// The tree as it was read, and whether the directory is still that, after it was examined.
    async fn judge(&mut self) -> Result<(NewTree, Result<()>)> {
        let Some(examiner) = self.capture.request.examiner.clone() else {
            let (tree, unchanged) = futures::future::join(self.tree(), self.check_unchanged()).await;
            return Ok((tree?, unchanged));
        };
        let tree = self.tree().await?;
        let changed = match self.writer.base_tree().filter(|_| self.wants_changed) {
            Some(base) => self.changed(&tree, &base).await,
            None => None,
        };
        let (plan, base) = (Arc::clone(&self.captured.plan), self.writer.base().cloned());
        let examine = move || examiner.examine(plan.root.path(), changed.as_ref(), base.as_ref());
        self.examined = blocking(examine).await?;
        let unchanged = self.check_unchanged().await;
        Ok((tree, unchanged))
    }

    /// The files that differ from the base; `None` if that cannot be told, and all are examined.
    async fn changed(&self, tree: &NewTree, base: &SnapshotTree) -> Option<BTreeSet<PathBuf>> {
        let unreadable = |error: &Error| tracing::warn!(%error, "what has changed cannot be told");
        changed(tree, base).await.inspect_err(unreadable).ok()
    }

    /// A live snapshot with this very content that the pointer never got to.
    async fn twin(&self, tree: &NewTree) -> Result<Option<Record>> {
        let than = self.writer.base().map(|base| base.record);
        let newer = records::newer(self.capture.store, &self.capture.request.lineage, than).await?;
        Ok(newer.into_iter().rfind(|record| is_whole(record, tree.id)))
    }

    /// Finishes the write, with the findings about the files in the record.
    async fn finish(
        &mut self,
        tree: NewTree,
        ingested: Ingested,
        held_back: Option<&HoldBack>,
    ) -> Result<(Record, TakenOver)> {
        let (health, held_back) = (self.examined.health.take(), held_back.map(|held| held.word.to_owned()));
        let changed = self.capture.changed_meanwhile.lock().clone();
        let describe = |record: &mut Record| {
            if let Some(path) = changed {
                record.labels.insert(CHANGED_MEANWHILE.to_owned(), path.display().to_string());
            }
            record.health = health;
            record.held_back = held_back;
            record.counts.new_chunks = ingested.new_chunks;
            record.counts.new_bytes = ingested.new_bytes;
        };
        let Finished { record, tree, taken_over } =
            self.writer.finish_planned(tree, Some(&self.first_reads), describe).await?;
        self.stored = Some((tree, record.record, record.generation));
        Ok((record, taken_over))
    }
}

/// The ranges that mounts of the base, or of snapshots before it, read first. They are a hint.
async fn first_reads(writer: &SnapshotWriter) -> StartupRanges {
    let (Some(base), Some(tree)) = (writer.base(), writer.base_tree()) else {
        return StartupRanges::default();
    };
    StartupRanges::named_by(&base.startup, &tree).await.unwrap_or_default()
}
