//! Makes the next snapshot of a tree whose changes are known.
//!
//! Unlike a capture, nothing is walked and nothing that has not changed is read, fetched or
//! looked up in an index: unchanged files keep the extents they have in the base, and the
//! base's own table says where their chunks are.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    again::store_again,
    moved::{by_id, current, lineage_of, packs_of},
    open::Opened,
    publish,
    snapshot::{About, Examined, HoldBack, Outcome, Report, Totals, draft},
    written::{Published, Written},
};
use crate::{
    Error, ErrorKind, Result,
    catalog::{lease::WriteLease, lock::Hold, pointer::Flip},
    content::{
        TenantStore,
        ingest::{Cutter, Files, Ingest, Ingested},
        known::Known,
        lazy::startup::{self, First, Places},
        lost::Lost,
        meta::{Metadata, NewTree},
        reader::Want,
        upload::{Gate, Uploader},
        workers::blocking,
    },
    format::{
        pointer::Target,
        record::Record,
        segment::SegmentWriter,
        table::Location,
        tree::{Entry, Extent, Kind},
    },
    id::{ChunkId, FlipId, RecordId},
    name::Lineage,
    progress::Progress,
    tree::walk::Skipped,
};

/// What to make a snapshot of, and what to write down about it.
#[derive(Debug)]
pub struct Request {
    pub lineage: Lineage,
    /// Where the tree is seen.
    pub path: PathBuf,
    pub about: About,
    pub threads: usize,
    /// What was found about the files.
    pub examined: Examined,
    /// Why the snapshot must not take the place of the current one by itself.
    pub hold_back: Option<HoldBack>,
    /// The chunks of the base that a mount of it read first; without any, what the base says.
    pub first_reads: Vec<ChunkId>,
    /// How much the tenant may have stored when this is done; more is refused.
    pub quota_bytes: Option<u64>,
    /// The id of the flip that moves the pointer to it.
    pub flip_id: FlipId,
    /// How it is published before the pointer is moved to it; without, it is not.
    pub archive: Option<publish::Job>,
}

/// A whole tree; the extents of its changed files are to be found out.
#[derive(Debug)]
pub struct Tree {
    pub entries: Vec<Entry>,
    /// The places of the changed files among the entries, in order.
    pub changed: Vec<usize>,
    pub skipped: Skipped,
    pub bytes: u64,
}

/// The snapshot the tree is built on.
#[derive(Clone, Debug)]
pub struct Base {
    pub record: Record,
    pub metadata: Arc<Metadata>,
}

/// A snapshot that was stored, as whoever goes on from it wants it.
#[derive(Debug)]
pub struct Stored {
    pub record: Record,
    pub metadata: Arc<Metadata>,
    pub entries: Vec<Entry>,
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
    let (old, locations) = match &base {
        Some(base) => base.metadata.decode()?,
        None => (Vec::new(), Vec::new()),
    };
    let lost = base.as_ref().and_then(|base| base.record.damage.as_ref()).map(Lost::from);
    let known = Arc::new(Known::new(by_id(&old, locations), None).without(lost.unwrap_or_default()));
    let totals = Totals::of(&tree.entries, tree.skipped, tree.bytes);
    let source = ("mount", request.path.as_path());
    let base_record = base.as_ref().map(|base| &base.record);
    let draft = draft(store, &request.lineage, request.about.clone(), base_record, totals, source);
    let lease = WriteLease::new(store.clone(), request.lineage.clone(), draft, Arc::clone(&known));
    let lease = Arc::new(lease.within(request.quota_bytes).kept());
    let gate = Arc::clone(&lease) as Arc<dyn Gate>;
    let uploader = Arc::new(Uploader::new(store.clone(), gate, Arc::clone(&progress)));
    let told = Arc::clone(&progress);
    let ingest = Ingest::new(store.clone(), Arc::clone(&known), Arc::clone(&uploader), progress);
    let writing = Writing { store, lease: &lease, uploader: &uploader, known: &known, old };
    let (changed, skipped, threads) = (tree.changed.len() as u64, tree.skipped, request.threads);
    let written = Box::pin(writing.write(&request, tree, files, base, ingest, threads, intend)).await;
    // Nothing may still be uploading under a lease that is given up.
    let finished = uploader.finish().await;
    let written = match (written, finished) {
        (Err(Error::Internal { .. }), Err(cause)) => Err(cause),
        (written, _) => written,
    };
    let Ok(Ended { mut record, held_back, mut stored }) = written else {
        lease.abandon().await;
        return Err(written.err().unwrap_or(Error::Interrupted));
    };
    if stored.is_none() {
        lease.abandon().await;
    }
    let (mut flip, job) = (Flip::Unchanged, request.archive.as_ref());
    if let (Some(hold), None) = (hold, &held_back) {
        match &mut stored {
            Some(stored) => {
                (record, flip) = publish::flip(hold, record, request.flip_id, job, told).await?;
                stored.record = record.clone();
            }
            None => {
                let pointer = hold.pointer().await;
                let job = job.filter(|_| pointer.target() == Target::Record(record.record));
                let seen = pointer.contract_only_seen();
                record = publish::named_already(hold.controls(), seen, record, job, told).await?;
            }
        }
    }
    if let (Some(hold), Some(held), Some(_)) = (hold, &held_back, &stored) {
        hold.controls().tell_held_back(&record, &held.reason).await;
    }
    let files = record.counts.files;
    let outcome = if stored.is_some() { Outcome::Stored } else { Outcome::Unchanged };
    let snapshot_id = super::snapshot::snapshot_id(&record)
        .ok_or_else(|| Error::Internal { what: "a record without content".to_owned() })?;
    let report = Report {
        held_back,
        skipped,
        reused_files: files.saturating_sub(changed),
        read_files: changed,
        elapsed: started.elapsed().max(Duration::from_micros(1)),
        ..Report::of(&record, snapshot_id, outcome, flip)
    };
    Ok((report, stored))
}

struct Writing<'a> {
    store: &'a TenantStore,
    lease: &'a WriteLease,
    uploader: &'a Arc<Uploader>,
    known: &'a Arc<Known>,
    /// The entries of the base.
    old: Vec<Entry>,
}

struct Ended {
    record: Record,
    held_back: Option<HoldBack>,
    /// `None` if nothing has changed.
    stored: Option<Stored>,
}

impl Writing<'_> {
    #[expect(clippy::too_many_arguments, reason = "each is used up here")]
    async fn write(
        &self,
        request: &Request,
        tree: Tree,
        files: Arc<dyn Files + Send>,
        base: Option<Base>,
        ingest: Ingest,
        threads: usize,
        intend: impl AsyncFnOnce(RecordId) -> Result<()>,
    ) -> Result<Ended> {
        let Tree { mut entries, changed, .. } = tree;
        let (store, places) = (self.store.clone(), self.first_reads(request, base.as_ref()));
        let rewritten = Arc::new(Rewritten { files, changed, first: places.clone(), ingest, threads });
        let reading = Arc::clone(&rewritten);
        let (entries, new, mut ingested) = blocking(move || {
            let all: Vec<usize> = (0..reading.changed.len()).collect();
            let (extents, ingested) = reading.store(&entries, &all)?;
            for (at, extents) in reading.changed.iter().zip(extents) {
                set_extents(&mut entries[*at], extents);
            }
            let mut writer = SegmentWriter::default();
            for entry in &entries {
                writer.push(entry).map_err(|error| Error::InvalidInput {
                    what: format!("{} cannot be stored: {error}", entry.path),
                })?;
            }
            Ok((entries, NewTree::new(&store, writer), ingested))
        })
        .await?;
        let (base_record, base_metadata) = match base {
            Some(base) => (Some(base.record), Some(base.metadata)),
            None => (None, None),
        };
        if let Some(record) = &base_record
            && lineage_of(record) == request.lineage
            && super::snapshot::snapshot_id(record) == Some(new.id)
            && self.holds_all(record, &rewritten, ingested).await
        {
            return Ok(Ended { record: record.clone(), held_back: None, stored: None });
        }
        // From here on the lease exists, so what is barred is known.
        let record = self.lease.open().await?;
        // Both are waited for, whatever becomes of the other: what is intended may be taken back.
        let following = Box::pin(self.follow_base(&entries, base_record, base_metadata));
        let (followed, intended) = futures::future::join(following, intend(record)).await;
        intended?;
        let (base_metadata, again) = followed?;
        let hit = self.hit(&entries, &rewritten.changed);
        let entries = match hit.is_empty() {
            true => entries,
            false => {
                let stored = blocking(move || Ok((rewritten.store(&entries, &hit)?.1, entries))).await?;
                ingested = stored.0;
                stored.1
            }
        };
        let held_back = request.hold_back.clone().or_else(|| request.examined.hold_back.clone());
        let (health, word) = (request.examined.health.clone(), held_back.as_ref().map(|held| held.word));
        let startup = places.plan(&entries);
        let finish = |record: &mut Record| {
            record.startup = startup;
            record.health = health;
            record.held_back = word.map(ToOwned::to_owned);
            record.counts.new_chunks = ingested.new_chunks + again.new_chunks;
            record.counts.new_bytes = ingested.new_bytes + again.new_bytes;
        };
        let written =
            Written { store: self.store, lease: self.lease, uploader: self.uploader, known: self.known };
        let Published { record, metadata, .. } = written.publish(new, base_metadata, finish).await?;
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
        let now = current(self.store, &lineage_of(base), base.record).await;
        ingested.new_chunks == 0 && now.is_ok_and(|now| now.damage == base.damage)
    }

    /// Those of the changed files, by number, that need a chunk which the base turned out to have lost.
    fn hit(&self, entries: &[Entry], changed: &[usize]) -> Vec<usize> {
        let is_lost = |id: &ChunkId| {
            self.uploader.locate(id).is_none()
                && self.known.locate(id).is_none()
                && self.known.locate_lost(id).is_some()
        };
        let is_hit = |at: usize| entries[at].chunks().any(|(id, _)| is_lost(&id));
        (0..changed.len()).filter(|number| is_hit(changed[*number])).collect()
    }

    /// What is read first, by the mount that commits, or else by those before it.
    fn first_reads(&self, request: &Request, base: Option<&Base>) -> Places {
        match (request.first_reads.as_slice(), base) {
            ([], Some(base)) => Places::of(&startup::reads_of(&base.record.startup, &self.old), &self.old),
            (first_reads, _) => Places::of(first_reads, &self.old),
        }
    }

    /// The metadata of the base, read anew if it is not what it was: chunks were moved since, by a
    /// collection or by a repair that had a good copy, or what they lie in is about to go. What
    /// may not be referred to even where it is now, but is still there, is stored again.
    async fn follow_base(
        &self,
        entries: &[Entry],
        record: Option<Record>,
        metadata: Option<Arc<Metadata>>,
    ) -> Result<(Option<Arc<Metadata>>, Ingested)> {
        let lost = |id: &ChunkId, entry: &Entry| {
            Error::damaged(
                format!("the snapshot {} is built on", entry.path),
                format!("chunk {id} is gone, or about to be collected"),
            )
        };
        let Some(before) = record else {
            self.lease.look_at_packs().await?;
            let unresolved = self.unresolved(entries).await?;
            return match unresolved.into_iter().next() {
                Some((id, (_, entry))) => Err(lost(&id, entry)),
                None => Ok((metadata, Ingested::default())),
            };
        };
        let lineage = lineage_of(&before);
        let now = current(self.store, &lineage, before.record);
        let (looked, now) = futures::future::join(self.lease.look_at_packs(), now).await;
        looked?;
        if let Ok(now) = &now {
            self.known.is_there(packs_of(now));
        }
        let is_whole = self.unresolved(entries).await?.is_empty();
        let now = match now {
            // It was deleted since. All that is needed of it is there, and nothing may take it.
            Err(error) if error.kind() == ErrorKind::NotFound && is_whole => {
                return Ok((metadata, Ingested::default()));
            }
            now => now?,
        };
        // Even if it is the same, the metadata may be that of an earlier generation.
        let is_same = now.generation == before.generation && now.damage == before.damage;
        if is_same && is_whole {
            return Ok((metadata, Ingested::default()));
        }
        let opened = Opened::load(self.store, now).await?;
        let lost_now = opened.record.damage.as_ref().map(Lost::from).unwrap_or_default();
        // In this order: what is no longer lost is found where it is now.
        self.known.learn_moved(by_id(&opened.entries, opened.locations));
        self.known.learn_lost(lost_now);
        let mut wants = Vec::new();
        for (id, (raw_len, entry)) in self.unresolved(entries).await? {
            let location = self.known.locate_barred(&id).ok_or_else(|| lost(&id, entry))?;
            wants.push(Want { id, raw_len, location, purpose: () });
        }
        let again = match store_again(self.store, self.uploader, wants).await {
            Err(missing @ Error::Missing { .. }) => {
                // If it was moved once more, the next attempt finds it.
                let later = current(self.store, &lineage, before.record).await?;
                let moved = later.generation != opened.record.generation;
                let what = format!("record {} of {lineage}", before.record);
                return Err(if moved { Error::Conflict { what } } else { missing });
            }
            again => again?,
        };
        Ok((Some(Arc::new(opened.metadata)), again))
    }

    /// The chunks that this write neither stores nor may refer to, with their length and an
    /// entry that needs them. What is damaged stays so: whoever builds on it has no other.
    async fn unresolved<'e>(&self, entries: &'e [Entry]) -> Result<HashMap<ChunkId, (u32, &'e Entry)>> {
        loop {
            let (mut missing, mut packs) = (HashMap::new(), HashSet::new());
            for (entry, (id, raw_len)) in entries.iter().flat_map(|e| e.chunks().map(move |chunk| (e, chunk)))
            {
                if self.uploader.locate(&id).is_some() {
                    continue;
                }
                match self.known.locate(&id) {
                    Some(location) => drop(packs.insert(location.pack)),
                    None if self.known.locate_lost(&id).is_some() => {}
                    None => drop(missing.insert(id, (raw_len, entry))),
                }
            }
            if self.lease.make_sure_of(packs).await? {
                return Ok(missing);
            }
        }
    }
}

/// The changed files of a tree, and what is needed to store them.
struct Rewritten {
    files: Arc<dyn Files + Send>,
    /// The places of their entries.
    changed: Vec<usize>,
    first: Places,
    ingest: Ingest,
    threads: usize,
}

impl Rewritten {
    /// Stores what is new of those that are `chosen`, by number; blocking. With the extents of each, and
    /// how much was stored so far.
    fn store(&self, entries: &[Entry], chosen: &[usize]) -> Result<(Vec<Vec<Extent>>, Ingested)> {
        let extents = match chosen.is_empty() {
            true => Vec::new(),
            false => {
                let first = First::of(&self.first, entries);
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

fn set_extents(entry: &mut Entry, new: Vec<Extent>) {
    if let Kind::File { size, extents } = &mut entry.kind {
        *size = new.iter().map(Extent::len).sum();
        *extents = new;
    }
}
