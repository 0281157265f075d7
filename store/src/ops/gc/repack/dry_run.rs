//! `DryRun` shows records as they would be after changes that are only planned.
//!
//! It goes through a move as [`run`](super::run) does, but stores nothing, and reads chunks only
//! where a check has found damage: the new pack of each, and its place there, follow from its size. So the
//! tables are those that would be written, and the fate of the old packs is known.
//!
//! It keeps each chunk's new place and each snapshot's new needs, not the tables: those are made again when
//! they are asked for.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Failed, Needed, RepackPlan, Source, User, source::Packs, update};
use crate::{
    Result,
    bucket::Stamp,
    catalog::{clock, pins, records},
    content::{TenantStore, meta::MetaPack, moved_tree::MovedTree, packer::Packer},
    format::{
        pack::{ENTRY_LEN, HEADER_LEN, TRAILER_LEN},
        record::{Content, Earlier, Record, State},
        table::Location,
        tree_limits::MAX_METADATA_BYTES,
    },
    id::{PackId, PackSeq, RecordId},
    name::Lineage,
};

/// Records as they would be if all that is planned were done.
#[derive(Debug, Default)]
pub struct DryRun {
    ended: HashMap<RecordId, State>,
    touched: HashSet<RecordId>,
    moves: Vec<Move>,
    changed: HashMap<RecordId, ChangedRecord>,
}

/// One write.
#[derive(Debug)]
struct Move {
    write: RecordId,
    /// Of each pack that it empties, the chunks that are needed, in their order.
    packs: BTreeMap<PackId, Vec<MovedChunk>>,
}

/// Where a chunk goes: from its offset in one pack to that in another, of this number.
#[derive(Clone, Copy, Debug)]
struct MovedChunk {
    from: u64,
    number: u32,
    offset: u64,
}

/// A record that would be another.
#[derive(Debug)]
struct ChangedRecord {
    /// As it is in the store.
    generation: u64,
    before: Content,
    /// The moves that change it, by number, and the writes that its tables are from.
    moves: Vec<(usize, RecordId)>,
    after: Content,
    earlier: Vec<Earlier>,
}

/// The packs that a move would store.
#[derive(Debug)]
pub struct Stored {
    pub writes: Vec<RecordId>,
    /// With their size.
    pub packs: Vec<(PackId, u64)>,
}

impl DryRun {
    /// Counts these writes as ended, in these states.
    pub fn end(&mut self, ended: impl IntoIterator<Item = (RecordId, State)>) {
        self.ended.extend(ended);
    }

    /// As if these had just been written again as they are.
    pub fn touch(&mut self, touched: impl IntoIterator<Item = RecordId>) {
        self.touched.extend(touched);
    }

    /// A record as it would be, unless it is gone.
    pub async fn get(
        &self,
        store: &TenantStore,
        lineage: &Lineage,
        id: RecordId,
    ) -> Result<Option<(Record, Stamp)>> {
        let Some((mut record, _, mut stamp)) = records::find(store, lineage, id).await? else {
            return Ok(None);
        };
        let is_root = matches!(record.state, State::Live | State::Trashed);
        if self.touched.contains(&id) && is_root {
            stamp.modified = stamp.now;
        }
        if let Some(state) = self.ended.get(&id) {
            (record.state, stamp.modified) = (*state, stamp.now);
            record.updates.clear();
        }
        // One that somebody has changed meanwhile is what they made of it.
        if let Some(changed) = self.changed.get(&id).filter(|changed| changed.generation == record.generation)
        {
            (record.content, record.earlier) = (Some(changed.after.clone()), changed.earlier.clone());
            record.generation = changed.generation_after();
            stamp.modified = stamp.now;
        }
        Ok(Some((record, stamp)))
    }

    /// The tree of a record as it would be. One that is not read by need takes no more than `most` bytes.
    pub(super) async fn tree(
        &self,
        store: &TenantStore,
        record: &Record,
        most: u64,
    ) -> Result<Option<PlannedTree<'_>>> {
        let Some(content) = &record.content else { return Ok(None) };
        let changed = self.changed.get(&record.record);
        let Some(changed) = changed.filter(|changed| changed.generation_after() == record.generation) else {
            let tree = MovedTree::open(store, (record.record, record.generation), content, most).await?;
            return Ok(Some(PlannedTree { tree, moves: Vec::new() }));
        };
        let ChangedRecord { generation, before, moves, .. } = changed;
        let tree = MovedTree::open(store, (record.record, *generation), before, most).await?;
        let mut planned = PlannedTree { tree, moves: Vec::new() };
        let mut root = before.root.pack;
        for (number, write) in moves {
            let mut pack = MetaPack::new(store, *write)?;
            if let Some(content) = planned.apply(&self.moves[*number], (&mut pack, store), root).await? {
                root = content.root.pack;
            }
        }
        Ok(Some(planned))
    }

    /// Goes through the move that `survey` plans.
    pub async fn add(
        &mut self,
        store: &TenantStore,
        survey: &RepackPlan,
        pins: &[pins::FoundPin],
    ) -> Result<Stored, Failed> {
        read_marked(store, survey).await?;
        let (number, first) = (self.moves.len(), clock::new_record_id());
        let (this, packs) = Move::of(store, first, survey);
        self.moves.push(this);
        let mut stored = Stored { writes: Vec::new(), packs };
        for users in survey.batches() {
            let write = if stored.writes.is_empty() { first } else { clock::new_record_id() };
            stored.writes.push(write);
            stored.packs.extend(self.add_batch(store, users, (number, write), pins).await?);
        }
        Ok(stored)
    }

    /// The snapshots that one write makes refer to the moved chunks; with the pack of their tables.
    async fn add_batch(
        &mut self,
        store: &TenantStore,
        users: &[User],
        (number, write): (usize, RecordId),
        pins: &[pins::FoundPin],
    ) -> Result<Option<(PackId, u64)>> {
        let mut meta = MetaPack::new(store, write)?;
        let mut updates = Vec::new();
        for user in users {
            let Some(record) = user.read(store, self).await? else { continue };
            let (Some(mut planned), Some(before)) =
                (self.tree(store, &record, MAX_METADATA_BYTES).await?, &record.content)
            else {
                continue;
            };
            let root = before.root.pack;
            let after = planned.apply(&self.moves[number], (&mut meta, store), root).await?;
            updates.extend(after.map(|after| (record, after)));
        }
        if updates.is_empty() {
            return Ok(None);
        }
        for (record, after) in updates {
            let known = self.changed.remove(&record.record);
            let known = known.filter(|known| known.generation_after() == record.generation);
            let earlier = update::earlier(&record, pins);
            let (generation, before, mut moves) = match (known, record.content) {
                (Some(ChangedRecord { generation, before, moves, .. }), _) => (generation, before, moves),
                (None, Some(content)) => (record.generation, content, Vec::new()),
                (None, None) => continue,
            };
            moves.push((number, write));
            self.changed.insert(record.record, ChangedRecord { generation, before, moves, after, earlier });
        }
        Ok(Some((PackId { write, seq: PackSeq::Meta }, meta.seal(store).bytes.len() as u64)))
    }
}

impl ChangedRecord {
    fn generation_after(&self) -> u64 {
        self.generation + self.moves.len() as u64
    }
}

impl Move {
    /// Fills packs as [`copy`](super::copy::copy) does; with their sizes.
    fn of(store: &TenantStore, write: RecordId, survey: &RepackPlan) -> (Self, Vec<(PackId, u64)>) {
        let around = Packer::with_capacity(0).seal(taker(write, 0), *store.key()).bytes.len() as u64;
        let target = u64::from(store.chunking().pack_bytes);
        let mut packs: BTreeMap<PackId, Vec<MovedChunk>> =
            survey.packs.keys().map(|pack| (*pack, Vec::new())).collect();
        let mut stored_once: HashMap<_, (u32, u64)> = HashMap::new();
        let (mut full, mut end, mut chunks) = (Vec::new(), HEADER_LEN as u64, 0);
        let size = |end: u64, chunks: u64| around + (end - HEADER_LEN as u64) + chunks * ENTRY_LEN as u64;
        for Needed { location, id, raw_len } in survey.frames() {
            let Location { pack, offset: from, stored_len, codec } = *location;
            let (number, offset) =
                *stored_once.entry((*id, *raw_len, stored_len, codec)).or_insert_with(|| {
                    let place = (full.len() as u32, end);
                    (end, chunks) = (end + u64::from(stored_len), chunks + 1);
                    place
                });
            packs.entry(pack).or_default().push(MovedChunk { from, number, offset });
            if end + chunks * ENTRY_LEN as u64 + TRAILER_LEN as u64 >= target {
                full.push(size(end, chunks));
                (end, chunks) = (HEADER_LEN as u64, 0);
            }
        }
        if chunks > 0 {
            full.push(size(end, chunks));
        }
        let full = full.into_iter().zip(0..).map(|(bytes, number)| (taker(write, number), bytes)).collect();
        (Self { write, packs }, full)
    }

    fn place(&self, location: &Location) -> Option<Location> {
        let places = self.packs.get(&location.pack)?;
        let at = places.binary_search_by_key(&location.offset, |place| place.from).ok()?;
        let MovedChunk { number, offset, .. } = places[at];
        Some(Location { pack: taker(self.write, number), offset, ..*location })
    }
}

/// A tree whose chunks would have moved so.
pub(super) struct PlannedTree<'a> {
    pub tree: MovedTree,
    moves: Vec<&'a Move>,
}

impl<'a> PlannedTree<'a> {
    /// Where a chunk would lie.
    pub fn place(&self, stored: &Location) -> Location {
        self.moves.iter().fold(*stored, |at, step| step.place(&at).unwrap_or(at))
    }

    /// Goes through one more move. The content of the snapshot then, if it changes.
    async fn apply(
        &mut self,
        step: &'a Move,
        meta: (&mut MetaPack, &TenantStore),
        root: PackId,
    ) -> Result<Option<Content>> {
        self.moves.push(step);
        let moves = &self.moves;
        let place = |stored: &Location| moves.iter().fold(*stored, |at, step| step.place(&at).unwrap_or(at));
        self.tree.move_on(meta, place, |pack| step.packs.contains_key(pack), root).await
    }
}

fn taker(write: RecordId, number: u32) -> PackId {
    PackId { write, seq: PackSeq::Data(number) }
}

/// Fails where a run would fail on damage that a check has found already.
async fn read_marked(store: &TenantStore, survey: &RepackPlan) -> Result<(), Failed> {
    let source = Packs::new(store, survey);
    let marked = survey.marked();
    for (pack, frames) in survey.frames.iter().filter(|(pack, _)| marked.contains(pack)) {
        let failed = |error| Failed { pack: Some(*pack), ..Failed::from(error) };
        let parts = source.frames(*pack, frames).await.map_err(failed)?;
        for part in parts {
            part.await.map_err(failed)?;
        }
    }
    Ok(())
}
