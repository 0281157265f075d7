//! `Plan` reports the actions of a run, taken or planned; it decides nothing.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    format::condemned::Phase,
    id::{PackId, RecordId},
    name::{Lineage, Tenant},
};

/// So many packs, so large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub packs: u64,
    /// How many bytes they have.
    pub bytes: u64,
}

impl Tally {
    /// Counts one more, which has so many bytes.
    pub fn add(&mut self, bytes: u64) {
        self.packs += 1;
        self.bytes += bytes;
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { packs: self.packs + other.packs, bytes: self.bytes + other.bytes }
    }
}

/// An unfinished session on a snapshot whose record is missing: nothing tells which packs it needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stranded {
    /// The session that is not finished.
    pub session: RecordId,
    /// Where its changes lie.
    pub host: String,
    /// The lineage of the snapshot that it builds on.
    pub lineage: Lineage,
    /// The record that is missing.
    pub record: RecordId,
}

/// Why nothing needs a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The snapshot it was stored for was deleted, and no other shares it.
    Deleted,
    /// The write that stored it never became a snapshot.
    Abandoned,
    /// A repack moved its content on, or filled it for snapshots that do not need it any more.
    Moved,
    /// No record tells its lineage.
    Unknown,
}

impl Cause {
    /// The word that programs read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Abandoned => "abandoned",
            Self::Moved => "moved",
            Self::Unknown => "unknown",
        }
    }
}

/// A pack that nothing needs.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The pack that nothing needs.
    pub pack: PackId,
    /// How many bytes it has.
    pub bytes: u64,
    /// How long ago it was written, by the store's clock.
    pub age: Duration,
    /// How it became garbage.
    pub cause: Cause,
    /// The lineage it was stored for, if that is known.
    pub lineage: Option<Lineage>,
}

/// A document of an earlier run, and its next step.
#[derive(Clone, Debug)]
pub struct Document {
    /// The document's own id.
    pub id: RecordId,
    /// As it was found.
    pub phase: Phase,
    /// The packs that it names.
    pub named: Tally,
    /// Its next step.
    pub step: Step,
}

/// The step that a run takes with a document of an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The writers are listed that must end before it goes on.
    Arm,
    /// It was armed not long enough ago.
    WaitForGrace {
        /// How much longer.
        left: Duration,
    },
    /// Writes have not ended that may refer to its packs.
    WaitForWriters {
        /// Those writes.
        writers: Vec<RecordId>,
    },
    /// Packs that nothing needs are deleted; packs that are needed after all stay.
    Sweep {
        /// The packs that go.
        deleted: Tally,
        /// How many packs stay.
        pardoned: u64,
    },
}

/// Packs that are emptied, because too little of them is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repacked {
    /// The old packs. Their content is moved, and then they are condemned.
    pub emptied: Tally,
    /// Bytes that are stored again, about.
    pub kept_bytes: u64,
    /// Snapshots that refer to the new packs then.
    pub records: u64,
    /// Packs that could not be emptied: something of them cannot be read, or nothing be written.
    pub failed: u64,
}

impl Repacked {
    /// How much less is stored when the old packs are gone.
    pub fn saved_bytes(&self) -> u64 {
        self.emptied.bytes.saturating_sub(self.kept_bytes)
    }

    fn and(self, other: Self) -> Self {
        Self {
            emptied: self.emptied.and(other.emptied),
            kept_bytes: self.kept_bytes + other.kept_bytes,
            records: self.records + other.records,
            failed: self.failed.max(other.failed),
        }
    }
}

/// The actions of a run, taken or planned.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tenant whose garbage it is.
    pub tenant: Tenant,
    /// The documents of earlier runs.
    pub documents: Vec<Document>,
    /// The packs that this run condemns.
    pub condemned: Vec<Candidate>,
    /// Packs that go now.
    pub deleted: Tally,
    /// The content that is moved out of packs of which little is needed.
    pub repacked: Repacked,
    /// Packs that snapshots need, without those that this run has filled.
    pub needed: Tally,
    /// At least so much of those is content that snapshots need.
    pub live_bytes: u64,
    /// Packs of writes that are under way.
    pub writing: Tally,
    /// Writes that were not heard of for too long.
    pub revoked: Vec<(RecordId, Lineage)>,
    /// Deletions that were cut short, and are finished.
    pub finished_deletions: u64,
    /// Indexes that were written again without packs that go.
    pub indexes_rewritten: u64,
    /// Indexes that were removed.
    pub indexes_removed: u64,
    /// Indexes that were put together with others.
    pub indexes_merged: u64,
    /// Events that were objects of their own, and are put together.
    pub events_merged: u64,
    /// Events, or documents of them, that were kept for long enough.
    pub events_removed: u64,
    /// Old tombstones, swept documents, expired pins, scratch of probes.
    pub leftovers: u64,
    /// Unfinished sessions whose snapshot is missing.
    pub stranded: Vec<Stranded>,
    /// Documents that are not done yet, with how long they have to wait at least.
    pub pending: Vec<(RecordId, Duration)>,
}

impl Plan {
    pub(super) fn new(tenant: Tenant) -> Self {
        Self {
            tenant,
            documents: Vec::new(),
            condemned: Vec::new(),
            deleted: Tally::default(),
            repacked: Repacked::default(),
            needed: Tally::default(),
            live_bytes: 0,
            writing: Tally::default(),
            revoked: Vec::new(),
            finished_deletions: 0,
            indexes_rewritten: 0,
            indexes_removed: 0,
            indexes_merged: 0,
            events_merged: 0,
            events_removed: 0,
            leftovers: 0,
            stranded: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// The packs that this run condemns, by cause.
    pub fn by_cause(&self) -> BTreeMap<Cause, (Tally, Duration)> {
        self.grouped(|candidate| candidate.cause)
    }

    /// The packs that this run condemns, by the lineage they were stored for.
    pub fn by_lineage(&self) -> BTreeMap<Option<Lineage>, (Tally, Duration)> {
        self.grouped(|candidate| candidate.lineage.clone())
    }

    /// With the age of the oldest in each group.
    fn grouped<K: Ord>(&self, by: impl Fn(&Candidate) -> K) -> BTreeMap<K, (Tally, Duration)> {
        let mut groups: BTreeMap<K, (Tally, Duration)> = BTreeMap::new();
        for candidate in &self.condemned {
            let (tally, oldest) = groups.entry(by(candidate)).or_default();
            tally.add(candidate.bytes);
            *oldest = (*oldest).max(candidate.age);
        }
        groups
    }

    /// All that is condemned anew.
    pub fn condemned_total(&self) -> Tally {
        let mut total = Tally::default();
        self.condemned.iter().for_each(|candidate| total.add(candidate.bytes));
        total
    }

    /// The packs of earlier runs that still wait.
    pub fn waiting(&self) -> Tally {
        let waits = |document: &&Document| !matches!(document.step, Step::Sweep { .. });
        self.documents.iter().filter(waits).fold(Tally::default(), |sum, document| sum.and(document.named))
    }

    /// How long to wait for one of these documents; `None` if they are done.
    pub(super) fn pause(&self, of: &[RecordId]) -> Option<Duration> {
        self.pending.iter().filter(|(id, _)| of.contains(id)).map(|(_, left)| *left).min()
    }

    /// This run and then another one.
    pub(super) fn and(self, next: Self) -> Self {
        let mut condemned = self.condemned;
        condemned.extend(next.condemned);
        let mut documents = self.documents;
        documents.retain(|before| matches!(before.step, Step::Sweep { .. }));
        documents.extend(next.documents);
        let mut revoked = self.revoked;
        revoked.extend(next.revoked);
        Self {
            documents,
            condemned,
            deleted: self.deleted.and(next.deleted),
            repacked: self.repacked.and(next.repacked),
            revoked,
            finished_deletions: self.finished_deletions + next.finished_deletions,
            indexes_rewritten: self.indexes_rewritten + next.indexes_rewritten,
            indexes_removed: self.indexes_removed + next.indexes_removed,
            indexes_merged: self.indexes_merged + next.indexes_merged,
            events_merged: self.events_merged + next.events_merged,
            events_removed: self.events_removed + next.events_removed,
            leftovers: self.leftovers + next.leftovers,
            ..next
        }
    }
}
