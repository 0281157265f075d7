//! `Mount` is a mounted snapshot: the file system, its session, its right to the profile, its commits.

mod checkpoint;
mod commit;
pub mod control;
mod examine;
pub mod info;
mod kernel;
mod rooted;
mod settle;
mod start;
pub mod status;
pub mod write_out;

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use store::{
    Error, Result,
    catalog::lock::{Hold, LockRenewer},
    content::{
        TenantStore,
        chunk_fetcher::{ChunkFetcher, startup::Guess},
    },
    format::record::Record,
    id::RecordId,
    name::Lineage,
    ops::read::{locate::SnapshotLocator, open::OpenedTree},
};
use tokio::{runtime::Handle, sync::Mutex as AsyncMutex};

pub use checkpoint::{CheckpointRequest, TakenCheckpoint};
pub use commit::{Aside, Commit, CommitRequest, CommitTarget, Committed, Moment};
pub use kernel::{Kernel, clean_up, is_possible, is_stale, release_if_stuck};
pub use settle::Settled;
pub use start::{Opening, ProfileAccess, Snapshot, Start};

use crate::{
    fs::Fs,
    overlay::{chronicle, nodes::Nodes, session::SessionDir},
};
use checkpoint::LastCheckpoint;
use info::{Info, Mode};
use rooted::Rooted;

/// Everything a mount consists of but the kernel's side of it.
#[derive(Debug)]
pub struct Mount {
    pub fs: Arc<Fs>,
    pub info: Info,
    pub lineage: Lineage,
    /// Empty until the store was reached.
    tenant: OnceLock<TenantStore>,
    session: SessionDir,
    fetcher: Option<Arc<ChunkFetcher>>,
    /// Knows where the chunks of the snapshot below are, if they are moved.
    home: Option<Arc<SnapshotLocator>>,
    guess: Option<Guess>,
    access: ProfileAccess,
    roots: Option<Rooted>,
    /// What the next commit builds on; held throughout a commit, so that there is one at a time.
    base: AsyncMutex<Option<OpenedTree>>,
    committed: Mutex<Option<Committed>>,
    /// What was stored aside last of the changes that are in the session, above the same base.
    stored_aside: Mutex<Option<OpenedTree>>,
    /// The last checkpoint that was taken of it.
    last_checkpoint: AsyncMutex<Option<LastCheckpoint>>,
    runtime: Handle,
    ready: Mutex<Option<Duration>>,
    /// How many answers of the store it took to begin, one after another.
    round_trips: u64,
    /// The session is somebody else's by now; held while the session is tidied.
    aside: Mutex<bool>,
    resumed: bool,
    /// Whether the snapshot below is no longer the one that was mounted.
    rebased: AtomicBool,
    /// What was written up to this epoch is stored somewhere.
    saved_epoch: AtomicU64,
    /// The nodes of a snapshot that was being made when the session ended.
    intended: Mutex<Option<Arc<Nodes>>>,
    /// Whether the kernel keeps what is written for a while.
    writeback: AtomicBool,
}

impl Mount {
    pub fn session_path(&self) -> PathBuf {
        self.session.path().to_owned()
    }

    /// Where it notes what happens to files, if it does.
    pub fn chronicle_path(&self) -> PathBuf {
        self.session.path().join(chronicle::NAME)
    }

    pub fn session_id(&self) -> String {
        self.session.id()
    }

    /// The tenant; fails if the mount began without the store, and it was not reached since.
    pub fn tenant(&self) -> Result<&TenantStore> {
        let unknown = || Error::Internal { what: format!("{} was not reached", self.info.store) };
        self.tenant.get().ok_or_else(unknown)
    }

    /// Whether the mount began without the store, which was not reached since.
    pub fn is_cut_off(&self) -> bool {
        self.tenant.get().is_none()
    }

    /// The store was reached: commits go to `tenant`.
    pub fn reach(&self, tenant: TenantStore) {
        let _ = self.tenant.set(tenant);
    }

    pub fn hold(&self) -> Option<&Arc<Hold>> {
        match &self.access {
            ProfileAccess::Held { hold, .. } => Some(hold),
            ProfileAccess::Pinned { .. } | ProfileAccess::None => None,
        }
    }

    pub fn keeper(&self) -> Option<&LockRenewer> {
        match &self.access {
            ProfileAccess::Held { keeper, .. } => Some(keeper),
            ProfileAccess::Pinned { .. } | ProfileAccess::None => None,
        }
    }

    /// Whether `current`, a snapshot of the profile that is mounted, is the one that is mounted, or
    /// what was committed to it from here.
    pub async fn stands_on(&self, current: Option<RecordId>) -> bool {
        // What it was started from may be an older Chrome's.
        let is_of_this = |base: &&OpenedTree| base.record.chrome_major_version == self.lineage.chrome_major;
        let base = self.base.lock().await.as_ref().filter(is_of_this).map(|base| base.record.record);
        let committed = self.committed.lock().clone().filter(|committed| committed.lineage == self.lineage);
        base == current || committed.is_some_and(|committed| Some(committed.record) == current)
    }

    /// The record of the snapshot below.
    pub async fn record_below(&self) -> Option<Record> {
        self.base.lock().await.as_ref().map(|base| base.record.clone())
    }

    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the store's packs are files of this host.
    pub fn is_near(&self) -> bool {
        self.fetcher.as_ref().is_some_and(|fetcher| fetcher.is_local())
    }

    /// Notes how long it took until it answered.
    pub fn is_ready(&self, after: Duration) {
        *self.ready.lock() = Some(after);
    }

    /// Notes whether the kernel keeps what is written for a while.
    pub fn writes_back(&self, writeback: bool) {
        self.writeback.store(writeback, Ordering::Release);
    }

    /// Whether something was changed that is stored nowhere else.
    pub fn is_at_stake(&self) -> bool {
        self.fs.is_changed_since(self.saved_epoch.load(Ordering::Acquire))
    }

    /// Up to `most` paths of what is at stake, and how many there are.
    pub fn at_stake(&self, most: usize) -> (Vec<String>, usize) {
        let mut paths = self.fs.changed_since(self.saved_epoch.load(Ordering::Acquire));
        let count = paths.len();
        paths.truncate(most);
        (paths, count)
    }

    /// Ends the session: removes its directory, and gives the lock back. What was not committed
    /// is gone.
    pub async fn end(&self) -> Result<()> {
        // In this order: who has the profile's lock next must not find the session in use.
        let removed = self.session.remove();
        self.let_go().await;
        removed?;
        // Only now: while there is a session, what it builds on stays.
        self.drop_roots().await;
        Ok(())
    }

    /// Gives back what entitles it to the profile. The session stays for somebody to resume.
    pub async fn let_go(&self) {
        if let Some(rooted) = &self.roots {
            rooted.leave();
        }
        match &self.access {
            ProfileAccess::Held { hold, keeper } => {
                keeper.stop();
                if let Err(error) = hold.release().await {
                    tracing::warn!(%error, "the lock could not be given back; it expires by itself");
                }
            }
            ProfileAccess::Pinned { pinned, keeper } => {
                keeper.stop();
                pinned.release().await;
            }
            ProfileAccess::None => {}
        }
    }

    /// Leaves the session, with its changes, for somebody to continue: at once, though this
    /// process may live on for a moment. Blocks no longer than a flush of the journal takes.
    pub async fn set_aside(&self) {
        {
            let mut aside = self.aside.lock();
            *aside = true;
            // Whoever continues it has all that was handed over, flushed or not.
            let _ = self.fs.sync_journal();
            self.session.unlock();
        }
        // In this order: who has the profile's lock must find the session.
        self.let_go().await;
    }

    /// Gives back the space of what was removed, and starts a new journal when the old one has
    /// grown long. Blocks.
    pub fn tidy(&self) {
        let aside = self.aside.lock();
        if *aside {
            return;
        }
        self.fs.reclaim();
        if let Err(errno) = self.fs.shorten_journal(&self.session) {
            tracing::warn!(%errno, "the journal could not be shortened");
        }
    }

    /// Fails unless this mount may move its profile's pointer.
    fn own_hold(&self) -> Result<&Arc<Hold>> {
        match (&self.access, self.info.mode) {
            (ProfileAccess::Held { hold, .. }, Mode::Locked) => Ok(hold),
            _ => Err(Error::InvalidInput {
                what: format!(
                    "{} is mounted without the profile's lock ({}) and cannot be committed to {}; --as names another profile",
                    self.info.mountpoint.display(),
                    self.info.mode.as_str(),
                    self.lineage.name
                ),
            }),
        }
    }
}
