//! `ReadBase` reads the base before a write, and `follow_base` looks at it again once the lease exists.

use std::sync::Arc;

use super::{SnapshotWriter, lost_of};
use crate::{
    Error, ErrorKind, Result,
    catalog::{lease::WriteLease, records},
    content::{
        TenantStore,
        chunk::{Locations, locations_by_id},
        dedup_index::DedupIndex,
        meta::NewTree,
        snapshot_tree::{
            SnapshotTree,
            stream::{LocatedEntry, TreeStream},
        },
    },
    format::{record::Record, table::Location},
    id::ChunkId,
    ops::read::open::as_it_is_now,
};

/// The snapshot that a write builds on, as it was read.
#[derive(Default)]
pub(in crate::ops) struct ReadBase {
    pub record: Option<Record>,
    /// `None` also if the base cannot be read.
    pub tree: Option<Arc<SnapshotTree>>,
    pub locations: Locations,
}

impl ReadBase {
    /// Reads the root of `record`, and where all chunks of its tree lie. A base that cannot be read must not keep anybody
    /// from storing a good snapshot after it: then there is a record and nothing else.
    pub async fn load(store: &TenantStore, record: Option<Record>) -> Self {
        let base = Self::open(store, record).await;
        let Some(tree) = base.tree.clone().filter(|tree| tree.metadata().is_none()) else { return base };
        match tree.locations().await {
            Ok(locations) => Self { locations, ..base },
            Err(error) => Self::unreadable(base.record, &error),
        }
    }

    fn unreadable(record: Option<Record>, error: &Error) -> Self {
        let id = record.as_ref().map(|record| record.record.to_string()).unwrap_or_default();
        tracing::warn!(record = %id, %error, "the current snapshot cannot be built on");
        Self { record, ..Self::default() }
    }

    /// Reads the root of `record`, and all of a small tree. A base that cannot be read must not keep anybody from
    /// storing a good snapshot after it: then there is a record and nothing else.
    pub async fn open(store: &TenantStore, record: Option<Record>) -> Self {
        let Some(record) = record else { return Self::default() };
        if record.content.is_none() {
            return Self { record: Some(record), ..Self::default() };
        }
        let opened = SnapshotTree::open(store, &record).await;
        let base = opened.and_then(|tree| Self::by_need(record.clone(), Arc::new(tree)));
        base.unwrap_or_else(|error| Self::unreadable(Some(record), &error))
    }

    /// The base whose tree is read by need. Where its chunks lie is known of a tree that is at hand.
    pub fn by_need(record: Record, tree: Arc<SnapshotTree>) -> Result<Self> {
        let locations = match tree.metadata() {
            Some(metadata) => {
                let (entries, locations) = metadata.decode()?;
                locations_by_id(&entries, locations)
            }
            None => Locations::new(),
        };
        Ok(Self { record: Some(record), tree: Some(tree), locations })
    }

    /// No base at all, if this one could not be read.
    pub fn if_readable(self) -> Self {
        if self.tree.is_some() { self } else { Self::default() }
    }
}

impl SnapshotWriter {
    /// The tree of the base, if it could be read.
    pub fn base_tree(&self) -> Option<Arc<SnapshotTree>> {
        self.base_tree.clone()
    }

    /// Where chunks of the base lie.
    pub fn learn_base(&self, locations: impl Iterator<Item = (ChunkId, Location)>) {
        self.known.learn_base(locations.collect());
    }

    /// Learns where all chunks of a base are whose tree is not at hand. What cannot be read is not known, and so is
    /// stored again.
    pub async fn learn_whole_base(&self) {
        let Some(tree) = self.base_tree().filter(|tree| tree.metadata().is_none()) else { return };
        let learnt = async {
            let mut stream = TreeStream::new(tree).await?;
            while let Some(entries) = stream.next().await? {
                let pieces = entries.iter().flat_map(LocatedEntry::pieces);
                self.learn_base(pieces.map(|piece| (piece.id, piece.location)));
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = learnt.await {
            tracing::warn!(%error, "some of the current snapshot cannot be read; more may be stored than needed");
        }
    }

    /// Reads the root of the base where it is now; `false` if there is no base.
    pub async fn reopen_base(&mut self) -> Result<bool> {
        let Some(base) = &self.base else { return Ok(false) };
        let now = records::current(&self.store, &base.lineage(), base.record).await?;
        let store = &self.store;
        let open = |record| async move { SnapshotTree::open(store, &record).await };
        let (_, tree) = as_it_is_now(store, now, open).await?;
        self.base_tree = Some(Arc::new(tree));
        Ok(true)
    }

    /// Looks at the base again: since it was read, a repair may have found some of it damaged, or
    /// have stored it elsewhere. A repair that starts from now on finds this write under way.
    pub async fn follow_base(&mut self) -> Result<()> {
        let Some(before) = &self.base else { return self.lease.look_at_packs().await };
        let now = match self.base_now(before).await? {
            // What is still there of it may be referred to all the same.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => return Ok(()),
            now => now?,
        };
        if is_same(before, &now) {
            return Ok(());
        }
        let mut lost = lost_of(&now);
        let read = ReadBase::load(&self.store, Some(now)).await;
        match read.tree.is_some() {
            true => self.known.learn_moved(read.locations),
            // Where it is now is not known, and where it was it is still lost.
            false => lost.add(&self.known.lost()),
        }
        self.known.learn_lost(lost);
        (self.base, self.base_tree) = (read.record, read.tree);
        Ok(())
    }

    /// Whether the write may take for granted that its base is as it was read, until [`Self::look_at_base`] has
    /// shown it: then it refers to all of the base's packs, of which none is condemned and nothing is damaged.
    pub async fn trusts_base(&mut self, tree: &mut NewTree) -> Result<bool> {
        let Some(base) = &self.base else { return Ok(false) };
        if base.damage.is_some() || base.packs().any(|pack| self.known.is_barred(&pack)) {
            return Ok(false);
        }
        self.known.note_existing(base.packs());
        match self.not_in_base(tree).await {
            Ok(lacking) if lacking.is_empty() => Ok(true),
            // It was moved since.
            Ok(_) | Err(Error::Missing { .. }) => Err(self.begin_anew().await),
            Err(error) => Err(error),
        }
    }

    /// Fails with [`Error::WriteRevoked`] unless the base is still as it was read, and all its packs are
    /// there: the write has taken that for granted.
    pub fn look_at_base(&self) -> impl Future<Output = Result<()>> + use<> {
        let (store, lease, known, base) =
            (self.store.clone(), Arc::clone(&self.lease), Arc::clone(&self.known), self.base.clone());
        async move {
            let Some(base) = base else { return Ok(()) };
            let (now, write) = (base_now(&store, &lease, &known, &base).await?, lease.begin().await?);
            let is_sound =
                now.is_ok_and(|now| is_same(&base, &now)) && base.packs().all(|pack| !known.is_barred(&pack));
            if is_sound { Ok(()) } else { Err(Error::WriteRevoked { record: write }) }
        }
    }

    async fn begin_anew(&self) -> Error {
        self.lease.begin().await.map_or_else(|error| error, |record| Error::WriteRevoked { record })
    }

    /// The record of the base as it is now. All packs that it names while it is a snapshot are there.
    pub(super) async fn base_now(&self, before: &Record) -> Result<Result<Record>> {
        base_now(&self.store, &self.lease, &self.known, before).await
    }
}

async fn base_now(
    store: &TenantStore,
    lease: &WriteLease,
    known: &DedupIndex,
    before: &Record,
) -> Result<Result<Record>> {
    let lineage = before.lineage();
    let now = records::current(store, &lineage, before.record);
    let (looked, now) = futures::future::join(lease.look_at_packs(), now).await;
    looked?;
    if let Ok(now) = &now {
        known.note_existing(now.packs());
    }
    Ok(now)
}

/// Whether nobody has moved or marked anything of a snapshot between two looks.
pub(super) fn is_same(before: &Record, now: &Record) -> bool {
    now.generation == before.generation && now.damage == before.damage
}
