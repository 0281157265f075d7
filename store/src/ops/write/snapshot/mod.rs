//! Captures a directory: changed files are stored, the others keep their chunks.
//!
//! 1. Walk. Files whose state may be trusted keep the chunks they had.
//! 2. If nothing differs from the current snapshot, that is all: nothing is written, not
//!    even a lock. Else the lock is taken and the pointer claimed, unless the caller has
//!    done that.
//! 3. Flush, read, cut and upload the other files; the write's lease is taken before the
//!    first upload.
//! 4. Store the metadata, publish the record, move the pointer.

mod base_parts;
mod captured;
mod changed;
mod examine;
mod held_or_own_lock;
mod plan;
mod reading;
pub mod size;
mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::{
    Error, ErrorKind, Result,
    catalog::{
        index::IndexUse,
        lineage_handle::LineageHandle,
        lock::{self, LockAndPointer, Patience, Terms},
        pointer::Flip,
        records,
    },
    content::{TenantStore, chunk_fetcher::startup::Guess, unfinished::TakenOver},
    format::{
        event::Actor,
        health::Health,
        pointer::Target,
        record::{CapturedBy, CapturedIn, Content, Counts, Mode, Reason, Record, State},
        tree::TreePath,
    },
    id::{Nonce, RecordId, SnapshotId},
    name::Lineage,
    ops::{archive::publish, pointer_move},
    progress::Progress,
    tree::walk::Skipped,
};

pub use crate::tree::read::{OnChange, can_clone};
pub use examine::{Examined, Examiner, HoldBack, TreeFiles};
use held_or_own_lock::HeldOrOwnLock;
use plan::CapturePlan;
use source::DirectorySource;
use tokio::sync::OnceCell;

/// The label of a snapshot whose directory has changed while it was captured, with something that has.
pub const CHANGED_MEANWHILE: &str = "changed-meanwhile";

/// How often a capture is started again: because a collection revoked the write, or
/// because the directory changed under it.
const ATTEMPTS: u32 = 3;
/// The same, of a directory whose files are taken as they are read.
const ATTEMPTS_AS_READ: u32 = 10;
/// For so long a capture that is to end still takes the lock that it was about to take.
const UNTIL_TAKEN: Duration = Duration::from_secs(1);

/// The directory to capture, and the facts to write into its record.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where the snapshot goes.
    pub lineage: Lineage,
    /// The directory to capture.
    pub directory: PathBuf,
    /// A larger directory is refused before any of it is read.
    pub max_bytes: Option<u64>,
    /// How much the tenant may have stored when this is done; more is refused.
    pub quota_bytes: Option<u64>,
    /// Read every file, even if its state is the same.
    pub rescan: bool,
    /// The directory was captured just now, and only some of it matters this time.
    pub second_look: Option<SecondLook>,
    /// How many bytes of the tenant's indexes to look at.
    pub index_budget: u64,
    /// How many threads read and compress.
    pub threads: usize,
    /// In whose name it is done.
    pub actor: Actor,
    /// The lock under which it is done.
    pub lock: LockUse,
    /// The snapshot that the directory was made of, if that is known: only while it is current does the new
    /// snapshot take its place. `Some(None)` if nothing was current then.
    pub made_of: Option<Option<RecordId>>,
    /// Judges the files that were read, before they are published.
    pub examiner: Option<Arc<dyn Examiner>>,
    /// Why the snapshot must not take the place of the current one by itself, if there is one.
    pub hold_back: Option<HoldBack>,
    /// How it is published before the pointer is moved to it; without, it is not.
    pub archive: Option<publish::PublishJob>,
    /// Guesses the first reads, where no mount has shown them; without it, chunks are not ordered by them.
    pub guess: Option<Guess>,
    /// What becomes of a directory that somebody writes to whenever it is captured.
    pub on_change: OnChange,
    /// The caller's part of the record.
    pub about: About,
}

/// The scope of a capture that follows right after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondLook {
    /// The tree that the other one found.
    pub after: SnapshotId,
    /// The paths that are wanted as they are now. Of another file whose state has not changed since, what the other one read
    /// is taken, though a state may stay the same when content changes.
    pub paths: BTreeSet<TreePath>,
}

/// Under which lock a snapshot is taken.
#[derive(Clone, Debug)]
pub enum LockUse {
    /// One of its own, for as long as it takes.
    Take {
        /// How long the lock is held without a renewal, and whether it ends with this process.
        terms: Terms,
        /// How often it is renewed.
        renew_every: Duration,
        /// How long to wait for somebody else's.
        patience: Patience,
    },
    /// The one the caller holds.
    Held(Nonce),
}

impl Default for LockUse {
    fn default() -> Self {
        let (terms, patience) = (Terms::default(), Patience::default());
        Self::Take { terms, renew_every: lock::DEFAULT_RENEW_EVERY, patience }
    }
}

/// The parts of a record that only the caller knows.
#[derive(Clone, Debug)]
pub struct About {
    /// The author of the capture.
    pub captured_by: CapturedBy,
    /// Where, if that is known.
    pub captured_in: Option<CapturedIn>,
    /// Whether the browser had ended.
    pub mode: Mode,
    /// Why the snapshot is taken; retention can go by it.
    pub reason: Reason,
    /// Words by which to find the snapshot.
    pub labels: BTreeMap<String, String>,
    /// Free text for people.
    pub notes: String,
    /// The full version of the Chrome that ran last on the profile.
    pub chrome_last_version: Option<String>,
    /// How Chrome says that it ended the last time.
    pub exit_type: Option<String>,
    /// How long the browser had run.
    pub chrome_uptime_seconds: u64,
    /// Why the session had started afresh, if it had.
    pub fallback: Option<String>,
    /// Changes that were made to the profile when it was loaded.
    pub transforms: Vec<String>,
    /// Paths below the directory that are not captured.
    pub exclusions: Vec<String>,
    /// The run that saves it while it goes on: it is that run's work in progress, and no pointer moves to it.
    pub in_progress: Option<Actor>,
}

/// The outcome of a capture.
#[derive(Clone, Debug)]
pub struct Report {
    /// The record of the snapshot.
    pub record: RecordId,
    /// The digest of its tree.
    pub snapshot_id: SnapshotId,
    /// Its short name.
    pub sha256_prefix: String,
    /// Whether it is new.
    pub outcome: Outcome,
    /// The outcome for the pointer.
    pub flip: Flip,
    /// Why the pointer was not moved, though the snapshot is stored.
    pub held_back: Option<HoldBack>,
    /// The findings about the profile.
    pub health: Option<Health>,
    /// When it was captured, by this host's clock.
    pub captured_at_ms: u64,
    /// The size of the snapshot, and of the new part of it.
    pub counts: Counts,
    /// How many bytes its files have.
    pub uncompressed_bytes: u64,
    /// The entries that were left out.
    pub skipped: Skipped,
    /// Something in the directory that has changed while it was captured: the files may be of different moments.
    pub changed_meanwhile: Option<PathBuf>,
    /// Files that kept their chunks without being read.
    pub reused_files: u64,
    /// Files that were read.
    pub read_files: u64,
    /// How much of the tenant's indexes was read.
    pub index: IndexUse,
    /// The parts of earlier, unfinished writes of this host that it uses.
    pub taken_over: TakenOver,
    /// How long the parts of it took.
    pub phases: Phases,
    /// How long it took.
    pub elapsed: Duration,
}

/// How long the phases of a write took. Each begins when the one before it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Reading, cutting and examining the content. Packs are uploaded meanwhile.
    pub capture: Duration,
    /// Uploading the rest, until the record is live.
    pub upload: Duration,
    /// Moving the pointer, and publishing the archive before that if one is wanted.
    pub pointer_flip: Duration,
}

impl Report {
    /// The report of a snapshot by its `record`; nothing was left out, or read, so far.
    pub fn of(record: &Record, snapshot_id: SnapshotId, outcome: Outcome, flip: Flip) -> Self {
        let counts = match outcome {
            Outcome::Stored => record.counts.clone(),
            // They are from when it was new.
            Outcome::Unchanged => {
                Counts { new_chunks: 0, new_bytes: 0, stored_bytes: 0, ..record.counts.clone() }
            }
        };
        Self {
            record: record.record,
            snapshot_id,
            sha256_prefix: record.sha256_prefix(),
            outcome,
            flip,
            held_back: None,
            health: record.health.clone(),
            captured_at_ms: record.captured_at_ms,
            counts,
            uncompressed_bytes: record.uncompressed_size_bytes,
            skipped: Skipped::default(),
            changed_meanwhile: None,
            reused_files: 0,
            read_files: 0,
            index: IndexUse::default(),
            taken_over: TakenOver::default(),
            phases: Phases::default(),
            elapsed: Duration::ZERO,
        }
    }
}

/// Whether a capture made a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new snapshot was stored.
    Stored,
    /// The content is that of a snapshot that exists.
    Unchanged,
}

/// Captures `request.directory` as the next snapshot of its lineage. When `stop` ends, so
/// does the capture, after giving back its locks and leases.
pub async fn snapshot(
    store: &TenantStore,
    request: &Request,
    progress: Arc<dyn Progress>,
    stop: impl Future<Output = ()>,
) -> Result<Report> {
    let started = Instant::now();
    let handle = LineageHandle::new(store.clone(), request.lineage.clone(), request.actor.clone());
    let capture = Capture {
        store,
        request,
        progress,
        handle,
        right: OnceCell::new(),
        taking: tokio::sync::Mutex::default(),
        takes_as_read: AtomicBool::new(false),
        changed_meanwhile: Mutex::default(),
    };
    let ended = {
        let mut capturing = std::pin::pin!(capture.until_done());
        tokio::select! {
            ended = &mut capturing => ended,
            () = stop => {
                // A lock that is being taken is taken first: nobody would give it back.
                tokio::select! {
                    _ = &mut capturing => {}
                    _ = tokio::time::timeout(UNTIL_TAKEN, capture.taking.lock()) => {}
                }
                Err(Error::Interrupted)
            }
        }
    };
    if let Some(right) = capture.right.into_inner() {
        right.give_back().await;
    }
    let changed_meanwhile = capture.changed_meanwhile.into_inner();
    Ok(Report { elapsed: started.elapsed(), changed_meanwhile, ..ended? })
}

struct Capture<'a> {
    store: &'a TenantStore,
    request: &'a Request,
    progress: Arc<dyn Progress>,
    handle: LineageHandle,
    /// Taken when there is something to write, and kept over all attempts.
    right: OnceCell<HeldOrOwnLock>,
    /// Held while `right` is obtained.
    taking: tokio::sync::Mutex<()>,
    /// Files are taken as they are read: the directory has changed before that, and may do so.
    takes_as_read: AtomicBool,
    /// Something that has changed since.
    changed_meanwhile: Mutex<Option<PathBuf>>,
}

/// The outcome of a capture, from which its report is made.
struct CaptureOutcome {
    outcome: Outcome,
    record: Record,
    flip: Flip,
    held_back: Option<HoldBack>,
    read_files: u64,
    index: IndexUse,
    taken_over: TakenOver,
    phases: Phases,
}

impl Capture<'_> {
    async fn until_done(&self) -> Result<Report> {
        let mut attempt = 0;
        let may_take = self.request.on_change == OnChange::TakeAsRead;
        // Then only what goes where a hard link leads keeps it from being captured.
        let most = if may_take { ATTEMPTS_AS_READ } else { ATTEMPTS };
        loop {
            attempt += 1;
            match Box::pin(self.run()).await {
                Err(Error::WriteRevoked { record }) if attempt < ATTEMPTS => {
                    tracing::warn!(%record, "the write was revoked; starting again");
                }
                Err(Error::SourceChanged { path, .. }) if attempt < most => {
                    tracing::info!(path = %path.display(), "changed while it was captured; starting again");
                    self.takes_as_read.store(may_take, Ordering::Relaxed);
                }
                Err(Error::SourceChanged { path, .. }) => {
                    return Err(Error::SourceChanged { path, attempts: attempt });
                }
                ended => return ended,
            }
        }
    }

    fn on_change(&self) -> OnChange {
        match self.takes_as_read.load(Ordering::Relaxed) {
            true => OnChange::TakeAsRead,
            false => OnChange::Refuse,
        }
    }

    async fn run(&self) -> Result<Report> {
        let ((survey, base), plan) =
            futures::future::try_join(self.survey(), CapturePlan::make(self)).await?;
        if let Some(base) = base.as_ref().filter(|base| plan.is_as(base)) {
            let (job, progress) = (self.request.archive.as_ref(), Arc::clone(&self.progress));
            let seen = survey.contract_only_seen();
            let base = pointer_move::named_already(&self.handle, seen, base.clone(), job, progress).await?;
            return self.report(
                plan.skipped,
                plan.kept.0,
                CaptureOutcome::unchanged(base, Flip::Unchanged, 0),
            );
        }
        let taking = self.taking.lock().await;
        let right = self.right.get_or_try_init(|| HeldOrOwnLock::obtain(self, survey)).await?;
        drop(taking);
        // What counts is what the pointer named when it was claimed.
        let claimed = right.hold.base().await;
        self.must_stand_on(claimed)?;
        let base = match claimed {
            now if now == base.as_ref().map(|base| base.record) => base,
            Some(now) => self.base(now).await?,
            None => None,
        };
        // Only what would replace something can be held back for that.
        let replaces = right.hold.pointer().await.target() != Target::Nothing;
        let skipped = plan.skipped;
        let written =
            async { DirectorySource::begin(self, base, plan, replaces).await?.run(&right.hold).await };
        let (reused_files, ended) = tokio::select! {
            written = written => written?,
            error = right.lost() => return Err(error),
        };
        self.report(skipped, reused_files, ended)
    }

    /// Refuses to supersede another snapshot than the one that the directory was made of: the directory lacks
    /// the changes between the two.
    fn must_stand_on(&self, current: Option<RecordId>) -> Result<()> {
        if self.request.made_of.is_none_or(|made_of| made_of == current) {
            return Ok(());
        }
        let reason = "it names another snapshot than the one that the directory was made of".to_owned();
        Err(Error::PointerMoved { record: None, lineage: self.request.lineage.to_string(), reason })
    }

    /// Lock and pointer, and the current snapshot if there is one of ours. Somebody else's
    /// lock is told at once, and so is the loss of the caller's.
    async fn survey(&self) -> Result<(LockAndPointer, Option<Record>)> {
        let survey = self.handle.survey().await?;
        match &self.request.lock {
            _ if self.right.initialized() => {}
            LockUse::Take { patience, .. } if patience.is_zero() => {
                self.handle.refuse_if_held(survey.lock.as_ref())?
            }
            LockUse::Take { .. } => {}
            LockUse::Held(token) => {
                self.handle.adopt(*token).await?;
            }
        }
        let base = match survey.pointer.as_ref().map(|read| read.pointer.target()) {
            Some(Target::Record(id)) => self.base(id).await?,
            _ => None,
        };
        Ok((survey, base))
    }

    async fn base(&self, id: RecordId) -> Result<Option<Record>> {
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

    fn report(&self, skipped: Skipped, reused_files: u64, ended: CaptureOutcome) -> Result<Report> {
        let CaptureOutcome { outcome, record, flip, held_back, read_files, index, taken_over, phases } =
            ended;
        let snapshot_id = snapshot_id(&record)
            .ok_or_else(|| Error::Internal { what: "a record without content".to_owned() })?;
        let report = Report::of(&record, snapshot_id, outcome, flip);
        Ok(Report { held_back, skipped, reused_files, read_files, index, taken_over, phases, ..report })
    }
}

impl CaptureOutcome {
    fn unchanged(record: Record, flip: Flip, read_files: u64) -> Self {
        Self {
            outcome: Outcome::Unchanged,
            record,
            flip,
            held_back: None,
            read_files,
            index: IndexUse::default(),
            taken_over: TakenOver::default(),
            phases: Phases::default(),
        }
    }
}

/// Whether a record holds just this, and nothing of it is lost. What is damaged is stored once
/// more, so that a check can make it good from there.
fn is_whole(record: &Record, id: SnapshotId) -> bool {
    snapshot_id(record) == Some(id) && record.damage.is_none()
}

pub(in crate::ops) fn snapshot_id(record: &Record) -> Option<SnapshotId> {
    record.content.as_ref().map(|content: &Content| content.snapshot_id)
}
