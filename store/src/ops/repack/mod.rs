//! Moves what snapshots need out of packs of which little is needed, so that those can go.
//!
//! A repack is a write like any other, with one difference: its records are there already.
//! Its lease lists the records that it will replace. Then:
//!
//! 1. The frames that are needed are copied as they are into new packs; then the tables that
//!    say where they lie are written anew, and the index of the new packs.
//! 2. For each record: **read it, then make sure that the lease is still ours, then replace
//!    the very record that was read**. Whoever revokes the lease touches the records it lists
//!    after that, so a replacement that comes later fails.
//! 3. The lease ends. Nothing refers to the old packs now but readers; a collection condemns
//!    them like any others.
//!
//! A record that somebody else has changed meanwhile is read again; one whose content is
//! another by now is left as it is. A source that is gone or damaged ends the repack: what it
//! has stored by then is removed if nothing names it yet, else it is garbage. If it is not known whether a record was replaced, the lease
//! is left to expire, so that a collection settles it.
//!
//! A record remembers what its earlier generations needed for as long as a pin on one of them
//! was seen: readers that pinned it then find what they have pinned.

mod copy;
mod rehearsal;
mod source;
mod survey;
mod update;

pub use rehearsal::Rehearsal;
pub use source::{Frame, Part, Source};
pub use survey::{Frames, Needed, Survey, survey};

use std::sync::{Mutex, PoisonError};

use crate::{
    Error, Result,
    bucket::Depth,
    catalog::{clock, lease::WriteLease, pins, records::list_all, rules::Rules},
    content::{
        TenantStore,
        known::Known,
        meta::{MetaPack, Metadata},
        upload::Gate,
    },
    format::{
        layout,
        record::{Content, Counts, Reason, Record, State},
        table::Location,
    },
    id::{PackId, RecordId},
    name::Lineage,
};

/// What is held of each frame that is moved until the end of the write, about.
pub const FRAME_BYTES: u64 = 512;

/// What became of a repack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Whose packs these are.
    pub write: Option<RecordId>,
    /// Records that refer to the new packs.
    pub records: u64,
    pub stored_bytes: u64,
}

/// Why a repack was given up. Nothing was lost by it.
#[derive(Debug)]
pub struct Failed {
    pub error: Error,
    /// The pack that could not be read, if it was one.
    pub pack: Option<PackId>,
    /// Whether it is not known if a record was replaced.
    unclear: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, pack: None, unclear: false }
    }
}

/// Moves what `survey` has found to new packs.
pub async fn run(store: &TenantStore, survey: &Survey, rules: Rules) -> Result<Moved, Failed> {
    run_from(store, survey, &source::Packs::new(store, survey), rules).await
}

/// Moves what `survey` has found, as far as `source` has it.
pub async fn run_from(
    store: &TenantStore,
    survey: &Survey,
    source: &dyn Source,
    rules: Rules,
) -> Result<Moved, Failed> {
    let leases = Leases::of(store, survey, rules);
    let ended = leases.run(survey, source).await;
    if ended.is_err()
        && let Some(write) = leases.unnamed.get()
    {
        // Nothing names them, and a store that is full needs the space now.
        remove_packs(store, write).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "what was copied in vain is left to the next collection");
        });
    }
    if !ended.as_ref().is_err_and(|failed| failed.unclear) {
        for (_, lease) in &leases.leases {
            lease.abandon().await;
        }
    }
    ended
}

/// One lease for each lineage that has records to be replaced. All of them exist before
/// anything is stored; packs carry the name of the first.
struct Leases<'a> {
    store: &'a TenantStore,
    leases: Vec<(Lineage, WriteLease)>,
    rules: Rules,
    /// The write, for as long as no index and no record names its packs.
    unnamed: Unnamed,
}

#[derive(Default)]
struct Unnamed(Mutex<Option<RecordId>>);

impl Unnamed {
    fn set(&self, write: Option<RecordId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = write;
    }

    fn get(&self) -> Option<RecordId> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Leases<'a> {
    fn of(store: &'a TenantStore, survey: &Survey, rules: Rules) -> Self {
        let mut leases: Vec<(Lineage, Vec<RecordId>, Record)> = Vec::new();
        for (lineage, record) in &survey.records {
            match leases.iter_mut().find(|(known, ..)| known == lineage) {
                Some((_, updates, _)) => updates.push(record.record),
                None => leases.push((lineage.clone(), vec![record.record], record.clone())),
            }
        }
        let leases = leases.into_iter().map(|(lineage, updates, like)| {
            let draft = draft(like, updates);
            let lease = WriteLease::new(store.clone(), lineage.clone(), draft, Known::default().into());
            (lineage, lease.kept())
        });
        Self { store, leases: leases.collect(), rules, unnamed: Unnamed::default() }
    }

    async fn run(&self, survey: &Survey, source: &dyn Source) -> Result<Moved, Failed> {
        if self.leases.is_empty() {
            return Ok(Moved::default());
        }
        let write = self.open().await?;
        self.unnamed.set(Some(write));
        // After the records were read: a pin on a generation before theirs is there, or never holds.
        let pins = pins::read(self.store).await?;
        for (_, record) in &survey.records {
            let mut packs = record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack);
            let pack = packs.find(|pack| survey.packs.contains_key(pack));
            update::check_room(record, &pins).map_err(|error| Failed { pack, ..error.into() })?;
        }
        let copied = copy::copy(self.store, self, write, survey, source).await?;
        let mut meta = MetaPack::new(self.store, write)?;
        let mut updates = Vec::new();
        for (lineage, record) in &survey.records {
            let Some(metadata) = source.metadata(record).await? else { continue };
            let Some(before) = &record.content else { continue };
            let needs = |pack: &PackId| survey.packs.contains_key(pack);
            let place = |location: &Location| copied.places.get(&(location.pack, location.offset)).copied();
            let moved = moved(&mut meta, self.store, before.root.pack, &metadata, place, needs)?;
            let Some((after, _)) = moved else { continue };
            if source.is_complete()
                && let Some(used) = after.packs.iter().find(|used| needs(&used.pack))
            {
                let what = format!("record {} still needs pack {}", record.record, used.pack);
                return Err(Error::Internal { what }.into());
            }
            updates.push(update::Update { lineage, record, after });
        }
        if updates.is_empty() {
            return Ok(Moved::default());
        }
        let (_, first) = &self.leases[0];
        // Who reads the index from now on may refer to them.
        self.unnamed.set(None);
        let durable = first.upload_metadata(copied.packs, &meta.seal(self.store)).await?;
        let mut moved = Moved { write: Some(write), records: 0, stored_bytes: durable.stored_bytes };
        for update in updates {
            let Some((_, lease)) = self.leases.iter().find(|(lineage, _)| lineage == update.lineage) else {
                continue;
            };
            // Renewed when due: there may be many records.
            self.open().await?;
            moved.records += u64::from(update.apply(self.store, lease, &pins, self.rules).await?);
        }
        Ok(moved)
    }
}

#[async_trait::async_trait]
impl Gate for Leases<'_> {
    async fn open(&self) -> Result<RecordId> {
        let mut first = None;
        for (_, lease) in &self.leases {
            let id = lease.open().await?;
            first = first.or(Some(id));
        }
        first.ok_or_else(|| Error::Internal { what: "a repack without a lease".to_owned() })
    }
}

/// What a snapshot is when its chunks lie where `place` says, and nothing of it in a pack that is emptied.
/// `None` if it is that already.
fn moved(
    meta: &mut MetaPack,
    store: &TenantStore,
    root: PackId,
    metadata: &Metadata,
    place: impl Fn(&Location) -> Option<Location>,
    is_emptied: impl Fn(&PackId) -> bool,
) -> Result<Option<(Content, Metadata)>> {
    let mut blobs = metadata.root.blobs().map(|blob| blob.pack).chain([root]);
    let moves = |location: &Location| place(location).is_some();
    if !blobs.any(|pack| is_emptied(&pack)) && !metadata.tables()?.iter().flatten().any(moves) {
        return Ok(None);
    }
    meta.add_moved(store, metadata, place, is_emptied).map(Some)
}

async fn remove_packs(store: &TenantStore, write: RecordId) -> Result<()> {
    let (packs, _) = list_all(&*store.bucket, &layout::packs(&store.tenant), Depth::All).await?;
    for entry in packs {
        if entry.key.name().parse().is_ok_and(|pack: PackId| pack.write == write) {
            store.bucket.delete(&entry.key).await?;
        }
    }
    Ok(())
}

/// The record that is the lease. It never becomes a snapshot.
fn draft(like: Record, updates: Vec<RecordId>) -> Record {
    Record {
        archive_sha256: None,
        archive_size_bytes: None,
        uncompressed_size_bytes: 0,
        captured_at_ms: clock::unix_ms(),
        predecessor_sha256: String::new(),
        notes: String::new(),
        state: State::Writing,
        generation: 0,
        lease_seq: 0,
        stored_at_ms: None,
        parent: None,
        updates,
        reason: Reason::moving(),
        labels: Default::default(),
        counts: Counts::default(),
        content: None,
        earlier: Vec::new(),
        damage: None,
        health: None,
        held_back: None,
        fallback: None,
        startup: Default::default(),
        tags: Default::default(),
        deletion: None,
        ..like
    }
}
