//! Gives up a snapshot whose record cannot be read.
//!
//! Nobody can tell which packs it needs, so a collection waits for as long as it is there. If no
//! backup brings the object back, an operator gives it up: a tombstone takes its place. Nobody
//! can have chosen it meanwhile, for who flips, pins or loads reads the record first.

use super::{lineage_handle::LineageHandle, pins, records, session_root};
use crate::{
    Error, Result,
    bucket::{BucketError, Version},
    error::Needed,
    format::{
        FormatError, Unknown, WRITER,
        config::HASH,
        event::EventKind,
        layout, limits,
        pointer::Target,
        record::{self, CapturedBy, Counts, Mode, Reason, Record, SCHEMA, State},
    },
    id::RecordId,
};

impl LineageHandle {
    /// Puts a tombstone in the place of the record `target`, which is damaged: packs that only its
    /// snapshot needed go with the next collection. Refuses if the record can be read, or if a
    /// newer pstore wrote it, or if somebody relies on the snapshot.
    pub async fn give_up(&self, target: RecordId, reason: &str) -> Result<Record> {
        let version = self.may_give_up(target).await?;
        let mut event = self.event(EventKind::Delete);
        event.reason = reason.to_owned();
        event.record = Some(target);
        let mut buried = self.tombstone(target);
        buried.deletion = Some(event.clone());
        self.replace_record(&buried, version).await?;
        self.store_event(&event).await;
        Ok(buried)
    }

    /// Fails as [`Self::give_up`] would, as things are now; else gives the version of the record.
    pub async fn may_give_up(&self, target: RecordId) -> Result<Version> {
        let version = self.damaged_record(target).await?;
        self.require_nobody_relies_on(target).await?;
        Ok(version)
    }

    /// The version of the record, which must be damaged.
    async fn damaged_record(&self, target: RecordId) -> Result<Version> {
        let key = layout::record(&self.lineage, target);
        let object = match self.store.bucket.get(&key, limits::RECORD).await {
            Err(BucketError::TooLarge { version, .. }) => return Ok(Version::new(version)),
            object => object?,
        };
        match Record::decode(&object.bytes) {
            Err(FormatError::Malformed(_)) => Ok(object.version),
            Err(error) => Err(error.of(&key)),
            Ok(_) => match records::get(&self.store, &self.lineage, target).await {
                // The record of something else.
                Err(Error::Damaged { .. }) => Ok(object.version),
                Err(error) => Err(error),
                Ok(_) => Err(Error::InvalidInput { what: format!("record {target} can be read") }),
            },
        }
    }

    async fn require_nobody_relies_on(&self, target: RecordId) -> Result<()> {
        let (pins, pointer) = futures::future::try_join(pins::read(&self.store), self.pointer()).await?;
        let base = pointer.as_ref().and_then(|read| read.lease()).and_then(|lease| lease.base);
        let is_current = pointer.is_some_and(|read| read.pointer.target() == Target::Record(target));
        let is_held = base == Some(target) && self.lock().await?.is_some_and(|read| self.is_live(&read));
        let needed = match () {
            () if is_current => Some(Needed::Latest),
            () if is_held => Some(Needed::Mounted),
            () => session_root::needed(&pins, target),
        };
        match needed {
            None => Ok(()),
            Some(needed) => Err(Error::SnapshotNeeded {
                record: target,
                sha256_prefix: target.to_string(),
                lineage: self.lineage.to_string(),
                needed,
            }),
        }
    }

    /// The tombstone of a snapshot of which only the name is known.
    fn tombstone(&self, target: RecordId) -> Record {
        let (version, minor, writer) = record::versions();
        Record {
            version,
            schema: SCHEMA.to_owned(),
            tenant_id: self.lineage.name.tenant.clone(),
            profile_id: self.lineage.name.profile.clone(),
            chrome_major_version: self.lineage.chrome_major,
            archive_sha256: None,
            archive_size_bytes: None,
            uncompressed_size_bytes: 0,
            captured_at_ms: target.unix_ms(),
            captured_by: CapturedBy {
                host: String::new(),
                host_run_id: String::new(),
                writer_version: WRITER.to_owned(),
                unknown: Unknown::new(),
            },
            captured_in: None,
            mode: Mode::Cold,
            chrome_uptime_seconds_at_capture: 0,
            predecessor_sha256: String::new(),
            notes: String::new(),
            record: target,
            minor,
            writer,
            state: State::Tombstone,
            generation: 0,
            lease_seq: 0,
            chunk_key: *self.store.key(),
            hash: HASH.to_owned(),
            stored_at_ms: None,
            parent: None,
            updates: Vec::new(),
            reason: Reason::Other("given up".to_owned()),
            labels: Default::default(),
            chrome_last_version: None,
            exit_type: None,
            counts: Counts::default(),
            content: None,
            earlier: Vec::new(),
            damage: None,
            health: None,
            held_back: None,
            fallback: None,
            startup: Default::default(),
            tags: Default::default(),
            deletion: None,
            sources: Vec::new(),
            complete: false,
            exclusions: Vec::new(),
            transforms: Vec::new(),
            features: Vec::new(),
            tar_sha256: None,
            publishing: None,
            publications: 0,
            removing: false,
            unknown: Unknown::new(),
        }
    }
}
