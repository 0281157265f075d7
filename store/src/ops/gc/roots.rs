//! Reads records, pointers and pins, and marks the packs that they need.
//!
//! Memory goes with the number of records, not of chunks: a record lists the packs it needs,
//! and of those no more are kept in memory than is allowed.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Duration, SystemTime},
};

use futures::{StreamExt, stream};

use super::{
    inventory::each,
    plan::Stranded,
    spill_map::{Line, Room, SpillMap, number},
};
use crate::{
    Error, Result,
    bucket::{Entry, Key, Stamp},
    catalog::{lease::LEASE_TTL, pins, pointer, records, rules::Rules},
    content::TenantStore,
    format::{
        layout,
        pin::Pin,
        pointer::Target,
        record::{Reason, Record, State},
    },
    id::RecordId,
    name::{Lineage, ProfileName},
    ops::gc::repack::DryRun,
};

const REQUESTS_AT_ONCE: usize = 16;

/// A listing of the catalog.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub records: Vec<(RecordId, Lineage)>,
    pointers: Vec<Lineage>,
    events: HashMap<Lineage, Vec<Entry>>,
    tombstones: HashSet<ProfileName>,
}

impl Catalog {
    pub(super) async fn list(store: &TenantStore) -> Result<Self> {
        let mut catalog = Self::default();
        let mut strange: Option<Key> = None;
        each(&*store.bucket, &layout::snapshots(&store.tenant), |entry| {
            let name = entry.key.name();
            let is_record = name.starts_with("snap-") && name.ends_with(".json");
            if !is_record && name != "latest.json" {
                if let Some(lineage) = layout::lineage_of_event(&store.tenant, &entry.key) {
                    catalog.events.entry(lineage).or_default().push(entry);
                } else {
                    catalog.tombstones.extend(layout::tombstone_of(&store.tenant, &entry.key));
                }
                return;
            }
            match (layout::lineage_of(&store.tenant, &entry.key), layout::record_of(&entry.key)) {
                (Some(lineage), Some(id)) if is_record => catalog.records.push((id, lineage)),
                (Some(lineage), _) if !is_record => catalog.pointers.push(lineage),
                _ => strange = Some(entry.key),
            }
        })
        .await?;
        match strange {
            None => Ok(catalog),
            // It may be a root that this code does not know how to read.
            Some(key) => Err(Error::damaged(
                key,
                "it is named like a record or a pointer, but not as pstore names them; \
                 nothing is collected while it is there",
            )),
        }
    }
}

/// One record, as it was seen.
#[derive(Clone, Debug)]
pub(super) struct SeenRecord {
    pub lineage: u32,
    pub state: State,
    pub generation: u64,
    /// Since it was last written.
    pub age: Duration,
    /// It rewrites other records.
    updates: bool,
    /// It moves chunks of others, or did.
    pub moves: bool,
    /// An archive of it is on its way into the bucket, or was.
    pub publishing: bool,
}

impl SeenRecord {
    /// Whether it will never again change the content of any record.
    pub(super) fn has_ended(&self) -> bool {
        // Revoked, but what it was to rewrite may not be closed to it yet.
        let unsettled = self.state == State::Revoked && self.updates;
        !matches!(self.state, State::Writing) && !unsettled
    }

    /// Whether somebody moves chunks now.
    pub(super) fn is_moving(&self) -> bool {
        self.state == State::Writing && self.updates
    }

    pub(super) fn has_expired(&self) -> bool {
        self.state == State::Writing && self.age > LEASE_TTL
    }
}

/// How one pack is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    pub roots: u32,
    /// The largest need of a single root: at least so much of it is alive.
    pub live_bytes: u64,
    /// Something needs it that cannot be made to refer to another: it must stay where it is.
    pub is_fixed: bool,
}

impl Line for Need {
    const LEN: usize = 17;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&u64::from(self.roots).to_le_bytes());
        out.extend_from_slice(&self.live_bytes.to_le_bytes());
        out.push(self.is_fixed.into());
    }

    fn take(bytes: &[u8]) -> Self {
        let (roots, live_bytes) = (number(bytes, 0) as u32, number(bytes, 8));
        Self { roots, live_bytes, is_fixed: bytes[16] != 0 }
    }

    fn and(self, other: Self) -> Self {
        Self {
            roots: self.roots.saturating_add(other.roots),
            live_bytes: self.live_bytes.max(other.live_bytes),
            is_fixed: self.is_fixed | other.is_fixed,
        }
    }
}

/// All roots and their needs.
#[derive(Debug)]
pub(super) struct Marks {
    pub lineages: Vec<Lineage>,
    pub records: HashMap<RecordId, SeenRecord>,
    pub packs: SpillMap<Need>,
    pub pins: Vec<pins::FoundPin>,
    /// The target of each pointer, and the base of the run that has claimed it, with the lineage's number.
    pub pointed: Vec<(RecordId, u32)>,
    /// The sessions whose root is on a record that is missing.
    pub stranded: Vec<Stranded>,
    /// The profiles that were deleted; all of them, if their tenant was.
    pub tombstones: HashSet<ProfileName>,
    pub tenant_is_deleted: bool,
    /// The lineages whose pointers name something.
    pub current: HashSet<Lineage>,
    /// The listed events of each lineage.
    pub events: HashMap<Lineage, Vec<Entry>>,
    /// The latest time the store has told.
    pub now: Option<SystemTime>,
}

impl Marks {
    /// Records, then pointers and pins: a pin that is missed was made on a record that has
    /// been seen in the state that was pinned.
    /// Records are read as the dry run would have left them.
    pub(super) async fn make(
        store: &TenantStore,
        rules: Rules,
        room: Room,
        dry_run: &DryRun,
    ) -> Result<Self> {
        let early = if rules.pins_after_records { None } else { Some(pins::read(store).await?) };
        let catalog = Catalog::list(store).await?;
        let mut marks = Self {
            lineages: Vec::new(),
            records: HashMap::new(),
            packs: SpillMap::new(room),
            pins: Vec::new(),
            pointed: Vec::new(),
            stranded: Vec::new(),
            tombstones: catalog.tombstones,
            tenant_is_deleted: store.config.deletion.is_some(),
            current: HashSet::new(),
            events: catalog.events,
            now: None,
        };
        let mut numbers: HashMap<Lineage, u32> = HashMap::new();
        let mut read = stream::iter(catalog.records)
            .map(|(id, lineage)| async move { (id, dry_run.get(store, &lineage, id).await, lineage) })
            .buffered(REQUESTS_AT_ONCE);
        while let Some((id, found, lineage)) = read.next().await {
            // An old tombstone may go while we look.
            let Some((record, stamp)) = found? else { continue };
            let number = *numbers.entry(lineage).or_insert_with_key(|lineage| {
                marks.lineages.push(lineage.clone());
                (marks.lineages.len() - 1) as u32
            });
            marks.now = marks.now.max(Some(stamp.now));
            if matches!(record.state, State::Live | State::Trashed) {
                marks.mark(&record, record.state == State::Trashed)?;
            }
            marks.records.insert(id, SeenRecord::of(&record, number, stamp));
        }
        drop(read);
        let mut pointers = stream::iter(catalog.pointers)
            .map(|lineage| async move { (pointer::read(store, &lineage).await, lineage) })
            .buffered(REQUESTS_AT_ONCE);
        while let Some((found, lineage)) = pointers.next().await {
            let Some(read) = found? else { continue };
            if read.pointer.target() != Target::Nothing {
                marks.current.insert(lineage.clone());
            }
            let number = *numbers.entry(lineage).or_insert_with_key(|lineage| {
                marks.lineages.push(lineage.clone());
                (marks.lineages.len() - 1) as u32
            });
            let active = match read.pointer.target() {
                Target::Record(record) => Some(record),
                Target::Nothing | Target::Foreign(_) => None,
            };
            let base = read.pointer.block().and_then(|block| block.lease.as_ref()?.base);
            marks.pointed.extend([active, base].into_iter().flatten().map(|record| (record, number)));
        }
        drop(pointers);
        marks.pins = match early {
            Some(pins) => pins,
            None => pins::read(store).await?,
        };
        marks.mark_named(store, rules, dry_run).await?;
        marks.find_stranded(store, dry_run).await?;
        Ok(marks)
    }

    /// Roots of sessions on records that were not listed, and are not there: a record that a root names is
    /// never removed, so it was lost.
    async fn find_stranded(&mut self, store: &TenantStore, dry_run: &DryRun) -> Result<()> {
        let mut found = BTreeSet::new();
        for Pin { session, record, .. } in
            self.pins.iter().filter(|found| found.holds).map(|found| &found.pin)
        {
            let Some(session) = session.as_ref().filter(|_| !self.records.contains_key(record)) else {
                continue;
            };
            let name = ProfileName { tenant: store.tenant.clone(), profile: session.profile_id.clone() };
            let lineage = Lineage { name, chrome_major: session.chrome_major_version };
            if dry_run.get(store, &lineage, *record).await?.is_none() {
                let (session, host) = (session.id, session.host.clone());
                found.insert(Stranded { session, host, lineage, record: *record });
            }
        }
        self.stranded = found.into_iter().collect();
        Ok(())
    }

    /// Marks the targets of pointers and pins, which are roots in any state.
    async fn mark_named(&mut self, store: &TenantStore, rules: Rules, dry_run: &DryRun) -> Result<()> {
        let pinned = self.pins.iter().filter(|found| found.holds);
        let pinned = pinned.map(|found| (found.pin.record, found.pin.kept_generation()));
        let pointed = self.pointed.iter().map(|(record, _)| (*record, None));
        let named: Vec<(RecordId, Option<u64>)> = pinned.chain(pointed).collect();
        self.mark_unlisted(store, dry_run).await?;
        for (id, generation) in named {
            let Some(seen) = self.records.get(&id) else { continue };
            let same = generation.is_none_or(|generation| generation == seen.generation);
            if same && matches!(seen.state, State::Live | State::Trashed) {
                continue;
            }
            let lineage = self.lineages[seen.lineage as usize].clone();
            let Some((record, _)) = dry_run.get(store, &lineage, id).await? else { continue };
            self.mark(&record, true)?;
            if !rules.keep_pinned_generations {
                continue;
            }
            // One that is not remembered was pinned after it was over: who did that will see it.
            for earlier in record.earlier.iter().filter(|earlier| Some(earlier.generation) == generation) {
                for pack in &earlier.packs {
                    self.packs.add(*pack, Need { roots: 1, live_bytes: 0, is_fixed: true })?;
                }
            }
        }
        Ok(())
    }

    /// Marks the targets of pointers that were not listed: stored since, or lost. If the record of a
    /// snapshot is lost, nothing tells which packs it needs, so none may go.
    async fn mark_unlisted(&mut self, store: &TenantStore, dry_run: &DryRun) -> Result<()> {
        let unlisted = self.pointed.iter().filter(|(id, _)| !self.records.contains_key(id));
        for (id, lineage) in unlisted.copied().collect::<Vec<_>>() {
            let lineage = self.lineages[lineage as usize].clone();
            match dry_run.get(store, &lineage, id).await? {
                Some((record, _)) => self.mark(&record, true)?,
                None => {
                    return Err(Error::damaged(
                        layout::latest(&lineage),
                        format!(
                            "it names record {id}, which is missing; nothing is collected until \
                             the pointer of {lineage} is moved to another snapshot"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn mark(&mut self, record: &Record, is_fixed: bool) -> Result<()> {
        for used in record.content.iter().flat_map(|content| &content.packs) {
            self.packs.add(used.pack, Need { roots: 1, live_bytes: used.live_bytes, is_fixed })?;
        }
        Ok(())
    }

    /// Whether a record is of a profile that was deleted, and nothing made a snapshot of it
    /// current since.
    pub(super) fn is_doomed(&self, seen: &SeenRecord) -> bool {
        self.is_buried(self.lineage(seen))
    }

    pub(super) fn is_buried(&self, lineage: &Lineage) -> bool {
        (self.tenant_is_deleted || self.tombstones.contains(&lineage.name)) && !self.current.contains(lineage)
    }

    pub(super) fn lineage(&self, seen: &SeenRecord) -> &Lineage {
        &self.lineages[seen.lineage as usize]
    }
}

impl SeenRecord {
    fn of(record: &Record, lineage: u32, stamp: Stamp) -> Self {
        Self {
            lineage,
            state: record.state,
            generation: record.generation,
            age: stamp.age(),
            publishing: record.state == State::Live && record.publishing.is_some(),
            updates: !record.updates.is_empty(),
            moves: record.reason == Reason::moving(),
        }
    }
}

/// The present state of a record.
pub(super) async fn look(store: &TenantStore, lineage: &Lineage, id: RecordId) -> Result<Option<SeenRecord>> {
    Ok(records::find(store, lineage, id).await?.map(|(record, _, stamp)| SeenRecord::of(&record, 0, stamp)))
}
