//! `DedupIndex` finds the chunks that need not be stored again, and where they lie.
//!
//! The order: the base's chunks, then those of an earlier state of the same changes, then the tenant's index,
//! then packs that this host has stored for writes that have not ended. The index is fetched in the
//! background and waited for only when the first chunk is missing from the base. A pack that a collection has
//! condemned, or that is not there, is barred: nothing may refer to it anew. Nor to chunks that a check has
//! found damaged, but for writers that cannot have them from anywhere else.

use std::{
    collections::HashSet,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

use super::{chunk::Locations, damage::DamagedFrames, unfinished::Unfinished};
use crate::{
    format::table::Location,
    id::{ChunkId, PackId},
};

/// A write's knowledge of the chunks that are stored already.
#[derive(Debug, Default)]
pub struct DedupIndex {
    base: RwLock<Locations>,
    /// Where chunks of the base are since they were moved, as far as that is known.
    moved: RwLock<Locations>,
    /// The locations of an earlier state's chunks that the base has not.
    earlier: RwLock<Locations>,
    /// Whether anything was found there.
    uses_earlier: AtomicBool,
    index: OnceLock<Locations>,
    /// The locations that the indexes gave when they were read again.
    renewed: RwLock<Option<Locations>>,
    /// Whether anything was found by an index.
    uses_index: AtomicBool,
    arriving: Mutex<Option<oneshot::Receiver<Locations>>>,
    unfinished: Unfinished,
    barred: RwLock<HashSet<PackId>>,
    /// The base's damaged frames.
    lost: RwLock<DamagedFrames>,
    /// All packs that exist, once that is known.
    existing: RwLock<Option<HashSet<PackId>>>,
    /// Some that do, and some that do not.
    there: RwLock<HashSet<PackId>>,
    gone: RwLock<HashSet<PackId>>,
}

impl DedupIndex {
    /// `index` may arrive later, or never if its sender is dropped.
    pub fn new(base: Locations, index: Option<oneshot::Receiver<Locations>>) -> Self {
        Self { base: RwLock::new(base), arriving: Mutex::new(index), ..Self::default() }
    }

    /// More of the base was read: there its chunks lie.
    pub(crate) fn learn_base(&self, locations: Locations) {
        self.base.write().extend(locations);
    }

    /// Learns the chunks of an earlier state of the same work.
    pub fn learn_earlier(&self, locations: Locations) {
        self.earlier.write().extend(locations);
    }

    /// Forgets these locations: nothing may refer to them, and a write that got one looks again.
    pub fn forget_earlier(&self) {
        self.earlier.write().clear();
    }

    /// Whether anything was located there, which may be gone once the lease of the write exists.
    pub fn uses_earlier(&self) -> bool {
        self.uses_earlier.load(Ordering::Acquire)
    }

    /// The index arrives here, later.
    pub fn expect(&self, index: oneshot::Receiver<Locations>) {
        *self.arriving.lock() = Some(index);
    }

    /// Whether anything was located by an index, which may be older than the lease of the write.
    pub(crate) fn uses_index(&self) -> bool {
        self.uses_index.load(Ordering::Acquire)
    }

    /// The indexes were looked at again: only this counts of them now.
    pub fn learn_index(&self, locations: Locations) {
        *self.renewed.write() = Some(locations);
    }

    /// With the damage that is known.
    pub fn without(self, lost: DamagedFrames) -> Self {
        Self { lost: RwLock::new(lost), ..self }
    }

    /// With the packs that this host has stored for writes that have not ended.
    pub fn beside(self, unfinished: Unfinished) -> Self {
        Self { unfinished, ..self }
    }

    /// The packs that this host had stored for writes that were cut short.
    pub fn unfinished(&self) -> &Unfinished {
        &self.unfinished
    }

    /// The frames that are known to be damaged.
    pub fn lost(&self) -> DamagedFrames {
        self.lost.read().clone()
    }

    /// Takes the base's damage, as another look has found it.
    pub(crate) fn learn_lost(&self, lost: DamagedFrames) {
        *self.lost.write() = lost;
    }

    fn is_lost(&self, location: &Location) -> bool {
        self.lost.read().holds(location)
    }

    /// Where the chunk lies, unless it is unknown, damaged, or its pack is barred.
    ///
    /// Blocks until the index has arrived if the base does not hold the chunk: not to be
    /// called where an async runtime must not be blocked.
    pub fn locate(&self, id: &ChunkId) -> Option<Location> {
        // Where it is now before where it was: what was moved may have been damaged there.
        let moved = self.usable(self.moved(id).as_ref());
        moved
            .or_else(|| self.usable(self.in_base(id).as_ref()))
            .or_else(|| self.usable(self.in_earlier(id).as_ref()))
            .or_else(|| self.usable(self.indexed(id).as_ref()))
            .or_else(|| self.usable(self.unfinished.locate(id)))
    }

    /// Whether a write may refer to all of this pack: it is there, not barred, and nothing of it is damaged.
    pub fn is_sound(&self, pack: &PackId) -> bool {
        !self.is_unsure(pack) && !self.is_barred(pack) && !self.lost.read().touches(pack)
    }

    /// Where a damaged chunk of the base lies, for writers that have it from nowhere else. That its
    /// pack is gone is no reason: nothing can go that is not there.
    pub(crate) fn locate_lost(&self, id: &ChunkId) -> Option<Location> {
        let places = [self.moved(id), self.in_base(id)];
        let usable = |place: &Location| self.is_lost(place) && !self.is_condemned(&place.pack);
        places.into_iter().flatten().find(usable)
    }

    /// Where a chunk of the base should be, though nothing may refer to it there.
    pub(crate) fn locate_barred(&self, id: &ChunkId) -> Option<Location> {
        let places = [self.moved(id), self.in_base(id)];
        let existing = self.existing.read();
        let there = self.there.read();
        let was_there = |location: &Location| {
            let pack = &location.pack;
            existing.as_ref().map_or(there.contains(pack), |existing| existing.contains(pack))
        };
        let mut places = places.into_iter().flatten();
        places.clone().find(was_there).or_else(|| places.next())
    }

    /// Chunks of the base were moved to other packs, perhaps not for the first time. The caller has
    /// read so in a live record, under its lease: so those packs exist, though they may be younger
    /// than the list of those that do, and if they are condemned from now on, that waits for the lease.
    pub(crate) fn learn_moved(&self, locations: Locations) {
        self.note_existing(locations.values().map(|location| location.pack));
        if let Some(existing) = &mut *self.existing.write() {
            existing.extend(locations.values().map(|location| location.pack));
        }
        *self.moved.write() = locations;
    }

    /// Where the base has a chunk, or had it when it was read.
    pub(crate) fn in_base(&self, id: &ChunkId) -> Option<Location> {
        self.base.read().get(id).copied()
    }

    fn moved(&self, id: &ChunkId) -> Option<Location> {
        self.moved.read().get(id).copied()
    }

    /// From now on nothing may refer to these packs.
    pub fn bar(&self, packs: impl IntoIterator<Item = PackId>) {
        self.barred.write().extend(packs);
    }

    /// From now on nothing may refer to a pack that is not one of these.
    pub fn keep_only(&self, existing: impl IntoIterator<Item = PackId>) {
        let mut known = self.existing.write();
        known.get_or_insert_with(|| existing.into_iter().collect());
    }

    /// These packs exist: somebody has asked, or a live record names them.
    pub fn note_existing(&self, packs: impl IntoIterator<Item = PackId>) {
        self.there.write().extend(packs);
    }

    /// These packs do not: nothing may refer to them.
    pub fn note_missing(&self, packs: impl IntoIterator<Item = PackId>) {
        self.gone.write().extend(packs);
    }

    /// Whether nobody has found out yet that this pack exists. Nothing may refer to it until then.
    pub(crate) fn is_unsure(&self, pack: &PackId) -> bool {
        let existing = self.existing.read();
        let there = self.there.read();
        existing.is_none() && !there.contains(pack) && !self.was_missed(pack)
    }

    /// Whether nothing may refer to this pack anew.
    pub(crate) fn is_barred(&self, pack: &PackId) -> bool {
        let existing = self.existing.read();
        let unlisted = existing.as_ref().is_some_and(|existing| !existing.contains(pack));
        unlisted || self.was_missed(pack) || self.is_condemned(pack)
    }

    fn was_missed(&self, pack: &PackId) -> bool {
        self.gone.read().contains(pack)
    }

    fn is_condemned(&self, pack: &PackId) -> bool {
        self.barred.read().contains(pack)
    }

    fn usable(&self, location: Option<&Location>) -> Option<Location> {
        location.copied().filter(|location| !self.is_barred(&location.pack) && !self.is_lost(location))
    }

    fn in_earlier(&self, id: &ChunkId) -> Option<Location> {
        let found = self.earlier.read().get(id).copied();
        if found.is_some() {
            self.uses_earlier.store(true, Ordering::Release);
        }
        found
    }

    fn indexed(&self, id: &ChunkId) -> Option<Location> {
        let renewed = self.renewed.read();
        let found = match &*renewed {
            Some(renewed) => renewed.get(id).copied(),
            None => self.index().get(id).copied(),
        };
        if found.is_some() {
            self.uses_index.store(true, Ordering::Release);
        }
        found
    }

    fn index(&self) -> &Locations {
        self.index.get_or_init(|| {
            let arriving = self.arriving.lock().take();
            arriving.and_then(|receiver| receiver.blocking_recv().ok()).unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::frame::Codec,
        id::{ChunkKey, PackSeq, RecordId},
    };

    #[test]
    fn base_before_index_and_never_a_barred_pack() {
        let id = ChunkKey::from_bytes([1; 32]).id_of(b"x");
        let at = |seq| {
            let pack = PackId { write: RecordId::from_parts(1, [1; 10]), seq: PackSeq::Data(seq) };
            Location { pack, offset: 16, stored_len: 1, codec: Codec::Zstd }
        };
        let (sender, receiver) = oneshot::channel();
        sender.send(Locations::from([(id, at(1))])).unwrap();
        let known = DedupIndex::new(Locations::from([(id, at(0))]), Some(receiver));
        assert_eq!(known.locate(&id), Some(at(0)));
        known.bar([at(0).pack]);
        assert_eq!(known.locate(&id), Some(at(1)));
        known.bar([at(1).pack]);
        assert_eq!(known.locate(&id), None);
        // Moved twice, to packs that were not there before: where it is now counts.
        known.keep_only([at(0).pack, at(1).pack]);
        known.learn_moved(Locations::from([(id, at(2))]));
        assert_eq!(known.locate(&id), Some(at(2)));
        known.bar([at(2).pack]);
        known.learn_moved(Locations::from([(id, at(3))]));
        assert_eq!((known.locate(&id), known.locate_barred(&id)), (Some(at(3)), Some(at(3))));
    }

    #[test]
    fn what_is_damaged_is_found_elsewhere_or_by_those_who_need_it() {
        let id = ChunkKey::from_bytes([1; 32]).id_of(b"x");
        let at = |seq| {
            let pack = PackId { write: RecordId::from_parts(1, [1; 10]), seq: PackSeq::Data(seq) };
            Location { pack, offset: 16, stored_len: 1, codec: Codec::Zstd }
        };
        let mut lost = DamagedFrames::default();
        lost.add_frame(at(0).pack, 16);
        let base = Locations::from([(id, at(0))]);
        let alone = DedupIndex::new(base.clone(), None).without(lost.clone());
        assert_eq!((alone.locate(&id), alone.locate_lost(&id)), (None, Some(at(0))));
        alone.bar([at(0).pack]);
        assert_eq!(alone.locate_lost(&id), None);
        let (sender, receiver) = oneshot::channel();
        sender.send(Locations::from([(id, at(1))])).unwrap();
        let known = DedupIndex::new(base, Some(receiver)).without(lost);
        assert_eq!(known.locate(&id), Some(at(1)));
    }
}
