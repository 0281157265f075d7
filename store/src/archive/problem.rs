//! `Problem` lists the faults of archives.

use std::io;

use crate::{Error, format::FormatError};

/// A result whose error is about an archive.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// Why an archive cannot be taken in.
#[derive(Debug)]
pub enum Problem {
    /// It is not an archive that can be taken in; for people.
    Bad(String),
    /// It says that it holds so many bytes, which is more than is allowed.
    TooLarge(u64),
    /// Its bytes could not be read on: because they are damaged, or their source has failed.
    Read(io::Error),
    /// Nothing of the archive's.
    Other(Error),
}

impl Problem {
    pub(crate) fn bad(what: impl Into<String>) -> Self {
        Self::Bad(what.into())
    }
}

impl From<FormatError> for Problem {
    fn from(error: FormatError) -> Self {
        Self::Bad(error.to_string())
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
