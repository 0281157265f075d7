//! Describes pointers and locks in errors.

use std::{fmt, time::Duration};

use super::{plain::line, utc::utc};
use crate::id::{Nonce, RecordId};

/// The holder of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The holder's run.
    pub run_id: String,
    /// The holder's host.
    pub host: String,
    /// The run of that host.
    pub host_run_id: String,
    /// When the holder took the lock, by the holder's clock.
    pub acquired_at_ms: u64,
    /// How often the holder renewed it.
    pub renewal_count: u64,
    /// How long it is held yet, if nobody renews it.
    pub remaining: Duration,
    /// Unknown of a program that knows only the contract.
    pub nonce: Option<Nonce>,
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

/// When, by whom and why a profile or a tenant was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// By the store's clock.
    pub at_ms: u64,
    /// `user@host`.
    pub by: String,
    /// Why, in the words of the person who deleted it.
    pub reason: String,
}

impl fmt::Display for Deleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {} UTC by {}", utc(self.at_ms), line(&self.by))?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, " ({})", line(&self.reason)) }
    }
}

/// Why a snapshot is not deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needed {
    /// The pointer names it.
    Latest,
    /// It is the only one that there is.
    Only,
    /// A reader has pinned it.
    Mounted,
    /// A session that is not finished builds on it.
    Session {
        /// The session's own id.
        id: RecordId,
        /// The host on which its changes lie.
        host: String,
    },
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("it is the current one"),
            Self::Only => f.write_str("it is the only one"),
            Self::Mounted => f.write_str("it is in use"),
            Self::Session { id, host } => {
                write!(f, "the unfinished session {id} on {host:?} builds on it")
            }
        }
    }
}
