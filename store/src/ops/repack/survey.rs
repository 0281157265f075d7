//! What of some packs is needed, and by whom.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::{
    Error, Result,
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

use super::{Rehearsal, update::check_room};

/// How often packs are left out that are not worth it without those that were left out before.
const ROUNDS: usize = 8;

/// Packs to be emptied, and all that needs them.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// With their size.
    pub packs: BTreeMap<PackId, u64>,
    /// The snapshots that need any of them, as they were read.
    pub(super) records: Vec<(Lineage, Record)>,
    /// Of each data pack, the frames that are needed, by where they lie.
    pub(super) frames: Frames,
    /// Of each meta pack, the roots and segments that are needed.
    segments: BTreeMap<PackId, BTreeMap<ChunkId, u32>>,
    /// The roots and tables that name something in these packs.
    names: BTreeMap<(PackId, ChunkId), Names>,
}

/// By pack, and by where they begin in it.
pub type Frames = BTreeMap<PackId, BTreeMap<u64, Needed>>;

/// A frame that is needed: where it lies, and what it is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    pub location: Location,
    pub id: ChunkId,
    pub raw_len: u32,
}

/// What must be written anew when a pack is emptied.
#[derive(Clone, Debug, Default)]
struct Names {
    stored_len: u32,
    /// The packs it names, of those that are to be emptied.
    packs: BTreeSet<PackId>,
}

/// Reads the tables of `records` to find out what they need of `packs`. Records that are not
/// live, or need none of them, are left out; each is taken for what it would be. With an error comes
/// whose table cannot be read.
pub async fn survey(
    store: &TenantStore,
    rehearsal: &Rehearsal,
    packs: BTreeMap<PackId, u64>,
    records: &[(Lineage, RecordId)],
) -> Result<Survey, (Option<Box<Record>>, Error)> {
    let mut survey = Survey { packs, ..Survey::default() };
    for (lineage, id) in records {
        let found = rehearsal.get(store, lineage, *id).await.map_err(|error| (None, error))?;
        if let Some((record, _)) = found
            && record.state == State::Live
            && let Err(error) = survey.add(store, rehearsal, lineage, &record).await
        {
            return Err((Some(Box::new(record)), error));
        }
    }
    Ok(survey)
}

impl Survey {
    /// Of `records`, these frames of these packs are to be moved, and all metadata in them.
    pub fn of(packs: BTreeMap<PackId, u64>, records: Vec<(Lineage, Record)>, frames: Frames) -> Self {
        Self { packs, records, frames, ..Self::default() }
    }

    async fn add(
        &mut self,
        store: &TenantStore,
        rehearsal: &Rehearsal,
        lineage: &Lineage,
        record: &Record,
    ) -> Result<()> {
        let Some(content) = &record.content else { return Ok(()) };
        if !content.packs.iter().any(|used| self.packs.contains_key(&used.pack)) {
            return Ok(());
        }
        let Some(metadata) = rehearsal.metadata(store, record).await? else { return Ok(()) };
        metadata.read_segments(|segment, chunks| {
            for (id, raw_len, location) in chunks {
                if !self.packs.contains_key(&location.pack) {
                    continue;
                }
                self.need(Needed { location, id, raw_len })?;
                let Blob { pack, id, stored_len, .. } = segment.table;
                let names = self.names.entry((pack, id)).or_default();
                names.stored_len = stored_len;
                names.packs.insert(location.pack);
            }
            Ok(())
        })?;
        let RootRef { pack, id, stored_len, .. } = content.root;
        let blobs = metadata.root.blobs().map(|blob| (blob.pack, blob.id, blob.stored_len));
        for (pack, id, stored_len) in blobs.chain([(pack, id, stored_len)]) {
            if self.packs.contains_key(&pack) {
                self.segments.entry(pack).or_default().insert(id, stored_len);
            }
        }
        let named = content.packs.iter().map(|used| used.pack).filter(|pack| self.packs.contains_key(pack));
        let names = self.names.entry((pack, id)).or_default();
        names.stored_len = stored_len;
        names.packs.extend(named);
        self.records.push((lineage.clone(), record.clone()));
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

    /// The packs of which a check has found something damaged.
    pub(super) fn marked(&self) -> HashSet<PackId> {
        let marks = self.records.iter().filter_map(|(_, record)| record.damage.as_ref());
        marks.flat_map(|mark| mark.packs.iter().map(|marked| marked.pack)).collect()
    }

    /// What is left of a pack when nothing but what is needed is stored again. All of it, if it
    /// holds nothing else.
    pub fn kept_bytes(&self, pack: PackId) -> u64 {
        let frames = self.frames.get(&pack).into_iter().flat_map(|frames| frames.values());
        let segments = self.segments.get(&pack).into_iter().flat_map(|segments| segments.values());
        let kept: u64 = frames.map(|needed| entry(needed.location.stored_len)).sum::<u64>()
            + segments.map(|stored_len| entry(*stored_len)).sum::<u64>();
        kept + (HEADER_LEN + TRAILER_LEN) as u64
    }

    /// What of a pack nothing needs.
    pub fn unused_bytes(&self, pack: PackId) -> u64 {
        let bytes = self.packs.get(&pack).copied().unwrap_or_default();
        bytes.saturating_sub(self.kept_bytes(pack))
    }

    /// The packs that are not worth it: nearly as much as is freed would be of no use elsewhere,
    /// for the roots and tables that name what they hold are written anew. Then those would be
    /// next, and so on, without end; twice as much freed makes what is unused less each time.
    pub fn in_vain(&self) -> HashSet<PackId> {
        let mut dropped = HashSet::new();
        // First those that spoil too much by themselves, so that others do not suffer for them.
        for _ in 0..ROUNDS {
            let spoils = Spoils::of(self, &dropped);
            let in_vain = |pack: &&PackId| self.unused_bytes(**pack) <= 2 * spoils.only(pack);
            let more: Vec<PackId> =
                self.packs.keys().filter(|pack| !dropped.contains(*pack)).filter(in_vain).copied().collect();
            if more.is_empty() {
                break;
            }
            dropped.extend(more);
        }
        let spoils = Spoils::of(self, &dropped);
        let rest = self.packs.keys().filter(|pack| !dropped.contains(*pack));
        if rest.clone().map(|pack| self.unused_bytes(*pack)).sum::<u64>() > 2 * spoils.all {
            return dropped;
        }
        // Those that are worth it by themselves are so together, for they share what they spoil.
        let in_vain = |pack: &&PackId| self.unused_bytes(**pack) <= 2 * spoils.any(pack);
        let more: Vec<PackId> = rest.filter(in_vain).copied().collect();
        dropped.extend(more);
        dropped
    }

    /// Leaves `packs` as they are.
    pub fn without(mut self, packs: &HashSet<PackId>) -> Self {
        self.packs.retain(|pack, _| !packs.contains(pack));
        self.frames.retain(|pack, _| !packs.contains(pack));
        self.segments.retain(|pack, _| !packs.contains(pack));
        let needs = |record: &Record| {
            let mut used = record.content.iter().flat_map(|content| &content.packs);
            used.any(|used| self.packs.contains_key(&used.pack))
        };
        self.records.retain(|(_, record)| needs(record));
        self
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

    /// Leaves packs as they are that would make it move more frames than `most`, but for one.
    pub fn up_to(self, most: usize) -> Self {
        let mut frames = 0;
        let later = self.by_waste().into_iter().enumerate().filter(|(number, pack)| {
            frames += self.frames.get(pack).map_or(0, BTreeMap::len);
            *number > 0 && frames > most
        });
        let later: HashSet<PackId> = later.map(|(_, pack)| pack).collect();
        if later.is_empty() { self } else { self.without(&later) }
    }

    /// The snapshots that need any of it.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().map(|(_, record)| record)
    }

    /// A snapshot that cannot be moved, because there is no room in its record for what it would have to
    /// remember.
    pub fn forgetful(&self, pins: &[pins::Found]) -> Option<(&Record, Error)> {
        self.records().find_map(|record| Some((record, check_room(record, pins).err()?)))
    }
}

/// What would be of no use any more where it lies if some packs were emptied.
#[derive(Default)]
struct Spoils {
    all: u64,
    /// Of each pack, what names it; and what names none of the others.
    by_pack: HashMap<PackId, (u64, u64)>,
}

impl Spoils {
    /// If all packs of `survey` were emptied but those that are `dropped`.
    fn of(survey: &Survey, dropped: &HashSet<PackId>) -> Self {
        let mut spoils = Self::default();
        let is_emptied = |pack: &PackId| survey.packs.contains_key(pack) && !dropped.contains(pack);
        for ((home, _), names) in &survey.names {
            let bytes = entry(names.stored_len);
            let mut hit = names.packs.iter().filter(|pack| is_emptied(pack)).peekable();
            if hit.peek().is_none() {
                continue;
            }
            if !is_emptied(home) {
                spoils.all += bytes;
            }
            let is_only = hit.clone().nth(1).is_none();
            for pack in hit.filter(|pack| *pack != home) {
                let (any, only) = spoils.by_pack.entry(*pack).or_default();
                *any += bytes;
                *only += if is_only && !is_emptied(home) { bytes } else { 0 };
            }
        }
        spoils
    }

    fn any(&self, pack: &PackId) -> u64 {
        self.by_pack.get(pack).map_or(0, |(any, _)| *any)
    }

    fn only(&self, pack: &PackId) -> u64 {
        self.by_pack.get(pack).map_or(0, |(_, only)| *only)
    }
}

/// What a frame takes in a pack, with what the directory says of it.
fn entry(stored_len: u32) -> u64 {
    u64::from(stored_len) + ENTRY_LEN as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PackSeq;

    /// By number. Those that are to be emptied, with what is unused of each; and what names them, with
    /// what that takes, where it lies, and which it names.
    fn in_vain(packs: &[(u8, u64)], names: &[(u64, u8, &[u8])]) -> Vec<u8> {
        let id = |number: u8| PackId { write: RecordId::from_bytes([number; 16]), seq: PackSeq::Meta };
        let around = (HEADER_LEN + TRAILER_LEN) as u64;
        let survey = Survey {
            packs: packs.iter().map(|(pack, unused)| (id(*pack), unused + around)).collect(),
            names: (0..)
                .zip(names)
                .map(|(number, (bytes, home, named))| {
                    let stored_len = (bytes - ENTRY_LEN as u64) as u32;
                    let packs = named.iter().map(|pack| id(*pack)).collect();
                    ((id(*home), ChunkId::from_bytes([number; 32])), Names { stored_len, packs })
                })
                .collect(),
            ..Survey::default()
        };
        let dropped = survey.in_vain();
        packs.iter().map(|(pack, _)| *pack).filter(|pack| dropped.contains(&id(*pack))).collect()
    }

    #[test]
    fn what_room_there_is_goes_to_what_frees_most() {
        let id = |number: u8| PackId { write: RecordId::from_bytes([number; 16]), seq: PackSeq::Meta };
        let segment = |len: u32| [(ChunkId::from_bytes([0; 32]), len)].into();
        let survey = Survey {
            packs: [(id(1), 20_000), (id(2), 20_000), (id(3), 1000)].into(),
            segments: [(id(1), segment(18_000)), (id(2), segment(1000)), (id(3), segment(500))].into(),
            ..Survey::default()
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

    const NONE: [u8; 0] = [];
    /// Lies in a pack that stays.
    const ELSEWHERE: u8 = 99;

    #[test]
    fn a_pack_is_emptied_if_that_frees_more_than_twice_what_it_spoils() {
        let names: &[(u64, u8, &[u8])] = &[(500, ELSEWHERE, &[1])];
        assert_eq!(in_vain(&[(1, 1001)], names), NONE);
        assert_eq!(in_vain(&[(1, 1000)], names), [1]);
        // One that is worth it does not carry one that is not.
        let names: &[(u64, u8, &[u8])] = &[(500, ELSEWHERE, &[1]), (500, ELSEWHERE, &[2])];
        assert_eq!(in_vain(&[(1, 900), (2, 9000)], names), [1]);
    }

    #[test]
    fn what_lies_in_a_pack_that_is_emptied_too_is_not_spoilt() {
        assert_eq!(in_vain(&[(1, 600), (2, 600)], &[(500, 2, &[1])]), NONE);
        assert_eq!(in_vain(&[(1, 600)], &[(500, 1, &[1])]), NONE);
    }

    #[test]
    fn what_names_two_is_counted_when_only_one_of_them_is_left() {
        let names: &[(u64, u8, &[u8])] = &[(500, ELSEWHERE, &[1, 2]), (2000, ELSEWHERE, &[1])];
        assert_eq!(in_vain(&[(1, 4000), (2, 1000)], names), [1, 2]);
        assert_eq!(in_vain(&[(1, 4000), (2, 1001)], names), [1]);
    }

    #[test]
    fn packs_share_what_they_spoil_together() {
        let names: &[(u64, u8, &[u8])] = &[(900, ELSEWHERE, &[1, 2])];
        assert_eq!(in_vain(&[(1, 1000), (2, 1000)], names), NONE);
        let names: &[(u64, u8, &[u8])] = &[(1000, ELSEWHERE, &[1, 2])];
        assert_eq!(in_vain(&[(1, 1000), (2, 1000)], names), [1, 2]);
        // And all of them do, if any of them does.
        let names: &[(u64, u8, &[u8])] = &[(1000, ELSEWHERE, &[1, 2]), (900, ELSEWHERE, &[3, 4])];
        assert_eq!(in_vain(&[(1, 500), (2, 500), (3, 1400), (4, 1400)], names), [1, 2, 3, 4]);
        assert_eq!(in_vain(&[(1, 500), (2, 500), (3, 1900), (4, 1900)], names), NONE);
    }
}
