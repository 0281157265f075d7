//! `SnapshotWriter` stores one snapshot, from any source of files.
//!
//! It looks up which chunks are stored already, holds the write's lease, uploads packs, follows the
//! base if others move or lose parts of it meanwhile, and in the end makes the record live. A source
//! (a directory, a mount, an archive) gives the entries and their content, and says by `Barred`
//! how it makes up for chunks that the write may not refer to.

mod base;
pub mod commit;
mod copy_barred;
mod draft;
mod earlier;
mod finish;
mod index_loading;
mod kept_segments;
pub mod snapshot;
mod tree_cutter;

pub(super) use base::ReadBase;
pub(super) use draft::Totals;
pub(super) use finish::Finished;

use std::{collections::HashSet, path::Path, sync::Arc};

use draft::draft;
use finish::Beside;
use index_loading::IndexLoading;
use tree_cutter::TreeCutter;

use super::write::snapshot::About;
use crate::{
    Error, Result,
    catalog::{
        index::{IndexBudget, IndexUse},
        lease::WriteLease,
        lineage_handle::LineageHandle,
    },
    content::{
        TenantStore,
        damage::DamagedFrames,
        dedup_index::DedupIndex,
        ingest::Ingest,
        meta::NewTree,
        snapshot_tree::SnapshotTree,
        unfinished::Unfinished,
        upload::{Uploader, WriteSession},
        workers::blocking,
    },
    format::{self, record::Record, root::Root, tree::Entry},
    id::{ChunkId, RecordId},
    name::Lineage,
    progress::Progress,
};

/// How a source makes up for chunks of the base that the write may not refer to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Barred {
    /// The source reads the file again. So the writer may look chunks up before it has a lease.
    Reread { index_budget: IndexBudget },
    /// The source has no other copy, so the writer copies the frames. It reads no index.
    Copy,
    /// The source can be read only once, so the writer takes its lease first, and lists all packs.
    LeaseFirst,
}

/// The facts that are known of a write before it begins.
pub(super) struct WriteParameters<'a> {
    pub lineage: &'a Lineage,
    pub about: About,
    pub totals: Totals,
    /// The kind of the source, and its path.
    pub source: (&'a str, &'a Path),
    pub barred: Barred,
    /// How much the tenant may have stored when the write is done.
    pub quota_bytes: Option<u64>,
}

/// A snapshot on its way into the store.
pub(super) struct SnapshotWriter {
    store: TenantStore,
    base: Option<Record>,
    /// `None` also if the base cannot be read.
    base_tree: Option<Arc<SnapshotTree>>,
    known: Arc<DedupIndex>,
    lease: Arc<WriteLease>,
    uploader: Arc<Uploader>,
    ingest: Arc<Ingest>,
    index: Option<IndexLoading>,
    /// The log that tells why the snapshot is held back, and the reason, if it is.
    held_back: Option<(LineageHandle, String)>,
}

impl SnapshotWriter {
    /// Makes a writer. Nothing is written yet.
    pub async fn begin(
        store: &TenantStore,
        parameters: WriteParameters<'_>,
        base: impl Future<Output = Result<ReadBase>>,
        progress: Arc<dyn Progress>,
    ) -> Result<Self> {
        let (index, arriving) = match parameters.barred {
            Barred::Reread { index_budget } => {
                let (index, arriving) = IndexLoading::begin(store, index_budget);
                (Some(index), Some(arriving))
            }
            Barred::Copy | Barred::LeaseFirst => (None, None),
        };
        let resumes = !matches!(parameters.barred, Barred::Copy);
        let (base, unfinished) = futures::future::join(base, unfinished(store, resumes)).await;
        let ReadBase { record: base, tree: base_tree, locations } = base?;
        let lost = base.as_ref().map(lost_of).unwrap_or_default();
        let known = Arc::new(DedupIndex::new(locations, arriving).without(lost).beside(unfinished?));
        let draft = draft(
            store,
            parameters.lineage,
            parameters.about,
            base.as_ref(),
            parameters.totals,
            parameters.source,
        );
        let lease = WriteLease::new(store.clone(), parameters.lineage.clone(), draft, Arc::clone(&known));
        let lease = match parameters.barred {
            Barred::LeaseFirst => lease.listing_packs(),
            Barred::Reread { .. } | Barred::Copy => lease,
        };
        let lease = Arc::new(lease.within(parameters.quota_bytes).kept());
        let gate = Arc::clone(&lease) as Arc<dyn WriteSession>;
        let uploader = Uploader::new(store.clone(), gate, Arc::clone(&progress));
        let uploader = Arc::new(if resumes { uploader.noting() } else { uploader });
        let ingest = Ingest::new(store.clone(), Arc::clone(&known), Arc::clone(&uploader), progress);
        let (store, ingest) = (store.clone(), Arc::new(ingest));
        let held_back = None;
        Ok(Self { store, base, base_tree, known, lease, uploader, ingest, index, held_back })
    }

    /// The log of a lineage tells that the snapshot is held back, before the record is live.
    pub fn tell_held_back(&mut self, handle: &LineageHandle, reason: &str) {
        self.held_back = Some((handle.clone(), reason.to_owned()));
    }

    pub fn base(&self) -> Option<&Record> {
        self.base.as_ref()
    }

    /// The base, if its metadata could be read.
    pub fn readable_base(&self) -> Option<&Record> {
        self.base.as_ref().filter(|_| self.base_tree.is_some())
    }

    /// What the write knows of chunks that are stored already.
    pub fn dedup_index(&self) -> Arc<DedupIndex> {
        Arc::clone(&self.known)
    }

    /// Takes content in, on threads that may block.
    pub fn ingest(&self) -> Arc<Ingest> {
        Arc::clone(&self.ingest)
    }

    /// Takes the lease unless it was taken: from then on the write knows which packs are barred.
    pub async fn open(&self) -> Result<RecordId> {
        self.lease.open().await
    }

    /// Takes the lease and follows the base before anything is read. Indexes and base are read once
    /// the lease exists: a repair that has found something lost by then is done with them, and one
    /// that finds it later revokes the lease.
    pub async fn open_first(&mut self, index_budget: IndexBudget) -> Result<()> {
        self.lease.open().await?;
        let (index, arriving) = IndexLoading::begin(&self.store, index_budget);
        self.known.expect(arriving);
        self.index = Some(index);
        self.follow_base().await
    }

    /// The chunks of `tree` that the write neither stores nor may refer to. The indexes were read
    /// before the lease existed: if any of them was used, they are looked at again.
    pub async fn unresolved(&mut self, tree: &mut NewTree) -> Result<HashSet<ChunkId>> {
        loop {
            if let Some(index) = &mut self.index {
                index.follow(&self.store, &self.known).await?;
            }
            let unresolved = self.lacking_in(tree, |_, _| true).await?;
            if self.index.as_ref().is_none_or(|index| index.is_sure(&self.known)) {
                return Ok(unresolved.into_iter().map(|(id, _)| id).collect());
            }
        }
    }

    /// Whether the base has lost this chunk, and the write has it from nowhere else.
    pub fn has_lost(&self, id: &ChunkId) -> bool {
        self.uploader.locate(id).is_none()
            && self.known.locate(id).is_none()
            && self.known.locate_lost(id).is_some()
    }

    /// Waits until every pack is durable that was sent so far.
    pub async fn flush(&self) -> Result<()> {
        self.uploader.finish().await.map(drop)
    }

    /// The use that was made of the tenant's indexes, if they have arrived.
    pub async fn index_use(&mut self) -> IndexUse {
        match self.index.take() {
            Some(index) => index.used().await,
            None => IndexUse::default(),
        }
    }

    /// Ends the reading of indexes that nobody wants any more.
    pub fn stop_index(&self) {
        if let Some(index) = &self.index {
            index.abort();
        }
    }

    /// Ends the write, which came to this. A lease that was not used up is given up, and nothing may
    /// be uploading under it by then. If an upload failed, that is why the rest did.
    pub async fn end<T>(&self, written: Result<T>) -> Result<T> {
        let uploaded = self.uploader.finish().await;
        self.lease.abandon().await;
        match (written, uploaded) {
            (Err(Error::Internal { .. }), Err(cause)) => Err(cause),
            (written, _) => written,
        }
    }
}

/// The tree of the entries that `tell` tells in order, with the segments that the root `base` has.
pub(super) fn new_tree<E>(
    store: &TenantStore,
    base: Option<&Root>,
    tell: impl FnOnce(&mut dyn FnMut(&Entry) -> format::Result<()>) -> Result<(), E>,
) -> Result<NewTree, E> {
    let mut cutter = TreeCutter::new(store, base);
    tell(&mut |entry| cutter.push(entry))?;
    Ok(cutter.finish())
}

/// The chunks that this host has stored for writes that have not ended.
async fn unfinished(store: &TenantStore, resumes: bool) -> Result<Unfinished> {
    if !resumes {
        return Ok(Unfinished::default());
    }
    let store = store.clone();
    blocking(move || Ok(Unfinished::load(&store))).await
}

fn lost_of(record: &Record) -> DamagedFrames {
    record.damage.as_ref().map(DamagedFrames::from).unwrap_or_default()
}
