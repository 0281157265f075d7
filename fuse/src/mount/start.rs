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
    },
    format::{
        record::Record,
        table::Location,
        tree::{Entry, Meta},
    },
    name::Lineage,
    ops::{
        read::{locate::SnapshotLocator, open::Opened},
        write::commit::whole::Base,
    },
};
use tokio::{runtime::Handle, sync::Mutex as AsyncMutex};

use super::{Mount, info::Info, rooted::Rooted};
use crate::{
    attributes::now,
    fs::Fs,
    lower::{Lower, Nothing},
    overlay::{
        checkpoint::{self, Below},
        journal::Journal,
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
    pub opened: Opened,
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

    pub(super) fn base(self) -> Base {
        Base { record: self.opened.record, metadata: Arc::new(self.opened.metadata) }
    }
}

impl Mount {
    /// Blocks: for threads that may.
    pub fn start(opening: Opening, start: Start) -> Result<Self> {
        let round_trips = opening.tenant.as_ref().map_or(0, |tenant| tenant.bucket.round_trips());
        let Opening { tenant, lineage, access, roots, snapshot, info, exclusions, runtime, limits, guess } =
            opening;
        let below = snapshot.as_ref().map(Snapshot::below);
        let (entries, locations) =
            snapshot.as_ref().map_or((&[][..], &[][..]), |Snapshot { opened, .. }| {
                (&opened.entries[..], &opened.locations[..])
            });
        let resumed = !matches!(start, Start::New { .. });
        let rewrite = matches!(start, Start::Resume { .. });
        let (session, recovered) = match start {
            Start::New { sessions, id } => begin(&sessions, &id, &info, below.clone(), entries, locations)?,
            Start::Resume { session, unfinished } | Start::Rescue { session, unfinished } => {
                let recovered = unfinished.recover(&session, entries, locations, &exclusions)?;
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
        let lazy = tenant.clone().zip(home.clone()).map(|(tenant, home)| {
            ChunkFetcher::new(tenant, runtime.clone(), limits, Relocator::new(home as _))
        });
        let lower: Arc<dyn Lower> = match &lazy {
            Some(lazy) => Arc::new(Arc::clone(lazy)),
            None => Arc::new(Nothing),
        };
        let intended = recovered.intended.clone();
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
        let base = snapshot.map(|snapshot| match &lazy {
            Some(lazy) => follow(lazy, guess, &runtime, snapshot),
            None => snapshot.base(),
        });
        let roots = roots.map(|roots| Rooted::new(roots, &runtime));
        Ok(Self {
            fs,
            info,
            lineage,
            tenant: tenant.map_or_else(OnceLock::new, OnceLock::from),
            session,
            lazy,
            home,
            guess,
            access,
            roots,
            base: AsyncMutex::new(base),
            committed: Mutex::default(),
            runtime,
            ready: Mutex::default(),
            round_trips,
            aside: Mutex::default(),
            resumed,
            rebased: AtomicBool::new(false),
            saved_epoch: AtomicU64::new(0),
            intended: Mutex::new(intended),
        })
    }
}

fn begin(
    sessions: &std::path::Path,
    id: &str,
    info: &Info,
    below: Option<Below>,
    entries: &[Entry],
    locations: &[Location],
) -> Result<(SessionDir, Recovered)> {
    let base = checkpoint::Checkpoint::fresh(below, &root());
    let (numbers, encoded) = ((0..entries.len()).map(|at| base.number(at)).collect(), base.encode());
    // One waits for the disk, the other is busy: neither needs to wait for the other.
    let (made, table) = std::thread::scope(|scope| {
        let table = scope.spawn(|| base.table(entries, locations));
        let made = SessionDir::create(sessions, id).and_then(|session| {
            let journal = Journal::create(&session.journal(), &encoded, &[])
                .map_err(|error| Error::io("cannot make", session.journal(), error))
                .and_then(|journal| session.write_info(info).map(|()| journal));
            match journal {
                Ok(journal) => Ok((session, journal)),
                Err(error) => session.remove().and(Err(error)),
            }
        });
        (made, table.join())
    });
    let (session, journal) = made?;
    let table = match table {
        Ok(Ok(table)) => table,
        failed => {
            session.remove()?;
            return Err(match failed {
                Ok(Err(error)) => Error::damaged("the snapshot's tree", error),
                _ => Error::Internal { what: "the tree could not be laid out".to_owned() },
            });
        }
    };
    let upper = Upper::new(session.data());
    let recovered =
        Recovered { table, journal, upper, intent: None, intended: Vec::new(), numbers, lost_writes: 0 };
    Ok((session, recovered))
}

/// Has fetched what is read first, and gives what is left of the snapshot. Nobody waits for the
/// former, nor for the memory that the tree took.
fn follow(lazy: &Arc<ChunkFetcher>, guess: Option<Guess>, runtime: &Handle, snapshot: Snapshot) -> Base {
    let Opened { record, metadata, entries, locations } = snapshot.opened;
    let (lazy, startup) = (Arc::clone(lazy), record.startup.clone());
    runtime.spawn_blocking(move || lazy.follow(&startup, guess, &entries, &locations));
    Base { record, metadata: Arc::new(metadata) }
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
