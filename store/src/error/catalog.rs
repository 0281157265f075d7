//! What errors tell about pointers and locks.

use std::{fmt, time::Duration};

/// Who holds a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pub run_id: String,
    pub host: String,
    pub host_run_id: String,
    pub acquired_at_ms: u64,
    pub renewal_count: u64,
    /// How long it is held yet, if nobody renews it.
    pub remaining: Duration,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_id, host, host_run_id, renewal_count, remaining, .. } = self;
        write!(f, "run {run_id:?}")?;
        if !host.is_empty() {
            write!(f, " on {host:?}")?;
        }
        if !host_run_id.is_empty() {
            write!(f, " ({host_run_id:?})")?;
        }
        match renewal_count {
            0 => write!(f, ", not renewed yet")?,
            1 => write!(f, ", renewed once")?,
            count => write!(f, ", renewed {count} times")?,
        }
        write!(f, ", expires in {} s unless renewed", remaining.as_secs())
    }
}

/// Why a snapshot is not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    Latest,
    Only,
    Mounted,
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Latest => "it is the current one",
            Self::Only => "it is the only one",
            Self::Mounted => "it is in use",
        })
    }
}
