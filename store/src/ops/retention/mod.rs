//! Decides by rules which snapshots stay and which go.
//!
//! [`plan`] is a pure function of the snapshots and the rules: it says of every snapshot whether it stays,
//! and why. The store's clock and the parents of snapshots tell the time, their ages and their order; a
//! host's clock decides nothing. [`apply`] carries a plan out, and looks again at each snapshot before it
//! goes: one that was tagged, mounted or made current meanwhile stays.
//!
//! Never removed by any rule: the current snapshot, mounted ones, those that unfinished sessions build on,
//! tagged ones, the last one of a profile, and everything of a profile whose pointer another program moved.
//! One that was held back waits for [`HELD_BACK_FOR`] for somebody to decide about it, if it is
//! among the newest [`HELD_BACK_MOST`] such; until then no rule counts it, so that it takes no
//! other's place.

mod apply;
mod decide;
mod policy;
mod survey;

#[cfg(test)]
mod tests;

pub use apply::{Applied, apply};
pub use decide::plan;
pub use policy::{Keep, Limits, Policy};
pub use survey::{Survey, lineage, require_room, survey};

use std::{fmt, time::Duration};

use crate::{
    catalog::order::AgeOrder,
    format::record::{PackUse, Reason, Tag},
    id::RecordId,
    name::Lineage,
};

/// How long no rule removes a snapshot that was held back, or that a run has left as its work in
/// progress: long enough to be looked at after a weekend and a holiday.
pub const HELD_BACK_FOR: Duration = Duration::from_secs(7 * 86_400);
/// Of a profile, only so many of them, the newest: one that is held back every few minutes
/// must not fill the store.
pub const HELD_BACK_MOST: usize = 3;

/// A snapshot as the rules see it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The lineage of the snapshot.
    pub lineage: Lineage,
    /// Its record.
    pub record: RecordId,
    /// Its short name.
    pub sha256_prefix: String,
    /// By the store's clock.
    pub stored_at_ms: u64,
    /// Where it is in the order of its lineage.
    pub place: AgeOrder,
    /// By the clock of the host that captured it; decides nothing.
    pub captured_at_ms: u64,
    /// Why it was taken.
    pub reason: Reason,
    /// The names that operators gave it, each with when.
    pub tags: Vec<(String, u64)>,
    /// Why the pointer was not moved to it.
    pub held_back: Option<String>,
    pub(crate) standing: Standing,
    /// The packs that it needs.
    pub packs: Vec<PackUse>,
}

/// The protection of a snapshot from every rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing does.
    Free,
    /// The pointer names it.
    Current,
    /// A reader has pinned it.
    Mounted,
    /// A session that is not finished builds on it.
    Session {
        /// The session's own id.
        id: RecordId,
        /// The host on which its changes lie.
        host: String,
    },
    /// Another program has moved the pointer: which snapshot it left is not known.
    Disputed,
}

/// The decision about one snapshot.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Whether it stays.
    pub verdict: Verdict,
}

/// Whether a snapshot stays, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep(Why),
    /// It goes.
    Remove(Rule),
}

/// Why a snapshot stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The pointer names it.
    Current,
    /// A reader has pinned it.
    Mounted,
    /// A session that is not finished builds on it.
    Session {
        /// The session's own id.
        id: RecordId,
        /// The host on which its changes lie.
        host: String,
    },
    /// Another program has moved the pointer: which snapshot it left is not known.
    Disputed,
    /// An operator gave it a name.
    Tagged {
        /// The name.
        tag: String,
        /// How much longer the name protects it; without end if `None`.
        days_left: Option<u64>,
    },
    /// A run has saved it while it went on, and nobody has ended or continued that work.
    WorkInProgress {
        /// How much longer it stays for that.
        days_left: u64,
    },
    /// Nobody has decided about it yet.
    HeldBack {
        /// Why it was held back.
        word: String,
        /// How much longer it stays for that.
        days_left: u64,
    },
    /// It was asked for, and the pool of those is kept.
    Checkpoint,
    /// A profile keeps at least one.
    Last,
    /// By which place it has, counted from the newest.
    NoRule {
        /// The newest has place 1.
        place: u64,
    },
}

/// The rule that removes a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Only the current one is kept.
    KeepOne,
    /// Only the newest ones are kept.
    Keep {
        /// How many of them.
        newest: u64,
        /// The place that this one has.
        place: u64,
    },
    /// It is too old.
    MaxAge {
        /// How old one may be.
        days: u64,
        /// How old this one is.
        age_days: u64,
    },
    /// There are too many.
    MaxCount {
        /// How many there may be.
        most: u64,
        /// The place that this one has.
        place: u64,
    },
    /// There are too many that nobody asked for.
    Auto {
        /// How many there may be.
        most: u64,
        /// The place that this one has among them.
        place: u64,
    },
    /// Of those that were taken for one reason.
    OfReason {
        /// The reason that they were taken for.
        reason: &'static str,
        /// How many there may be.
        most: u64,
        /// The place that this one has among them.
        place: u64,
    },
    /// The profile has too much.
    MaxBytes {
        /// How many bytes it may have.
        most: u64,
        /// How many it had.
        were: u64,
    },
    /// The tenant has too many snapshots.
    TenantMaxCount {
        /// How many it may have.
        most: u64,
        /// How many it had.
        were: u64,
    },
    /// The tenant has too much.
    TenantMaxBytes {
        /// How many bytes it may have.
        most: u64,
        /// How many it had.
        were: u64,
    },
}

impl Why {
    /// The word that programs read.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Mounted => "mounted",
            Self::Session { .. } => "session",
            Self::Disputed => "disputed",
            Self::Tagged { .. } => "tagged",
            Self::WorkInProgress { .. } => "work_in_progress",
            Self::HeldBack { .. } => "held_back",
            Self::Checkpoint => "checkpoint",
            Self::Last => "last",
            Self::NoRule { .. } => "no_rule",
        }
    }
}

impl Rule {
    /// The word of the rule in the settings.
    pub const fn word(self) -> &'static str {
        match self {
            Self::KeepOne | Self::Keep { .. } => "keep",
            Self::MaxAge { .. } => "max_age_days",
            Self::MaxCount { .. } => "max_count",
            Self::Auto { .. } => "auto",
            Self::OfReason { reason, .. } => reason,
            Self::MaxBytes { .. } => "max_bytes",
            Self::TenantMaxCount { .. } => "tenant_max_count",
            Self::TenantMaxBytes { .. } => "tenant_max_bytes",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Current => f.write_str("it is the current one"),
            Self::Mounted => f.write_str("it is in use"),
            Self::Session { id, host } => write!(f, "the unfinished session {id} on {host:?} builds on it"),
            Self::Disputed => {
                f.write_str("another program has moved the pointer, so which one is needed is not known")
            }
            Self::Tagged { tag, days_left: None } => write!(f, "it is tagged {tag:?}"),
            Self::Tagged { tag, days_left: Some(days) } => {
                write!(f, "it is tagged {tag:?}, for {days} more days")
            }
            Self::WorkInProgress { days_left } => {
                write!(f, "it is the work in progress of a run, and stays {days_left} more days")
            }
            Self::HeldBack { word, days_left } => {
                write!(f, "it was held back ({word}), and waits {days_left} more days for a decision")
            }
            Self::Checkpoint => f.write_str("it was asked for, and those stay until they are deleted"),
            Self::Last => f.write_str("it is the last one of its profile"),
            Self::NoRule { place } => write!(f, "no rule removes it; it is number {place} from the newest"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::KeepOne => f.write_str("only the current one is kept"),
            Self::Keep { newest, place } => {
                write!(f, "the newest {newest} are kept, and it is number {place}")
            }
            Self::MaxAge { days, age_days } => {
                write!(f, "it is {age_days} days old, and {days} are allowed")
            }
            Self::MaxCount { most, place } => {
                write!(f, "a profile keeps {most}, and it is number {place}")
            }
            Self::Auto { most, place } => {
                write!(f, "{most} of those are kept that nobody asked for, and it is number {place} of them")
            }
            Self::OfReason { reason, most, place } => {
                write!(
                    f,
                    "{most} of those are kept whose reason is {reason}, and it is number {place} of them"
                )
            }
            Self::MaxBytes { most, were } => {
                write!(f, "the profile's snapshots take {were} bytes, and {most} are allowed")
            }
            Self::TenantMaxCount { most, were } => {
                write!(f, "the tenant has {were} snapshots, and {most} are allowed")
            }
            Self::TenantMaxBytes { most, were } => {
                write!(f, "the tenant's snapshots take {were} bytes, and {most} are allowed")
            }
        }
    }
}

fn tags(tags: &std::collections::BTreeMap<String, Tag>) -> Vec<(String, u64)> {
    tags.iter().map(|(name, tag)| (name.clone(), tag.tagged_at_ms)).collect()
}
