//! `summary` has the few facts of a record, a pointer and a lock that an overview of many profiles needs.

use serde::{Deserialize, Serialize};

use crate::{
    format::{
        lock::Lock,
        pointer::{Pointer, Target},
        record::{Record, State},
    },
    id::RecordId,
};

/// A text that is kept often is cut after so many characters.
const MAX_TEXT: usize = 300;

/// The facts of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordSummary {
    /// It holds a snapshot.
    #[serde(rename = "s")]
    Snapshot(SnapshotSummary),
    /// It holds none: the write is under way or was given up, or the snapshot was deleted.
    Other,
    /// It cannot be read, and why.
    Unreadable(Box<str>),
}

/// The facts of a snapshot. There are many of them in a cache, so that names are short there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSummary {
    /// Its short name.
    #[serde(rename = "i")]
    pub sha256_prefix: Box<str>,
    /// When it was captured, by the host's clock.
    #[serde(rename = "c")]
    pub captured_at_ms: u64,
    /// When it was stored, by the store's clock; when it was captured, if its record does not say.
    #[serde(rename = "t")]
    pub stored_at_ms: u64,
    /// The bytes of all its files.
    #[serde(rename = "z")]
    pub size_bytes: u64,
    /// The bytes that were stored for it.
    #[serde(rename = "y")]
    pub stored_bytes: u64,
    /// The facts that somebody should look at, if there are any.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub notable: Option<Box<Notable>>,
}

/// The facts that somebody should look at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notable {
    /// Why the pointer was not moved to it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<Box<str>>,
    /// Why the session that it was captured from had started afresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<str>>,
    /// Its lost or damaged parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<Box<str>>,
    /// The expected things that it lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Box<str>>,
    /// The expected cookie that lapses first, and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_lapse: Option<(Box<str>, u64)>,
}

/// The summary of a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PointerSummary {
    /// It names nothing.
    Nothing,
    /// It names a snapshot of pstore's, since this time by the mover's clock.
    Record(RecordId, u64),
    /// It names an archive of another program, since this time.
    Foreign(Box<str>, u64),
    /// It cannot be read, and why.
    Damaged(Box<str>),
}

/// A lock that is not free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockSummary {
    /// The run that holds it.
    pub holder_run_id: Box<str>,
    /// The host of the run.
    pub holder_host: Box<str>,
    /// The run of that host.
    pub holder_host_run_id: Box<str>,
    /// When it was taken, by the holder's clock.
    pub acquired_at_ms: u64,
    /// How often it was renewed.
    pub renewal_count: u64,
    /// How long it holds after it was written.
    pub ttl_ms: u64,
}

impl RecordSummary {
    pub(super) fn of(record: &Record) -> Self {
        // What is being deleted is still there while the pointer names it.
        if !matches!(record.state, State::Live | State::Trashed) {
            return Self::Other;
        }
        let notable = Notable::of(record);
        Self::Snapshot(SnapshotSummary {
            sha256_prefix: record.sha256_prefix().into(),
            captured_at_ms: record.captured_at_ms,
            stored_at_ms: record.stored_at_ms.unwrap_or(record.captured_at_ms),
            size_bytes: record.uncompressed_size_bytes,
            stored_bytes: record.counts.stored_bytes,
            notable: (notable != Notable::default()).then(|| Box::new(notable)),
        })
    }

    /// The snapshot that it holds, if it does.
    pub fn snapshot(&self) -> Option<&SnapshotSummary> {
        match self {
            Self::Snapshot(snapshot) => Some(snapshot),
            Self::Other | Self::Unreadable(_) => None,
        }
    }
}

impl Notable {
    fn of(record: &Record) -> Self {
        let expected = record.health.as_ref().and_then(|health| health.expected.as_ref());
        let missing: Vec<String> = expected
            .iter()
            .flat_map(|expected| &expected.missing)
            .map(|missing| format!("{} {}: {}", missing.kind, missing.name, missing.why))
            .collect();
        let first = expected.and_then(|expected| expected.first_lapse());
        Self {
            held_back: record.held_back.as_deref().map(short),
            fallback: record.fallback.as_deref().map(short),
            damage: damage(record).as_deref().map(short),
            missing: (!missing.is_empty()).then(|| short(&missing.join(", "))),
            first_lapse: first
                .map(|(cookie, at_ms)| (short(&format!("{}:{}", cookie.host, cookie.name)), at_ms)),
        }
    }
}

fn damage(record: &Record) -> Option<String> {
    if let Some(mark) = &record.damage {
        return Some(match mark.files {
            1 => "a check found that one file is lost".to_owned(),
            files => format!("a check found that {files} files are lost"),
        });
    }
    let damaged = &record.health.as_ref()?.damaged;
    let first = damaged.first()?;
    let more = match damaged.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Some(format!("{}: {}{more}", first.path, first.problem))
}

impl PointerSummary {
    pub(super) fn of(pointer: &Pointer) -> Self {
        match pointer.target() {
            Target::Nothing => Self::Nothing,
            Target::Record(record) => Self::Record(record, pointer.flipped_at_ms),
            Target::Foreign(prefix) => Self::Foreign(short(prefix), pointer.flipped_at_ms),
        }
    }
}

impl LockSummary {
    pub(super) fn of(lock: &Lock) -> Option<Self> {
        (!lock.is_free()).then(|| Self {
            holder_run_id: short(&lock.holder_run_id),
            holder_host: short(&lock.holder_host),
            holder_host_run_id: short(&lock.holder_host_run_id),
            acquired_at_ms: lock.acquired_at_ms,
            renewal_count: lock.renewal_count,
            ttl_ms: u64::try_from(lock.ttl().as_millis()).unwrap_or(u64::MAX),
        })
    }
}

fn short(text: &str) -> Box<str> {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
