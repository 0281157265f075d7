//! Removes archives with the records that name them.
//!
//! Nothing else is ever removed by itself: an archive that no record of ours names was put there by somebody
//! else, and goes only when an operator names it.
//! A removal has no condition and may arrive late. So it is sent only when the record says for
//! good that it will not name the archive (`publishing.abandoned`, `removing`), and no archive
//! of ours ever reuses a name: see [`crate::ops::archive::export::Seal`].

use super::{
    foreign::{self, ForeignArchive},
    lineage_handle::LineageHandle,
    records,
};
use crate::{
    Error, Result,
    bucket::Version,
    error::Needed,
    format::{
        event::EventKind,
        layout,
        manifest::Manifest,
        record::{Record, State},
    },
    id::{RecordId, Sha256},
};

impl LineageHandle {
    /// Fails if it cannot be told which archives the snapshots of this lineage need.
    pub(super) async fn require_readable(&self) -> Result<()> {
        self.named_by_others(None).await.map(drop)
    }

    /// Says in a trashed record that its archives go: from then on nobody makes it live again.
    pub(super) async fn announce_removal(
        &self,
        mut trashed: Record,
        version: Version,
    ) -> Result<(Record, Version)> {
        if trashed.removing || !self.rules.removal_in_record || trashed.archives().next().is_none() {
            return Ok((trashed, version));
        }
        trashed.removing = true;
        trashed.lease_seq += 1;
        let version = self.replace_record(&trashed, version).await?;
        Ok((trashed, version))
    }

    /// Removes the archives that `record` names, and their manifests, unless another
    /// snapshot names them too.
    pub(super) async fn remove_archives(&self, record: &Record) -> Result<()> {
        self.remove_unnamed(record, record.archives().collect()).await
    }

    /// Removes the uploads of a publication that was begun and never ended. Its publisher, if
    /// it is only slow, finds the record changed and gives up.
    pub async fn abandon_publication(&self, target: RecordId) -> Result<()> {
        let (record, version) = records::get(&self.store, &self.lineage, target).await?;
        self.give_up_publication(record, version).await
    }

    /// As [`Self::abandon_publication`], of the record as it was at `version`. The record says
    /// so before anything goes: a process that has changed it meanwhile may be about to name the archive.
    pub(crate) async fn give_up_publication(&self, mut record: Record, mut version: Version) -> Result<()> {
        let Some(mut publishing) = record.publishing.take().filter(|_| record.state == State::Live) else {
            return Ok(());
        };
        let sha = publishing.archive_sha256;
        if !publishing.abandoned && self.rules.abandoned_in_record {
            publishing.abandoned = true;
            record.publishing = Some(publishing);
            record.publications += 1;
            record.lease_seq += 1;
            version = self.replace_record(&record, version).await?;
            record.publishing = None;
        }
        let named = record.archives().any(|named| named == sha);
        self.remove_unnamed(&record, if named { vec![] } else { vec![sha] }).await?;
        record.lease_seq += 1;
        self.replace_record(&record, version).await.map(drop)
    }

    /// Removes those of the archives, with their manifests, that neither the pointer nor
    /// another record names. `record` must say for good that it will name them no more.
    pub(crate) async fn remove_unnamed(&self, record: &Record, mut archives: Vec<Sha256>) -> Result<()> {
        if archives.is_empty() {
            return Ok(());
        }
        let named = self.named_by_others(Some(record.record)).await?;
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

    /// Removes an archive of another program, with its manifest, for an operator who says so. Says
    /// why not if somebody needs it.
    pub async fn delete_foreign(&self, archive: &Manifest, reason: &str) -> Result<Option<Needed>> {
        let sha = archive.archive_sha256;
        if self.named_by_others(None).await?.contains(&sha) {
            return Err(Error::Conflict {
                what: format!("the archive {} of {}", sha.prefix(), self.lineage),
            });
        }
        let pointer = self.pointer().await?;
        if pointer.is_some_and(|read| read.pointer.active_sha256_prefix == sha.prefix()) {
            return Ok(Some(Needed::Latest));
        }
        let is_other = |other: &ForeignArchive| other.sha256_prefix != sha.prefix();
        if records::live(&self.store, &self.lineage).await?.is_empty()
            && !foreign::archives(&self.store, &self.lineage).await?.iter().any(is_other)
        {
            return Ok(Some(Needed::Only));
        }
        // The manifest first: what has a manifest has an archive.
        for key in [layout::manifest_key(&self.lineage, &sha), layout::archive_key(&self.lineage, &sha)] {
            self.store.bucket.delete(&key).await.map_err(Error::from)?;
        }
        let mut event = self.event(EventKind::Delete);
        event.reason = reason.to_owned();
        event.from_sha256_prefix = Some(sha.prefix());
        self.store_event(&event).await;
        Ok(None)
    }

    /// The archives of all records but one. A record that cannot be read, or that a newer pstore
    /// wrote, may name any, and so it is an error. One that is trashed may be live
    /// again, unless it says that its own archives go.
    async fn named_by_others(&self, but: Option<RecordId>) -> Result<Vec<Sha256>> {
        let mut named = Vec::new();
        for record in records::list(&self.store, &self.lineage).await? {
            let record = record?;
            let counts = matches!(record.state, State::Live | State::Trashed) && !record.removing;
            if counts && Some(record.record) != but {
                named.extend(record.archives());
            }
        }
        Ok(named)
    }
}
