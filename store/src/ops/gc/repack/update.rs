//! Makes one record refer to the new packs.

use super::Failed;
use crate::{
    Error,
    catalog::{lease::WriteLease, lineage_handle::LineageHandle, pins, records, rules::Rules},
    content::TenantStore,
    format::{
        Unknown,
        record::{Content, Earlier, Record, State},
    },
    name::Lineage,
};

/// How often a record is read again that others change at the same time.
const ATTEMPTS: u32 = 16;

pub(super) struct Update<'a> {
    pub lineage: &'a Lineage,
    /// As it was when its tables were read.
    pub record: Record,
    pub after: Content,
}

/// The leases that must still be ours when a record is replaced.
#[derive(Clone, Copy)]
pub(super) struct Grip<'a> {
    /// Lists the record, and has its new tables.
    pub lease: &'a WriteLease,
    /// Has the frames that were copied, if the first does not: it was taken later, so a collection
    /// that found the copies given up before that does not wait for it.
    pub copies: Option<&'a WriteLease>,
}

impl Grip<'_> {
    async fn verify(&self, rules: Rules) -> Result<(), Error> {
        if let Some(copies) = self.copies.filter(|_| rules.lease_of_copies) {
            copies.verify().await?;
        }
        self.lease.verify().await
    }
}

impl Update<'_> {
    /// `false` if the record has another content by now, or none, or another mark of damage.
    pub(super) async fn apply(
        &self,
        store: &TenantStore,
        grip: Grip<'_>,
        pins: &[pins::FoundPin],
        rules: Rules,
    ) -> Result<bool, Failed> {
        let handle = LineageHandle::new(store.clone(), self.lineage.clone(), Default::default());
        for _ in 0..ATTEMPTS {
            if !rules.lease_after_record {
                grip.verify(rules).await?;
            }
            let (mut record, version) = records::get(store, self.lineage, self.record.record).await?;
            if record.content.as_ref() == Some(&self.after) {
                return Ok(true);
            }
            // Nor may a check have found damage since: what is marked keeps the place that the mark names.
            let same = record.content == self.record.content
                && record.generation == self.record.generation
                && record.damage == self.record.damage;
            if record.state != State::Live || !same {
                return Ok(false);
            }
            if rules.lease_after_record {
                grip.verify(rules).await?;
            }
            self.move_on(&mut record, pins);
            match handle.replace_record(&record, version).await {
                Ok(_) => return Ok(true),
                Err(Error::Conflict { .. }) => {}
                // Refused before it was sent.
                Err(error @ Error::InvalidInput { .. }) => return Err(error.into()),
                Err(error) => return Err(Failed { error, pack: None, unclear: true }),
            }
        }
        Ok(false)
    }

    fn move_on(&self, record: &mut Record, pins: &[pins::FoundPin]) {
        record.earlier = earlier(record, pins);
        record.generation += 1;
        record.lease_seq += 1;
        record.content = Some(self.after.clone());
    }
}

/// Fails if the record would be too large with its list of earlier generations once it is moved.
pub(super) fn check_room(record: &Record, pins: &[pins::FoundPin]) -> Result<(), Error> {
    let moved = Record { earlier: earlier(record, pins), ..record.clone() };
    let what = |error| format!("record {} cannot remember where its content was: {error}", record.record);
    moved.encode_readable().map(drop).map_err(|error| Error::InvalidInput { what: what(error) })
}

/// The earlier generations that a record lists once it is moved on from this one.
pub(super) fn earlier(record: &Record, pins: &[pins::FoundPin]) -> Vec<Earlier> {
    // The pins were read after a record of that generation: who pins an earlier one later
    // will find that it has changed.
    let is_pinned = |earlier: &&Earlier| {
        let on = |found: &pins::FoundPin| (found.pin.record, found.pin.kept_generation());
        pins.iter().any(|found| on(found) == (record.record, Some(earlier.generation)))
    };
    let packs = record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack).collect();
    let last = Earlier { generation: record.generation, packs, unknown: Unknown::new() };
    record.earlier.iter().filter(is_pinned).cloned().chain([last]).collect()
}
