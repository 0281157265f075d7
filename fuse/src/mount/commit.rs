//! `Mount::commit` stores the changes of a mount as the next snapshot.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::future::Either;
use parking_lot::Mutex;
use store::{
    Error, ErrorKind, Result,
    catalog::lock::Hold,
    content::{chunk_fetcher::startup::StartupRanges, ingest::Files},
    id::{ChunkId, RecordId},
    name::Lineage,
    ops::{
        archive::publish::PublishJob,
        read::open::OpenedTree,
        write::{
            commit::{self, Base, Stored},
            snapshot::{About, Examined, Examiner, HoldBack, Report, size},
        },
    },
    progress::Progress,
};

use tokio::sync::watch;

use super::{Mount, settle::behind, write_out::WrittenOut};
use crate::{
    freeze::{FrozenChanges, FrozenNodes, Taken},
    overlay::{change::Intent, checkpoint::Below},
};

/// Where a commit goes.
#[derive(Clone, Debug)]
pub enum CommitTarget {
    /// To the profile that is mounted.
    Own,
    /// To another, whose lock is held.
    Other { lineage: Lineage, hold: Arc<Hold> },
    /// To the profile that is mounted, as its work in progress: no pointer is moved, and all changes stay at stake.
    Aside(Aside),
}

/// A commit that stores work in progress.
#[derive(Clone, Debug)]
pub struct Aside {
    /// Gets the record before it becomes a snapshot.
    pub begun: Arc<Mutex<Vec<RecordId>>>,
    /// How many want a turn that this takes: if there is one, storing is given up. The tree is taken in any case.
    pub wanted: watch::Receiver<usize>,
}

/// The moment at which a commit takes the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When nobody has a file open for writing; refused if that does not come for so long.
    Quiet { patience: Duration },
    /// At once: what a power failure would leave, with all that was written and mapped until then.
    Now,
}

#[derive(Clone, Debug)]
pub struct CommitRequest {
    pub to: CommitTarget,
    pub about: About,
    pub hold_back: Option<HoldBack>,
    pub examiner: Option<Arc<dyn Examiner>>,
    pub threads: usize,
    /// How large the profile may be.
    pub max_bytes: Option<u64>,
    /// How much the tenant may have stored when this is done.
    pub quota_bytes: Option<u64>,
    /// How it is published before the pointer is moved to it; without, it is not.
    pub archive: Option<PublishJob>,
    /// When the tree is taken.
    pub moment: Moment,
}

/// What a commit has done.
#[derive(Debug)]
pub struct Commit {
    pub report: Report,
    /// How long changes were held up.
    pub frozen_for: Duration,
    /// Why what was committed is still in the session, if it is: nothing else is left to do.
    pub left: Option<Error>,
    /// What was written up to this epoch is in it.
    pub epoch: u64,
    /// Whether it may lack writes from before that the kernel had kept.
    pub may_lack_writes: bool,
}

/// What the last commit came to.
#[derive(Clone, Debug)]
pub struct Committed {
    pub record: RecordId,
    pub lineage: Lineage,
    pub frozen_for: Duration,
}

/// A state that was stored aside and needs so many more packs than the base is not gone on from: all is stored anew.
const MORE_PACKS: usize = 32;
/// How often a commit begins anew whose write was revoked.
const ATTEMPTS: u32 = 3;

impl Mount {
    /// Makes what has changed the next snapshot; the mount stays. A write that a collection or a repair has
    /// revoked has changed nothing, so it begins anew.
    pub async fn commit(
        self: &Arc<Self>,
        request: CommitRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<Commit> {
        for attempt in 1..ATTEMPTS {
            // Whatever has moved the base may have done so once more.
            let trusts_base = attempt == 1;
            match Box::pin(self.commit_once(request.clone(), trusts_base, Arc::clone(&progress))).await {
                Err(Error::WriteRevoked { record }) => {
                    tracing::warn!(%record, "the write was revoked; starting again");
                }
                ended => return ended,
            }
        }
        Box::pin(self.commit_once(request, false, progress)).await
    }

    async fn commit_once(
        self: &Arc<Self>,
        request: CommitRequest,
        trusts_base: bool,
        progress: Arc<dyn Progress>,
    ) -> Result<Commit> {
        let mut base = self.base.lock().await;
        let (lineage, hold) = match &request.to {
            CommitTarget::Own | CommitTarget::Aside(_) => {
                (self.lineage.clone(), Arc::clone(self.own_hold()?))
            }
            CommitTarget::Other { lineage, hold } => (lineage.clone(), Arc::clone(hold)),
        };
        let is_other = matches!(request.to, CommitTarget::Other { .. });
        if let Some(lost) = self.keeper().and_then(|keeper| keeper.loss()).filter(|_| !is_other) {
            return Err(lost_lock(&lost));
        }
        self.begin(&mut base, &request).await?;
        let (_frozen, changed, examined, mut frozen_for, written_out) =
            self.freeze(&request, base.clone()).await?;
        let may_lack_writes = self.may_lack_writes(written_out);
        let FrozenChanges { changes, files, taken, .. } = changed;
        let epoch = taken.epoch;
        let same = matches!(request.to, CommitTarget::Own);
        let aside = match &request.to {
            CommitTarget::Aside(aside) => Some(aside.clone()),
            CommitTarget::Own | CommitTarget::Other { .. } => None,
        };
        let mut room = None;
        if same {
            let (taken, may_wait) = (taken.clone(), request.moment == Moment::Now);
            let keep = move |mount: &Self| {
                // A session that is about to end is worth more in the store than refused here.
                let room = may_wait.then(|| mount.fs.set_room_aside(&mount.session, &taken)).transpose()?;
                mount.fs.copy_up_others(&taken.numbers, &mount.runtime);
                Ok(room)
            };
            room = self.journal(keep).await?;
        }
        let files: Arc<dyn Files + Send> = files;
        let as_base = |OpenedTree { record, tree }| Base { record, tree };
        let packs = |of: &OpenedTree| of.record.packs().count();
        // Each state that was stored aside adds some packs, and whoever loads the last one fetches from all of them.
        let most = base.as_ref().map_or(0, packs) + MORE_PACKS;
        let earlier = self.stored_aside.lock().clone().filter(|earlier| !is_other && packs(earlier) <= most);
        let built_on = base.clone().map(as_base);
        let wanted = commit::Request {
            lineage: lineage.clone(),
            path: self.info.mountpoint.clone(),
            about: request.about,
            threads: request.threads,
            examined,
            hold_back: request.hold_back,
            first_reads: first_reads(&self.first_reads(), built_on.as_ref())?,
            guess: self.guess,
            quota_bytes: request.quota_bytes,
            flip_id: hold.handle().new_flip_id(),
            archive: request.archive,
            earlier: earlier.map(as_base),
            trusts_base,
        };
        let flip_id = wanted.flip_id;
        let mut meant = None;
        let intend = async |record: RecordId| {
            if let Some(aside) = &aside {
                aside.begun.lock().push(record);
            }
            if !same {
                return Ok(());
            }
            meant = Some(record);
            let flip = Some(hold.intended_flip(flip_id).await);
            let intent = Intent { record, epoch, flip };
            // Before it is a snapshot that somebody could delete.
            let intending = self.journal(move |mount| mount.fs.intend(intent));
            let (intended, rooted) = futures::future::join(intending, self.root_ahead(record)).await;
            intended.and(rooted)
        };
        let moves = Some(&*hold).filter(|_| aside.is_none());
        let storing =
            commit::commit(self.tenant()?, wanted, (changes, files), built_on, moves, intend, progress);
        let committed = match &aside {
            Some(aside) => unless_wanted(storing, aside.wanted.clone()).await,
            None => storing.await,
        };
        let (report, mut stored) = match committed {
            Ok(done) => done,
            Err(error) => {
                // Whether the pointer was moved is not known: the next start finds out.
                if error.kind() == ErrorKind::PointerUnknown {
                    *self.intended.lock() = Some(taken.nodes);
                } else {
                    self.give_up(meant).await;
                    self.keep_root_on(base.as_ref().map(|base| base.record.record)).await;
                }
                return Err(error);
            }
        };
        if aside.is_some() {
            if let Some(Stored { record, tree, .. }) = stored.filter(|_| report.held_back.is_none()) {
                *self.stored_aside.lock() = Some(OpenedTree { record, tree });
            }
            drop(base);
            self.fs.reclaim();
            return Ok(Commit { report, frozen_for, left: None, epoch, may_lack_writes });
        }
        *self.committed.lock() =
            Some(Committed { record: report.record, lineage: lineage.clone(), frozen_for });
        // What is stored elsewhere stays in the overlay, but is no longer at stake.
        self.saved_epoch.fetch_max(epoch, Ordering::AcqRel);
        let mut left = None;
        if let Some(event) = stored.as_mut().and_then(|stored| stored.untold.take()) {
            // Nobody waits for it: the pointer carries it.
            hold.tell_later(event);
        }
        match stored {
            Some(stored) if same && report.held_back.is_none() => {
                let (record, nodes) = (stored.record.record, Arc::clone(&taken.nodes));
                match self.stand_on(taken, stored, lineage).await {
                    Ok((opened, held_up)) => {
                        frozen_for += held_up;
                        self.home_becomes(record);
                        *base = Some(opened);
                        *self.stored_aside.lock() = None;
                        self.rebased.store(true, Ordering::Release);
                    }
                    // The next commit does it, or whoever resumes the session.
                    Err(error) => {
                        *self.intended.lock() = Some(nodes);
                        left = Some(behind(record, &error));
                    }
                }
            }
            _ => self.give_up(meant).await,
        }
        // The next commit sets its own aside, in the same place.
        drop(room);
        drop(base);
        if left.is_none() {
            // Nor for this: it comes after this commit, and before or after the whole of the next one.
            let mount = Arc::clone(self);
            tokio::spawn(async move { mount.keep_roots().await });
        }
        self.fs.reclaim();
        Ok(Commit { report, frozen_for, left, epoch, may_lack_writes })
    }

    /// What was taken is stored, and leaves the session. Says how long changes were held up.
    async fn stand_on(
        self: &Arc<Self>,
        taken: Taken,
        stored: Stored,
        lineage: Lineage,
    ) -> Result<(OpenedTree, Duration)> {
        let Stored { record, tree, .. } = stored;
        let onto = taken.stored_as(Arc::clone(&tree)).await?;
        let below = Below { lineage, record: record.record, generation: record.generation };
        let held_up = self.journal(move |mount| mount.fs.rebase(&mount.session, onto, below)).await?;
        Ok((OpenedTree { record, tree }, held_up))
    }

    /// Another commit begins, so the one before must be over.
    async fn begin(&self, base: &mut Option<OpenedTree>, request: &CommitRequest) -> Result<()> {
        let caught_up = self.catch_up(base, request.archive.as_ref()).await;
        match (caught_up, self.fs.intent(), &request.to) {
            // It will never be known here: all that is in the session goes elsewhere.
            (Err(error), Some(intent), CommitTarget::Other { .. })
                if matches!(error.kind(), ErrorKind::LockLost | ErrorKind::PointerMoved) =>
            {
                self.fs.give_up_intent(intent.record)
            }
            (caught_up, ..) => caught_up,
        }
    }

    /// The commit to this record has come to nothing, or to something that is not the base of this
    /// mount. If that cannot be written down, the next start finds out.
    async fn give_up(self: &Arc<Self>, meant: Option<RecordId>) {
        let Some(record) = meant else { return };
        if let Err(error) = self.journal(move |mount| mount.fs.give_up_intent(record)).await {
            tracing::warn!(%error, %record, "that a commit has failed could not be written down");
        }
    }

    /// What was read first. Only until the snapshot below is another: they are its chunks.
    fn first_reads(&self) -> Vec<ChunkId> {
        let moved = self.rebased.load(Ordering::Acquire);
        self.fetcher.as_ref().filter(|_| !moved).map(|fetcher| fetcher.first_reads()).unwrap_or_default()
    }

    /// Ends the epoch at the moment that is asked for, and has the files looked at as they were
    /// then. Says how long changes were held up, and whether the kernel had handed over what it kept.
    async fn freeze(
        self: &Arc<Self>,
        request: &CommitRequest,
        base: Option<OpenedTree>,
    ) -> Result<(FrozenNodes, FrozenChanges, Examined, Duration, WrittenOut)> {
        let (mount, examiner, limit) = (Arc::clone(self), request.examiner.clone(), request.max_bytes);
        let moment = request.moment;
        let work = move || {
            let held = mount.fs.hold_excluded(&mount.runtime);
            held.map_err(|errno| Error::io("cannot read", &mount.info.mountpoint, errno))?;
            let (closed, written_out) = match moment {
                Moment::Quiet { patience } => {
                    let quiet = mount.fs.close_when_quiet(patience);
                    let quiet = quiet.map_err(|writers| in_use(&mount.info.mountpoint, &writers))?;
                    (quiet, WrittenOut::All)
                }
                Moment::Now => {
                    let written_out = mount.write_out()?;
                    (mount.fs.close_at_once(), written_out)
                }
            };
            let frozen = mount.fs.freeze(&closed)?;
            let frozen_for = closed.held_up_for();
            drop(closed);
            let changed = mount.runtime.block_on(frozen.changes(&mount.runtime))?;
            let is_too_large = limit.is_some_and(|limit| changed.bytes > limit);
            let mut examined = Examined::default();
            if is_too_large {
                let listed = mount.runtime.block_on(frozen.list())?;
                size::check(&mount.info.mountpoint, &listed.entries, changed.bytes, limit)?;
            }
            if let Some(examiner) = examiner {
                let record = base.as_ref().map(|base| &base.record);
                examined = mount.examine(&*examiner, &frozen, &changed, record)?;
            }
            Ok((frozen, changed, examined, frozen_for, written_out))
        };
        joined(tokio::task::spawn_blocking(work).await)
    }

    /// Something that writes to the session, where writing may take its time.
    async fn journal<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mount = Arc::clone(self);
        joined(tokio::task::spawn_blocking(move || work(&mount)).await)
    }
}

/// Gives `storing` up when somebody wants a turn: what it has stored is garbage, as if its process had ended.
async fn unless_wanted<T>(
    storing: impl Future<Output = Result<T>>,
    mut wanted: watch::Receiver<usize>,
) -> Result<T> {
    let wanted = std::pin::pin!(async { wanted.wait_for(|waiting| *waiting > 0).await.is_ok() });
    match futures::future::select(std::pin::pin!(storing), wanted).await {
        Either::Left((stored, _)) => stored,
        Either::Right((true, _)) => Err(Error::Interrupted),
        // Nobody is left who could want one.
        Either::Right((false, storing)) => storing.await,
    }
}

/// Where the chunks that were read first are in the snapshot they were read of.
fn first_reads(chunks: &[ChunkId], base: Option<&Base>) -> Result<StartupRanges> {
    let metadata = base.filter(|_| !chunks.is_empty()).and_then(|base| base.tree.metadata());
    // Of a large tree, what the snapshot below says of them still holds.
    let Some(metadata) = metadata else { return Ok(StartupRanges::default()) };
    Ok(StartupRanges::of(chunks, &metadata.decode()?.0))
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
