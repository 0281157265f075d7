//! Checks that what is stored is what it should be, from the pointer down to every byte.
//!
//! Everything is read from the bucket, never from a cache. One damaged object does not
//! end the check: the rest is still looked at, and every finding names its object, the
//! snapshots that need it and, where it can be told, the files.

mod archives;
mod chunks;
mod findings;
mod indexes;
mod lineage;
mod packs;
mod repair;
mod sample;

pub use findings::Damage;
pub use sample::Sample;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use self::{
    findings::{Findings, is_damage, is_loss},
    indexes::LostIndexes,
};
use crate::{
    Error, Result,
    bucket::BucketError,
    catalog::{pointer, records},
    content::{TenantStore, lost::Lost, meta::Metadata},
    format::{
        layout,
        pack::PackEntry,
        record::{Content, Record, State},
    },
    id::{PackId, PackSeq, RecordId},
    name::Lineage,
    ops::open::check_size,
    progress::Progress,
};

const REQUESTS_AT_ONCE: usize = 4;
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Look at this snapshot alone, and at nothing else of the lineage.
    pub only: Option<RecordId>,
    /// Read and check chunks, not only where they should be.
    pub read_data: bool,
    /// Only those of some packs, and what is marked as damaged.
    pub sample: Option<Sample>,
    /// Make good what can be, and mark the snapshots of which something is lost.
    pub repair: bool,
    /// How much memory what is made good together may take, about; the rest follows.
    pub memory_bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub snapshots: u64,
    pub packs: u64,
    pub chunks: u64,
    pub read_bytes: u64,
    pub damage: Vec<Damage>,
    /// What was wrong and is not any more.
    pub repaired: Vec<Damage>,
    /// Short names of the snapshots that are marked as damaged.
    pub marked: Vec<String>,
}

pub async fn verify(
    store: &TenantStore,
    lineage: &Lineage,
    options: Options,
    progress: Arc<dyn Progress>,
) -> Result<Report> {
    let mut check = Check {
        store,
        lineage,
        options,
        progress,
        sizes: HashMap::new(),
        directories: HashMap::new(),
        checked: HashSet::new(),
        seen: HashSet::new(),
        looked_at: HashMap::new(),
        wrong: HashMap::new(),
        lost: Lost::default(),
        findings: Findings::default(),
        lost_indexes: LostIndexes::default(),
        report: Report::default(),
    };
    check.look().await?;
    if options.repair {
        check.repair().await?;
    }
    let Check { findings, mut report, .. } = check;
    report.damage = findings.told();
    Ok(report)
}

struct Check<'a> {
    store: &'a TenantStore,
    lineage: &'a Lineage,
    options: Options,
    progress: Arc<dyn Progress>,
    sizes: HashMap<PackId, u64>,
    /// What each pack says it holds; `None` if it cannot be read.
    directories: HashMap<PackId, Option<HashMap<u64, PackEntry>>>,
    /// Places of chunks that were looked at.
    checked: HashSet<(PackId, u64)>,
    /// Those of them that were read.
    seen: HashSet<(PackId, u64)>,
    /// The snapshots that were looked at, each with its generation.
    looked_at: HashMap<RecordId, u64>,
    /// Those of them that are not what they should be, and why.
    wrong: HashMap<(PackId, u64), String>,
    /// Everything in packs that cannot be relied on.
    lost: Lost,
    findings: Findings,
    lost_indexes: LostIndexes,
    report: Report,
}

impl Check<'_> {
    /// Looks at everything once, but at no chunk that was found whole before.
    async fn look(&mut self) -> Result<()> {
        // Against the order of writing, so that a snapshot taken meanwhile is not mistaken for
        // damage: the pointer first, then records, then packs.
        let pointer = pointer::read(self.store, self.lineage).await;
        let records = records::list(self.store, self.lineage).await?;
        self.list_packs().await?;
        let only = self.options.only;
        let mut live = Vec::new();
        for record in records {
            match record {
                Ok(record) if only.is_some_and(|only| only != record.record) => drop(record),
                Ok(record) if matches!(record.state, State::Live | State::Trashed) => live.push(record),
                Ok(_) => {}
                Err(_) if only.is_some() => {}
                Err(error) => self.findings.damaged(error, "", None)?,
            }
        }
        if only.is_none() {
            self.pointer(pointer, &live).await?;
        }
        self.report.snapshots = live.len() as u64;
        let marked = live.iter().filter(|record| record.damage.is_some());
        self.report.marked = marked.map(Record::sha256_prefix).collect();
        self.looked_at.clear();
        for record in &mut live {
            self.follow(record).await?;
            self.looked_at.insert(record.record, record.generation);
        }
        self.archives(&live).await?;
        if only.is_none() {
            self.indexes(live).await?;
            self.lock_and_events().await?;
        }
        self.report.packs = self.directories.len() as u64;
        self.report.chunks = self.checked.len() as u64;
        Ok(())
    }

    /// Checks a snapshot, wherever its chunks are moved meanwhile. What is wrong with one that
    /// is deleted meanwhile does not count.
    async fn follow(&mut self, record: &mut Record) -> Result<()> {
        let name = record.sha256_prefix();
        let before = (self.findings.clone(), self.lost.clone(), self.wrong.clone());
        loop {
            if let Err(error) = self.snapshot(record, &name).await {
                self.findings.damaged(error, &name, None)?;
            }
            if self.findings == before.0 {
                return Ok(());
            }
            match self.now(record).await? {
                Some(now) if now.generation == record.generation => return Ok(()),
                Some(now) => {
                    *record = now;
                    self.list_packs().await?;
                    self.directories.retain(|_, directory| directory.is_some());
                    (self.findings, self.lost, self.wrong) = before.clone();
                }
                None => {
                    (self.findings, self.lost, self.wrong) = before;
                    return Ok(());
                }
            }
        }
    }

    /// The record as it is now, if it still holds a snapshot.
    async fn now(&self, record: &Record) -> Result<Option<Record>> {
        match records::get(self.store, self.lineage, record.record).await {
            Ok((now, _)) => Ok(Some(now).filter(|now| matches!(now.state, State::Live | State::Trashed))),
            Err(error) if is_damage(&error) => Ok(Some(record.clone())),
            Err(Error::Bucket(BucketError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn snapshot(&mut self, record: &Record, name: &str) -> Result<()> {
        let Some(content) = &record.content else { return Ok(()) };
        let metadata = match Metadata::fetch(self.store, content).await {
            Err(error) if is_loss(&error) => {
                self.lose_metadata(content, name).await?;
                return Err(error);
            }
            metadata => metadata?,
        };
        let (entries, locations) = match metadata.decode() {
            Err(error) if is_loss(&error) => {
                self.lose_metadata(content, name).await?;
                return Err(error);
            }
            decoded => decoded?,
        };
        if let Err(error) = check_size(record, &entries) {
            self.findings.damaged(error, name, None)?;
        }
        let mut needed: BTreeSet<PackId> = locations.iter().map(|location| location.pack).collect();
        needed.extend(metadata.root.blobs().map(|blob| blob.pack));
        drop(metadata);
        let listed: BTreeSet<PackId> = content.packs.iter().map(|used| used.pack).collect();
        self.read_directories(needed.union(&listed).copied(), name).await?;
        if let Some(pack) = needed.difference(&listed).next() {
            let key = layout::record(self.lineage, record.record);
            self.findings.find(key, format!("it does not say that it needs pack {pack}"), name, None);
        }
        self.chunks(record, &entries, &locations, name).await
    }

    /// The tree of a snapshot cannot be read: finds out which packs are to blame.
    async fn lose_metadata(&mut self, content: &Content, name: &str) -> Result<()> {
        let packs: BTreeSet<PackId> = content.packs.iter().map(|used| used.pack).collect();
        let packs = packs.into_iter().chain([content.root.pack]).filter(|pack| pack.seq == PackSeq::Meta);
        let packs: BTreeSet<PackId> = packs.collect();
        // Some may have gone since they were read for another.
        self.list_packs().await?;
        packs.iter().for_each(|pack| drop(self.directories.remove(pack)));
        self.read_directories(packs.iter().copied(), name).await?;
        if !packs.iter().any(|pack| self.lost.has_pack(pack)) {
            packs.into_iter().for_each(|pack| self.lost.add_pack(pack));
        }
        Ok(())
    }
}
