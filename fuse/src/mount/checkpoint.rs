//! `Mount::checkpoint` makes a snapshot of the tree as it is at one moment, of a lineage that may be another, and leaves the
//! session as it is.
//!
//! Writers wait only while the epoch ends. What is read and stored is what has changed since the checkpoint before.

use std::{sync::Arc, time::Duration};

use store::{
    Error, ErrorKind, Result,
    catalog::{lock::Hold, records},
    content::chunk_fetcher::startup::StartupRanges,
    id::{FlipId, RecordId},
    name::Lineage,
    ops::{
        read::open::OpenedTree,
        write::{
            commit::{self, Base, Stored},
            snapshot::{About, Examined, Report, size},
        },
    },
    progress::Silent,
};

use super::{Mount, write_out::WrittenOut};
use crate::freeze::{ChangesSince, CheckpointBase, FrozenNodes};

/// What a checkpoint is to be.
#[derive(Clone, Debug)]
pub struct CheckpointRequest {
    /// The lineage that it becomes a snapshot of.
    pub lineage: Lineage,
    /// Moves the pointer of the lineage to it; without, no pointer is moved.
    pub hold: Option<Arc<Hold>>,
    pub flip_id: FlipId,
    pub about: About,
    pub threads: usize,
    /// How large the tree may be.
    pub max_bytes: Option<u64>,
    /// How much the tenant may have stored when this is done.
    pub quota_bytes: Option<u64>,
    /// Paths that are left out, beside those that no snapshot of the mount has.
    pub exclusions: Vec<String>,
    /// The checkpoint before, which may have been taken by an earlier daemon: what it has stored is not stored again.
    pub before: Option<RecordId>,
}

/// A checkpoint that was taken.
#[derive(Debug)]
pub struct TakenCheckpoint {
    pub report: Report,
    /// How long changes were held up.
    pub frozen_for: Duration,
    /// The last event that it has.
    pub last_event: u64,
    /// Whether it may lack writes from before that the kernel had kept. Then its record has the label `MAY_LACK_WRITES`.
    pub may_lack_writes: bool,
}

/// The label of a snapshot that may lack writes to files that were open.
pub const MAY_LACK_WRITES: &str = "may-lack-writes";

/// The checkpoint before, for the next one.
#[derive(Debug)]
pub(super) struct LastCheckpoint {
    opened: OpenedTree,
    standing: CheckpointBase,
}

impl Mount {
    /// Makes the tree as it is now a snapshot. One that cannot be built on the checkpoint before is made of all that the
    /// session holds.
    pub async fn checkpoint(self: &Arc<Self>, request: CheckpointRequest) -> Result<TakenCheckpoint> {
        let mut base = self.base.lock().await;
        // What a commit that is not settled has taken could not be told from the rest after another freeze.
        self.catch_up(&mut base, None).await?;
        let mut last = self.last_checkpoint.lock().await;
        match Box::pin(self.checkpoint_above(base.as_ref(), &mut last, &request, true)).await {
            Err(error) if is_of_base(&error) => {
                tracing::info!(%error, "the checkpoint before cannot be built on");
                *last = None;
                Box::pin(self.checkpoint_above(base.as_ref(), &mut last, &request, false)).await
            }
            ended => ended,
        }
    }

    async fn checkpoint_above(
        self: &Arc<Self>,
        base: Option<&OpenedTree>,
        last: &mut Option<LastCheckpoint>,
        request: &CheckpointRequest,
        trusts_base: bool,
    ) -> Result<TakenCheckpoint> {
        let (frozen, frozen_for, written_out) = self.freeze_now().await?;
        let may_lack_writes = self.may_lack_writes(written_out);
        let mut about = request.about.clone();
        if may_lack_writes {
            about.labels.insert(MAY_LACK_WRITES.to_owned(), "to files that were open".to_owned());
        }
        if let Some(before) = &*last
            && !frozen.follows(&before.standing, &request.exclusions).await?
        {
            *last = None;
        }
        let standing = last.as_ref().map(|last| &last.standing);
        let ChangesSince { changes, files, bytes, taken } =
            frozen.since(standing, &request.exclusions, &self.runtime).await?;
        if request.max_bytes.is_some_and(|limit| bytes > limit) {
            let listed = frozen.list().await?;
            size::check(&self.info.mountpoint, &listed.entries, bytes, request.max_bytes)?;
        }
        let as_base = |OpenedTree { record, tree }: OpenedTree| Base { record, tree };
        let built_on = last.as_ref().map(|last| &last.opened).or(base).cloned().map(as_base);
        let earlier = match last {
            None => self.earlier_checkpoint(request).await,
            Some(_) => None,
        };
        let wanted = commit::Request {
            lineage: request.lineage.clone(),
            path: self.info.mountpoint.clone(),
            about,
            threads: request.threads,
            examined: Examined::default(),
            hold_back: None,
            first_reads: StartupRanges::default(),
            guess: None,
            quota_bytes: request.quota_bytes,
            flip_id: request.flip_id,
            archive: None,
            earlier: earlier.map(as_base),
            trusts_base,
        };
        let (unchanged, intend) = (built_on.clone(), async |_| Ok(()));
        let storing = commit::commit(
            self.tenant()?,
            wanted,
            (changes, files),
            built_on,
            request.hold.as_deref(),
            intend,
            Arc::new(Silent),
        );
        let (report, stored) = Box::pin(storing).await?;
        let opened = match stored {
            Some(Stored { record, tree, untold }) => {
                if let (Some(hold), Some(event)) = (&request.hold, untold) {
                    hold.tell(&event).await;
                }
                Some(OpenedTree { record, tree })
            }
            None => unchanged.map(|Base { record, tree }| OpenedTree { record, tree }),
        };
        let last_event = frozen.last_event;
        *last = match opened {
            Some(opened) => {
                let standing = taken.stored_as(Arc::clone(&opened.tree)).await?;
                Some(LastCheckpoint { opened, standing })
            }
            None => None,
        };
        drop(frozen);
        self.fs.reclaim();
        Ok(TakenCheckpoint { report, frozen_for, last_event, may_lack_writes })
    }

    /// Ends the epoch at once. Says how long changes were held up, and whether the kernel had handed over what it kept.
    async fn freeze_now(self: &Arc<Self>) -> Result<(FrozenNodes, Duration, WrittenOut)> {
        let mount = Arc::clone(self);
        let freezing = tokio::task::spawn_blocking(move || {
            let written_out = mount.write_out()?;
            let closed = mount.fs.close_at_once();
            let frozen = mount.fs.freeze(&closed)?;
            Ok((frozen, closed.held_up_for(), written_out))
        });
        freezing.await.unwrap_or_else(|error| Err(Error::Internal { what: error.to_string() }))
    }

    /// The checkpoint before, if it is still there: it has stored most of what is stored now.
    async fn earlier_checkpoint(&self, request: &CheckpointRequest) -> Option<OpenedTree> {
        let (tenant, before) = (self.tenant().ok()?, request.before?);
        let opened = async {
            let (record, _) = records::get(tenant, &request.lineage, before).await?;
            OpenedTree::load(tenant, record).await
        };
        opened.await.inspect_err(|error| tracing::info!(%error, "the checkpoint before is not there")).ok()
    }
}

/// Whether a write has failed for what it was built on, so that one that is built on something else may succeed.
fn is_of_base(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged)
        || matches!(error, Error::WriteRevoked { .. } | Error::Missing { .. })
}
