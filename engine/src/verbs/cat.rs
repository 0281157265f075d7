//! `cat` writes one file of a snapshot to a writer that the door gives.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
};

use store::{Error, ErrorKind, ops::read::browse};

use crate::{
    Engine, contents,
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
        let (reference, file) = (request.snapshot.reference()?, contents::path(&request.path)?);
        let (tenant, lineage) = self.lineage_to_judge(&request.snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, reference).await?;
        let written = match request.is_for_terminal {
            true => browse::write(&tenant, &record, &file, (PlainText::new(out), shown)).await,
            false => browse::write(&tenant, &record, &file, (out, shown)).await,
        };
        let error = match written {
            Ok(bytes) => return Ok(CatOutcome::Whole(bytes)),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
                return Ok(CatOutcome::CutShort);
            }
            Err(error) => error,
        };
        let named = format!("{}@{}", lineage.name, record.sha256_prefix());
        Err(match error.kind() {
            ErrorKind::NotFound => contents::elsewhere(&record, error),
            ErrorKind::InvalidInput => {
                Failure::from(error).hint(format!("`pstore ls {named} -l` tells what each name is"))
            }
            _ if error.to_string().contains(NOT_PLAIN) => {
                let file = path::shown(file.as_bytes());
                let hint = format!("`pstore cat {named} {file} > FILE` writes it to a file");
                Failure::usage(NOT_PLAIN).hint(hint)
            }
            _ => error.into(),
        })
    }
}
