//! `BucketError` lists the failures that a bucket may answer with.

use std::io;

/// The failures of any back-end; a kind is added only if every back-end could meet it.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// There is nothing there.
    #[error("no object at {key}")]
    NotFound {
        /// The key that was asked for.
        key: String,
    },
    /// A create found the key taken. Definite: nothing was written.
    #[error("{key} exists already")]
    AlreadyExists {
        /// The key that is taken.
        key: String,
    },
    /// A replace or conditional delete found another version, or none. Definite: nothing was written.
    #[error("{key} is no longer the version that was read")]
    VersionMismatch {
        /// The key of the object.
        key: String,
    },
    /// Another write to the key was under way. Definite: nothing was written; ask again.
    #[error("{key} is being written by somebody else at this moment")]
    Contended {
        /// The key of the object.
        key: String,
    },
    /// The object ends before the range that was asked for.
    #[error("{key} holds {actual} bytes, but bytes {start}..{end} were expected")]
    Truncated {
        /// The key of the object.
        key: String,
        /// How many bytes the object has.
        actual: u64,
        /// The first byte that was asked for.
        start: u64,
        /// The end of the range that was asked for.
        end: u64,
    },
    /// The object is larger than one of its kind may be. None of it was kept.
    #[error(
        "{key} is too large: it has {bytes} bytes or more, and an object of its kind at most {max_bytes}"
    )]
    TooLarge {
        /// The key of the object.
        key: String,
        /// How many bytes the object has.
        bytes: u64,
        /// How many the caller takes.
        max_bytes: u64,
        /// To replace it by: see [`crate::bucket::Version`].
        version: String,
    },
    /// The credentials do not allow it.
    #[error("access to {key} is denied: {reason}")]
    Denied {
        /// The key that was asked for.
        key: String,
        /// The store's reason.
        reason: String,
    },
    /// No definite answer. After a write it is unknown whether the write was applied.
    #[error("no answer for {key} from {store}: {reason}")]
    Unavailable {
        /// The key that was asked for.
        key: String,
        /// The store's address.
        store: String,
        /// Why there was no answer.
        reason: String,
    },
    /// The request can never succeed on this store, however often it is sent.
    #[error("{store} refuses the request for {key}: {reason}")]
    Rejected {
        /// The key that was asked for.
        key: String,
        /// The store's address.
        store: String,
        /// The store's reason.
        reason: String,
    },
    /// The store as a whole lacks something that safety rests on.
    #[error("{store} cannot be used as a store: {reason}")]
    Unsuitable {
        /// The store's address.
        store: String,
        /// The quality that it lacks.
        reason: String,
    },
    /// The local disk failed.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
}

impl BucketError {
    /// Whether the same read may succeed when it is sent again.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Contended { .. })
    }

    /// Whether a write that ended so may have been applied all the same.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
