//! What of some packs is needed, and by whom.

use std::collections::{BTreeMap, HashSet};

use crate::{
    Error, Result,
    bucket::BucketError,
    catalog::records,
    content::{TenantStore, meta::Metadata},
    format::{
        pack::{ENTRY_LEN, HEADER_LEN, TRAILER_LEN},
        record::{Record, State},
        table::Location,
    },
    id::{ChunkId, PackId, PackSeq, RecordId},
    name::Lineage,
};

/// Packs to be emptied, and all that needs them.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// With their size.
    pub packs: BTreeMap<PackId, u64>,
    /// The snapshots that need any of them, as they were read.
    pub(super) records: Vec<(Lineage, Record)>,
    /// Of each data pack, the frames that are needed, by where they lie.
    pub(super) frames: BTreeMap<PackId, BTreeMap<u64, Location>>,
    /// Of each meta pack, the segments that are needed.
    segments: BTreeMap<PackId, BTreeMap<ChunkId, u32>>,
}

/// Reads the tables of `records` to find out what they need of `packs`. Records that are not
/// live, or need none of them, are left out. With an error comes whose table cannot be read.
pub async fn survey(
    store: &TenantStore,
    packs: BTreeMap<PackId, u64>,
    records: &[(Lineage, RecordId)],
) -> Result<Survey, (Option<Box<Record>>, Error)> {
    let mut survey = Survey { packs, ..Survey::default() };
    for (lineage, id) in records {
        let record = match records::get(store, lineage, *id).await {
            Ok((record, _)) => record,
            Err(Error::Bucket(BucketError::NotFound { .. })) => continue,
            Err(error) => return Err((None, error)),
        };
        if record.state == State::Live
            && let Err(error) = survey.add(store, lineage, &record).await
        {
            return Err((Some(Box::new(record)), error));
        }
    }
    Ok(survey)
}

impl Survey {
    /// Of `records`, these frames of these packs are to be moved, and all metadata in them.
    pub fn of(
        packs: BTreeMap<PackId, u64>,
        records: Vec<(Lineage, Record)>,
        frames: BTreeMap<PackId, BTreeMap<u64, Location>>,
    ) -> Self {
        Self { packs, records, frames, segments: BTreeMap::new() }
    }

    async fn add(&mut self, store: &TenantStore, lineage: &Lineage, record: &Record) -> Result<()> {
        let Some(content) = &record.content else { return Ok(()) };
        if !content.packs.iter().any(|used| self.packs.contains_key(&used.pack)) {
            return Ok(());
        }
        let metadata = Metadata::load(store, record.record, record.generation, content).await?;
        for location in metadata.tables()?.into_iter().flatten() {
            if self.packs.contains_key(&location.pack) {
                self.frames.entry(location.pack).or_default().insert(location.offset, location);
            }
        }
        for blob in metadata.root.blobs().filter(|blob| self.packs.contains_key(&blob.pack)) {
            self.segments.entry(blob.pack).or_default().insert(blob.id, blob.stored_len);
        }
        self.records.push((lineage.clone(), record.clone()));
        Ok(())
    }

    /// What is left of a pack when nothing but what is needed is stored again, about.
    pub fn kept_bytes(&self, pack: PackId) -> u64 {
        let entry = |stored_len: u32| u64::from(stored_len) + ENTRY_LEN as u64;
        let frames = self.frames.get(&pack).into_iter().flat_map(|frames| frames.values());
        let segments = self.segments.get(&pack).into_iter().flat_map(|segments| segments.values());
        let kept: u64 = frames.map(|location| entry(location.stored_len)).sum::<u64>()
            + segments.map(|stored_len| entry(*stored_len)).sum::<u64>();
        let around = if pack.seq == PackSeq::Meta { 0 } else { (HEADER_LEN + TRAILER_LEN) as u64 };
        kept + around
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

    /// The packs of which nothing can be moved while only so many bytes may be stored.
    pub fn beyond(&self, room: u64) -> HashSet<PackId> {
        let mut kept = 0;
        let mut fits = |pack: PackId| {
            let more = self.kept_bytes(pack);
            let fits = kept + more <= room;
            kept += if fits { more } else { 0 };
            fits
        };
        self.packs.keys().copied().filter(|pack| !fits(*pack)).collect()
    }

    /// Leaves packs as they are that would make it move more frames than `most`, but for one.
    pub fn up_to(self, most: usize) -> Self {
        let mut frames = 0;
        let later = self.packs.keys().enumerate().filter(|(number, pack)| {
            frames += self.frames.get(pack).map_or(0, BTreeMap::len);
            *number > 0 && frames > most
        });
        let later: HashSet<PackId> = later.map(|(_, pack)| *pack).collect();
        if later.is_empty() { self } else { self.without(&later) }
    }

    pub fn records(&self) -> u64 {
        self.records.len() as u64
    }
}
