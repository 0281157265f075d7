//! `ReadFault` tells who has failed while content was read: its source, or what takes it.

use std::{io, path::PathBuf};

use super::Error;

/// Why content was not taken to its end.
#[derive(Debug)]
pub enum ReadFault {
    /// It could not be read.
    Source(io::Error),
    /// It could not be stored.
    Taker(Error),
}

impl ReadFault {
    /// The error, with the attempted action and the path of the source if that has failed.
    pub fn at(self, action: &'static str, path: impl Into<PathBuf>) -> Error {
        match self {
            Self::Source(error) => Error::io(action, path, error),
            Self::Taker(error) => error,
        }
    }
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        Self::Source(error)
    }
}

impl From<rustix::io::Errno> for ReadFault {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Source(error.into())
    }
}

impl From<Error> for ReadFault {
    fn from(error: Error) -> Self {
        Self::Taker(error)
    }
}
