//! Checks the archives that snapshots name: programs that know only the contract have nothing else.

use sha2::Digest as _;

use super::Check;
use crate::{
    Result,
    bucket::{BucketError, Depth, Entry, Key},
    catalog::records,
    format::{
        layout,
        record::{Record, State},
    },
    id::Sha256,
    name::Lineage,
};

/// How much of an archive is fetched at a time.
const PART_BYTES: u64 = 8 << 20;

impl Check<'_> {
    /// Archive and manifest of each snapshot that has them are there, the archive in its full
    /// length, and of the bytes that its name says where content is read.
    pub(super) async fn archives(&mut self, lineage: &Lineage, live: &[Record]) -> Result<()> {
        let prefix = layout::lineage(lineage);
        // After the records: what one of them named then was there.
        let (entries, _) = records::list_all(&*self.store.bucket, &prefix, Depth::Children).await?;
        // Only a publication notes the digest of the tar: what was taken in from an archive names it,
        // too, and that archive may never have been here.
        let published = |record: &&Record| record.state == State::Live && record.tar_sha256.is_some();
        for record in live.iter().filter(published) {
            let Some(sha) = record.archive_sha256.as_ref().and_then(|sha| sha.parse().ok()) else { continue };
            let Some((object, reason)) = self.archive(lineage, &entries, record, &sha).await? else {
                continue;
            };
            // Deleted since, or published anew: then it may rightly be gone.
            let now = self.now(lineage, record).await?.filter(|now| now.state == State::Live);
            if now.is_some_and(|now| now.archive_sha256 == record.archive_sha256) {
                let name = self.name(lineage, record);
                self.findings.find(object, reason, &name, None);
            }
        }
        Ok(())
    }

    /// Checks one archive.
    async fn archive(
        &mut self,
        lineage: &Lineage,
        entries: &[Entry],
        record: &Record,
        sha: &Sha256,
    ) -> Result<Option<(Key, String)>> {
        let (archive, manifest) = (layout::archive_key(lineage, sha), layout::manifest_key(lineage, sha));
        let size = |key: &Key| entries.iter().find(|entry| entry.key == *key).map(|entry| entry.size);
        let missing = "it is missing, though a snapshot names it: publish that snapshot again".to_owned();
        let Some(found) = size(&archive) else { return Ok(Some((archive, missing))) };
        if size(&manifest).is_none() {
            return Ok(Some((manifest, missing)));
        }
        if let Some(told) = record.archive_size_bytes.filter(|told| *told != found) {
            let reason = format!("it has {found} bytes instead of {told}: publish its snapshot again");
            return Ok(Some((archive, reason)));
        }
        if !self.options.read_data || self.options.sample.is_some() {
            return Ok(None);
        }
        Ok(match self.digest(&archive, found).await {
            Ok(digest) if digest == *sha => None,
            Ok(_) => {
                let reason = "it is not what its name says: remove it, then publish its snapshot again";
                Some((archive, reason.to_owned()))
            }
            Err(BucketError::NotFound { .. }) => Some((archive, missing)),
            Err(BucketError::Truncated { .. }) => {
                Some((archive, "it is shorter than it is listed".to_owned()))
            }
            Err(error) => return Err(error.into()),
        })
    }

    async fn digest(&mut self, key: &Key, len: u64) -> Result<Sha256, BucketError> {
        let mut hasher = sha2::Sha256::new();
        let mut start = 0;
        while start < len {
            let end = len.min(start + PART_BYTES);
            hasher.update(self.store.bucket.get_range(key, start..end).await?);
            self.report.read_bytes += end - start;
            start = end;
        }
        Ok(Sha256::from_bytes(hasher.finalize().into()))
    }
}
