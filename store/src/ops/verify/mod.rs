//! Checks stored objects, from the pointer down to every byte.
//!
//! Everything is read from the bucket, never from a cache. One damaged object does not
//! end the check: the rest is still looked at, and every finding names its object, the
//! snapshots that need it and, where it can be told, the files.

mod archives;
mod chunks;
mod directories;
mod findings;
mod indexes;
mod lineage;
mod packs;
pub mod repair;
mod sample;

pub use findings::Damage;
pub use sample::Sample;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use self::{
    directories::Directories,
    findings::{Findings, is_damage, is_loss},
    indexes::LostIndexes,
};
use crate::{
    Error, Result,
    bucket::BucketError,
    catalog::{pointer, records},
    content::{TenantStore, damage::DamagedFrames, snapshot_tree::SnapshotTree},
    format::{
        layout,
        record::{Content, Record, State},
    },
    id::{PackId, PackSeq, RecordId},
    name::Lineage,
    ops::read::open::check_tree_size,
    progress::Progress,
};

const REQUESTS_AT_ONCE: usize = 4;
/// How much memory a check takes unless it is told otherwise.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

/// The objects to check, and how closely.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Look at this snapshot alone, and at nothing else of the lineage.
    pub only: Option<RecordId>,
    /// Read and check chunks, not only where they should be.
    pub read_data: bool,
    /// Only the chunks of some packs, and those that are marked as damaged.
    pub sample: Option<Sample>,
    /// Repair damage from other copies, and mark the snapshots of which something is lost.
    pub repair: bool,
    /// How much memory the directories of packs may take, about, and so may the frames that are repaired
    /// together; the rest follows.
    pub memory_bytes: u64,
}

/// The checked objects, and the findings.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Snapshots that were looked at.
    pub snapshots: u64,
    /// Packs that were looked at.
    pub packs: u64,
    /// Chunks that were looked at.
    pub chunks: u64,
    /// Bytes that were read for that.
    pub read_bytes: u64,
    /// The damage that remains.
    pub damage: Vec<Damage>,
    /// The damage that was repaired.
    pub repaired: Vec<Damage>,
    /// Short names of the snapshots that are marked as damaged.
    pub marked: Vec<String>,
    /// The lineages that were looked at.
    pub lineages: Vec<Looked>,
}

/// One lineage that was looked at.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The lineage.
    pub lineage: Lineage,
    /// Snapshots of it that were looked at.
    pub snapshots: u64,
    /// How many damaged objects it needs or owns.
    pub damage: u64,
    /// The same of repaired faults.
    pub repaired: u64,
}

/// Looks at one lineage.
pub async fn verify(
    store: &TenantStore,
    lineage: &Lineage,
    options: Options,
    progress: Arc<dyn Progress>,
) -> Result<Report> {
    run(store, Some(lineage), options, progress).await
}

/// Looks at every lineage of a tenant. What several of them share is read once. A snapshot is named
/// with its profile then.
pub async fn verify_tenant(
    store: &TenantStore,
    options: Options,
    progress: Arc<dyn Progress>,
) -> Result<Report> {
    run(store, None, options, progress).await
}

async fn run(
    store: &TenantStore,
    only: Option<&Lineage>,
    options: Options,
    progress: Arc<dyn Progress>,
) -> Result<Report> {
    let mut check = Check {
        store,
        only,
        options,
        progress,
        sizes: HashMap::new(),
        directories: Directories::default(),
        used: BTreeSet::new(),
        looked_at: HashMap::new(),
        wrong: HashMap::new(),
        lost: DamagedFrames::default(),
        findings: Findings::default(),
        lost_indexes: LostIndexes::default(),
        report: Report::default(),
    };
    check.look().await?;
    if options.repair {
        check.repair().await?;
    }
    let Check { findings, mut report, .. } = check;
    for looked in &mut report.lineages {
        looked.damage = findings.of(&looked.lineage);
    }
    report.damage = findings.told();
    Ok(report)
}

struct Check<'a> {
    store: &'a TenantStore,
    /// The one that is looked at; `None` for all.
    only: Option<&'a Lineage>,
    options: Options,
    progress: Arc<dyn Progress>,
    sizes: HashMap<PackId, u64>,
    /// The directory of each pack, with the chunks that were looked at.
    directories: Directories,
    /// The packs that snapshots need.
    used: BTreeSet<PackId>,
    /// The snapshots that were looked at, each with its generation.
    looked_at: HashMap<RecordId, u64>,
    /// Places of faulty chunks, and their faults.
    wrong: HashMap<(PackId, u64), String>,
    /// Everything in packs that cannot be relied on.
    lost: DamagedFrames,
    findings: Findings,
    lost_indexes: LostIndexes,
    report: Report,
}

impl Check<'_> {
    /// Looks at everything once, but at no chunk that was found whole before.
    async fn look(&mut self) -> Result<()> {
        let lineages = self.lineages().await?;
        self.report = Report { read_bytes: self.report.read_bytes, ..Report::default() };
        self.looked_at.clear();
        self.used.clear();
        self.sizes.clear();
        for lineage in lineages {
            self.findings.are_of(Some(&lineage));
            self.look_at(&lineage).await?;
        }
        self.findings.are_of(None);
        if self.options.only.is_none() {
            self.indexes().await?;
        }
        self.report.packs = self.directories.len() as u64;
        self.report.chunks = self.directories.checked();
        Ok(())
    }

    async fn lineages(&self) -> Result<Vec<Lineage>> {
        match self.only {
            Some(lineage) => Ok(vec![lineage.clone()]),
            None => records::all_lineages(self.store).await,
        }
    }

    /// The name of a snapshot in findings.
    fn name(&self, lineage: &Lineage, record: &Record) -> String {
        match self.only {
            Some(_) => record.sha256_prefix(),
            None => format!("{}@{}", lineage.name, record.sha256_prefix()),
        }
    }

    async fn look_at(&mut self, lineage: &Lineage) -> Result<()> {
        // Against the order of writing, so that a snapshot taken meanwhile is not mistaken for
        // damage: the pointer first, then records, then packs.
        let pointer = pointer::read(self.store, lineage).await;
        let records = records::list(self.store, lineage).await?;
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
        // Those that were there for another lineage need not be listed again.
        if !live.iter().flat_map(Record::packs).all(|pack| self.sizes.contains_key(&pack)) {
            self.list_packs().await?;
        }
        if only.is_none() {
            self.pointer(lineage, pointer, &live).await?;
        }
        let snapshots = live.len() as u64;
        self.report.snapshots += snapshots;
        self.report.lineages.push(Looked { lineage: lineage.clone(), snapshots, damage: 0, repaired: 0 });
        for record in &mut live {
            if record.damage.is_some() {
                self.report.marked.push(self.name(lineage, record));
            }
            self.follow(lineage, record).await?;
            self.directories.shrink(self.options.memory_bytes);
            self.looked_at.insert(record.record, record.generation);
            self.used.extend(record.packs());
        }
        self.archives(lineage, &live).await?;
        if only.is_none() {
            self.lock_and_events(lineage).await?;
        }
        Ok(())
    }

    /// Checks a snapshot, wherever its chunks are moved meanwhile. What is wrong with one that
    /// is deleted meanwhile does not count.
    async fn follow(&mut self, lineage: &Lineage, record: &mut Record) -> Result<()> {
        let name = self.name(lineage, record);
        let before = (self.findings.clone(), self.lost.clone(), self.wrong.clone());
        loop {
            if let Err(error) = self.snapshot(lineage, record, &name).await {
                self.findings.damaged(error, &name, None)?;
            }
            if self.findings == before.0 {
                return Ok(());
            }
            match self.now(lineage, record).await? {
                Some(now) if now.generation == record.generation => return Ok(()),
                Some(now) => {
                    *record = now;
                    self.list_packs().await?;
                    // What was wrong and is still needed must be found once more.
                    self.directories.look_again_at(&self.lost);
                    (self.findings, self.lost, self.wrong) = before.clone();
                }
                None => {
                    self.directories.look_again_at(&self.lost);
                    (self.findings, self.lost, self.wrong) = before;
                    return Ok(());
                }
            }
        }
    }

    /// The record as it is now, if it still holds a snapshot.
    async fn now(&self, lineage: &Lineage, record: &Record) -> Result<Option<Record>> {
        match records::get(self.store, lineage, record.record).await {
            Ok((now, _)) => Ok(Some(now).filter(|now| matches!(now.state, State::Live | State::Trashed))),
            Err(error) if is_damage(&error) => Ok(Some(record.clone())),
            Err(Error::Bucket(BucketError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn snapshot(&mut self, lineage: &Lineage, record: &Record, name: &str) -> Result<()> {
        let Some(content) = &record.content else { return Ok(()) };
        let looked = self.tree(lineage, record, content, name).await;
        if matches!(&looked, Err(error) if is_loss(error)) {
            self.lose_metadata(content, name).await?;
        }
        looked
    }

    /// Reads the tree of a snapshot, and its needs.
    async fn tree(
        &mut self,
        lineage: &Lineage,
        record: &Record,
        content: &Content,
        name: &str,
    ) -> Result<()> {
        let tree = Arc::new(SnapshotTree::from_bucket(self.store, record).await?);
        if let Err(error) = check_tree_size(record, &tree) {
            self.findings.damaged(error, name, None)?;
        }
        let needed = tree.packs();
        let listed: BTreeSet<PackId> = content.packs.iter().map(|used| used.pack).collect();
        self.read_directories(needed.union(&listed).copied(), name).await?;
        if let Some(pack) = needed.difference(&listed).next() {
            let key = layout::record(lineage, record.record);
            self.findings.find(key, format!("it does not say that it needs pack {pack}"), name, None);
        }
        self.chunks(record, &tree, name).await
    }

    /// The tree of a snapshot cannot be read: finds out which packs are to blame.
    async fn lose_metadata(&mut self, content: &Content, name: &str) -> Result<()> {
        let packs: BTreeSet<PackId> = content.packs.iter().map(|used| used.pack).collect();
        let packs = packs.into_iter().chain([content.root.pack]).filter(|pack| pack.seq == PackSeq::Meta);
        let packs: BTreeSet<PackId> = packs.collect();
        // Some may have gone since they were read for another.
        self.list_packs().await?;
        packs.iter().for_each(|pack| self.directories.forget(pack));
        self.read_directories(packs.iter().copied(), name).await?;
        if !packs.iter().any(|pack| self.lost.has_pack(pack)) {
            packs.into_iter().for_each(|pack| self.lost.add_pack(pack));
        }
        Ok(())
    }
}
