//! Reading and moving `latest.json`.
//!
//! A flip always reads in this order: the pointer, then the record it will point at, which
//! must be live; then it replaces the very version it has read. A deletion does it the
//! other way round (it takes the record out first and touches the pointer after), so one
//! of the two always sees the other.
//!
//! An answer that is lost is not guessed at: every pointer remembers the ids of the last
//! flips, so a writer can tell whether its own was among them.

use super::{clock, records};
use crate::{
    Error, Result,
    bucket::{BucketError, Key, RetryPolicy, Version, Write},
    content::TenantStore,
    format::{
        Unknown, WRITER, layout,
        pointer::{BLOCK_VERSION, Block, Pointer, RECENT},
        record::{Record, State},
    },
    id::{self, FlipId},
    name::Lineage,
};

/// How often a flip is tried before it is left to the operator.
const ATTEMPTS: u32 = 3;
/// How often the same bytes are sent again after a lost answer.
const RESENDS: u32 = 5;

/// A pointer as it was read.
#[derive(Clone, Debug)]
pub struct Read {
    pub pointer: Pointer,
    pub version: Version,
    bytes: bytes::Bytes,
}

/// The lineage's pointer, if it has one.
pub async fn read(store: &TenantStore, lineage: &Lineage) -> Result<Option<Read>> {
    let key = layout::latest(lineage);
    match store.bucket.get(&key).await {
        Ok(object) => {
            let pointer = Pointer::decode(&object.bytes).map_err(|error| error.of(&key))?;
            Ok(Some(Read { pointer, version: object.version, bytes: object.bytes }))
        }
        Err(BucketError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a flip did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flip {
    Flipped {
        from: String,
        flip_id: FlipId,
    },
    /// The pointer was there already.
    Unchanged,
}

/// Moves the pointer to `record`, which was published. Whatever goes wrong from here on,
/// the snapshot is stored, and the error says so.
pub async fn flip(store: &TenantStore, lineage: &Lineage, record: &Record) -> Result<Flip> {
    try_flip(store, lineage, record).await.map_err(|error| match error {
        error @ (Error::PointerNotFlipped { .. } | Error::PointerUnknown { .. }) => error,
        error => Error::PointerNotFlipped {
            record: record.record,
            lineage: lineage.to_string(),
            reason: error.to_string(),
        },
    })
}

async fn try_flip(store: &TenantStore, lineage: &Lineage, record: &Record) -> Result<Flip> {
    let target = record.record;
    for attempt in 1..=ATTEMPTS {
        let before = read(store, lineage).await?;
        if before
            .as_ref()
            .and_then(|read| read.pointer.block())
            .is_some_and(|block| block.record == Some(target))
        {
            return Ok(Flip::Unchanged);
        }
        let (current, _) = records::get(store, lineage, target).await?;
        if current.state != State::Live {
            let reason = format!("its record is {:?}", current.state).to_lowercase();
            return Err(Error::PointerNotFlipped { record: target, lineage: lineage.to_string(), reason });
        }
        let next = successor(lineage, before.as_ref(), &current);
        let flip_id = next.pstore.as_ref().map(|block| block.flip_id).unwrap_or(FlipId::from_bytes([0; 16]));
        let from = next.flipped_from_sha256_prefix.clone();
        match put(store, &layout::latest(lineage), before.as_ref(), &next, flip_id).await? {
            Put::Applied => return Ok(Flip::Flipped { from, flip_id }),
            Put::NotApplied => {
                tracing::debug!(%lineage, attempt, "the pointer moved while it was being flipped");
                tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
            }
            Put::Unknown(reason) => {
                return Err(Error::PointerUnknown { record: target, lineage: lineage.to_string(), reason });
            }
        }
    }
    let reason = format!("others moved it {ATTEMPTS} times meanwhile");
    Err(Error::PointerNotFlipped { record: target, lineage: lineage.to_string(), reason })
}

enum Put {
    Applied,
    NotApplied,
    Unknown(String),
}

/// Writes `next` over `before` and finds out, as far as it can be found out, what happened.
async fn put(
    store: &TenantStore,
    key: &Key,
    before: Option<&Read>,
    next: &Pointer,
    flip_id: FlipId,
) -> Result<Put> {
    let bytes = next.encode();
    let write = before.map_or(Write::Create, |read| Write::Replace(read.version.clone()));
    let mut ambiguous = false;
    for attempt in 1..=RESENDS {
        let error = match store.bucket.put(key, bytes.clone().into(), write.clone()).await {
            Ok(_) => return Ok(Put::Applied),
            Err(error @ BucketError::Contended { .. }) => {
                tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
                tracing::debug!(%key, %error, "sending the pointer again");
                continue;
            }
            Err(error @ (BucketError::AlreadyExists { .. } | BucketError::VersionMismatch { .. })) => error,
            Err(error) if error.is_ambiguous() => {
                ambiguous = true;
                error
            }
            // Definite for this request, but an earlier one may still arrive.
            Err(error) if ambiguous => return Ok(Put::Unknown(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let now = match store.bucket.get(key).await {
            Ok(object) => Some(object.bytes),
            Err(BucketError::NotFound { .. }) => None,
            Err(error) => return Ok(Put::Unknown(error.to_string())),
        };
        if now.as_ref() == before.map(|read| &read.bytes) {
            // Nothing has happened yet, but a lost request may still arrive: it and this one
            // carry the same bytes and the same condition, so at most one of them applies.
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
            continue;
        }
        let found = match now.as_deref().map(Pointer::decode) {
            Some(Ok(pointer)) => pointer,
            Some(Err(reason)) => return Ok(Put::Unknown(reason.to_string())),
            None => return Ok(Put::Unknown("the pointer has vanished".to_owned())),
        };
        let knows = |wanted: FlipId| {
            found.block().is_some_and(|block| block.flip_id == wanted || block.recent.contains(&wanted))
        };
        if knows(flip_id) {
            return Ok(Put::Applied);
        }
        let base = before.and_then(|read| read.pointer.block()).map(|block| block.flip_id);
        // Somebody else's flip is built on what we read, so ours is not below it.
        if base.is_some_and(knows) || !ambiguous {
            return Ok(Put::NotApplied);
        }
        return Ok(Put::Unknown(error.to_string()));
    }
    if ambiguous {
        Ok(Put::Unknown("the store gave no definite answer".to_owned()))
    } else {
        Ok(Put::NotApplied)
    }
}

/// The pointer that follows `before` and points at `record`.
fn successor(lineage: &Lineage, before: Option<&Read>, record: &Record) -> Pointer {
    let sha = record.sha256_prefix();
    let old = before.map(|read| &read.pointer);
    let mut recent = old.and_then(Pointer::block).map_or_else(Vec::new, |block| {
        let mut recent = block.recent.clone();
        recent.push(block.flip_id);
        recent
    });
    recent.drain(..recent.len().saturating_sub(RECENT));
    let mut next = Pointer {
        version: 1,
        active_archive_key: layout::archive(lineage, &sha),
        active_manifest_key: layout::manifest(lineage, &sha),
        active_sha256_prefix: sha,
        flipped_at_ms: clock::unix_ms(),
        flipped_from_sha256_prefix: old.map_or_else(String::new, |old| old.active_sha256_prefix.clone()),
        pstore: None,
        unknown: old.map_or_else(Unknown::new, |old| old.unknown.clone()),
    };
    next.pstore = Some(Block {
        v: BLOCK_VERSION,
        writer: WRITER.to_owned(),
        bind: next.binding(),
        record: Some(record.record),
        snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
        flip_id: FlipId::from_bytes(id::random()),
        recent,
        // A flip without the lock takes the lease away from whoever had it, on purpose.
        lease: None,
        unknown: old.and_then(Pointer::block).map_or_else(Unknown::new, |block| block.unknown.clone()),
    });
    next
}
