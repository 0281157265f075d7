//! Checks indexes. They are hints, but a damaged or missing one makes snapshots larger than need be.

use std::collections::{BTreeSet, HashSet};

use futures::{StreamExt, stream};
use tokio::sync::Semaphore;

use super::{Check, REQUESTS_AT_ONCE};
use crate::{
    Result,
    bucket::{Bucket, BucketError, Depth, Entry, Key},
    catalog::records::{self, list_all},
    format::{FormatError, index::Index, layout, limits, record::State},
    id::{PackId, PackSeq},
};

/// How often indexes are looked at before one is said to be missing.
const LOOKS: u32 = 3;
/// A larger index is read when no other such index is.
const LARGE_BYTES: u64 = 4 << 20;

/// Needed packs that no index names, and indexes that cannot be read.
#[derive(Default)]
pub(super) struct LostIndexes {
    pub packs: BTreeSet<PackId>,
    pub unreadable: Vec<Key>,
}

impl Check<'_> {
    /// All indexes of the tenant, and the packs that the lineages need which were looked at.
    pub(super) async fn indexes(&mut self) -> Result<()> {
        let before = self.findings.clone();
        // While we look, a collection may merge indexes, and snapshots may be deleted.
        for _ in 0..LOOKS {
            self.findings = before.clone();
            self.lost_indexes = LostIndexes::default();
            self.look_at_indexes().await?;
            if self.findings == before {
                break;
            }
            self.used = self.still_used().await?;
        }
        Ok(())
    }

    /// Those of the packs that snapshots needed which they still need.
    async fn still_used(&self) -> Result<BTreeSet<PackId>> {
        let mut still = BTreeSet::new();
        for lineage in self.lineages().await? {
            for record in records::list(self.store, &lineage).await?.into_iter().flatten() {
                if matches!(record.state, State::Live | State::Trashed) {
                    still.extend(record.packs().filter(|pack| self.used.contains(pack)));
                }
            }
        }
        Ok(still)
    }

    async fn look_at_indexes(&mut self) -> Result<()> {
        let (entries, _) =
            list_all(&*self.store.bucket, &layout::indexes(&self.store.tenant), Depth::All).await?;
        let mut covered = HashSet::new();
        let (bucket, alone) = (&*self.store.bucket, &Semaphore::new(1));
        let mut objects = stream::iter(entries)
            .map(|entry| async move { (read(bucket, &entry, alone).await, entry) })
            .buffered(REQUESTS_AT_ONCE);
        while let Some((index, entry)) = objects.next().await {
            let Some(index) = index? else { continue };
            match index {
                Ok(packs) => covered.extend(packs),
                Err(error) => {
                    self.findings.find(&entry.key, error.to_string(), "", None);
                    // One that a newer pstore wrote is not damaged.
                    if matches!(error, FormatError::Malformed(_)) {
                        self.lost_indexes.unreadable.push(entry.key);
                    }
                }
            }
        }
        let data = self.used.iter().copied().filter(|pack| pack.seq != PackSeq::Meta);
        // A pack that is lost as a whole is in no index on purpose.
        let missing = data.filter(|pack| !covered.contains(pack) && !self.lost.has_pack(pack));
        for pack in missing.collect::<Vec<PackId>>() {
            self.lost_indexes.packs.insert(pack);
            let key = layout::index(&self.store.tenant, pack.write);
            self.findings.find(key, "the index of this write is missing or damaged; nothing is lost, but its chunks may be stored twice", "", None);
        }
        Ok(())
    }
}

/// The packs an index names; `None` if it is gone. Large ones are read one after another, so that
/// many of them take no more memory than one.
async fn read(
    bucket: &dyn Bucket,
    entry: &Entry,
    alone: &Semaphore,
) -> Result<Option<Result<Vec<PackId>, FormatError>>> {
    let _turn = match entry.size > LARGE_BYTES {
        true => alone.acquire().await.ok(),
        false => None,
    };
    Ok(match bucket.get(&entry.key, limits::INDEX).await {
        Ok(object) => Some(
            Index::decode(&object.bytes).map(|index| index.packs.into_iter().map(|pack| pack.pack).collect()),
        ),
        Err(BucketError::NotFound { .. }) => None,
        Err(BucketError::TooLarge { bytes, max_bytes, .. }) => Some(Err(FormatError::Malformed(format!(
            "it has {bytes} bytes, and an index at most {max_bytes}"
        )))),
        Err(error) => return Err(error.into()),
    })
}
