//! `DamagedFrames` holds the places in packs whose frames cannot be relied on.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::{
        Unknown,
        damage::{Mark, MarkedPack},
        record::Record,
        table::Location,
        tree::{Entry, Kind},
    },
    id::{PackId, PackSeq},
};

/// A mark does not name more frames than this; beyond it, it names whole packs.
const MOST_OFFSETS: usize = 10_000;

/// Packs of which nothing can be relied on, and single frames of others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedFrames {
    packs: BTreeSet<PackId>,
    frames: BTreeSet<(PackId, u64)>,
}

impl DamagedFrames {
    /// Relies on nothing in this pack from now on.
    pub fn add_pack(&mut self, pack: PackId) {
        self.packs.insert(pack);
    }

    pub(crate) fn add_frame(&mut self, pack: PackId, offset: u64) {
        self.frames.insert((pack, offset));
    }

    /// Takes in the damage that `other` knows.
    pub fn add(&mut self, other: &Self) {
        self.packs.extend(&other.packs);
        self.frames.extend(&other.frames);
    }

    /// Takes out the damage of one pack.
    pub fn take(&mut self, pack: PackId) -> Self {
        let packs = self.packs.take(&pack).into_iter().collect();
        let frames: BTreeSet<(PackId, u64)> =
            self.frames.range((pack, 0)..=(pack, u64::MAX)).copied().collect();
        for frame in &frames {
            self.frames.remove(frame);
        }
        Self { packs, frames }
    }

    /// Whether `other` knows all of this.
    pub fn is_within(&self, other: &Self) -> bool {
        self.packs.is_subset(&other.packs) && self.frames.is_subset(&other.frames)
    }

    /// Whether everything can be relied on.
    pub fn is_empty(&self) -> bool {
        self.packs.is_empty() && self.frames.is_empty()
    }

    /// Whether nothing of the pack can be relied on.
    pub(crate) fn has_pack(&self, pack: &PackId) -> bool {
        self.packs.contains(pack)
    }

    /// Whether anything of the pack cannot be relied on.
    pub(crate) fn touches(&self, pack: &PackId) -> bool {
        self.has_pack(pack) || self.frames.range((*pack, 0)..=(*pack, u64::MAX)).next().is_some()
    }

    /// Whether the frame that begins there cannot be relied on.
    pub fn has(&self, pack: PackId, offset: u64) -> bool {
        self.packs.contains(&pack) || self.frames.contains(&(pack, offset))
    }

    /// Whether the frame at `location` cannot be relied on.
    pub fn holds(&self, location: &Location) -> bool {
        self.has(location.pack, location.offset)
    }

    /// Every pack of which something is lost.
    pub fn packs(&self) -> BTreeSet<PackId> {
        self.packs.iter().copied().chain(self.frames.iter().map(|(pack, _)| *pack)).collect()
    }

    /// Whether a snapshot needs anything of the packs of which something is lost.
    pub(crate) fn may_hit(&self, record: &Record) -> bool {
        let packs = self.packs();
        record.content.iter().flat_map(|content| &content.packs).any(|used| packs.contains(&used.pack))
    }

    /// The mark of a snapshot whose tree cannot be read: all of its files are lost.
    pub(crate) fn mark_whole(&self, record: &Record, found_at_ms: u64) -> Mark {
        let packs = self.lost_meta_packs(record);
        let packs = packs.map(|pack| MarkedPack { pack, offsets: Vec::new(), unknown: Unknown::new() });
        Mark { found_at_ms, files: record.counts.files, packs: packs.collect(), unknown: Unknown::new() }
    }

    fn lost_meta_packs<'a>(&'a self, record: &'a Record) -> impl Iterator<Item = PackId> + 'a {
        let used = record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack);
        used.filter(|pack| pack.seq == PackSeq::Meta && self.packs.contains(pack))
    }
}

/// The mark of a snapshot, made entry by entry.
#[derive(Debug)]
pub struct Marking<'a> {
    lost: &'a DamagedFrames,
    /// Of each pack, the frames that the snapshot lacks.
    packs: BTreeMap<PackId, BTreeSet<u64>>,
    /// How many files need any of them.
    files: u64,
}

impl<'a> Marking<'a> {
    /// Of a snapshot that needs nothing of what is lost, so far.
    pub fn of(lost: &'a DamagedFrames) -> Self {
        Self { lost, packs: BTreeMap::new(), files: 0 }
    }

    /// The snapshot has this entry, with its chunks there.
    pub fn add(&mut self, entry: &Entry, locations: &[Location]) {
        let mut is_hit = false;
        for location in locations.iter().filter(|location| self.lost.holds(location)) {
            is_hit = true;
            self.packs.entry(location.pack).or_default().insert(location.offset);
        }
        self.files += u64::from(is_hit && matches!(entry.kind, Kind::File { .. }));
    }

    /// The mark; `None` if the snapshot needs nothing that is lost.
    pub fn end(self, record: &Record, found_at_ms: u64) -> Option<Mark> {
        let Self { lost, mut packs, files } = self;
        for pack in lost.lost_meta_packs(record) {
            packs.entry(pack).or_default();
        }
        if packs.is_empty() {
            return None;
        }
        let total: usize = packs.values().map(BTreeSet::len).sum();
        let packs = packs.into_iter().map(|(pack, offsets)| {
            let whole = lost.packs.contains(&pack) || total > MOST_OFFSETS;
            let offsets = if whole { Vec::new() } else { offsets.into_iter().collect() };
            MarkedPack { pack, offsets, unknown: Unknown::new() }
        });
        Some(Mark { found_at_ms, files, packs: packs.collect(), unknown: Unknown::new() })
    }
}

impl From<&Mark> for DamagedFrames {
    fn from(mark: &Mark) -> Self {
        let mut lost = Self::default();
        for marked in &mark.packs {
            match &marked.offsets[..] {
                [] => lost.add_pack(marked.pack),
                offsets => offsets.iter().for_each(|offset| lost.add_frame(marked.pack, *offset)),
            }
        }
        lost
    }
}
