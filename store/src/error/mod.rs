//! `Error` lists the failures, in words of the domain, and `ErrorKind` classifies them.

mod bucket;
mod catalog;
pub mod plain;
mod read_fault;
mod utc;

pub use bucket::BucketError;
pub use catalog::{Deleted, Holder, Needed};
pub use read_fault::ReadFault;
pub use utc::utc;

use std::{io, path::PathBuf};

use crate::{
    id::{InvalidId, RecordId},
    key::InvalidKey,
    name::InvalidName,
};

/// A result whose error is this crate's.
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
    /// Stored bytes are damaged.
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
    /// The thing that was asked for does not exist yet.
    NotImplemented,
    /// The profile is larger than its tenant may store.
    ProfileTooLarge,
    /// The tenant or profile may not store any more.
    QuotaExceeded,
    /// A browser, or something else, uses the directory.
    InUse,
    /// A command of the user's failed that the work needs.
    CommandFailed,
    /// The databases of a profile are not whole.
    IntegrityFailed,
    /// The snapshot is of another version of Chrome.
    VersionMismatch,
    /// Changes in a mount are stored nowhere, and would be lost.
    Uncommitted,
    /// A session that may hold changes cannot be read.
    SessionUnreadable,
    /// The changes are committed and current, and are still in the session.
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

/// The reason why an operation failed. [`Error::kind`] says what callers can do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A name that nobody may choose.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// An id that cannot be parsed.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// A key that no object may have.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The request makes no sense.
    #[error("{what}")]
    InvalidInput {
        /// The fault, for people.
        what: String,
    },
    /// The bucket failed, in a way that has no name of its own here.
    #[error(transparent)]
    Bucket(BucketError),
    /// Stored bytes are damaged.
    #[error("{object} is damaged: {reason}")]
    Damaged {
        /// The object that was read.
        object: String,
        /// The fault in it.
        reason: String,
    },
    /// An object is gone that another names: the other one is damaged.
    #[error("{object} is damaged: it is missing, though {by}")]
    Missing {
        /// The missing object.
        object: String,
        /// Why it should be there.
        by: &'static str,
    },
    /// A later pstore wrote it.
    #[error(
        "{object} has format version {found}, written by {writer}; this pstore reads version {supported}"
    )]
    UnsupportedFormat {
        /// The object that was read.
        object: String,
        /// The version it has.
        found: String,
        /// The versions that this code knows.
        supported: String,
        /// The program that wrote it.
        writer: String,
    },
    /// The object's writer used a feature that this code does not know.
    #[error("{object} needs {feature:?}, which this pstore does not know; it was written by {writer}")]
    UnsupportedFeature {
        /// The object that was read.
        object: String,
        /// The feature that is needed.
        feature: String,
        /// The program that wrote it.
        writer: String,
    },
    /// The store is not one that may be written to or read.
    #[error("{store} cannot be used: {reason}")]
    StoreRefused {
        /// The store's address.
        store: String,
        /// Why not.
        reason: String,
    },
    /// Nothing goes by that name.
    #[error("{what} does not exist")]
    NotFound {
        /// The thing that was looked for.
        what: String,
    },
    /// A short name that several snapshots have.
    #[error("{prefix} fits several snapshots: {}", candidates.join(", "))]
    AmbiguousPrefix {
        /// The prefix that was given.
        prefix: String,
        /// The names that it could be.
        candidates: Vec<String>,
    },
    /// The directory to write to has something in it.
    #[error("{} exists and is not empty", path.display())]
    TargetExists {
        /// That directory.
        path: PathBuf,
    },
    /// The snapshot is safe, but is not the current one.
    #[error("snapshot {record} is stored, but the pointer of {lineage} was not moved to it: {reason}")]
    PointerNotFlipped {
        /// The snapshot's record.
        record: RecordId,
        /// The lineage of the pointer.
        lineage: String,
        /// Why it was not moved.
        reason: String,
    },
    /// The answer to a write of the pointer was lost, and what became of it cannot be found out now.
    #[error(
        "snapshot {record} is stored; whether the pointer of {lineage} was moved to it is unknown: {reason}"
    )]
    PointerUnknown {
        /// The snapshot's record.
        record: RecordId,
        /// The lineage of the pointer.
        lineage: String,
        /// Why it is not known.
        reason: String,
    },
    /// Somebody else holds the lock.
    #[error("{lineage} is locked by {holder}")]
    LockHeld {
        /// The lineage that is locked.
        lineage: String,
        /// The holder, and how long it holds the lock yet.
        holder: Box<Holder>,
    },
    /// The caller held the lock and holds it no more.
    #[error(
        "the lock of {lineage} was lost{}{}",
        holder.as_ref().map_or_else(String::new, |holder| format!(" to {holder}")),
        stored(record)
    )]
    LockLost {
        /// The snapshot that was stored all the same.
        record: Option<RecordId>,
        /// The lineage that was locked.
        lineage: String,
        /// The present holder, if it is known.
        holder: Option<Box<Holder>>,
    },
    /// The pointer does not name the snapshot that the caller built on.
    #[error("the pointer of {lineage} was moved by somebody else: {reason}{}", stored(record))]
    PointerMoved {
        /// The snapshot that was stored all the same.
        record: Option<RecordId>,
        /// The lineage of the pointer.
        lineage: String,
        /// The known facts about the move.
        reason: String,
    },
    /// Something needs the snapshot that was to be deleted.
    #[error("snapshot {sha256_prefix} of {lineage} cannot be deleted: {needed}")]
    SnapshotNeeded {
        /// The snapshot's record.
        record: RecordId,
        /// The snapshot's short name.
        sha256_prefix: String,
        /// The lineage of the snapshot.
        lineage: String,
        /// The user of the snapshot.
        needed: Needed,
    },
    /// The profile or tenant was deleted.
    #[error("{what} was deleted {deleted}")]
    Deleted {
        /// The profile or tenant.
        what: String,
        /// The author, the time and the reason of the deletion.
        deleted: Box<Deleted>,
    },
    /// Another process was faster; the operation can be begun anew.
    #[error("{what} was changed by somebody else at the same time")]
    Conflict {
        /// The thing that both wanted to change.
        what: String,
    },
    /// The write was taken for dead. Nothing of it counts; it can be begun anew.
    #[error("write {record} was revoked by a garbage collection that took it for dead")]
    WriteRevoked {
        /// The record of the write.
        record: RecordId,
    },
    /// Somebody writes to the directory that is captured.
    #[error("{} changed while it was read ({attempts} attempts)", path.display())]
    SourceChanged {
        /// The path that changed.
        path: PathBuf,
        /// How often it was tried.
        attempts: u32,
    },
    /// The local disk failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The attempted action, such as `cannot open`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
    /// Something that pstore leaves out on purpose.
    #[error("{what} is not implemented: {page} says why, and what to do instead")]
    NotImplemented {
        /// The thing that was asked for.
        what: String,
        /// The page of the documentation that explains it.
        page: String,
    },
    /// The directory is larger than its limit.
    #[error(
        "{} holds {bytes} bytes, more than the {limit} that are allowed{}",
        path.display(),
        parts(largest)
    )]
    ProfileTooLarge {
        /// The directory.
        path: PathBuf,
        /// How many bytes its files have.
        bytes: u64,
        /// How many they may have.
        limit: u64,
        /// The largest parts of it, with their bytes.
        largest: Vec<(String, u64)>,
    },
    /// The tenant would have stored more than it may.
    #[error("{what}")]
    QuotaExceeded {
        /// How much, and how much it may have, for people.
        what: String,
    },
    /// Somebody uses the directory.
    #[error("{} is in use by {by}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The user of the directory.
        by: String,
    },
    /// A sound archive that cannot be a snapshot.
    #[error("{archive} cannot be imported: {problem}")]
    BadArchive {
        /// The archive.
        archive: String,
        /// The reason.
        problem: String,
    },
    /// The pointer names an archive that no record of ours describes.
    #[error(
        "the current snapshot of {lineage} is the archive {sha256_prefix}, which another program has put in {store}"
    )]
    Foreign {
        /// The lineage of the pointer.
        lineage: String,
        /// The short name of the archive.
        sha256_prefix: String,
        /// The store's address.
        store: String,
    },
    /// A database of the profile is damaged, or an expected cookie, origin or file is not there.
    #[error("{what} is not whole: {problem}")]
    IntegrityFailed {
        /// The profile.
        what: String,
        /// The finding.
        problem: String,
    },
    /// The profile is of another Chrome than the one it is wanted for.
    #[error("{reason}")]
    VersionMismatch {
        /// The mismatch, for people.
        reason: String,
    },
    /// The mount would lose changes.
    #[error("{} has changes that are not committed: {}", mountpoint.display(), named(paths, *count))]
    Uncommitted {
        /// Where it is mounted.
        mountpoint: PathBuf,
        /// Some of the changed paths.
        paths: Vec<String>,
        /// How much has changed in all.
        count: usize,
    },
    /// A commit is stored, but the session could not be brought to it.
    #[error(
        "snapshot {record} is stored and the pointer was moved to it, but the session still has what was committed: {reason}"
    )]
    SessionBehind {
        /// The record that was stored.
        record: RecordId,
        /// Why it could not.
        reason: String,
    },
    /// The caller, or a signal, ended the operation.
    #[error("interrupted")]
    Interrupted,
    /// A bug.
    #[error("internal error: {what}")]
    Internal {
        /// The event that should not have happened.
        what: String,
    },
}

impl Error {
    /// The class of the error, by which callers decide.
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

    /// A damaged object. `reason` may hold text of a foreign document, and is made one line.
    pub fn damaged(object: impl ToString, reason: impl ToString) -> Self {
        let line = |text: String| plain::line(&text).into_owned();
        Self::Damaged { object: line(object.to_string()), reason: line(reason.to_string()) }
    }

    /// An error of the local disk.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.into(), source: source.into() }
    }
}

impl From<BucketError> for Error {
    /// An object that exceeds its kind's limit counts as damaged, like one that is too short or malformed.
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

/// Adds the attempted action and its path to an I/O error.
pub trait IoContext<T> {
    /// Names the attempted action, such as `cannot open`, and its path.
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Result<T> {
        self.map_err(|source| Error::io(action, path, source))
    }
}
