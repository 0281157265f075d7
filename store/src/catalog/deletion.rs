//! `LineageHandle::delete` deletes a snapshot.
//!
//! 1. The record becomes `trashed`: still a root, but no flip may choose it any more.
//! 2. Then the pins are read, and the pointer. Pinned or current: it becomes live again.
//! 3. The pointer must have changed after 1. A flip reads the pointer first and the record
//!    second: one that read the pointer before fails to replace it, one that reads it after
//!    sees the record trashed.
//! 4. If it has archives, the record says that they go. From then on it is never live again, even if
//!    something proves to need it; before that, the process that makes it live again wins.
//! 5. Its archives go, then the record becomes a tombstone. The packs are for a collection.

use super::{lineage_handle::LineageHandle, pins, pointer::VersionedPointer, records, session_root};
use crate::{
    Error, Result,
    bucket::{BucketError, RetryPolicy, Version, Write},
    error::Needed,
    format::{
        event::{Event, EventKind},
        layout,
        pointer::Target,
        record::{Record, State},
    },
    id::RecordId,
};

const ATTEMPTS: u32 = 16;

/// The rest of the profile, beside the snapshot that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// A profile keeps a snapshot.
    Stays,
    /// The whole profile is deleted.
    Goes,
    /// A later state of the same work in progress is there: this one was never current, and is no loss.
    Supersedes,
}

impl LineageHandle {
    /// Deletes the snapshot `target`; picks up where an earlier attempt was cut short.
    pub async fn delete(&self, target: RecordId, reason: &str) -> Result<Record> {
        self.delete_while(target, reason, |_| true).await
    }

    /// As [`Self::delete`], but only if `still` holds of the very record that is trashed. A record
    /// that somebody else replaces meanwhile, as a collection does that moves its chunks, is read
    /// again: that it has changed is no reason to keep it.
    pub async fn delete_while(
        &self,
        target: RecordId,
        reason: &str,
        still: impl Fn(&Record) -> bool,
    ) -> Result<Record> {
        self.delete_of(Rest::Stays, target, reason, still).await
    }

    /// As [`Self::delete`], of work in progress of which a later state is stored. No event tells of it: a run saves every
    /// minute. The record does, for a day.
    pub async fn delete_superseded(&self, target: RecordId, reason: &str) -> Result<Record> {
        self.delete_of(Rest::Supersedes, target, reason, Record::is_work_in_progress).await
    }

    /// As [`Self::delete`], of a profile that is deleted: the last snapshot goes, too.
    pub(crate) async fn delete_with_profile(&self, target: RecordId, reason: &str) -> Result<Record> {
        self.delete_of(Rest::Goes, target, reason, |_| true).await
    }

    async fn delete_of(
        &self,
        rest: Rest,
        target: RecordId,
        reason: &str,
        still: impl Fn(&Record) -> bool,
    ) -> Result<Record> {
        let mut event = self.event(EventKind::Delete);
        event.reason = reason.to_owned();
        event.record = Some(target);
        for attempt in 1..=ATTEMPTS {
            if let Some(buried) = self.try_delete(rest, target, &event, &still).await? {
                return Ok(buried);
            }
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
        }
        Err(self.changed(target))
    }

    /// `None` if somebody has replaced the record meanwhile.
    async fn try_delete(
        &self,
        rest: Rest,
        target: RecordId,
        event: &Event,
        still: &impl Fn(&Record) -> bool,
    ) -> Result<Option<Record>> {
        let (record, version) = records::get(&self.store, &self.lineage, target).await?;
        let (trashed, version) = match record.state {
            State::Live => {
                if !still(&record) {
                    return Err(self.changed(target));
                }
                self.require_unneeded(&record, rest).await?;
                if record.archives().next().is_some() {
                    self.require_readable().await?;
                }
                let mut next = record;
                next.state = State::Trashed;
                next.deletion =
                    Some(Event { from_sha256_prefix: Some(next.sha256_prefix()), ..event.clone() });
                next.lease_seq += 1;
                let Some(version) = unless_changed(self.replace_record(&next, version).await)? else {
                    return Ok(None);
                };
                (next, version)
            }
            State::Trashed => (record, version),
            // Somebody has finished what we began.
            State::Tombstone if record.deletion.as_ref().is_some_and(|made| made.id == event.id) => {
                return Ok(Some(record));
            }
            State::Tombstone | State::Writing | State::Revoked => {
                return Err(Error::NotFound { what: format!("snapshot {target} of {}", self.lineage) });
            }
        };
        if !trashed.removing
            && let Err(error) = self.trash(&trashed, rest).await
        {
            if let Err(error) = self.put_back(trashed, version).await {
                tracing::warn!(%error, record = %target, "a deletion was refused, but the record is still trashed");
            }
            return Err(error);
        }
        let announced = self.announce_removal(trashed, version).await;
        let Some((trashed, version)) = unless_changed(announced)? else { return Ok(None) };
        self.remove_archives(&trashed).await?;
        if let Some(event) = trashed.deletion.as_ref().filter(|_| rest != Rest::Supersedes) {
            self.settle(Some(event)).await?;
        }
        let mut buried = trashed;
        buried.state = State::Tombstone;
        buried.removing = false;
        buried.lease_seq += 1;
        let replaced = unless_changed(self.replace_record(&buried, version).await)?;
        Ok(replaced.map(|_| buried))
    }

    fn changed(&self, target: RecordId) -> Error {
        Error::Conflict { what: format!("record {target} of {}", self.lineage) }
    }

    /// Fails if [`Self::delete`] would because somebody needs the snapshot. Changes nothing.
    pub async fn may_delete(&self, target: RecordId) -> Result<()> {
        let (record, _) = records::get(&self.store, &self.lineage, target).await?;
        if record.removing { Ok(()) } else { self.require_unneeded(&record, Rest::Stays).await }
    }

    /// Fails if [`Self::delete_with_profile`] would because somebody needs the snapshot. Changes
    /// nothing.
    pub(crate) async fn may_delete_with_profile(&self, target: RecordId) -> Result<()> {
        let (record, _) = records::get(&self.store, &self.lineage, target).await?;
        if record.removing { Ok(()) } else { self.require_unneeded(&record, Rest::Goes).await }
    }

    /// The record is trashed. Makes sure that nobody needs it, and that nobody who has not
    /// seen that can move the pointer to it.
    async fn trash(&self, record: &Record, rest: Rest) -> Result<()> {
        if self.rules.pins_after_trash {
            self.require_unneeded(record, rest).await?;
        }
        if !self.rules.touch_on_delete {
            return Ok(());
        }
        let version = |read: &Option<VersionedPointer>| read.as_ref().map(|read| read.version.clone());
        let first = self.pointer().await?;
        let mut now = first.clone();
        for attempt in 1..=ATTEMPTS {
            self.require_not_current(record, now.as_ref())?;
            if version(&now) != version(&first) || self.touch(now.as_ref()).await? {
                return Ok(());
            }
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
            now = self.pointer().await?;
        }
        Err(Error::Conflict { what: format!("the pointer of {}", self.lineage) })
    }

    async fn require_unneeded(&self, record: &Record, rest: Rest) -> Result<()> {
        let pointed = async {
            let pointer = self.pointer().await?;
            let another = rest != Rest::Stays || self.another_is_live(record, pointer.as_ref()).await?;
            Ok((pointer, another))
        };
        let (pins, (pointer, another)) = futures::future::try_join(pins::read(&self.store), pointed).await?;
        self.require_not_current(record, pointer.as_ref())?;
        let base = pointer.as_ref().and_then(|read| read.lease()).and_then(|lease| lease.base);
        let held = base == Some(record.record) && self.lock().await?.is_some_and(|read| self.is_live(&read));
        let needed = if held { Some(Needed::Mounted) } else { session_root::needed(&pins, record.record) };
        if let Some(needed) = needed {
            return Err(self.needed(record, needed));
        }
        if another { Ok(()) } else { Err(self.needed(record, Needed::Only)) }
    }

    /// Whether the lineage has another snapshot: the current one, or else any.
    async fn another_is_live(&self, record: &Record, pointer: Option<&VersionedPointer>) -> Result<bool> {
        if let Some(Target::Record(current)) = pointer.map(|read| read.pointer.target())
            && current != record.record
            && let Ok((current, _)) = records::get(&self.store, &self.lineage, current).await
            && current.state == State::Live
        {
            return Ok(true);
        }
        let live = records::live(&self.store, &self.lineage).await?;
        Ok(live.iter().any(|other| other.record != record.record))
    }

    fn require_not_current(&self, record: &Record, pointer: Option<&VersionedPointer>) -> Result<()> {
        let Some(read) = pointer else { return Ok(()) };
        let current = match read.pointer.target() {
            Target::Record(current) => current == record.record,
            // A contract-only program may have gone back to an archive of ours.
            Target::Foreign(prefix) => record.sha256().starts_with(prefix),
            Target::Nothing => false,
        };
        if current { Err(self.needed(record, Needed::Latest)) } else { Ok(()) }
    }

    fn needed(&self, record: &Record, needed: Needed) -> Error {
        Error::SnapshotNeeded {
            record: record.record,
            sha256_prefix: record.sha256_prefix(),
            lineage: self.lineage.to_string(),
            needed,
        }
    }

    async fn put_back(&self, trashed: Record, version: Version) -> Result<()> {
        let mut live = trashed;
        live.state = State::Live;
        live.deletion = None;
        live.lease_seq += 1;
        self.replace_record(&live, version).await.map(|_| ())
    }

    /// Replaces a record. The same bytes are sent again after a lost answer: they can only
    /// be applied once.
    pub async fn replace_record(&self, record: &Record, version: Version) -> Result<Version> {
        let key = layout::record(&self.lineage, record.record);
        let bytes = record.encode_readable().map_err(|error| Error::InvalidInput {
            what: format!("the record {} cannot be written: {error}", record.record),
        })?;
        let mut attempts = self.store.bucket.retry_policy().start();
        loop {
            match self.store.bucket.put(&key, bytes.clone().into(), Write::Replace(version.clone())).await {
                Ok(version) => return Ok(version),
                Err(BucketError::VersionMismatch { .. }) => {
                    match self.store.bucket.get(&key, bytes.len() as u64).await {
                        Ok(object) if object.bytes == bytes => return Ok(object.version),
                        Ok(_) | Err(BucketError::TooLarge { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                    return Err(Error::Conflict {
                        what: format!("record {} of {}", record.record, self.lineage),
                    });
                }
                Err(error) if error.is_retryable() && attempts.again(&error).await => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// `None` if somebody else has changed it.
fn unless_changed<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(Error::Conflict { .. }) => Ok(None),
        done => done.map(Some),
    }
}
