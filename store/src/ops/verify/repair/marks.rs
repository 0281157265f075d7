//! Marks the snapshots of which something is lost.

use std::sync::Arc;

use super::live;
use crate::{
    Error, Result,
    bucket::BucketError,
    catalog::{clock, lineage_handle::LineageHandle, records},
    content::{
        damage::{DamagedFrames, Marking},
        snapshot_tree::{SnapshotTree, stream::TreeStream},
    },
    format::{
        damage::Mark,
        record::{Record, State},
    },
    name::Lineage,
    ops::verify::{
        Check,
        findings::{is_damage, is_loss},
    },
};

/// How often a record is read again that others change at the same time.
const ATTEMPTS: u32 = 16;

impl Check<'_> {
    /// Marks the present damage in every snapshot of the tenant that needs it, and takes away
    /// the marks of those that were looked at and lack nothing. `before` is the damage before
    /// the repair: nobody has looked at other profiles since.
    pub(super) async fn mark(&mut self, before: &DamagedFrames) -> Result<()> {
        let mut before = before.clone();
        before.add(&self.lost);
        self.report.marked.clear();
        for (lineage, record) in live(self.store).await? {
            let is_marked = self.settle_mark(&lineage, &record, &before).await?;
            if is_marked && self.only.is_none_or(|only| *only == lineage) {
                self.report.marked.push(self.name(&lineage, &record));
            }
        }
        Ok(())
    }

    /// Brings the mark of a snapshot up to date, beside other changes of its record. Says
    /// whether it has one then.
    async fn settle_mark(&self, lineage: &Lineage, record: &Record, before: &DamagedFrames) -> Result<bool> {
        let handle = LineageHandle::new(self.store.clone(), lineage.clone(), Default::default());
        let mut record = record.clone();
        for _ in 0..ATTEMPTS {
            let was_seen = self.looked_at.get(&record.record) == Some(&record.generation);
            let mut lost = if was_seen { self.lost.clone() } else { before.clone() };
            // What was marked and not read since is what it was.
            if !was_seen || !self.options.read_data {
                lost.add(&record.damage.as_ref().map(DamagedFrames::from).unwrap_or_default());
            }
            let mark = if lost.may_hit(&record) { self.mark_of(&record, &lost).await? } else { None };
            let is_same = match (&mark, &record.damage) {
                (Some(mark), Some(was)) => mark.is_like(was),
                (mark, was) => mark.is_none() && was.is_none(),
            };
            if is_same {
                return Ok(mark.is_some());
            }
            let (now, version) = match records::get(self.store, lineage, record.record).await {
                Err(Error::Bucket(BucketError::NotFound { .. })) => return Ok(false),
                read => read?,
            };
            if now.state != State::Live {
                return Ok(false);
            }
            if now.content != record.content || now.damage != record.damage {
                record = now;
                continue;
            }
            let marked = Record { damage: mark.clone(), lease_seq: now.lease_seq + 1, ..now };
            match handle.replace_record(&marked, version).await {
                Err(Error::Conflict { .. }) => {}
                replaced => return replaced.map(|_| mark.is_some()),
            }
        }
        Err(Error::Conflict { what: format!("record {} of {lineage}", record.record) })
    }

    async fn mark_of(&self, record: &Record, lost: &DamagedFrames) -> Result<Option<Mark>> {
        if record.content.is_none() {
            return Ok(None);
        }
        let now = clock::unix_ms();
        match self.marking(record, lost).await {
            Ok(marking) => Ok(marking.end(record, now)),
            Err(error) if is_loss(&error) => Ok(Some(lost.mark_whole(record, now))),
            // Only a newer pstore can tell.
            Err(error) if is_damage(&error) => Ok(record.damage.clone()),
            Err(error) => Err(error),
        }
    }

    /// What a snapshot lacks, entry by entry.
    async fn marking<'a>(&self, record: &Record, lost: &'a DamagedFrames) -> Result<Marking<'a>> {
        let tree = Arc::new(SnapshotTree::from_bucket(self.store, record).await?);
        let (mut stream, mut marking) = (TreeStream::new(tree).await?, Marking::of(lost));
        while let Some(entries) = stream.next().await? {
            entries.iter().for_each(|found| marking.add(&found.entry, &found.locations));
        }
        Ok(marking)
    }
}
