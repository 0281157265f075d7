//! Takes an archive in as a snapshot, straight from a stream.
//!
//! 1. The write's lease is taken first: what may be referred to is then known for good, so
//!    that a stream, which cannot be read twice, need not be.
//! 2. Content is cut and stored as it comes. Names and attributes are held in memory, within
//!    limits; nothing is unpacked but the files that somebody wants to look at.
//! 3. Only when all of it was read, its digest is the expected one and the tree is sound,
//!    is the record published. Until then nothing has happened but some garbage.

mod judge;
mod stream;

pub use judge::{Judge, Judged};

use std::{
    io::Read,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    moved::{by_id, current},
    snapshot::{About, HoldBack, IndexLoading, Outcome, Totals, draft, read_unfinished, snapshot_id},
    written::{Published, Written},
};
use crate::{
    Error, ErrorKind, Result,
    archive::{intake::Arrived, reader::Limits},
    catalog::{lease::WriteLease, records},
    content::{
        TenantStore,
        ingest::{Ingest, Ingested},
        known::{Known, Locations},
        lost::Lost,
        meta::{Metadata, NewTree},
        unfinished::TakenOver,
        upload::{Gate, Uploader},
        workers::blocking,
    },
    format::{
        Unknown,
        manifest::Manifest,
        record::{Record, Source, State},
        segment::SegmentWriter,
    },
    id::SnapshotId,
    name::Lineage,
    progress::Progress,
    scratch::{self, Scratch},
    tree::walk::Skipped,
};

/// How much of the tenant's indexes is looked at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;

/// What to take in, and what to write down about it.
#[derive(Clone, Debug)]
pub struct Request {
    pub lineage: Lineage,
    /// What the archive is called, for people; and for the record, with what it is.
    pub name: String,
    pub source: (&'static str, String),
    /// What is said of the archive; it must be true.
    pub manifest: Option<Manifest>,
    /// What is written down where the manifest says nothing.
    pub about: About,
    /// An archive that holds more is refused.
    pub max_bytes: u64,
    /// How much the tenant may have stored when this is done; more is refused.
    pub quota_bytes: Option<u64>,
    pub threads: usize,
    /// Looks at the databases, which are put aside for it below this directory.
    pub judge: Option<(Arc<dyn Judge>, PathBuf)>,
}

/// A snapshot that was made of an archive; no pointer was moved.
#[derive(Clone, Debug)]
pub struct Imported {
    pub record: Record,
    pub snapshot_id: SnapshotId,
    pub outcome: Outcome,
    /// Why the pointer should not be moved to it.
    pub held_back: Option<HoldBack>,
    pub arrived: Arrived,
    pub skipped: Skipped,
    pub taken_over: TakenOver,
    pub elapsed: Duration,
}

/// Stores what `stream` holds as a snapshot, built on `base` if there is one.
pub async fn import(
    store: &TenantStore,
    request: Request,
    base: Option<Record>,
    stream: Box<dyn Read + Send>,
    progress: Arc<dyn Progress>,
) -> Result<Imported> {
    let started = Instant::now();
    let base = Base::load(store, base).await;
    let damage = base.record.as_ref().and_then(|record| record.damage.as_ref());
    let lost = damage.map(Lost::from).unwrap_or_default();
    let unfinished = read_unfinished(store).await?;
    let known = Known::new(base.locations, None).without(lost).beside(unfinished);
    let known = Arc::new(known);
    let (source, lineage) = (("archive", request.name.as_ref()), request.lineage.clone());
    let draft =
        draft(store, &lineage, request.about.clone(), base.record.as_ref(), Totals::default(), source);
    let lease = WriteLease::new(store.clone(), lineage, draft, Arc::clone(&known));
    let lease = Arc::new(lease.within(request.quota_bytes).listing_packs().kept());
    let gate = Arc::clone(&lease) as Arc<dyn Gate>;
    let uploader = Arc::new(Uploader::new(store.clone(), gate, Arc::clone(&progress)).noting());
    let ingest = Ingest::new(store.clone(), Arc::clone(&known), Arc::clone(&uploader), Arc::clone(&progress));
    progress.begin("import", 0, request.manifest.as_ref().map_or(0, |of| of.uncompressed_size_bytes));
    let writing = Writing {
        store,
        request: &request,
        base: (base.record, base.metadata),
        known: &known,
        lease: &lease,
        uploader: &uploader,
    };
    let imported = writing.run(ingest, stream, progress).await;
    // Nothing may still be uploading under a lease that is given up; and if an upload
    // failed, that is why the rest did.
    let imported = match (imported, uploader.finish().await) {
        (Err(Error::Internal { .. }), Err(cause)) => Err(cause),
        (imported, _) => imported,
    };
    if !matches!(&imported, Ok(Imported { outcome: Outcome::Stored, .. })) {
        lease.abandon().await;
    }
    Ok(Imported { elapsed: started.elapsed(), ..imported? })
}

/// What a snapshot of an archive is built on.
#[derive(Default)]
struct Base {
    record: Option<Record>,
    metadata: Option<Arc<Metadata>>,
    locations: Locations,
}

impl Base {
    /// One that cannot be read must not keep anybody from storing a good snapshot after it.
    async fn load(store: &TenantStore, record: Option<Record>) -> Self {
        let Some(record) = record else { return Self::default() };
        let Some(content) = &record.content else { return Self::default() };
        let loaded = Metadata::load(store, record.record, record.generation, content).await;
        match loaded.and_then(|metadata| Ok((metadata.decode()?, metadata))) {
            Ok(((entries, locations), metadata)) => {
                let locations = by_id(&entries, locations);
                Self { record: Some(record), metadata: Some(Arc::new(metadata)), locations }
            }
            Err(error) => {
                tracing::warn!(record = %record.record, %error, "the current snapshot cannot be built on");
                Self::default()
            }
        }
    }
}

struct Writing<'a> {
    store: &'a TenantStore,
    request: &'a Request,
    base: (Option<Record>, Option<Arc<Metadata>>),
    known: &'a Arc<Known>,
    lease: &'a WriteLease,
    uploader: &'a Uploader,
}

impl Writing<'_> {
    async fn run(
        mut self,
        ingest: Ingest,
        stream: Box<dyn Read + Send>,
        progress: Arc<dyn Progress>,
    ) -> Result<Imported> {
        self.lease.open().await?;
        // Both once the lease exists: a repair that has found something lost by then is done with them, and
        // one that finds it later revokes the lease.
        let (index, arriving) = IndexLoading::begin(self.store, INDEX_BUDGET_BYTES);
        self.known.expect(arriving);
        self.follow_base().await?;
        let imported = self.take_in(ingest, stream, progress).await;
        index.abort();
        imported
    }

    /// Looks at the base again, of which a repair may have found some damaged since it was read, or have
    /// stored it elsewhere.
    async fn follow_base(&mut self) -> Result<()> {
        let Some(before) = &self.base.0 else { return Ok(()) };
        let now = match current(self.store, &self.request.lineage, before.record).await {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => return Ok(()),
            now => now?,
        };
        if now.generation == before.generation && now.damage == before.damage {
            return Ok(());
        }
        let mut lost = now.damage.as_ref().map(Lost::from).unwrap_or_default();
        let base = Base::load(self.store, Some(now)).await;
        match base.metadata.is_some() {
            true => self.known.learn_moved(base.locations),
            // Where it is now is not known, and where it was it is still lost.
            false => lost.add(&self.known.lost()),
        }
        self.known.learn_lost(lost);
        self.base = (base.record, base.metadata);
        Ok(())
    }

    async fn take_in(
        self,
        ingest: Ingest,
        stream: Box<dyn Read + Send>,
        progress: Arc<dyn Progress>,
    ) -> Result<Imported> {
        let request = self.request;
        // Ours, and not the reading thread's: whoever gives the import up does not wait for that.
        let scratch = request
            .judge
            .as_ref()
            .map(|(_, below)| Scratch::make(below, scratch::Kind::Import))
            .transpose()?;
        let judge = request.judge.as_ref().zip(scratch.as_ref());
        let judge = judge.map(|((judge, _), scratch)| (Arc::clone(judge), scratch.path().to_owned()));
        let job = stream::Job {
            name: request.name.clone(),
            limits: Limits::of(request.max_bytes),
            manifest: request.manifest.clone(),
            exclusions: request.about.exclusions.clone(),
            judge,
            threads: request.threads,
        };
        let (store, base) = (self.store.clone(), self.base.0.clone());
        let (read, tree, judged, ingested) = blocking(move || {
            let read = job.read(&ingest, stream, &*progress)?;
            let ingested = ingest.flush()?;
            let mut writer = SegmentWriter::default();
            for entry in &read.entries {
                writer.push(entry).map_err(|error| job.bad(format!("{}: {error}", entry.path)))?;
            }
            let judged = job.judge(base.as_ref())?;
            Ok((read, NewTree::new(&store, writer), judged, ingested))
        })
        .await?;
        drop(scratch);
        let snapshot_id = tree.id;
        let held_back = judged.examined.hold_back.clone();
        let stream::Read { entries, arrived, skipped, bytes } = read;
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
        let totals = Totals::of(&entries, skipped, bytes);
        drop(entries);
        let finish = |record: &mut Record| describe(record, request, &arrived, totals, judged, ingested);
        let written =
            Written { store: self.store, lease: self.lease, uploader: self.uploader, known: self.known };
        let Published { record, metadata, taken_over } = written.publish(tree, self.base.1, finish).await?;
        let (store, id, generation) = (self.store.clone(), record.record, record.generation);
        let _ = blocking(move || {
            metadata.remember(&store, id, generation);
            Ok(())
        })
        .await;
        Ok(Imported { taken_over, ..imported(record, Outcome::Stored) })
    }

    /// A live snapshot that was made of this very archive.
    async fn twin(&self, id: SnapshotId, arrived: &Arrived) -> Result<Option<Record>> {
        let sha256 = arrived.sha256.to_string();
        let same = |record: &Record| {
            snapshot_id(record) == Some(id) && record.archive_sha256.as_ref() == Some(&sha256)
        };
        let live = records::live(self.store, &self.request.lineage).await?;
        Ok(live.into_iter().rfind(|record| record.state == State::Live && same(record)))
    }
}

/// Writes down what is known of the archive.
fn describe(
    record: &mut Record,
    request: &Request,
    arrived: &Arrived,
    totals: Totals,
    judged: Judged,
    ingested: Ingested,
) {
    let (chunks, stored_bytes) = (record.counts.chunks, record.counts.stored_bytes);
    record.complete = totals.counts.skipped == 0;
    record.uncompressed_size_bytes = totals.bytes;
    record.counts = totals.counts;
    (record.counts.chunks, record.counts.stored_bytes) = (chunks, stored_bytes);
    (record.counts.new_chunks, record.counts.new_bytes) = (ingested.new_chunks, ingested.new_bytes);
    record.archive_sha256 = Some(arrived.sha256.to_string());
    record.archive_size_bytes = Some(arrived.size);
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
