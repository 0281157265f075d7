//! `Unfinished` knows the packs that this host has stored for writes that have not ended: no index names them yet.
//!
//! The index of a write is stored last, so the packs of one that was cut short are known to nobody.
//! Therefore a host notes the contents of each of its packs as soon as the store has it, and the next write
//! of the tenant finds its chunks there.
//!
//! A note is a hint, as an index is: a write refers to a chunk found in one only as it refers to a
//! chunk found in an index, under a lease of its own, to packs that nobody has condemned and that are
//! there. So nothing hangs on whose note it is, on whether its writer is dead, or on a clock. Only packs
//! that nobody but a collection removes may be noted.

use std::{collections::BTreeMap, time::Duration};

use super::{
    TenantStore,
    cache::{Cache, CacheKind},
    chunk::Locations,
};
use crate::{
    format::{
        WRITER,
        index::{Index, IndexPack},
        table::Location,
    },
    id::{ChunkId, PackId},
};

/// A write that has not gone on for so long never will: collections have had the time to free its packs.
const KEPT_FOR: Duration = Duration::from_secs(7 * 86_400);

/// The packs of writes that have not ended, as far as this host has stored them.
#[derive(Debug, Default)]
pub struct Unfinished {
    packs: BTreeMap<PackId, IndexPack>,
    places: Locations,
}

/// The parts of earlier, unfinished writes that a snapshot uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Packs that hold something of it.
    pub packs: u64,
    /// As they are stored.
    pub bytes: u64,
}

impl Unfinished {
    /// Knows these packs.
    pub fn of(packs: impl IntoIterator<Item = IndexPack>) -> Self {
        let mut unfinished = Self::default();
        packs.into_iter().for_each(|pack| unfinished.learn(pack));
        unfinished
    }

    /// Reads this user's notes about the tenant; blocking. One that is damaged, or of another key, is
    /// as good as none.
    pub fn load(store: &TenantStore) -> Self {
        let Some(cache) = &store.cache else { return Self::default() };
        let mut budget = CacheKind::Unfinished.max_bytes();
        let mut loaded = Self::default();
        for listed in cache.list_own(CacheKind::Unfinished) {
            let is_old = listed.age().is_some_and(|age| age > KEPT_FOR);
            budget = budget.saturating_sub(listed.len);
            let index = if is_old || budget == 0 { None } else { read(cache, store, &listed.name) };
            match index {
                Some(index) => index.packs.into_iter().for_each(|pack| loaded.learn(pack)),
                // Older ones come after it, and what is damaged stays so.
                None => cache.remove(CacheKind::Unfinished, &listed.name),
            }
        }
        loaded
    }

    /// Where a chunk lies, if one of the packs holds it.
    pub fn locate(&self, id: &ChunkId) -> Option<&Location> {
        self.places.get(id)
    }

    /// The chunks of a pack, if it is one of these.
    pub fn get(&self, pack: &PackId) -> Option<&IndexPack> {
        self.packs.get(pack)
    }

    /// All of the packs.
    pub fn packs(&self) -> impl Iterator<Item = PackId> + '_ {
        self.packs.keys().copied()
    }

    fn learn(&mut self, pack: IndexPack) {
        self.places.extend(pack.locations());
        self.packs.insert(pack.pack, pack);
    }
}

fn read(cache: &Cache, store: &TenantStore, name: &str) -> Option<Index> {
    let index = Index::decode(&cache.read(CacheKind::Unfinished, name)?).ok()?;
    Some(index).filter(|index| index.key == *store.key())
}

/// Notes that the store has this pack. A host that cannot has more to send again.
pub fn note(store: &TenantStore, pack: IndexPack) {
    let Some(cache) = &store.cache else { return };
    let name = pack.pack.to_string();
    let index = Index { key: *store.key(), writer: WRITER.to_owned(), packs: vec![pack] };
    cache.write(CacheKind::Unfinished, &name, &index.encode());
}

/// These packs are named elsewhere by now, or may not be referred to.
pub fn forget(store: &TenantStore, packs: impl IntoIterator<Item = PackId>) {
    let Some(cache) = &store.cache else { return };
    packs.into_iter().for_each(|pack| cache.remove(CacheKind::Unfinished, &pack.to_string()));
}
