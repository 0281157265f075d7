//! `start` begins a session, or resumes one.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64},
    },
};

use parking_lot::Mutex;

use store::{
    Error, Result,
    catalog::{
        lock::{Hold, LockRenewer},
        pins::{PinKeeper, Pinned},
        session_root::Roots,
    },
    content::{
        TenantStore,
        chunk_fetcher::{ChunkFetcher, Limits, startup::Guess},
        relocator::Relocator,
        snapshot_tree::SnapshotTree,
    },
    format::{record::Record, tree::Meta},
    name::Lineage,
    ops::read::{locate::SnapshotLocator, open::OpenedTree},
};
use tokio::{runtime::Handle, sync::Mutex as AsyncMutex};

use super::{Mount, info::Info, rooted::Rooted};
use crate::{
    attributes::now,
    fs::Fs,
    lower::{Lower, Nothing},
    overlay::{
        base_tree::BaseTree,
        checkpoint::{Below, Checkpoint},
        chronicle::{self, Chronicle},
        inode_table::InodeTable,
        journal::Journal,
        nodes::Nodes,
        recovery::{Recovered, Unfinished},
        session::SessionDir,
        upper::Upper,
    },
};

/// What entitles a mount to its profile.
#[derive(Debug)]
pub enum ProfileAccess {
    /// The lock: commits move the profile's pointer.
    Held { hold: Arc<Hold>, keeper: LockRenewer },
    /// A pin: the snapshot stays, and that is all.
    Pinned { pinned: Arc<Pinned>, keeper: PinKeeper },
    /// None: what is read may be deleted meanwhile.
    None,
}

/// The snapshot to mount, and whose it is.
#[derive(Debug)]
pub struct Snapshot {
    pub lineage: Lineage,
    pub opened: OpenedTree,
}

/// All that a mount starts from.
#[derive(Debug)]
pub struct Opening {
    /// `None` if the store cannot be reached: then there is no snapshot either.
    pub tenant: Option<TenantStore>,
    pub lineage: Lineage,
    pub access: ProfileAccess,
    /// What keeps the snapshot below for as long as there are changes; a mount that takes none
    /// needs none.
    pub roots: Option<Arc<Roots>>,
    /// Without one the mount is empty.
    pub snapshot: Option<Snapshot>,
    pub info: Info,
    pub exclusions: Vec<String>,
    pub runtime: Handle,
    pub limits: Limits,
    /// What is probably read first of a snapshot that was never mounted.
    pub guess: Option<Guess>,
}

/// Where the session is kept.
#[derive(Debug)]
pub enum Start {
    /// Below this directory, by this name.
    New { sessions: PathBuf, id: String },
    /// It is there already.
    Resume { session: SessionDir, unfinished: Box<Unfinished> },
    /// It is there already, and stays what it was: only its changes are wanted, perhaps for
    /// another profile, and if they cannot be stored the next to look at it must not be misled.
    Rescue { session: SessionDir, unfinished: Box<Unfinished> },
}

impl Snapshot {
    pub(super) fn below(&self) -> Below {
        let Record { record, generation, .. } = self.opened.record;
        Below { lineage: self.lineage.clone(), record, generation }
    }
}

impl Mount {
    /// Blocks: for threads that may.
    pub fn start(opening: Opening, start: Start) -> Result<Self> {
        let round_trips = opening.tenant.as_ref().map_or(0, |tenant| tenant.bucket.round_trips());
        let Opening { tenant, lineage, access, roots, snapshot, info, exclusions, runtime, limits, guess } =
            opening;
        let below = snapshot.as_ref().map(Snapshot::below);
        let tree = snapshot.as_ref().map(|snapshot| Arc::clone(&snapshot.opened.tree));
        let resumed = !matches!(start, Start::New { .. });
        let rewrite = matches!(start, Start::Resume { .. });
        let (session, recovered) = match start {
            Start::New { sessions, id } => begin(&sessions, &id, &info, below.clone(), tree)?,
            Start::Resume { session, unfinished } | Start::Rescue { session, unfinished } => {
                let recovered = runtime.block_on(unfinished.recover(&session, tree))?;
                if recovered.lost_writes > 0 {
                    let lost = recovered.lost_writes;
                    tracing::warn!(lost, "writes that were never flushed were lost when the machine stopped");
                }
                (session, recovered)
            }
        };
        let lost_writes = recovered.lost_writes;
        let named = below.as_ref().map(|below| (below.lineage.clone(), below.record));
        let home = tenant.clone().map(|tenant| Arc::new(SnapshotLocator::new(tenant, named)));
        let fetcher = tenant.clone().zip(home.clone()).map(|(tenant, home)| {
            ChunkFetcher::new(tenant, runtime.clone(), limits, Relocator::new(home as _))
        });
        let lower: Arc<dyn Lower> = match &fetcher {
            Some(fetcher) => Arc::new(Arc::clone(fetcher)),
            None => Arc::new(Nothing),
        };
        let intended = recovered.intended.clone().map(Arc::new);
        let fs = Arc::new(Fs::new(recovered, below, lower, exclusions));
        if lost_writes > 0 {
            // The journal still has them, and counts for whoever resumes without a restart of the
            // machine in between.
            fs.compact(&session).map_err(|errno| Error::io("cannot rewrite", session.journal(), errno))?;
        }
        let boot_id = if lost_writes > 0 && fs.intent().is_some() { String::new() } else { info.boot_id };
        let info = Info { boot_id, ..info };
        if rewrite {
            session.write_info(&info)?;
        }
        let base = snapshot.map(|snapshot| snapshot.opened);
        if let (Some(fetcher), Some(OpenedTree { record, tree })) = (&fetcher, &base) {
            // What is read first is fetched; nobody waits for that.
            runtime.spawn(Arc::clone(fetcher).follow_tree(record.startup.clone(), guess, Arc::clone(tree)));
        }
        let chronicle = session.path().join(chronicle::NAME);
        if Chronicle::is_at(&chronicle) {
            // Somebody wants to know what happens, and had not asked for all of it.
            fs.begin_chronicle(&chronicle).map_err(|error| Error::io("cannot read", &chronicle, error))?;
        }
        let roots = roots.map(|roots| Rooted::new(roots, &runtime));
        Ok(Self {
            fs,
            info,
            lineage,
            tenant: tenant.map_or_else(OnceLock::new, OnceLock::from),
            session,
            fetcher,
            home,
            guess,
            access,
            roots,
            base: AsyncMutex::new(base),
            committed: Mutex::default(),
            stored_aside: Mutex::default(),
            last_checkpoint: AsyncMutex::default(),
            runtime,
            ready: Mutex::default(),
            round_trips,
            aside: Mutex::default(),
            resumed,
            rebased: AtomicBool::new(false),
            saved_epoch: AtomicU64::new(0),
            intended: Mutex::new(intended),
            writeback: AtomicBool::new(false),
        })
    }
}

fn begin(
    sessions: &std::path::Path,
    id: &str,
    info: &Info,
    below: Option<Below>,
    tree: Option<Arc<SnapshotTree>>,
) -> Result<(SessionDir, Recovered)> {
    let encoded = Checkpoint::fresh(below, &root()).encode();
    let session = SessionDir::create(sessions, id)?;
    let journal = Journal::create(&session.journal(), &encoded, &[])
        .map_err(|error| Error::io("cannot make", session.journal(), error))
        .and_then(|journal| session.write_info(info).map(|()| journal));
    let journal = match journal {
        Ok(journal) => journal,
        Err(error) => return session.remove().and(Err(error)),
    };
    let nodes = match tree.map(BaseTree::fresh) {
        Some(base) => Nodes::new(InodeTable::above(base.numbers.next()), Some(base)),
        None => Nodes::new(InodeTable::empty(root()), None),
    };
    let upper = Upper::new(session.data());
    let recovered = Recovered { nodes, journal, upper, intent: None, intended: None, lost_writes: 0 };
    Ok((session, recovered))
}

/// The root of an empty profile: its owner's alone.
fn root() -> Meta {
    Meta {
        mode: 0o700,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        mtime: now(),
        ..Meta::default()
    }
}
