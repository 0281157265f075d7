//! `Outcome` says how a load ended.

use store::{Error, ErrorKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// The profile has never been captured: the caller wants a fresh one.
    NoPriorState,
    /// The snapshot, or a part of it, is not there; or may not be used.
    FreshFallback,
    /// Its databases are not whole.
    IntegrityFailed,
    /// Stored bytes are damaged.
    ShaMismatch,
    /// Its record is of a version that this pstore does not read.
    UnsupportedVersion,
    /// It is of another Chrome.
    VersionMismatch,
    TooLarge,
}

impl Outcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::NoPriorState => "no_prior_state",
            Self::FreshFallback => "fresh_fallback",
            Self::IntegrityFailed => "integrity_failed",
            Self::ShaMismatch => "sha_mismatch",
            Self::UnsupportedVersion => "unsupported_version",
            Self::VersionMismatch => "version_mismatch",
            Self::TooLarge => "too_large",
        }
    }

    pub fn is_fallback(self) -> bool {
        !matches!(self, Self::Success | Self::NoPriorState)
    }

    /// The outcome an error leads to. `None` if it says nothing about the snapshot: a store
    /// that does not answer, a target that cannot be written.
    pub fn of(error: &Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::NotFound => match error {
                // A name that leads nowhere, as against an object that is gone.
                Error::NotFound { .. } => Some(Self::NoPriorState),
                _ => Some(Self::FreshFallback),
            },
            // Bytes that are gone are not bytes that were changed: only the latter is somebody's doing.
            ErrorKind::Damaged if matches!(error, Error::Missing { .. }) => Some(Self::FreshFallback),
            ErrorKind::Damaged => Some(Self::ShaMismatch),
            ErrorKind::UnsupportedFormat => Some(Self::UnsupportedVersion),
            ErrorKind::IntegrityFailed => Some(Self::IntegrityFailed),
            ErrorKind::VersionMismatch => Some(Self::VersionMismatch),
            ErrorKind::ProfileTooLarge => Some(Self::TooLarge),
            ErrorKind::NotImplemented => Some(Self::FreshFallback),
            _ => None,
        }
    }
}
