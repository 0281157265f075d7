//! `ReadLog` holds the states and contents of files, in the order in which they were read.

use std::path::PathBuf;

use super::{
    codec::{put_extents, put_state, put_xattrs, read_extents, read_state, read_xattrs},
    read::ReadState,
    records::{RecordReader, Records},
};
use crate::{
    Error, Result,
    format::{self, bytes::Reader, tree::Extent},
};

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadFile {
    /// Its state then.
    pub seen: ReadState,
    /// Its content.
    pub extents: Vec<Extent>,
}

#[derive(Debug, Default)]
pub(crate) struct ReadLog(Records);

impl ReadLog {
    /// A log that keeps the excess over its memory below `folder`.
    pub fn below(folder: Option<PathBuf>) -> Self {
        Self(Records::below(folder))
    }

    pub fn push(&mut self, file: &ReadFile) {
        self.0.push(|out| {
            put_state(out, &file.seen.state);
            put_xattrs(out, &file.seen.xattrs);
            put_extents(out, &file.extents);
        });
    }

    /// All files, in order.
    pub fn files(&self) -> ReadLogReader<'_> {
        ReadLogReader(self.0.reader())
    }
}

/// Goes through a log.
#[derive(Debug)]
pub(crate) struct ReadLogReader<'a>(RecordReader<'a>);

impl ReadLogReader<'_> {
    /// The next file, which must be there.
    pub fn next_file(&mut self) -> Result<ReadFile> {
        let missing = || Error::Internal { what: "a file was not read".to_owned() };
        self.0.read_next(read).ok_or_else(missing)?
    }
}

fn read(reader: &mut Reader<'_>) -> format::Result<ReadFile> {
    let (state, xattrs) = (read_state(reader)?, read_xattrs(reader)?);
    Ok(ReadFile { seen: ReadState { state, xattrs }, extents: read_extents(reader)? })
}
