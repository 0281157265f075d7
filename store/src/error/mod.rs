//! What can go wrong, in words of the domain, and its one classification.

mod bucket;
mod catalog;
pub mod plain;
mod utc;

pub use bucket::BucketError;
pub use catalog::{Deleted, Holder, Needed};
pub use utc::utc;

use std::{io, path::PathBuf};

use crate::{
    id::{InvalidId, RecordId},
    key::InvalidKey,
    name::InvalidName,
};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The classification every rendering starts from: exit code, errno, status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request itself is wrong; nothing was tried.
    InvalidInput,
    /// The thing that was named does not exist.
    NotFound,
    /// The name fits several things.
    Ambiguous,
    /// The target exists and would be overwritten.
    TargetExists,
    /// Stored bytes are not what they should be.
    Damaged,
    /// Something was damaged, and is whole again.
    Repaired,
    /// A newer pstore wrote this.
    UnsupportedFormat,
    /// The store does not keep the promises pstore needs.
    StoreRefused,
    /// The store denies access.
    Denied,
    /// The store cannot be reached or gave no definite answer.
    Unavailable,
    /// The snapshot is stored, but the pointer was not moved to it.
    PointerNotFlipped,
    /// It is unknown whether the pointer was moved.
    PointerUnknown,
    /// Somebody else holds the lock.
    LockHeld,
    /// The lock was held and is no longer.
    LockLost,
    /// Somebody else has moved the pointer while the lock was held.
    PointerMoved,
    /// The snapshot cannot be deleted.
    SnapshotNeeded,
    /// Somebody else changed it at the same time; trying again is safe.
    Conflict,
    /// Another process revoked this write; starting again is safe.
    WriteRevoked,
    /// The source changed while it was read.
    SourceChanged,
    /// The snapshot is stored, but something about it forbids making it the current one.
    HeldBack,
    /// What was asked for does not exist yet.
    NotImplemented,
    /// The profile is larger than its tenant may store.
    ProfileTooLarge,
    /// The tenant or profile may not store any more.
    QuotaExceeded,
    /// A browser, or something else, uses the directory.
    InUse,
    /// The databases of a profile are not whole.
    IntegrityFailed,
    /// The snapshot is of another version of Chrome.
    VersionMismatch,
    /// Changes in a mount are stored nowhere, and would be lost.
    Uncommitted,
    /// A session that may hold changes cannot be read.
    SessionUnreadable,
    /// What was committed is stored and current, and is still in the session.
    SessionBehind,
    /// The profile or the tenant was deleted, with all that it had.
    Deleted,
    /// Of several tenants some failed and were passed over; the others are done.
    TenantsFailed,
    /// It was told to end.
    Interrupted,
    /// Local files could not be read or written.
    Io,
    /// A defect of pstore itself.
    Internal,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Id(#[from] InvalidId),
    #[error(transparent)]
    Key(#[from] InvalidKey),
    #[error("{what}")]
    InvalidInput { what: String },
    #[error(transparent)]
    Bucket(BucketError),
    #[error("{object} is damaged: {reason}")]
    Damaged { object: String, reason: String },
    /// An object is gone that something else names: damage of what names it.
    #[error("{object} is damaged: it is missing, though {by}")]
    Missing { object: String, by: &'static str },
    #[error(
        "{object} has format version {found}, written by {writer}; this pstore reads version {supported}"
    )]
    UnsupportedFormat { object: String, found: String, supported: String, writer: String },
    #[error("{object} needs {feature:?}, which this pstore does not know; it was written by {writer}")]
    UnsupportedFeature { object: String, feature: String, writer: String },
    #[error("{store} cannot be used: {reason}")]
    StoreRefused { store: String, reason: String },
    #[error("{what} does not exist")]
    NotFound { what: String },
    #[error("{prefix} fits several snapshots: {}", candidates.join(", "))]
    AmbiguousPrefix { prefix: String, candidates: Vec<String> },
    #[error("{} exists and is not empty", path.display())]
    TargetExists { path: PathBuf },
    #[error("snapshot {record} is stored, but the pointer of {lineage} was not moved to it: {reason}")]
    PointerNotFlipped { record: RecordId, lineage: String, reason: String },
    #[error(
        "snapshot {record} is stored; whether the pointer of {lineage} was moved to it is unknown: {reason}"
    )]
    PointerUnknown { record: RecordId, lineage: String, reason: String },
    #[error("{lineage} is locked by {holder}")]
    LockHeld { lineage: String, holder: Box<Holder> },
    #[error(
        "the lock of {lineage} was lost{}{}",
        holder.as_ref().map_or_else(String::new, |holder| format!(" to {holder}")),
        stored(record)
    )]
    LockLost { record: Option<RecordId>, lineage: String, holder: Option<Box<Holder>> },
    #[error("the pointer of {lineage} was moved by somebody else: {reason}{}", stored(record))]
    PointerMoved { record: Option<RecordId>, lineage: String, reason: String },
    #[error("snapshot {sha256_prefix} of {lineage} cannot be deleted: {needed}")]
    SnapshotNeeded { record: RecordId, sha256_prefix: String, lineage: String, needed: Needed },
    #[error("{what} was deleted {deleted}")]
    Deleted { what: String, deleted: Box<Deleted> },
    #[error("{what} was changed by somebody else at the same time")]
    Conflict { what: String },
    #[error("write {record} was revoked by a garbage collection that took it for dead")]
    WriteRevoked { record: RecordId },
    #[error("{} changed while it was read ({attempts} attempts)", path.display())]
    SourceChanged { path: PathBuf, attempts: u32 },
    #[error("{action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{what} is not implemented: {page} says why, and what to do instead")]
    NotImplemented { what: String, page: String },
    #[error(
        "{} holds {bytes} bytes, more than the {limit} that are allowed{}",
        path.display(),
        parts(largest)
    )]
    ProfileTooLarge { path: PathBuf, bytes: u64, limit: u64, largest: Vec<(String, u64)> },
    #[error("{what}")]
    QuotaExceeded { what: String },
    #[error("{} is in use by {by}", path.display())]
    InUse { path: PathBuf, by: String },
    /// An archive that is what it should be, but cannot be a snapshot.
    #[error("{archive} cannot be imported: {problem}")]
    BadArchive { archive: String, problem: String },
    /// The pointer names an archive that no record of ours describes.
    #[error(
        "the current snapshot of {lineage} is the archive {sha256_prefix}, which another program has put in {store}"
    )]
    Foreign { lineage: String, sha256_prefix: String, store: String },
    #[error("{what} is not whole: {problem}")]
    IntegrityFailed { what: String, problem: String },
    #[error("{reason}")]
    VersionMismatch { reason: String },
    #[error("{} has changes that are not committed: {}", mountpoint.display(), named(paths, *count))]
    Uncommitted { mountpoint: PathBuf, paths: Vec<String>, count: usize },
    #[error(
        "snapshot {record} is stored and the pointer was moved to it, but the session still has what was committed: {reason}"
    )]
    SessionBehind { record: RecordId, reason: String },
    #[error("interrupted")]
    Interrupted,
    #[error("internal error: {what}")]
    Internal { what: String },
}

impl Error {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Name(_) | Self::Id(_) | Self::Key(_) | Self::InvalidInput { .. } => ErrorKind::InvalidInput,
            Self::Bucket(error) => match error {
                BucketError::NotFound { .. } => ErrorKind::NotFound,
                BucketError::AlreadyExists { .. }
                | BucketError::VersionMismatch { .. }
                | BucketError::Contended { .. }
                | BucketError::Unavailable { .. } => ErrorKind::Unavailable,
                BucketError::Truncated { .. } | BucketError::TooLarge { .. } => ErrorKind::Damaged,
                BucketError::Denied { .. } => ErrorKind::Denied,
                BucketError::Rejected { .. } | BucketError::Unsuitable { .. } => ErrorKind::StoreRefused,
                BucketError::Io { .. } => ErrorKind::Io,
            },
            Self::Damaged { .. } | Self::Missing { .. } => ErrorKind::Damaged,
            Self::UnsupportedFormat { .. } | Self::UnsupportedFeature { .. } => ErrorKind::UnsupportedFormat,
            Self::StoreRefused { .. } => ErrorKind::StoreRefused,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AmbiguousPrefix { .. } => ErrorKind::Ambiguous,
            Self::TargetExists { .. } => ErrorKind::TargetExists,
            Self::PointerNotFlipped { .. } => ErrorKind::PointerNotFlipped,
            Self::PointerUnknown { .. } => ErrorKind::PointerUnknown,
            Self::LockHeld { .. } => ErrorKind::LockHeld,
            Self::LockLost { .. } => ErrorKind::LockLost,
            Self::PointerMoved { .. } => ErrorKind::PointerMoved,
            Self::SnapshotNeeded { .. } => ErrorKind::SnapshotNeeded,
            Self::Deleted { .. } => ErrorKind::Deleted,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::WriteRevoked { .. } => ErrorKind::WriteRevoked,
            Self::SourceChanged { .. } => ErrorKind::SourceChanged,
            Self::Io { .. } => ErrorKind::Io,
            Self::NotImplemented { .. } => ErrorKind::NotImplemented,
            Self::ProfileTooLarge { .. } => ErrorKind::ProfileTooLarge,
            Self::QuotaExceeded { .. } => ErrorKind::QuotaExceeded,
            Self::InUse { .. } => ErrorKind::InUse,
            Self::BadArchive { .. } | Self::IntegrityFailed { .. } => ErrorKind::IntegrityFailed,
            Self::Foreign { .. } => ErrorKind::InvalidInput,
            Self::VersionMismatch { .. } => ErrorKind::VersionMismatch,
            Self::Uncommitted { .. } => ErrorKind::Uncommitted,
            Self::SessionBehind { .. } => ErrorKind::SessionBehind,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Internal { .. } => ErrorKind::Internal,
        }
    }

    /// What documents say of themselves may be in the reason: it is one line.
    pub fn damaged(object: impl ToString, reason: impl ToString) -> Self {
        let line = |text: String| plain::line(&text).into_owned();
        Self::Damaged { object: line(object.to_string()), reason: line(reason.to_string()) }
    }

    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.into(), source: source.into() }
    }
}

impl From<BucketError> for Error {
    /// What is larger than its kind may be is damaged, as what is shorter or other than it should be.
    fn from(error: BucketError) -> Self {
        match error {
            BucketError::TooLarge { key, bytes, max_bytes, .. } => {
                let reason =
                    format!("it has {bytes} bytes or more, and an object of its kind at most {max_bytes}");
                Self::damaged(key, reason)
            }
            error => Self::Bucket(error),
        }
    }
}

/// Where most of the bytes are, if that is known.
fn parts(largest: &[(String, u64)]) -> String {
    let parts: Vec<String> = largest.iter().map(|(path, bytes)| format!("{path} ({bytes} bytes)")).collect();
    if parts.is_empty() { String::new() } else { format!("; the largest parts: {}", parts.join(", ")) }
}

/// Some of `count` paths, and how many more there are.
fn named(paths: &[String], count: usize) -> String {
    let more = count.saturating_sub(paths.len());
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", paths.join(", "))
}

fn stored(record: &Option<RecordId>) -> String {
    record.map_or_else(String::new, |record| {
        format!("; snapshot {record} is stored, but is not the current one")
    })
}

/// Adds what was tried and on which path to an I/O error.
pub trait IoContext<T> {
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::io(action, path, source))
    }
}
