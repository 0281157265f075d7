//! Gives snapshots names that keep them from being removed by retention.

use crate::{
    Error, Result,
    catalog::{clock, lineage_handle::LineageHandle, records},
    format::{
        Unknown,
        record::{Record, State, Tag},
    },
    id::RecordId,
    name::{LATEST, WIP},
};

const ATTEMPTS: u32 = 5;
const MAX_NAME_BYTES: usize = 64;
/// So many that nobody meets the bound, so few that a record stays small.
const MAX_TAGS: usize = 64;

/// The outcome of a change of tags.
#[derive(Clone, Debug)]
pub struct Tagged {
    /// The record with the tag.
    pub record: Record,
    /// Whether anything was different before.
    pub changed: bool,
}

/// Checks a tag's name: the same letters as in names of profiles.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(plain) {
        return Ok(());
    }
    let what = format!("{name:?} is no tag: it takes 1 to {MAX_NAME_BYTES} of A-Z a-z 0-9 . _ -");
    Err(Error::InvalidInput { what })
}

/// Tags the snapshot. A tag it has already keeps its time.
pub async fn tag(handle: &LineageHandle, target: RecordId, name: &str) -> Result<Tagged> {
    check_name(name)?;
    let word_for = match name {
        LATEST => "the current snapshot",
        WIP => "what a run has saved while it goes on",
        _ => "",
    };
    if !word_for.is_empty() {
        return Err(Error::InvalidInput {
            what: format!("{name:?} is no tag: it is the word for {word_for}"),
        });
    }
    change(handle, target, |record, now_ms| {
        if record.tags.contains_key(name) {
            return Ok(false);
        }
        if record.tags.len() >= MAX_TAGS {
            let what = format!("snapshot {} has {MAX_TAGS} tags already", record.sha256_prefix());
            return Err(Error::InvalidInput { what });
        }
        let tag = Tag { tagged_at_ms: now_ms, by: handle.actor().clone(), unknown: Unknown::new() };
        record.tags.insert(name.to_owned(), tag);
        Ok(true)
    })
    .await
}

/// Takes a tag away.
pub async fn untag(handle: &LineageHandle, target: RecordId, name: &str) -> Result<Tagged> {
    change(handle, target, |record, _| {
        let what = || format!("tag {name:?} of snapshot {}", record.sha256_prefix());
        let missing = what();
        record.tags.remove(name).map(|_| true).ok_or(Error::NotFound { what: missing })
    })
    .await
}

/// Changes the record of a snapshot, beside other changes at the same time. `change` also gets
/// the time of the store's clock.
pub(super) async fn change(
    handle: &LineageHandle,
    target: RecordId,
    change: impl Fn(&mut Record, u64) -> Result<bool>,
) -> Result<Tagged> {
    for _ in 0..ATTEMPTS {
        let (mut record, version, stamp) =
            records::get_stamped(handle.store(), handle.lineage(), target).await?;
        if record.state != State::Live {
            return Err(Error::NotFound { what: format!("snapshot {target} of {}", handle.lineage()) });
        }
        if !change(&mut record, clock::to_unix_ms(stamp.now))? {
            return Ok(Tagged { record, changed: false });
        }
        record.lease_seq += 1;
        match handle.replace_record(&record, version).await {
            Ok(_) => return Ok(Tagged { record, changed: true }),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Conflict { what: format!("record {target} of {}", handle.lineage()) })
}
