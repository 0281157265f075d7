//! Captures a directory: what changed is stored, the rest is referred to.
//!
//! 1. Walk. Files whose state may be trusted keep the chunks they had.
//! 2. If nothing differs from the current snapshot, that is all.
//! 3. Flush, read, cut and upload the other files; the write's lease is taken before the
//!    first upload.
//! 4. Store the metadata, publish the record, move the pointer.

mod draft;
mod plan;
mod write;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Error, ErrorKind, Result,
    catalog::{
        index::IndexUse,
        pointer::{self, Flip},
        records,
    },
    content::TenantStore,
    format::record::{CapturedBy, CapturedIn, Content, Counts, Reason, Record, State},
    id::{RecordId, SnapshotId},
    name::Lineage,
    progress::Progress,
    tree::walk::Skipped,
};

use plan::Plan;
use write::Writing;

/// How often a capture is started again: because a collection revoked the write, or
/// because the directory changed under it.
const ATTEMPTS: u32 = 3;

/// What to capture and what to write down about it.
#[derive(Clone, Debug)]
pub struct Request {
    pub lineage: Lineage,
    pub directory: PathBuf,
    /// Read every file, whatever its state says.
    pub rescan: bool,
    /// How many bytes of the tenant's indexes to look at.
    pub index_budget: u64,
    pub threads: usize,
    pub about: About,
}

/// The parts of a record that only the caller knows.
#[derive(Clone, Debug)]
pub struct About {
    pub captured_by: CapturedBy,
    pub captured_in: Option<CapturedIn>,
    pub reason: Reason,
    pub labels: BTreeMap<String, String>,
    pub notes: String,
    pub chrome_last_version: Option<String>,
    pub exit_type: Option<String>,
    pub chrome_uptime_seconds: u64,
    /// Paths below the directory that are not captured.
    pub exclusions: Vec<String>,
}

/// What a capture did.
#[derive(Clone, Debug)]
pub struct Report {
    pub record: RecordId,
    pub snapshot_id: SnapshotId,
    pub sha256_prefix: String,
    pub outcome: Outcome,
    pub flip: Flip,
    pub counts: Counts,
    pub uncompressed_bytes: u64,
    pub skipped: Skipped,
    /// Files that kept their chunks without being read, and those that were read.
    pub reused_files: u64,
    pub read_files: u64,
    pub index: IndexUse,
    pub elapsed: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new snapshot was stored.
    Stored,
    /// The content is that of a snapshot that exists.
    Unchanged,
}

/// Captures `request.directory` as the next snapshot of its lineage.
pub async fn snapshot(store: &TenantStore, request: &Request, progress: Arc<dyn Progress>) -> Result<Report> {
    let started = Instant::now();
    let capture = Capture { store, request, progress };
    let mut attempt = 0;
    loop {
        attempt += 1;
        match capture.run().await {
            Err(Error::WriteRevoked { record }) if attempt < ATTEMPTS => {
                tracing::warn!(%record, "the write was revoked; starting again");
            }
            Err(Error::SourceChanged { path, .. }) if attempt < ATTEMPTS => {
                tracing::info!(path = %path.display(), "changed while it was captured; starting again");
            }
            Err(Error::SourceChanged { path, .. }) => {
                return Err(Error::SourceChanged { path, attempts: attempt });
            }
            Ok(report) => return Ok(Report { elapsed: started.elapsed(), ..report }),
            Err(error) => return Err(error),
        }
    }
}

struct Capture<'a> {
    store: &'a TenantStore,
    request: &'a Request,
    progress: Arc<dyn Progress>,
}

/// How a capture ended.
struct Ended {
    outcome: Outcome,
    record: Record,
    flip: Flip,
    read_files: u64,
    index: IndexUse,
}

impl Capture<'_> {
    async fn run(&self) -> Result<Report> {
        let (base, plan) = futures::future::try_join(self.base(), Plan::make(self)).await?;
        let known = if plan.to_read.is_empty() { Some(plan.tree(self.store)?.id) } else { None };
        match base {
            Some(base) if known.is_some() && snapshot_id(&base) == known => {
                self.report(&plan, Ended::unchanged(base, Flip::Unchanged, 0))
            }
            base => {
                let (plan, ended) = Writing::begin(self, base, plan).await.run().await?;
                self.report(&plan, ended)
            }
        }
    }

    /// The current snapshot, if there is one of ours.
    async fn base(&self) -> Result<Option<Record>> {
        let Some(read) = pointer::read(self.store, &self.request.lineage).await? else { return Ok(None) };
        let Some(id) = read.pointer.block().and_then(|block| block.record) else { return Ok(None) };
        match records::get(self.store, &self.request.lineage, id).await {
            Ok((record, _)) => Ok(Some(record).filter(|record| record.state == State::Live)),
            // What is lost must not keep anybody from storing a good snapshot after it.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                tracing::warn!(record = %id, %error, "the current snapshot cannot be built on");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn report(&self, plan: &Plan, ended: Ended) -> Result<Report> {
        let Ended { outcome, record, flip, read_files, index } = ended;
        let snapshot_id = snapshot_id(&record)
            .ok_or_else(|| Error::Internal { what: "a record without content".to_owned() })?;
        let counts = match outcome {
            Outcome::Stored => record.counts.clone(),
            Outcome::Unchanged => {
                Counts { new_chunks: 0, new_bytes: 0, stored_bytes: 0, ..record.counts.clone() }
            }
        };
        Ok(Report {
            record: record.record,
            snapshot_id,
            sha256_prefix: record.sha256_prefix(),
            outcome,
            flip,
            counts,
            uncompressed_bytes: record.uncompressed_size_bytes,
            skipped: plan.walk.skipped,
            reused_files: plan.kept.len() as u64,
            read_files,
            index,
            elapsed: Duration::ZERO,
        })
    }
}

impl Ended {
    fn unchanged(record: Record, flip: Flip, read_files: u64) -> Self {
        Self { outcome: Outcome::Unchanged, record, flip, read_files, index: IndexUse::default() }
    }
}

fn snapshot_id(record: &Record) -> Option<SnapshotId> {
    record.content.as_ref().map(|content: &Content| content.snapshot_id)
}
