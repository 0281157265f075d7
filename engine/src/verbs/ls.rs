//! `ls` lists the entries of a snapshot.

use std::ffi::OsString;

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    id::RecordId,
    ops::read::browse::{self, Listing},
};

use crate::{
    Engine,
    contents::{self, EntryFields},
    failure::Failure,
    names::SnapshotChoice,
    outcome::{LineageFields, Outcome},
    text::path,
};

/// Lists a directory of a snapshot, or tells of one file.
#[derive(Clone, Debug)]
pub struct LsRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
    /// The file or directory; empty for the whole profile.
    pub path: OsString,
    /// Whether directories are listed however deep they are.
    pub is_recursive: bool,
}

/// Entries of a snapshot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LsOutcome {
    /// The profile of the snapshot.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The first digits of the snapshot's id.
    pub sha256_prefix: String,
    /// The snapshot's record.
    pub record: RecordId,
    /// The path that was asked for.
    pub path: String,
    /// The bytes of the path, if they are no text.
    pub path_hex: Option<String>,
    /// The entries of a directory; of anything else, that alone.
    pub entries: Vec<EntryFields>,
    /// The bytes of the path.
    #[serde(skip)]
    pub path_bytes: Vec<u8>,
}

impl Outcome for LsOutcome {}

/// A listing whose entries are told as they are read.
#[derive(Debug)]
pub struct LsStream {
    /// The outcome, but for its entries.
    pub head: LsOutcome,
    listing: Listing,
}

impl LsStream {
    /// The next entries, in order; `None` after the last ones.
    #[crate::boxed]
    pub async fn next(&mut self) -> Result<Option<Vec<EntryFields>>, Failure> {
        let listed = self.listing.next().await?;
        Ok(listed.map(|listed| listed.iter().map(|one| EntryFields::of(&one.entry, one.file())).collect()))
    }

    /// Lets the snapshot go. One that is dropped instead is kept for a while.
    #[crate::boxed]
    pub async fn close(self) {
        self.listing.close().await;
    }
}

impl Engine {
    /// Lists entries of a snapshot.
    #[crate::boxed]
    pub async fn ls(&self, request: &LsRequest) -> Result<LsOutcome, Failure> {
        let mut stream = self.ls_stream(request).await?;
        let mut entries = Vec::new();
        let listed = loop {
            match stream.next().await {
                Ok(Some(more)) => entries.extend(more),
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        let head = stream.head.clone();
        stream.close().await;
        listed.map(|()| LsOutcome { entries, ..head })
    }

    /// Lists entries of a snapshot as they are read: no more of them is held than one segment of the tree has.
    #[crate::boxed]
    pub async fn ls_stream(&self, request: &LsRequest) -> Result<LsStream, Failure> {
        let (reference, path) = (request.snapshot.reference()?, contents::path(&request.path)?);
        let (tenant, lineage) = self.lineage_to_judge(&request.snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, reference).await?;
        let listing = Listing::open(&tenant, &record, &path, request.is_recursive)
            .await?
            .ok_or_else(|| contents::elsewhere(&record, browse::missing(&record, &path)))?;
        let (shown, path_hex) = path::fields(path.as_bytes());
        let head = LsOutcome {
            lineage: (&lineage).into(),
            sha256_prefix: record.sha256_prefix(),
            record: record.record,
            path: shown,
            path_hex,
            entries: Vec::new(),
            path_bytes: path.as_bytes().to_vec(),
        };
        Ok(LsStream { head, listing })
    }
}
