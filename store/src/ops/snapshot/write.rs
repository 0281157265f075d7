//! Reads what must be read, stores what is new, publishes, moves the pointer.

use std::{collections::HashSet, fs::File, ops::Range, sync::Arc};

use tokio::task::JoinHandle;

use super::{
    Capture, Ended, Examined, HoldBack, Outcome,
    draft::{Totals, draft},
    examine::{self, Contents},
    indexes::IndexLoading,
    is_whole,
    plan::Plan,
};
use crate::{
    Error, ErrorKind, Result,
    catalog::{index::IndexUse, lease::WriteLease, lock::Hold, pointer::Flip, records},
    content::{
        TenantStore,
        ingest::{Cutter, Files, Ingest, Ingested},
        known::{Known, Locations},
        lazy::startup::{self, First, Places},
        lost::Lost,
        meta::{Metadata, NewTree},
        unfinished::{TakenOver, Unfinished},
        upload::{Gate, Uploader},
        workers::blocking,
    },
    format::{health::Health, record::Record},
    id::RecordId,
    ops::{
        moved::{by_id, current, packs_of},
        publish,
        written::{Published, Written},
    },
    progress::{Progress, Tick},
    tree::{
        read::{Content, ContentSink},
        trust::Trust,
        walk::FileState,
    },
};

/// A write under way.
pub(super) struct Writing<'a> {
    capture: &'a Capture<'a>,
    base: Option<Record>,
    base_metadata: Option<Arc<Metadata>>,
    plan: Plan,
    known: Arc<Known>,
    lease: Arc<WriteLease>,
    uploader: Arc<Uploader>,
    ingest: Arc<Ingest>,
    index: IndexLoading,
    /// What was looked at before the first files are read.
    before: Option<Trust>,
    /// Which of the files that were read may be trusted next time, once that is known.
    trusted: Vec<JoinHandle<Vec<(usize, FileState)>>>,
    /// What was published, to be kept for the next write.
    stored: Option<(Metadata, RecordId, u64)>,
    read_files: u64,
    /// What the base holds, if somebody wants to know what changed.
    base_contents: Option<Contents>,
    /// What a mount of the base, or of one before it, has read first.
    first_reads: Places,
    /// Whether the pointer names something.
    replaces: bool,
    examined: Examined,
}

impl<'a> Writing<'a> {
    pub async fn begin(
        capture: &'a Capture<'a>,
        base: Option<Record>,
        plan: Plan,
        replaces: bool,
    ) -> Result<Self> {
        let (store, progress) = (capture.store, &capture.progress);
        let (index, arriving) = IndexLoading::begin(store, capture.request.index_budget);
        let loading = base_metadata(capture, base.as_ref());
        let (loaded, before, unfinished) =
            futures::future::join3(loading, before_reading(&plan), read_unfinished(store)).await;
        let (base_metadata, loaded) = match loaded {
            Some((metadata, loaded)) => (Some(Arc::new(metadata)), loaded),
            None => (None, Loaded::default()),
        };
        let before = before?;
        let lost = base.as_ref().and_then(|base| base.damage.as_ref()).map(Lost::from).unwrap_or_default();
        let known = Known::new(loaded.locations, Some(arriving)).without(lost).beside(unfinished?);
        let known = Arc::new(known);
        let lineage = capture.request.lineage.clone();
        let totals = Totals::of(&plan.walk.entries, plan.walk.skipped, plan.walk.bytes);
        let source = ("directory", capture.request.directory.as_path());
        let about = capture.request.about.clone();
        let draft = draft(store, &lineage, about, base.as_ref(), totals, source);
        let lease = WriteLease::new(store.clone(), lineage, draft, Arc::clone(&known));
        let lease = Arc::new(lease.within(capture.request.quota_bytes).kept());
        let gate = Arc::clone(&lease) as Arc<dyn Gate>;
        let uploader = Arc::new(Uploader::new(store.clone(), gate, Arc::clone(progress)).noting());
        let ingest =
            Ingest::new(store.clone(), Arc::clone(&known), Arc::clone(&uploader), Arc::clone(progress));
        let ingest = Arc::new(ingest);
        Ok(Self {
            capture,
            base,
            base_metadata,
            plan,
            known,
            lease,
            uploader,
            ingest,
            index,
            before,
            trusted: Vec::new(),
            stored: None,
            read_files: 0,
            base_contents: loaded.contents,
            first_reads: loaded.first_reads,
            replaces,
            examined: Examined::default(),
        })
    }

    pub async fn run(mut self, hold: &Hold) -> Result<(Plan, Ended)> {
        let ended = Box::pin(self.store_all()).await;
        // Nothing may still be uploading under a lease that is given up; and if an upload
        // failed, that is why the rest did.
        let ended = match (ended, self.uploader.finish().await) {
            (Err(Error::Internal { .. }), Err(cause)) => Err(cause),
            (ended, _) => ended,
        };
        if !matches!(&ended, Ok(Ended { outcome: Outcome::Stored, .. })) {
            self.lease.abandon().await;
        }
        let mut ended = ended?;
        let remembered = self.remember();
        if ended.outcome == Outcome::Stored {
            ended.index = self.index.used().await;
        }
        let mut flip = Ok(ended.flip);
        if ended.held_back.is_none() {
            let (request, progress) = (self.capture.request, Arc::clone(&self.capture.progress));
            let (record, id) = (ended.record.clone(), hold.controls().new_flip_id());
            let moved = publish::flip(hold, record, id, request.archive.as_ref(), progress).await;
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
        let (store, plan) = (self.capture.store.clone(), self.plan.take());
        let (stored, trusted) = (self.stored.take(), std::mem::take(&mut self.trusted));
        tokio::spawn(async move {
            let trusted = futures::future::join_all(trusted).await;
            let trusted: Vec<_> = trusted.into_iter().flatten().flatten().collect();
            blocking(move || {
                if let Some((metadata, record, generation)) = stored {
                    metadata.remember(&store, record, generation);
                }
                plan.remember(&store, &trusted);
                Ok(plan)
            })
            .await
        })
    }

    async fn store_all(&mut self) -> Result<Ended> {
        let (tree, ingested) = loop {
            let ingested = self.read().await?;
            self.examine().await?;
            let (tree, unchanged) = self.tree().await?;
            if let Some(base) = self.base.as_ref().filter(|base| is_whole(base, tree.id)) {
                let _ = self.uploader.finish().await?;
                return Ok(Ended::unchanged(base.clone(), Flip::Unchanged, self.read_files));
            }
            // From here on the lease exists, so what is barred is known.
            self.lease.open().await?;
            Box::pin(self.follow_base()).await?;
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
            let _ = self.uploader.finish().await?;
            let examiner = self.capture.request.examiner.as_ref();
            let held_back = held_back.or_else(|| examiner.and_then(|examiner| examiner.recalls(&twin)));
            return Ok(Ended { held_back, ..Ended::unchanged(twin, Flip::Unchanged, self.read_files) });
        }
        let (record, taken_over) = self.publish(tree, ingested, held_back.as_ref()).await?;
        if let Some(held) = &held_back {
            self.capture.controls.tell_held_back(&record, &held.reason).await;
        }
        Ok(Ended {
            outcome: Outcome::Stored,
            record,
            flip: Flip::Unchanged,
            held_back,
            read_files: self.read_files,
            index: IndexUse::default(),
            taken_over,
        })
    }

    /// Reads the files that must be read into chunks.
    async fn read(&mut self) -> Result<Ingested> {
        let before = match self.before.take() {
            Some(before) => Some(before),
            None => before_reading(&self.plan).await?,
        };
        let files = std::mem::take(&mut self.plan.to_read);
        self.read_files += files.len() as u64;
        let (root, entries) = (Arc::clone(&self.plan.root), std::mem::take(&mut self.plan.walk.entries));
        let (ingest, progress) = (Arc::clone(&self.ingest), Arc::clone(&self.capture.progress));
        let (threads, first_reads) = (self.capture.request.threads, self.first_reads.clone());
        let (entries, ingested, read) = blocking(move || {
            if files.is_empty() {
                return Ok((entries, ingest.flush()?, Vec::new()));
            }
            let content = Content::new(&root, &entries, files);
            let first = First::of(&first_reads, &entries);
            let directory = Directory { content: &content, first: &first, progress: &*progress };
            let extents = ingest.run(&directory, threads)?;
            let ingested = ingest.flush()?;
            let read: Vec<_> = content.finish().into_iter().zip(extents).collect();
            Ok((entries, ingested, read))
        })
        .await?;
        if let Some(before) = before {
            let seen: Vec<_> =
                read.iter().filter_map(|((file, state), _)| Some((file.entry, (*state)?))).collect();
            // Nothing waits for this but what is remembered in the end.
            self.trusted.push(tokio::task::spawn_blocking(move || {
                let trust = before.after_reading();
                seen.into_iter().filter(|(_, state)| trust.allows(state)).collect()
            }));
        }
        self.plan.walk.entries = entries;
        for ((file, state), extents) in read {
            self.plan.fill(file, extents, state);
        }
        Ok(ingested)
    }

    /// The tree as it was read, and whether the directory is still what was read.
    async fn tree(&mut self) -> Result<(NewTree, Result<()>)> {
        let (store, plan) = (self.capture.store.clone(), self.plan.take());
        let (plan, tree, unchanged) = blocking(move || {
            let (tree, unchanged) = std::thread::scope(|scope| {
                let looking = scope.spawn(|| plan.check_unchanged());
                let tree = plan.tree(&store);
                let panicked = || Err(Error::Internal { what: "looking again has failed".to_owned() });
                (tree, looking.join().unwrap_or_else(|_| panicked()))
            });
            Ok((plan, tree, unchanged))
        })
        .await?;
        self.plan = plan;
        Ok((tree?, unchanged))
    }

    /// Asks whoever knows what the files are.
    async fn examine(&mut self) -> Result<()> {
        let Some(examiner) = self.capture.request.examiner.clone() else { return Ok(()) };
        let (plan, base) = (self.plan.take(), self.base.clone());
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

    /// Looks at the base again: since it was read, a repair may have found some of it damaged, or
    /// have stored it elsewhere. Whoever starts one from now on finds this write under way. All
    /// packs that it names while it is a snapshot are there.
    async fn follow_base(&mut self) -> Result<()> {
        let Some(before) = &self.base else { return self.lease.look_at_packs().await };
        let now = current(self.capture.store, &self.capture.request.lineage, before.record);
        let (looked, now) = futures::future::join(self.lease.look_at_packs(), now).await;
        looked?;
        let now = match now {
            // What is still there of it may be referred to all the same.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => return Ok(()),
            now => now?,
        };
        self.known.is_there(packs_of(&now));
        if now.generation == before.generation && now.damage == before.damage {
            return Ok(());
        }
        let mut lost = now.damage.as_ref().map(Lost::from).unwrap_or_default();
        self.base_metadata = match base_metadata(self.capture, Some(&now)).await {
            Some((metadata, loaded)) => {
                self.known.learn_moved(loaded.locations);
                Some(Arc::new(metadata))
            }
            None => {
                // Where it is now is not known, and where it was it is still lost.
                lost.add(&self.known.lost());
                None
            }
        };
        self.known.learn_lost(lost);
        self.base = Some(now);
        Ok(())
    }

    /// Entries whose files must be read again. What the index says was read before the lease existed: if any
    /// of it is used, it is looked at again.
    async fn read_again(&mut self) -> Result<Vec<usize>> {
        loop {
            let budget = self.capture.request.index_budget;
            self.index.follow(self.capture.store, &self.known, budget).await?;
            let again = self.unresolved().await?;
            if self.index.is_sure(&self.known) {
                return Ok(again);
            }
        }
    }

    /// Entries that refer to a chunk which neither this write stores nor may be referred to.
    async fn unresolved(&mut self) -> Result<Vec<usize>> {
        loop {
            let entries = std::mem::take(&mut self.plan.walk.entries);
            let (known, uploader) = (Arc::clone(&self.known), Arc::clone(&self.uploader));
            let (entries, missing, packs) = blocking(move || {
                let (mut missing, mut packs) = (Vec::new(), HashSet::new());
                for (at, entry) in entries.iter().enumerate() {
                    let mut lacks = false;
                    for (id, _) in entry.chunks() {
                        match known.locate(&id) {
                            _ if uploader.locate(&id).is_some() => {}
                            Some(location) => drop(packs.insert(location.pack)),
                            None => lacks = true,
                        }
                    }
                    missing.extend(lacks.then_some(at));
                }
                Ok((entries, missing, packs))
            })
            .await?;
            self.plan.walk.entries = entries;
            if self.lease.make_sure_of(packs).await? {
                return Ok(missing);
            }
        }
    }

    /// A live snapshot with this very content that the pointer never got to.
    async fn twin(&self, tree: &NewTree) -> Result<Option<Record>> {
        let than = self.base.as_ref().map(|base| base.record);
        let newer = records::newer(self.capture.store, &self.capture.request.lineage, than).await?;
        Ok(newer.into_iter().rfind(|record| is_whole(record, tree.id)))
    }

    /// Stores the metadata once all packs are durable, then makes the record live.
    async fn publish(
        &mut self,
        tree: NewTree,
        ingested: Ingested,
        held_back: Option<&HoldBack>,
    ) -> Result<(Record, TakenOver)> {
        let (health, held_back) = (self.examined.health.take(), held_back.map(|held| held.word.to_owned()));
        let startup = self.first_reads.plan(&self.plan.walk.entries);
        let finish = |record: &mut Record| {
            record.startup = startup;
            record.health = health;
            record.held_back = held_back;
            record.counts.new_chunks = ingested.new_chunks;
            record.counts.new_bytes = ingested.new_bytes;
        };
        let base = self.base_metadata.take();
        let written = Written {
            store: self.capture.store,
            lease: &self.lease,
            uploader: &self.uploader,
            known: &self.known,
        };
        let Published { record, metadata, taken_over } = written.publish(tree, base, finish).await?;
        self.stored = Some((metadata, record.record, record.generation));
        Ok((record, taken_over))
    }
}

/// Prepares for reading files, if there are any to read.
async fn before_reading(plan: &Plan) -> Result<Option<Trust>> {
    if plan.to_read.is_empty() {
        return Ok(None);
    }
    let root = Arc::clone(&plan.root);
    let files: Vec<_> = plan.to_read.iter().map(|file| plan.walk.entries[file.entry].path.clone()).collect();
    blocking(move || Trust::before_reading(&root, &files).map(Some)).await
}

/// What this host has stored for writes that have not ended.
pub(in crate::ops) async fn read_unfinished(store: &TenantStore) -> Result<Unfinished> {
    let store = store.clone();
    blocking(move || Ok(Unfinished::load(&store))).await
}

/// What a write makes use of that the current snapshot holds.
#[derive(Default)]
struct Loaded {
    locations: Locations,
    contents: Option<Contents>,
    first_reads: Places,
}

/// What the current snapshot holds. A damaged one must not keep anybody from storing a
/// good snapshot after it.
async fn base_metadata(capture: &Capture<'_>, base: Option<&Record>) -> Option<(Metadata, Loaded)> {
    let record = base?;
    let loaded =
        Metadata::load(capture.store, record.record, record.generation, record.content.as_ref()?).await;
    let decoded = loaded.and_then(|metadata| {
        let (entries, locations) = metadata.decode()?;
        let locations = by_id(&entries, locations);
        // Without findings about the base, all of it would have to be looked at anyway.
        let wanted =
            capture.request.examiner.is_some() && record.health.as_ref().is_some_and(Health::is_verdict);
        let contents = wanted.then(|| examine::contents(&entries));
        let first_reads = Places::of(&startup::reads_of(&record.startup, &entries), &entries);
        Ok((metadata, Loaded { locations, contents, first_reads }))
    });
    decoded
        .inspect_err(|error| tracing::warn!(record = %record.record, %error, "the current snapshot cannot be built on"))
        .ok()
}

/// The files of a directory as the chunk pipeline wants them.
struct Directory<'a> {
    content: &'a Content<'a>,
    first: &'a First,
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

    fn is_first(&self, at: usize, part: Range<u64>) -> bool {
        let (path, size) = self.content.file(at);
        self.first.has(path, size, part)
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
