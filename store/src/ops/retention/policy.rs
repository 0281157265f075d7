//! `Policy` holds the rules of retention. A rule that is absent removes nothing.

use std::time::Duration;

use crate::format::record::Reason;

/// The rules of one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Keeps no more than so many.
    pub keep: Option<Keep>,
    /// How long a tag protects; without it, as long as it is there.
    pub tagged_for: Option<Duration>,
    /// How old a snapshot may be.
    pub max_age: Option<Duration>,
    /// Applied to the snapshots that `max_age` leaves.
    pub max_count: Option<u64>,
    /// How many of those that were taken without being asked for.
    pub auto: Option<u64>,
    /// How many of those that were taken for each of these reasons, [`Reason::Manual`] excepted.
    pub of_reason: Vec<(Reason, u64)>,
    /// How many of those that somebody asked for. They stay until they are deleted; a full
    /// pool refuses the next one.
    pub manual: Option<u64>,
    /// How much the packs of the profile's snapshots may hold for them.
    pub max_bytes: Option<u64>,
}

/// How many snapshots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The current one alone.
    One,
    /// So many of the newest.
    Newest(u64),
}

/// The limits of a tenant's profiles together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many snapshots.
    pub max_count: Option<u64>,
    /// How many bytes in packs.
    pub max_bytes: Option<u64>,
}

impl Policy {
    /// Whether any rule could remove anything.
    pub fn removes(&self) -> bool {
        let Self { keep, tagged_for: _, max_age, max_count, auto, of_reason, manual: _, max_bytes } = self;
        let counts = [*max_count, *auto, *max_bytes];
        keep.is_some() || max_age.is_some() || !of_reason.is_empty() || counts.iter().any(Option::is_some)
    }
}

impl Limits {
    /// Whether any of them could remove anything.
    pub fn removes(&self) -> bool {
        self.max_count.is_some() || self.max_bytes.is_some()
    }
}
