//! Committing a mount.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use store::{
    Error, ErrorKind, Result,
    catalog::lock::Hold,
    content::ingest::Files,
    id::{ChunkId, RecordId},
    name::Lineage,
    ops::{
        commit::{self, Base},
        publish::Job,
        snapshot::{About, Examined, Examiner, HoldBack, Report, size},
    },
    progress::Progress,
};

use super::{Mount, lock};
use crate::{commit::Frozen, overlay::checkpoint::Below};

/// Where a commit goes.
#[derive(Clone, Debug)]
pub enum To {
    /// To the profile that is mounted.
    Own,
    /// To another, whose lock is held.
    Other { lineage: Lineage, hold: Arc<Hold> },
}

#[derive(Debug)]
pub struct CommitRequest {
    pub to: To,
    pub about: About,
    pub hold_back: Option<HoldBack>,
    pub examiner: Option<Arc<dyn Examiner>>,
    pub threads: usize,
    /// How large the profile may be.
    pub max_bytes: Option<u64>,
    /// How much the tenant may have stored when this is done.
    pub quota_bytes: Option<u64>,
    /// How it is published before the pointer is moved to it; without, it is not.
    pub archive: Option<Job>,
    /// How long to wait until nobody has a file open for writing.
    pub patience: Duration,
}

/// What the last commit came to.
#[derive(Clone, Debug)]
pub struct Committed {
    pub record: RecordId,
    pub lineage: Lineage,
    pub frozen_for: Duration,
}

impl Mount {
    /// Makes what has changed the next snapshot; the mount stays.
    pub async fn commit(
        self: &Arc<Self>,
        request: CommitRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<(Report, Duration)> {
        let mut base = self.base.lock().await;
        let (lineage, hold) = match &request.to {
            To::Own => (self.lineage.clone(), Arc::clone(self.own_hold()?)),
            To::Other { lineage, hold } => (lineage.clone(), Arc::clone(hold)),
        };
        if let (To::Own, Some(lost)) = (&request.to, self.keeper().and_then(|keeper| keeper.loss())) {
            return Err(lost_lock(&lost));
        }
        let (frozen, examined, frozen_for) = self.freeze(&request, base.clone()).await?;
        let Frozen { epoch, numbers, .. } = &frozen;
        let (epoch, numbers) = (*epoch, numbers.clone());
        let same = matches!(request.to, To::Own);
        if same {
            let numbers = numbers.clone();
            let keep = move |mount: &Self| {
                mount.fs.keep_others(&numbers, &mount.runtime);
                Ok(())
            };
            self.journal(keep).await?;
        }
        let files: Arc<dyn Files + Send> = frozen.files.clone();
        let tree = frozen.tree;
        let wanted = commit::Request {
            lineage: lineage.clone(),
            path: self.info.mountpoint.clone(),
            about: request.about,
            threads: request.threads,
            examined,
            hold_back: request.hold_back,
            first_reads: self.first_reads(),
            quota_bytes: request.quota_bytes,
            archive: request.archive,
        };
        let built_on = base.clone().map(|base| commit::Base { record: base.record, metadata: base.metadata });
        let intend = async |record: RecordId| {
            if !same {
                return Ok(());
            }
            // Before it is a snapshot that somebody could delete.
            let intending = self.journal(move |mount| mount.fs.intend(record, epoch));
            let (intended, rooted) = futures::future::join(intending, self.root_ahead(record)).await;
            intended.and(rooted)
        };
        let committed =
            commit::commit(&self.tenant, wanted, tree, files, built_on, Some(&hold), intend, progress).await;
        let (report, stored) = match committed {
            Ok(done) => done,
            Err(error) => {
                // Whether the pointer was moved is not known: the next start finds out.
                if error.kind() != ErrorKind::PointerUnknown {
                    self.journal(|mount| mount.fs.give_up_intent()).await?;
                    self.keep_root_on(base.as_ref().map(|base| base.record.record)).await;
                }
                return Err(error);
            }
        };
        *lock(&self.committed) =
            Some(Committed { record: report.record, lineage: lineage.clone(), frozen_for });
        match stored {
            Some(stored) if same && report.held_back.is_none() => {
                let below =
                    Below { lineage, record: stored.record.record, generation: stored.record.generation };
                let (entries, locations) = (stored.entries, stored.locations);
                self.journal(move |mount| {
                    mount.fs.rebase(&mount.session, epoch, numbers, below, &entries, &locations)
                })
                .await?;
                self.home.becomes(self.lineage.clone(), stored.record.record);
                *base = Some(Base { record: stored.record, metadata: stored.metadata });
                self.rebased.store(true, Ordering::Release);
            }
            _ => self.journal(|mount| mount.fs.give_up_intent()).await?,
        }
        // What is stored elsewhere stays in the overlay, but is no longer at stake.
        self.saved_epoch.fetch_max(epoch, Ordering::AcqRel);
        self.keep_root_on(base.as_ref().map(|base| base.record.record)).await;
        drop(base);
        self.fs.reclaim();
        Ok((report, frozen_for))
    }

    /// What was read first. Only until the snapshot below is another: they are its chunks.
    fn first_reads(&self) -> Vec<ChunkId> {
        let moved = self.rebased.load(Ordering::Acquire);
        self.lazy.as_ref().filter(|_| !moved).map(|lazy| lazy.first_reads()).unwrap_or_default()
    }

    /// Ends the epoch when no file is open for writing, and has the files looked at as they were
    /// then. Says how long changes were held up.
    async fn freeze(
        self: &Arc<Self>,
        request: &CommitRequest,
        base: Option<Base>,
    ) -> Result<(Frozen, Examined, Duration)> {
        let (mount, examiner, limit) = (Arc::clone(self), request.examiner.clone(), request.max_bytes);
        let patience = request.patience;
        let work = move || {
            let quiet = mount.fs.close_when_quiet(patience);
            let closed = quiet.map_err(|writers| in_use(&mount.info.mountpoint, &writers))?;
            let started = Instant::now();
            let frozen = mount.fs.freeze(&closed, &mount.runtime)?;
            drop(closed);
            let frozen_for = started.elapsed();
            size::check(&mount.info.mountpoint, &frozen.tree.entries, frozen.tree.bytes, limit)?;
            let examined = match examiner {
                Some(examiner) => mount.examine(&*examiner, &frozen, base.as_ref())?,
                None => Examined::default(),
            };
            Ok((frozen, examined, frozen_for))
        };
        joined(tokio::task::spawn_blocking(work).await)
    }

    /// Something that writes to the session, where writing may take its time.
    async fn journal(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mount = Arc::clone(self);
        joined(tokio::task::spawn_blocking(move || work(&mount)).await)
    }
}

fn joined<T>(ended: std::result::Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    ended.unwrap_or_else(|error| Err(Error::Internal { what: error.to_string() }))
}

fn in_use(mountpoint: &Path, writers: &[String]) -> Error {
    const NAMED: usize = 3;
    let more = match writers.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = writers.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let named = if named.is_empty() { "a file".to_owned() } else { named };
    let by = format!("whoever has {named}{more} open for writing");
    Error::InUse { path: mountpoint.to_owned(), by }
}

fn lost_lock(lost: &Error) -> Error {
    match lost {
        Error::LockLost { lineage, holder, .. } => {
            Error::LockLost { record: None, lineage: lineage.clone(), holder: holder.clone() }
        }
        Error::PointerMoved { lineage, reason, .. } => {
            Error::PointerMoved { record: None, lineage: lineage.clone(), reason: reason.clone() }
        }
        other => Error::Internal { what: other.to_string() },
    }
}
