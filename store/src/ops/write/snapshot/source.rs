//! `DirectorySource` writes the snapshot of a directory: it reads the files that must be read, has them
//! examined, and reads those again whose chunks became barred.

mod read;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::{
    Capture, Ended, Examined, HoldBack, Outcome, Phases,
    examine::{self, Contents},
    is_whole,
    plan::Plan,
    reading::before_reading,
};
use crate::{
    Error, Result,
    catalog::{index::IndexUse, lock::Hold, pointer::Flip, records},
    content::{
        chunk_fetcher::startup::{self, StartupRanges},
        ingest::Ingested,
        meta::NewTree,
        snapshot_tree::SnapshotTree,
        unfinished::TakenOver,
        workers::blocking,
    },
    format::{health::Health, record::Record},
    id::RecordId,
    ops::{
        pointer_move,
        write::{self, Barred, Finished, ReadBase, SnapshotWriter, Totals},
    },
    tree::{stat_trust::StatTrust, walk::FileState},
};

/// A directory whose snapshot is being written.
pub(super) struct DirectorySource<'a> {
    capture: &'a Capture<'a>,
    writer: SnapshotWriter,
    plan: Plan,
    /// What was looked at before the first files are read.
    before: Option<StatTrust>,
    /// Which of the files that were read may be trusted next time, once that is known.
    trusted: Vec<JoinHandle<Vec<(usize, FileState)>>>,
    /// The tree that was stored, to be kept for the next write.
    stored: Option<(Arc<SnapshotTree>, RecordId, u64)>,
    read_files: u64,
    /// How long reading and examining took.
    capturing: Duration,
    /// What the base holds, if somebody wants to know what changed.
    base_contents: Option<Contents>,
    /// What a mount of the base, or of one before it, has read first.
    first_reads: StartupRanges,
    /// Whether the pointer names something.
    replaces: bool,
    examined: Examined,
}

impl<'a> DirectorySource<'a> {
    pub async fn begin(
        capture: &'a Capture<'a>,
        base: Option<Record>,
        plan: Plan,
        replaces: bool,
    ) -> Result<Self> {
        let (store, request) = (capture.store, capture.request);
        let start = write::Plan {
            lineage: &request.lineage,
            about: request.about.clone(),
            totals: Totals::of(&plan.walk.entries, plan.walk.skipped, plan.walk.bytes),
            source: ("directory", &request.directory),
            barred: Barred::Reread { index_budget: request.index_budget },
            quota_bytes: request.quota_bytes,
        };
        let base = async { Ok(ReadBase::load(store, base).await) };
        let writer = SnapshotWriter::begin(store, start, base, Arc::clone(&capture.progress));
        let (writer, before) = futures::future::join(writer, before_reading(&plan)).await;
        let ((writer, base_entries), before) = (writer?, before?);
        // Without findings about the base, all of it would have to be looked at anyway.
        let is_judged = |base: &Record| base.health.as_ref().is_some_and(Health::is_verdict);
        let base = writer.readable_base();
        let is_wanted = request.examiner.is_some() && base.is_some_and(is_judged);
        let first_reads = base.map(|base| startup::reads_of(&base.startup, &base_entries));
        Ok(Self {
            capture,
            base_contents: is_wanted.then(|| examine::contents(&base_entries)),
            first_reads: first_reads
                .map(|reads| StartupRanges::of(&reads, &base_entries))
                .unwrap_or_default(),
            writer,
            plan,
            before,
            trusted: Vec::new(),
            stored: None,
            read_files: 0,
            capturing: Duration::ZERO,
            replaces,
            examined: Examined::default(),
        })
    }

    pub async fn run(mut self, hold: &Hold) -> Result<(Plan, Ended)> {
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
        let plan = remembered.await.map_err(|error| Error::Internal { what: error.to_string() })?;
        ended.flip = flip?;
        Ok((plan?, ended))
    }

    /// Keeps what this host has learnt, while the pointer is moved.
    fn remember(&mut self) -> JoinHandle<Result<Plan>> {
        let (store, plan) = (self.capture.store.clone(), self.plan.move_out());
        let (stored, trusted) = (self.stored.take(), std::mem::take(&mut self.trusted));
        tokio::spawn(async move {
            let trusted = futures::future::join_all(trusted).await;
            let trusted: Vec<_> = trusted.into_iter().flatten().flatten().collect();
            blocking(move || {
                if let Some((tree, record, generation)) = stored {
                    tree.remember(&store, record, generation);
                }
                plan.remember(&store, &trusted);
                Ok(plan)
            })
            .await
        })
    }

    async fn store_all(&mut self) -> Result<Ended> {
        let (tree, ingested) = loop {
            let began = Instant::now();
            let ingested = self.read().await?;
            self.examine().await?;
            let (tree, unchanged) = self.tree().await?;
            self.capturing += began.elapsed();
            if let Some(base) = self.writer.base().filter(|base| is_whole(base, tree.id)) {
                self.writer.flush().await?;
                return Ok(Ended::unchanged(base.clone(), Flip::Unchanged, self.read_files));
            }
            // From here on the lease exists, so what is barred is known.
            self.writer.open().await?;
            Box::pin(self.writer.follow_base()).await?;
            let again = self.read_again().await?;
            if again.is_empty() {
                // Whoever writes to the directory now would make files that do not fit together.
                unchanged?;
                self.plan.checked = true;
                break (tree, ingested);
            }
            tracing::info!(files = again.len(), "reading files again whose chunks are being collected");
            self.plan.read_again(&again)?;
        };
        let asked = self.capture.request.hold_back.clone().filter(|_| self.replaces);
        let held_back = asked.or_else(|| self.examined.hold_back.take());
        if let Some(twin) = self.twin(&tree).await? {
            self.writer.flush().await?;
            let examiner = self.capture.request.examiner.as_ref();
            let held_back = held_back.or_else(|| examiner.and_then(|examiner| examiner.recalls(&twin)));
            return Ok(Ended { held_back, ..Ended::unchanged(twin, Flip::Unchanged, self.read_files) });
        }
        if let Some(held) = &held_back {
            self.writer.tell_held_back(&self.capture.handle, &held.reason);
        }
        let (record, taken_over) = self.finish(tree, ingested, held_back.as_ref()).await?;
        Ok(Ended {
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

    /// Asks whoever knows what the files are.
    async fn examine(&mut self) -> Result<()> {
        let Some(examiner) = self.capture.request.examiner.clone() else { return Ok(()) };
        let (plan, base) = (self.plan.move_out(), self.writer.base().cloned());
        let contents = self.base_contents.take();
        let (plan, contents, examined) = blocking(move || {
            let changed = contents.as_ref().map(|base| examine::changed(&plan.walk.entries, base));
            let examined = examiner.examine(plan.root.path(), changed.as_ref(), base.as_ref());
            Ok((plan, contents, examined))
        })
        .await?;
        (self.plan, self.base_contents) = (plan, contents);
        self.examined = examined?;
        Ok(())
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
        let startup = self.first_reads.plan(&self.plan.walk.entries);
        let describe = |record: &mut Record| {
            record.startup = startup;
            record.health = health;
            record.held_back = held_back;
            record.counts.new_chunks = ingested.new_chunks;
            record.counts.new_bytes = ingested.new_bytes;
        };
        let Finished { record, tree, taken_over } = self.writer.finish(tree, describe).await?;
        self.stored = Some((tree, record.record, record.generation));
        Ok((record, taken_over))
    }
}
