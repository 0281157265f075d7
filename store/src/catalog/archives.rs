//! Archives in the bucket live and die with the records that name them.
//!
//! Nothing else is ever removed: what no record of ours names was put there by somebody else.

use super::{controls::Controls, records};
use crate::{
    Error, Result,
    bucket::Version,
    format::{
        layout,
        record::{Record, State},
    },
    id::{RecordId, Sha256},
};

impl Controls {
    /// Removes the archives that `record` names, and their manifests, unless another live
    /// snapshot names them too.
    pub(super) async fn remove_archives(&self, record: &Record) -> Result<()> {
        self.remove_unnamed(record, record.archives().collect()).await
    }

    /// Removes what is left of a publication that was begun and never ended. Its publisher, if
    /// it is only slow, finds the record changed and gives up.
    pub async fn abandon_publication(&self, target: RecordId) -> Result<()> {
        let (record, version) = records::get(&self.store, &self.lineage, target).await?;
        self.give_up_publication(record, version).await
    }

    /// As [`Self::abandon_publication`], of the record as it was at `version`. The record says
    /// so before anything goes: whoever has changed it meanwhile may be about to name it.
    pub(crate) async fn give_up_publication(&self, mut record: Record, mut version: Version) -> Result<()> {
        let Some(mut publishing) = record.publishing.take().filter(|_| record.state == State::Live) else {
            return Ok(());
        };
        let sha = publishing.archive_sha256;
        if !publishing.abandoned {
            publishing.abandoned = true;
            record.publishing = Some(publishing);
            record.lease_seq += 1;
            version = self.replace_record(&record, version).await?;
            record.publishing = None;
        }
        let named = record.archives().any(|named| named == sha);
        self.remove_unnamed(&record, if named { vec![] } else { vec![sha] }).await?;
        record.lease_seq += 1;
        self.replace_record(&record, version).await.map(drop)
    }

    /// Removes those of the archives, with their manifests, that neither the pointer nor a live
    /// snapshot other than `record` names.
    pub(crate) async fn remove_unnamed(&self, record: &Record, mut archives: Vec<Sha256>) -> Result<()> {
        if archives.is_empty() {
            return Ok(());
        }
        let live = records::live(&self.store, &self.lineage).await?;
        let others = live.iter().filter(|other| other.record != record.record);
        let named: Vec<Sha256> = others.flat_map(Record::archives).collect();
        let pointer = self.pointer().await?;
        let current = pointer.as_ref().map(|read| read.pointer.active_sha256_prefix.as_str());
        archives.retain(|sha| !named.contains(sha) && current != Some(sha.prefix().as_str()));
        for sha in archives {
            // The manifest first: what has a manifest has an archive.
            for key in [layout::manifest_key(&self.lineage, &sha), layout::archive_key(&self.lineage, &sha)] {
                self.store.bucket.delete(&key).await.map_err(Error::from)?;
            }
        }
        Ok(())
    }
}
