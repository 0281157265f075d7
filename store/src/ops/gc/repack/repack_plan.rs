//! `RepackPlan` holds the needed frames of some packs, and their users, as the dry run shows them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{DryRun, FRAME_BYTES, User, leases, update::check_room};
use crate::{
    Error, ErrorKind, Result,
    catalog::pins,
    content::TenantStore,
    format::{
        pack::{ENTRY_LEN, HEADER_LEN, TRAILER_LEN},
        record::{Record, RootRef, State},
        root::Blob,
        table::Location,
    },
    id::{ChunkId, PackId, RecordId},
    name::Lineage,
};

/// The approximate memory of each table that would be written anew.
const NAMES_BYTES: u64 = 256;

/// Packs to be emptied, and all that needs them.
#[derive(Clone, Debug, Default)]
pub struct RepackPlan {
    /// With their size.
    pub packs: BTreeMap<PackId, u64>,
    /// The snapshots that need any of them.
    pub(super) users: Vec<User>,
    /// Of each data pack, the frames that are needed, by where they lie.
    pub(super) frames: Frames,
    /// Of each meta pack, the roots and segments that are needed.
    pub(super) segments: BTreeMap<PackId, BTreeMap<ChunkId, u32>>,
    /// The roots and tables that name something in these packs.
    pub(super) names: BTreeMap<(PackId, ChunkId), Names>,
    /// Packs of snapshots that cannot be moved: they stay as they are.
    pub unmovable: HashSet<PackId>,
    pub(super) batch_chunks: Option<u64>,
    /// Of each lineage, a record that leases are made like.
    pub(super) likes: BTreeMap<Lineage, Record>,
}

/// By pack, and by where they begin in it.
pub type Frames = BTreeMap<PackId, BTreeMap<u64, Needed>>;

/// A frame that is needed: its location, and the chunk in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Where its frame lies.
    pub location: Location,
    /// The chunk's id.
    pub id: ChunkId,
    /// How many bytes it has uncompressed.
    pub raw_len: u32,
}

/// A root or table that must be written anew when packs are emptied.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) stored_len: u32,
    /// The packs it names, of those that are to be emptied.
    pub(super) packs: BTreeSet<PackId>,
}

/// Reads the tables of `records`, one after the other, to find out which frames of `packs` they need. Records
/// that are not live, or need none of them, are left out; each is read as the dry run would have left it.
///
/// The plan takes no more memory than `room`, but for the needs of one snapshot: beyond that the last of the
/// packs wait for another time, though never the first. Of each tree the segments that need something of the packs are read,
/// one after another. One whose root does not say which these are is read at once; if it takes more than `memory`, it cannot
/// be moved.
pub async fn survey(
    store: &TenantStore,
    dry_run: &DryRun,
    packs: &[(PackId, u64)],
    records: &[(Lineage, RecordId)],
    pins: &[pins::FoundPin],
    (room, memory): (u64, u64),
) -> Result<RepackPlan> {
    let mut survey = RepackPlan { packs: packs.iter().copied().collect(), ..RepackPlan::default() };
    let mut order: Vec<PackId> = packs.iter().map(|(pack, _)| *pack).collect();
    for (lineage, id) in records {
        let found = dry_run.get(store, lineage, *id).await?;
        let Some((record, _)) = found.filter(|(record, _)| record.state == State::Live) else { continue };
        let user = User::of(lineage.clone(), &record, &survey.packs);
        if user.packs.is_empty() {
            continue;
        }
        let added = match check_room(&record, pins) {
            Ok(()) => survey.add(store, dry_run, &record, memory).await,
            Err(error) => Err(error),
        };
        match added {
            Ok(()) => {
                survey.likes.entry(lineage.clone()).or_insert_with(|| leases::like(&record));
                survey.users.push(user);
            }
            Err(error) if is_its_own(error.kind()) => {
                tracing::warn!(record = %id, %error, "a snapshot cannot be moved; its packs stay as they are");
                let used = record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack);
                survey.unmovable.extend(used);
                survey.leave(&user.packs.into_iter().collect());
            }
            Err(error) => return Err(error),
        }
        order.retain(|pack| survey.packs.contains_key(pack));
        while survey.held_bytes() > room && order.len() > 1 {
            let later = order.split_off((order.len() * 3 / 4).max(1));
            survey.leave(&later.into_iter().collect());
        }
    }
    survey.drop_idle();
    Ok(survey)
}

/// Whether an error is about one snapshot, and keeps no other from being moved.
fn is_its_own(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Damaged | ErrorKind::UnsupportedFormat | ErrorKind::InvalidInput)
}

impl RepackPlan {
    /// Of `records`, these frames of these packs are to be moved, and all metadata in them.
    pub fn of(packs: BTreeMap<PackId, u64>, records: &[(Lineage, Record)], frames: Frames) -> Self {
        let users = records.iter().map(|(lineage, record)| User::of(lineage.clone(), record, &packs));
        let likes = records.iter().map(|(lineage, record)| (lineage.clone(), leases::like(record)));
        Self { users: users.collect(), likes: likes.collect(), packs, frames, ..Self::default() }
    }

    async fn add(
        &mut self,
        store: &TenantStore,
        dry_run: &DryRun,
        record: &Record,
        memory: u64,
    ) -> Result<()> {
        let Some(content) = &record.content else { return Ok(()) };
        let Some(planned) = dry_run.tree(store, record, memory).await? else { return Ok(()) };
        let root = planned.tree.root();
        let mut stored = planned.tree.stored(planned.tree.segments_in(|pack| self.packs.contains_key(pack)));
        while let Some(found) = stored.next().await? {
            for (id, raw_len, location) in planned.tree.chunks(&found)? {
                let location = planned.place(&location);
                if !self.packs.contains_key(&location.pack) {
                    continue;
                }
                self.need(Needed { location, id, raw_len })?;
                let Blob { pack, id, stored_len, .. } = root.segments[found.at].table;
                let names = self.names.entry((pack, id)).or_default();
                names.stored_len = stored_len;
                names.packs.insert(location.pack);
            }
        }
        let RootRef { pack, id, stored_len, .. } = content.root;
        let blobs = root.blobs().map(|blob| (blob.pack, blob.id, blob.stored_len));
        for (pack, id, stored_len) in blobs.chain([(pack, id, stored_len)]) {
            if self.packs.contains_key(&pack) {
                self.segments.entry(pack).or_default().insert(id, stored_len);
            }
        }
        let named = content.packs.iter().map(|used| used.pack).filter(|pack| self.packs.contains_key(pack));
        let names = self.names.entry((pack, id)).or_default();
        names.stored_len = stored_len;
        names.packs.extend(named);
        Ok(())
    }

    /// Two snapshots that need the same place need the same of it.
    fn need(&mut self, needed: Needed) -> Result<()> {
        let Needed { location: Location { pack, offset, .. }, id, .. } = needed;
        let other = *self.frames.entry(pack).or_default().entry(offset).or_insert(needed);
        if other == needed {
            return Ok(());
        }
        let reason =
            format!("at {offset} of pack {pack} it has {id}, and another snapshot has {} there", other.id);
        Err(Error::damaged("the snapshot's table", reason))
    }

    /// The frames that are needed.
    pub fn frames(&self) -> impl Iterator<Item = &Needed> {
        self.frames.values().flat_map(BTreeMap::values)
    }

    /// The approximate memory of the plan, and of the move that follows it.
    fn held_bytes(&self) -> u64 {
        let frames: usize = self.frames.values().map(BTreeMap::len).sum();
        frames as u64 * FRAME_BYTES + self.names.len() as u64 * NAMES_BYTES
    }

    /// The packs of which a check has found something damaged.
    pub(super) fn marked(&self) -> HashSet<PackId> {
        let marks = self.users.iter().filter_map(|user| user.damage.as_ref());
        marks.flat_map(|mark| mark.packs.iter().map(|marked| marked.pack)).collect()
    }

    /// The rest of a pack once only its needed frames are stored again. All of it, if it
    /// holds nothing else.
    pub fn kept_bytes(&self, pack: PackId) -> u64 {
        let frames = self.frames.get(&pack).into_iter().flat_map(|frames| frames.values());
        let segments = self.segments.get(&pack).into_iter().flat_map(|segments| segments.values());
        let kept: u64 = frames.map(|needed| entry(needed.location.stored_len)).sum::<u64>()
            + segments.map(|stored_len| entry(*stored_len)).sum::<u64>();
        kept + (HEADER_LEN + TRAILER_LEN) as u64
    }

    /// The bytes of a pack that nothing needs.
    pub fn unused_bytes(&self, pack: PackId) -> u64 {
        let bytes = self.packs.get(&pack).copied().unwrap_or_default();
        bytes.saturating_sub(self.kept_bytes(pack))
    }

    /// Leaves `packs` as they are, and the snapshots that need nothing else.
    pub fn without(mut self, packs: &HashSet<PackId>) -> Self {
        self.leave(packs);
        self.drop_idle();
        self
    }

    fn leave(&mut self, packs: &HashSet<PackId>) {
        self.packs.retain(|pack, _| !packs.contains(pack));
        self.frames.retain(|pack, _| !packs.contains(pack));
        self.segments.retain(|pack, _| !packs.contains(pack));
        self.names.retain(|_, names| {
            names.packs.retain(|pack| !packs.contains(pack));
            !names.packs.is_empty()
        });
    }

    fn drop_idle(&mut self) {
        let packs = &self.packs;
        self.users.retain(|user| user.packs.iter().any(|pack| packs.contains_key(pack)));
    }

    /// Those first of which the largest part is not needed: they free most for what is moved.
    fn by_waste(&self) -> Vec<PackId> {
        let kept_share = |pack: &PackId| self.kept_bytes(*pack) as f64 / self.packs[pack].max(1) as f64;
        let mut packs: Vec<(f64, PackId)> = self.packs.keys().map(|pack| (kept_share(pack), *pack)).collect();
        packs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        packs.into_iter().map(|(_, pack)| pack).collect()
    }

    /// The packs of which nothing can be moved while only so many bytes may be stored.
    pub fn beyond(&self, room: u64) -> HashSet<PackId> {
        let mut kept = 0;
        let mut fits = |pack: PackId| {
            let more = self.kept_bytes(pack);
            let fits = kept + more <= room;
            kept += if fits { more } else { 0 };
            fits
        };
        self.by_waste().into_iter().filter(|pack| !fits(*pack)).collect()
    }

    /// The snapshots that need any of it.
    pub fn records(&self) -> impl Iterator<Item = RecordId> {
        self.users.iter().map(|user| user.record)
    }
}

/// The length of a frame in a pack, with its entry in the directory.
pub(super) fn entry(stored_len: u32) -> u64 {
    u64::from(stored_len) + ENTRY_LEN as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PackSeq;

    #[test]
    fn what_room_there_is_goes_to_what_frees_most() {
        let id = |number: u8| PackId { write: RecordId::from_bytes([number; 16]), seq: PackSeq::Meta };
        let segment = |len: u32| [(ChunkId::from_bytes([0; 32]), len)].into();
        let survey = RepackPlan {
            packs: [(id(1), 20_000), (id(2), 20_000), (id(3), 1000)].into(),
            segments: [(id(1), segment(18_000)), (id(2), segment(1000)), (id(3), segment(500))].into(),
            ..RepackPlan::default()
        };
        let least = survey.kept_bytes(id(2));
        assert_eq!(survey.beyond(least - 1), [id(1), id(2)].into());
        assert_eq!(survey.beyond(least), [id(1), id(3)].into());
        assert_eq!(
            survey.beyond(survey.kept_bytes(id(1))),
            [id(1)].into(),
            "it would fit alone, and free least"
        );
        assert_eq!(survey.beyond(u64::MAX), [].into());
    }
}
