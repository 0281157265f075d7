//! `cat` writes one file of a snapshot to a writer of the front end.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
};

use store::Error;

use crate::{
    Engine,
    contents::OpenedFile,
    failure::Failure,
    names::SnapshotChoice,
    text::{
        path,
        plain::{NOT_PLAIN, PlainText},
    },
};

/// Asks for the bytes of one file.
#[derive(Clone, Debug)]
pub struct CatRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
    /// The file.
    pub path: OsString,
    /// Whether the file goes to a terminal, which must get no bytes that it would obey.
    pub is_for_terminal: bool,
}

/// How much of the file was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatOutcome {
    /// The whole file, which has so many bytes.
    Whole(u64),
    /// The reader went away before the end.
    CutShort,
}

impl Engine {
    /// Writes a file to `out`, which messages call `shown`. Each chunk is verified before it is written.
    pub async fn cat<W: Write + Send + 'static>(
        &self,
        request: &CatRequest,
        (out, shown): (W, PathBuf),
    ) -> Result<CatOutcome, Failure> {
        let OpenedFile { file, path, snapshot } = self.open_file(&request.snapshot, &request.path).await?;
        let written = match request.is_for_terminal {
            true => file.write((PlainText::new(out), shown)).await,
            false => file.write((out, shown)).await,
        };
        match written {
            Ok(bytes) => Ok(CatOutcome::Whole(bytes)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                Ok(CatOutcome::CutShort)
            }
            Err(error) if error.to_string().contains(NOT_PLAIN) => {
                let file = path::shown(path.as_bytes());
                let hint = format!("`pstore cat {snapshot} {file} > FILE` writes it to a file");
                Err(Failure::usage(NOT_PLAIN).hint(hint))
            }
            Err(error) => Err(error.into()),
        }
    }
}
