//! Lists the archives that another program has stored beside our snapshots.
//!
//! A program that knows only the contract uploads an archive with its manifest, and perhaps moves
//! the pointer to it. What no record of ours names is such an archive.

use std::collections::HashSet;

use futures::{StreamExt, stream};

use super::records::{self, list_all};
use crate::{
    Error, Result,
    bucket::{BucketError, Depth},
    content::TenantStore,
    format::{layout, limits, manifest::Manifest},
    name::Lineage,
};

const REQUESTS_AT_ONCE: usize = 16;

/// An archive that no record names.
#[derive(Debug)]
pub struct ForeignArchive {
    /// The short name of the archive.
    pub sha256_prefix: String,
    /// Its manifest, or the reason why it cannot be read.
    pub manifest: Result<Manifest>,
}

/// The archives of other programs in this lineage, by when they were captured.
pub async fn archives(store: &TenantStore, lineage: &Lineage) -> Result<Vec<ForeignArchive>> {
    let (entries, _) = list_all(&*store.bucket, &layout::lineage(lineage), Depth::Children).await?;
    let manifests: Vec<String> =
        entries.iter().filter_map(|entry| layout::manifest_of(&entry.key)).map(str::to_owned).collect();
    if manifests.is_empty() {
        return Ok(Vec::new());
    }
    let ours = of_records(store, lineage).await?;
    let unnamed = manifests.into_iter().filter(|prefix| !ours.contains(prefix));
    let read = stream::iter(unnamed).map(|prefix| async move { archive(store, lineage, prefix).await });
    let mut found: Vec<ForeignArchive> =
        read.buffered(REQUESTS_AT_ONCE).filter_map(std::future::ready).collect().await;
    found.sort_by_key(|archive| archive.manifest.as_ref().map_or(0, |manifest| manifest.captured_at_ms));
    Ok(found)
}

/// The archive of another program whose digest begins like this.
pub async fn find(store: &TenantStore, lineage: &Lineage, prefix: &str) -> Result<Option<Manifest>> {
    let prefix = prefix.to_ascii_lowercase();
    let known = |archive: &ForeignArchive| match &archive.manifest {
        Ok(manifest) => manifest.archive_sha256.to_string().starts_with(&prefix),
        Err(_) => archive.sha256_prefix.starts_with(&prefix),
    };
    let found = archives(store, lineage).await?;
    let mut meant: Vec<ForeignArchive> = found.into_iter().filter(known).collect();
    match meant.len() {
        0 => Ok(None),
        1 => meant.remove(0).manifest.map(Some),
        _ => {
            let candidates = meant.into_iter().map(|archive| archive.sha256_prefix).collect();
            Err(Error::AmbiguousPrefix { prefix, candidates })
        }
    }
}

/// The short names of archives that records name, whether or not these are there. A record that cannot
/// be read names none here: a removal asks more strictly.
async fn of_records(store: &TenantStore, lineage: &Lineage) -> Result<HashSet<String>> {
    let records = records::list(store, lineage).await?;
    let named = records.iter().flatten().flat_map(|record| record.archives());
    Ok(named.map(|sha| sha.prefix()).collect())
}

/// `None` if it is gone by now.
async fn archive(store: &TenantStore, lineage: &Lineage, sha256_prefix: String) -> Option<ForeignArchive> {
    let manifest = match manifest(store, lineage, &sha256_prefix).await {
        Err(Error::Bucket(BucketError::NotFound { .. })) => return None,
        manifest => manifest,
    };
    Some(ForeignArchive { sha256_prefix, manifest })
}

async fn manifest(store: &TenantStore, lineage: &Lineage, sha256_prefix: &str) -> Result<Manifest> {
    let key = layout::lineage(lineage)
        .key(&layout::manifest_name(sha256_prefix))
        .map_err(|error| Error::InvalidInput { what: error.to_string() })?;
    let object = store.bucket.get(&key, limits::MANIFEST).await?;
    let manifest = Manifest::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if manifest.lineage() != *lineage {
        return Err(Error::damaged(key, format!("it is the manifest of {}", manifest.lineage())));
    }
    if manifest.archive_sha256.prefix() != sha256_prefix {
        let told = manifest.archive_sha256.prefix();
        return Err(Error::damaged(key, format!("it is the manifest of archive {told}")));
    }
    Ok(manifest)
}
