//! What a bucket may answer.

use std::io;

/// What any back-end may answer; a kind is added only if every back-end could meet it.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    #[error("no object at {key}")]
    NotFound { key: String },
    /// A create found the key taken. Definite: nothing was written.
    #[error("{key} exists already")]
    AlreadyExists { key: String },
    /// A replace or conditional delete found another version, or none. Definite: nothing was written.
    #[error("{key} is no longer the version that was read")]
    VersionMismatch { key: String },
    /// Another write to the key was under way. Definite: nothing was written; ask again.
    #[error("{key} is being written by somebody else at this moment")]
    Contended { key: String },
    /// The object ends before the range that was asked for.
    #[error("{key} holds {actual} bytes, but bytes {start}..{end} were expected")]
    Truncated { key: String, actual: u64, start: u64, end: u64 },
    /// The object is larger than one of its kind may be. None of it was kept.
    #[error(
        "{key} is too large: it has {bytes} bytes or more, and an object of its kind at most {max_bytes}"
    )]
    TooLarge {
        key: String,
        bytes: u64,
        max_bytes: u64,
        /// To replace it by: see [`crate::bucket::Version`].
        version: String,
    },
    #[error("access to {key} is denied: {reason}")]
    Denied { key: String, reason: String },
    /// No definite answer. After a write it is unknown whether the write was applied.
    #[error("no answer for {key} from {store}: {reason}")]
    Unavailable { key: String, store: String, reason: String },
    /// The request can never succeed on this store, however often it is sent.
    #[error("{store} refuses the request for {key}: {reason}")]
    Rejected { key: String, store: String, reason: String },
    /// The store as a whole lacks something that safety rests on.
    #[error("{store} cannot be used as a store: {reason}")]
    Unsuitable { store: String, reason: String },
    #[error("{path}: {source}")]
    Io {
        path: String,
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
