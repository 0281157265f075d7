//! Holds the leases of a write that replaces records.

use super::{Failed, RepackPlan, User};
use crate::{
    Error, Result,
    catalog::{clock, lease::WriteLease},
    content::{TenantStore, dedup_index::DedupIndex, upload::WriteSession},
    format::record::{Counts, Reason, Record, State},
    id::RecordId,
    name::Lineage,
};
use parking_lot::Mutex;

/// One for each lineage that has records to be replaced. All of them exist before
/// anything is stored; packs carry the name of the first.
pub(super) struct Leases(Vec<(Lineage, WriteLease)>);

impl Leases {
    pub(super) fn of(store: &TenantStore, users: &[User], survey: &RepackPlan) -> Self {
        let mut leases: Vec<(&Lineage, Vec<RecordId>)> = Vec::new();
        for user in users {
            match leases.iter_mut().find(|(known, _)| *known == &user.lineage) {
                Some((_, updates)) => updates.push(user.record),
                None => leases.push((&user.lineage, vec![user.record])),
            }
        }
        let leases = leases.into_iter().filter_map(|(lineage, updates)| {
            let draft = Record { updates, ..survey.likes.get(lineage)?.clone() };
            let lease = WriteLease::new(store.clone(), lineage.clone(), draft, DedupIndex::default().into());
            Some((lineage.clone(), lease.kept()))
        });
        Self(leases.collect())
    }

    pub(super) fn first(&self) -> Result<&WriteLease> {
        self.0.first().map(|(_, lease)| lease).ok_or_else(none)
    }

    pub(super) fn of_lineage(&self, lineage: &Lineage) -> Result<&WriteLease> {
        self.0.iter().find(|(known, _)| known == lineage).map(|(_, lease)| lease).ok_or_else(none)
    }

    /// Gives them up, unless the outcome of the write is unknown.
    pub(super) async fn end<T>(&self, ended: &Result<T, Failed>) {
        if ended.as_ref().is_err_and(|failed| failed.unclear) {
            return;
        }
        for (_, lease) in &self.0 {
            lease.abandon().await;
        }
    }
}

#[async_trait::async_trait]
impl WriteSession for Leases {
    async fn open(&self) -> Result<RecordId> {
        let mut first = None;
        for (_, lease) in &self.0 {
            let id = lease.open().await?;
            first = first.or(Some(id));
        }
        first.ok_or_else(none)
    }
}

fn none() -> Error {
    Error::Internal { what: "a repack without a lease".to_owned() }
}

/// The write, for as long as no index and no record names its packs.
#[derive(Default)]
pub(super) struct Unnamed(Mutex<Option<RecordId>>);

impl Unnamed {
    pub(super) fn set(&self, write: Option<RecordId>) {
        *self.0.lock() = write;
    }

    pub(super) fn get(&self) -> Option<RecordId> {
        *self.0.lock()
    }
}

/// A lease for a record's lineage, which never becomes a snapshot, but for the records it updates.
pub(super) fn like(record: &Record) -> Record {
    Record {
        archive_sha256: None,
        archive_size_bytes: None,
        uncompressed_size_bytes: 0,
        captured_at_ms: clock::unix_ms(),
        predecessor_sha256: String::new(),
        notes: String::new(),
        state: State::Writing,
        generation: 0,
        lease_seq: 0,
        stored_at_ms: None,
        parent: None,
        updates: Vec::new(),
        reason: Reason::moving(),
        labels: Default::default(),
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
        ..record.clone()
    }
}
