//! Cuts, names, compresses, packs and finds chunks, and reads them back.
//!
//! Nothing here knows the meaning of a profile. Computing is plain functions on threads;
//! waiting is async; bounded queues lie between.

pub mod cache;
pub mod chunk;
pub mod chunk_cache;
pub mod chunk_fetcher;
pub(crate) mod chunk_places;
pub mod chunker;
pub mod compress;
pub mod damage;
pub mod dedup_index;
mod directory;
pub mod ingest;
pub mod known_objects;
pub mod meta;
pub mod moved_tree;
pub mod packer;
pub mod reader;
pub mod rechunk;
pub mod relocator;
pub mod snapshot_tree;
pub mod tree_editor;
pub mod unfinished;
pub mod upload;
pub mod workers;

use std::sync::Arc;

use known_objects::KnownObjects;

use crate::{
    bucket::{Bucket, StoreClock},
    format::{
        config::{Chunking, TenantConfig},
        layout,
        record::Record,
    },
    id::ChunkKey,
    name::Tenant,
    observer::StoreObserver,
};

/// One tenant's part of a store: all that the code below can see of it.
#[derive(Clone, Debug)]
pub struct TenantStore {
    /// The tenant's objects, and no others.
    pub bucket: Arc<dyn Bucket>,
    /// The tenant that owns this part of the store.
    pub tenant: Tenant,
    /// The tenant's settings.
    pub config: Arc<TenantConfig>,
    /// Set by every answer.
    pub clock: Arc<StoreClock>,
    /// This host's cache; `None` to learn nothing.
    pub cache: Option<Arc<cache::Cache>>,
    /// Hears of everything that happens to locks.
    pub observer: Arc<dyn StoreObserver>,
    /// Records that this process has read.
    pub known_records: Arc<KnownObjects<Record>>,
}

impl TenantStore {
    /// The key that chunk ids are made with.
    pub fn key(&self) -> &ChunkKey {
        &self.config.chunk_key
    }

    /// How files are cut and stored.
    pub fn chunking(&self) -> &Chunking {
        &self.config.chunking
    }

    /// Whether objects are files of this host: nothing is far away.
    pub(crate) fn is_near(&self) -> bool {
        self.bucket.file(&layout::tenant_config(&self.tenant)).is_some()
    }
}
