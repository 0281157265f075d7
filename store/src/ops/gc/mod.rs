//! Frees packs that no snapshot needs any more, beside writers, readers and other collections.
//!
//! A collection deletes whole packs, never single chunks. `run` decides which. `repack` moves the needed chunks out of
//! the packs with most garbage, so that these can go, too.
//!
//! Nobody is stopped and no lock is taken. In two steps, with a grace between them:
//!
//! 1. **Mark**: read the records (live and trashed ones are roots, and the targets of pointers),
//!    then the pins. Packs that no root needs are put into a document, *condemned*. Writers that
//!    start from now on see it and refer to none of them. Then the writers are listed that
//!    were there already, and the document is *armed* with them as blockers.
//! 2. Later, when every blocker has ended or was revoked: mark again, and fix by **one**
//!    replacement of the document the packs to delete, without those that are needed after all. Then index
//!    entries go, then packs, and the document stays as *swept* for [`ENDED_FOR`].
//!
//! Why nothing is lost: a write that publishes a reference to a condemned pack has either read
//! the document after its lease existed, and does not; or its lease existed before the
//! document was armed, so it is a blocker, and the second mark comes after its end. A writer
//! that is only slow is revoked on its own record, which it must replace to publish.
//!
//! Packs of which only a part is needed are emptied then, if there is too much in them that
//! is not, and condemned too: see [`repack`].
//!
//! Old events of a lineage are put together, and go after 400 days: see
//! [`crate::catalog::events::merge`].
//!
//! Of profiles and tenants that were deleted, everything but the tombstone goes at last: see
//! [`removal`](super::removal).
//!
//! Killed anywhere, the next run goes on from the documents. Anything that cannot be read
//! ends a run before it condemns anything.

mod blockers;
mod burial;
mod condemned_docs;
mod explain;
mod indexes;
mod inventory;
mod leftovers;
mod plan;
pub mod quota;
pub mod repack;
mod repack_candidates;
mod roots;
mod run;
mod spill_map;
mod users;

pub use explain::{Explanation, Root, Subject, explain};
pub use plan::{Candidate, Cause, Document, Plan, Repacked, Step, Stranded, Tally};

use std::{fmt, path::PathBuf, time::Duration};

use crate::{
    Error, Result, catalog::rules::Rules, content::TenantStore, id::RecordId, ops::gc::repack::BATCH_CHUNKS,
};

/// How long records that have ended and swept documents are kept at least, by the store's clock.
/// Longer than a request is under way whose sender has given it up: an object that it brings back
/// would be taken for the old one. A writer that was asleep for half of it begins anew, and a
/// collection that was stops.
pub const ENDED_FOR: Duration = crate::catalog::lease::ENDED_FOR;
/// A pin that its reader has not renewed for so long has no reader any more.
pub(crate) const HORIZON: Duration = Duration::from_secs(30 * 86_400);
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(3600);
pub(crate) const DEFAULT_MAX_UNUSED_PERCENT: u64 = 4;
pub(crate) const DEFAULT_MIN_UNUSED_BYTES: u64 = 1 << 20;
/// How much memory a collection takes unless it is told otherwise.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;
/// Between two looks at writers that are waited for.
const NAP: Duration = Duration::from_secs(5);

/// How a collection judges and how much it may take.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long after it was armed a condemned pack goes at the earliest: a reader without a
    /// pin has this long to end.
    pub grace: Duration,
    /// How much of the packs that are needed may be content that is not, in percent. Beyond it
    /// the worst are emptied; with 100 none ever is.
    pub max_unused_percent: u64,
    /// While less than this is unused, nothing is repacked, even if its share is large.
    pub min_unused_bytes: u64,
    /// A repack never stores beyond this, old and new packs counted together.
    pub quota_bytes: Option<u64>,
    /// How much memory the listing, the marks and the frames to move may take. Beyond it
    /// the first two are put on disk, and less is moved at a time.
    pub memory_bytes: u64,
    /// One write makes the new tables of snapshots with so many chunks; the tables of other snapshots that
    /// share the moved chunks are made by the next.
    pub batch_chunks: u64,
}

impl Options {
    /// With the default limits, and this grace.
    pub const fn after(grace: Duration) -> Self {
        Self {
            grace,
            max_unused_percent: DEFAULT_MAX_UNUSED_PERCENT,
            min_unused_bytes: DEFAULT_MIN_UNUSED_BYTES,
            quota_bytes: None,
            memory_bytes: DEFAULT_MEMORY_BYTES,
            batch_chunks: BATCH_CHUNKS,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::after(DEFAULT_GRACE)
    }
}

/// Why a run ended before its time. The next one goes on.
#[derive(Debug)]
pub struct Stopped {
    /// Why the run ended.
    pub error: Error,
    /// The packs that it had condemned by then.
    pub condemned: Tally,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Stopped {}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Self {
        stopped.error
    }
}

/// Collects one tenant's garbage.
#[derive(Clone, Debug)]
pub struct Collector {
    store: TenantStore,
    options: Options,
    rules: Rules,
    scratch: Option<PathBuf>,
    /// How long documents are kept after they were swept.
    swept_for: Duration,
    /// How long records are kept after they have ended, and the tombstones of deleted profiles.
    ended_for: Duration,
}

impl Collector {
    /// A collection of this tenant's garbage. Nothing happens until it is run.
    pub fn new(store: TenantStore, options: Options) -> Self {
        Self { store, options, rules: Rules::ALL, scratch: None, swept_for: ENDED_FOR, ended_for: ENDED_FOR }
    }

    /// Puts the excess over the memory it may have into files in this directory. Without
    /// one, all is kept in memory.
    pub fn with_scratch(self, directory: PathBuf) -> Self {
        Self { scratch: Some(directory), ..self }
    }

    /// For each of the two lists of packs.
    fn room(&self) -> spill_map::Room {
        spill_map::Room { bytes: self.options.memory_bytes / 4, scratch: self.scratch.clone() }
    }

    /// Without some of the rules, to show their purpose.
    #[cfg(any(test, feature = "test-support"))]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Keeps no document for longer than it takes to sweep it.
    #[cfg(any(test, feature = "test-support"))]
    pub fn forgetting_at_once(self) -> Self {
        Self { swept_for: Duration::ZERO, ..self }
    }

    /// As [`Self::forgetting_at_once`], of records that have ended, too.
    #[cfg(any(test, feature = "test-support"))]
    pub fn burying_at_once(self) -> Self {
        Self { ended_for: Duration::ZERO, ..self.forgetting_at_once() }
    }

    /// The outcome that a run would have now. Writes nothing.
    pub async fn plan(&self) -> Result<Plan> {
        Ok(run::GcRun::new(self, run::Act::Pretend).run().await?)
    }

    /// One run: goes on with the documents of earlier ones, and condemns anew.
    pub async fn run(&self) -> Result<Plan, Stopped> {
        run::GcRun::new(self, run::Act::Real).run().await
    }

    /// Runs until nothing that could go is left: the first step, the grace, the second.
    pub async fn run_through(&self) -> Result<Plan, Stopped> {
        let mut all = self.run().await?;
        // What others give up meanwhile is for the next time, or this would never end.
        let ours: Vec<RecordId> = all.pending.iter().map(|(id, _)| *id).collect();
        while let Some(nap) = all.pause(&ours) {
            tokio::time::sleep(nap).await;
            let before = all.condemned_total();
            let next = self.run().await;
            let more = |Stopped { error, condemned }| Stopped { error, condemned: condemned.and(before) };
            all = all.and(next.map_err(more)?);
        }
        Ok(all)
    }
}
