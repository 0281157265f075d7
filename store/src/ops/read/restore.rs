//! Writes a snapshot to a directory: every byte verified, all of it or none of it.
//!
//! Requests run ahead of the threads that verify, decompress and write; a bounded queue
//! lies between them. A file gets its attributes from whoever writes its last chunk.

mod selection;

use std::{
    fmt,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel, sync_channel},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use bytes::Bytes;
use futures::{StreamExt, future::Either, stream};

use super::{
    locate::followed,
    open::{self, Opened},
};
use crate::{
    Error, Result,
    catalog::rules::Rules,
    content::{
        TenantStore,
        reader::{Fetch, Verified, Want, plan},
        relocator::Relocator,
        workers::{self, blocking},
    },
    error::IoContext,
    format::{
        record::Record,
        table::Location,
        tree::{Entry, Extent, Kind, TreePath},
    },
    id::SnapshotId,
    ops::point_of_no_return::PointOfNoReturn,
    progress::{Progress, Tick},
    tree::write::{Keeping, Staging},
};

const REQUESTS_AT_ONCE: usize = 4;
const FETCHED_AHEAD: usize = 2;
/// How much is fetched between two flushes.
const FLUSH_BYTES: u64 = 64 << 20;

/// What to restore, and where to.
#[derive(Clone, Debug)]
pub struct Request {
    /// These paths alone, with the directories they are in; without any, all.
    pub paths: Vec<TreePath>,
    /// The directory to make.
    pub target: PathBuf,
    /// Replace a target that is not empty.
    pub force: bool,
    /// Which attributes are restored, and not only content.
    pub keeping: Keeping,
    /// How many threads write.
    pub threads: usize,
    /// Asked about the whole directory before it is moved into place.
    pub inspector: Option<Arc<dyn Inspector>>,
    /// Made just before the directory is moved into place; until then nothing is there.
    pub point_of_no_return: PointOfNoReturn,
}

/// Says whether a directory that was written may be used. It may change it, too.
pub trait Inspector: Send + Sync + fmt::Debug {
    /// An error keeps the directory from taking its place.
    fn inspect(&self, directory: &Path) -> Result<()>;
}

/// What a restore has done.
#[derive(Clone, Debug)]
pub struct Report {
    /// The digest of the tree.
    pub snapshot_id: SnapshotId,
    /// Regular files that were written.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// What was fetched from the store for them.
    pub fetched_bytes: u64,
    /// Sockets, FIFOs and devices in the snapshot, which are never made.
    pub skipped: u64,
    /// Extended attributes the target could not take.
    pub lost_xattrs: u64,
    /// Entries of which something [special](crate::format::tree::Meta::is_special) was left out.
    pub made_plain: u64,
    /// How long it took until the last content was fetched. Files are written meanwhile.
    pub download: Duration,
    /// How long it took.
    pub elapsed: Duration,
}

/// A chunk's place in a file.
#[derive(Clone, Copy, Debug)]
struct Place {
    entry: usize,
    offset: u64,
}

/// Writes the snapshot of `record` to a directory.
pub async fn restore(
    store: &TenantStore,
    record: &Record,
    request: &Request,
    progress: Arc<dyn Progress>,
) -> Result<Report> {
    let started = Instant::now();
    // Before anything is fetched: most mistakes are about the target.
    let staging = Staging::create(&request.target, request.force, request.keeping)?;
    let (kept, opened) = open::kept(store, record, Rules::ALL).await?;
    let written = write_snapshot(store, opened, staging, request, progress, started).await;
    if let Some((pinned, _)) = kept {
        pinned.release().await;
    }
    Ok(Report { elapsed: started.elapsed(), ..written? })
}

async fn write_snapshot(
    store: &TenantStore,
    opened: Opened,
    staging: Staging,
    request: &Request,
    progress: Arc<dyn Progress>,
    started: Instant,
) -> Result<Report> {
    let opened = match request.paths.is_empty() {
        true => opened,
        false => selection::select(opened, &request.paths)?,
    };
    let Opened { record, metadata, entries, locations } = opened;
    drop(metadata);
    let snapshot_id = crate::ops::write::snapshot::snapshot_id(&record)
        .ok_or_else(|| Error::damaged(format!("record {}", record.record), "it has no content"))?;
    check_owners(&entries, request.keeping)?;
    let made_plain =
        entries.iter().filter(|entry| !request.keeping.special && entry.meta.is_special()).count();
    let bytes = entries.iter().map(Entry::size).sum();
    progress.begin("restore", entries.len() as u64, bytes);
    let fetches = plan(wants(&entries, &locations));
    let fetched_bytes = fetches.iter().map(|fetch| fetch.end - fetch.start).sum();
    let target =
        Arc::new(Target { remaining: remaining(&entries), entries, staging, store: store.clone(), progress });
    let whereabouts = followed(store, &record, Rules::ALL);
    let fetched =
        write_all(store, Arc::clone(&target), fetches, &whereabouts, request.threads.max(1)).await?;
    let target =
        Arc::into_inner(target).ok_or_else(|| Error::Internal { what: "a writer is left".to_owned() })?;
    let report = Report {
        snapshot_id,
        files: target
            .entries
            .iter()
            .filter(|entry| matches!(entry.kind, Kind::File { .. } | Kind::HardLink { .. }))
            .count() as u64,
        bytes,
        fetched_bytes,
        skipped: target.entries.iter().filter(|entry| is_special(entry)).count() as u64,
        lost_xattrs: target.staging.lost_xattrs(),
        made_plain: made_plain as u64,
        download: fetched.saturating_duration_since(started),
        elapsed: Duration::ZERO,
    };
    let (point_of_no_return, inspector) = (request.point_of_no_return.clone(), request.inspector.clone());
    blocking(move || target.publish(inspector.as_deref(), &point_of_no_return)).await?;
    Ok(report)
}

/// Makes an empty directory in the target's place.
pub fn empty(request: &Request) -> Result<()> {
    let staging = Staging::create(&request.target, request.force, request.keeping)?;
    if let Some(inspector) = &request.inspector {
        inspector.inspect(staging.path())?;
    }
    staging.publish(|| request.point_of_no_return.make())
}

/// Runs requests and writers side by side until all is written. Says when the last content was fetched.
async fn write_all(
    store: &TenantStore,
    target: Arc<Target>,
    fetches: Vec<Fetch<Place>>,
    whereabouts: &Relocator,
    threads: usize,
) -> Result<Instant> {
    let (sender, receiver) = sync_channel::<(Fetch<Place>, Bytes)>(FETCHED_AHEAD);
    let writers = {
        let target = Arc::clone(&target);
        tokio::task::spawn_blocking(move || target.run(receiver, threads))
    };
    let mut fetched = stream::iter(fetches)
        .map(|fetch| whereabouts.fetch(store, fetch))
        .buffered(REQUESTS_AT_ONCE)
        .flat_map(|fetched| match fetched {
            Ok(fetched) => Either::Left(stream::iter(fetched.into_iter().map(Ok))),
            Err(error) => Either::Right(stream::iter([Err(error)])),
        });
    let mut failed = Ok(());
    while let Some(next) = fetched.next().await {
        let next: (Fetch<Place>, Bytes) = match next {
            Ok(next) => next,
            Err(error) => {
                failed = Err(error);
                break;
            }
        };
        // A full queue blocks, so it is waited for where blocking is allowed.
        let sender = sender.clone();
        let sent = tokio::task::spawn_blocking(move || sender.send(next).is_ok()).await;
        if !sent.unwrap_or(false) {
            // The writers have stopped; their error says why.
            break;
        }
    }
    let fetched = Instant::now();
    drop(sender);
    let written = writers.await.map_err(|error| Error::Internal { what: error.to_string() })?;
    failed.and(written).map(|()| fetched)
}

/// What comes to the writers, and when they ask for a flush.
struct Writing {
    fetched: Mutex<Receiver<(Fetch<Place>, Bytes)>>,
    unflushed_bytes: AtomicU64,
    due: Sender<()>,
}

/// What the writers share.
struct Target {
    store: TenantStore,
    staging: Staging,
    entries: Vec<Entry>,
    /// For each entry, how many chunks are still to be written.
    remaining: Vec<AtomicU32>,
    progress: Arc<dyn Progress>,
}

impl Target {
    fn run(&self, fetched: Receiver<(Fetch<Place>, Bytes)>, threads: usize) -> Result<()> {
        self.staging.make_directories(&self.entries)?;
        for (at, entry) in self.entries.iter().enumerate() {
            if self.remaining[at].load(Ordering::Relaxed) == 0 && matches!(entry.kind, Kind::File { .. }) {
                let file = self.staging.open_file(entry)?;
                self.finish_file(at, &file)?;
            }
        }
        let fetched = Mutex::new(fetched);
        // The disk is put to work while there is still much to decompress, and not only when
        // all is written and nothing is left to do but wait for it.
        let (due, when_due) = channel();
        let writing = Writing { fetched, unflushed_bytes: AtomicU64::new(0), due };
        std::thread::scope(|scope| {
            let flushing = scope.spawn(move || when_due.iter().try_for_each(|()| self.staging.flush()));
            let written = workers::run(threads, || self.write(&writing));
            drop(writing);
            let panicked = |_| Err(Error::Internal { what: "flushing has failed".to_owned() });
            written.and(flushing.join().unwrap_or_else(panicked))
        })
    }

    fn write(&self, writing: &Writing) -> Result<()> {
        loop {
            let next = writing.fetched.lock().recv();
            let Ok((fetch, bytes)) = next else { return Ok(()) };
            // Chunks of one file mostly lie side by side.
            let mut open: Option<(usize, File)> = None;
            for want in &fetch.wants {
                let Place { entry, offset } = want.purpose;
                let file = match open.take() {
                    Some((at, file)) if at == entry => file,
                    _ => self.staging.open_file(&self.entries[entry])?,
                };
                let stored = fetch.stored(want, &bytes);
                let chunk =
                    Verified::check(self.store.key(), &want.id, want.location.codec, stored, want.raw_len)
                        .map_err(|error| Error::damaged(format!("pack {}", fetch.pack), error))?;
                let shown = || PathBuf::from(self.entries[entry].path.to_string());
                file.write_all_at(&chunk, offset).at("cannot write", shown())?;
                self.progress.tick(Tick { bytes: chunk.len() as u64, ..Tick::default() });
                if self.remaining[entry].fetch_sub(1, Ordering::AcqRel) == 1 {
                    self.finish_file(entry, &file)?;
                } else {
                    open = Some((entry, file));
                }
            }
            let len = bytes.len() as u64;
            self.progress.tick(Tick { transferred_bytes: len, ..Tick::default() });
            if writing.unflushed_bytes.fetch_add(len, Ordering::Relaxed) + len >= FLUSH_BYTES {
                writing.unflushed_bytes.store(0, Ordering::Relaxed);
                let _ = writing.due.send(());
            }
        }
    }

    /// Writes what a file has in the tree itself, and its attributes.
    fn finish_file(&self, at: usize, file: &File) -> Result<()> {
        let entry = &self.entries[at];
        let Kind::File { size, extents } = &entry.kind else { return Ok(()) };
        let mut offset = 0;
        for extent in extents {
            if let Extent::Inline(bytes) = extent {
                file.write_all_at(bytes, offset).at("cannot write", PathBuf::from(entry.path.to_string()))?;
            }
            offset += extent.len();
        }
        self.staging.finish_file(entry, file, *size)?;
        self.progress.tick(Tick { files: 1, ..Tick::default() });
        Ok(())
    }

    fn publish(self, inspector: Option<&dyn Inspector>, point_of_no_return: &PointOfNoReturn) -> Result<()> {
        self.staging.make_links(&self.entries)?;
        if let Some(inspector) = inspector {
            inspector.inspect(self.staging.path())?;
        }
        self.staging.finish_directories(&self.entries)?;
        self.staging.publish(|| point_of_no_return.make())
    }
}

fn wants<'a>(entries: &'a [Entry], locations: &'a [Location]) -> impl Iterator<Item = Want<Place>> + 'a {
    let chunks = entries.iter().enumerate().flat_map(|(entry, line)| {
        let extents = match &line.kind {
            Kind::File { extents, .. } => extents.as_slice(),
            _ => &[],
        };
        let mut offset = 0;
        extents.iter().filter_map(move |extent| {
            let place = Place { entry, offset };
            offset += extent.len();
            match extent {
                Extent::Chunk { id, len } => Some((*id, *len, place)),
                _ => None,
            }
        })
    });
    chunks.zip(locations).map(|((id, raw_len, purpose), location)| Want {
        id,
        raw_len,
        location: *location,
        purpose,
    })
}

fn remaining(entries: &[Entry]) -> Vec<AtomicU32> {
    entries.iter().map(|entry| AtomicU32::new(entry.chunks().count() as u32)).collect()
}

/// What is special lends the rights of a file's owner: it must not come to lend another's.
fn check_owners(entries: &[Entry], keeping: Keeping) -> Result<()> {
    if keeping.owner || !keeping.special {
        return Ok(());
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let stranger = |entry: &&Entry| entry.meta.is_special() && (entry.meta.uid, entry.meta.gid) != (uid, gid);
    let Some(Entry { path, meta, .. }) = entries.iter().find(stranger) else { return Ok(()) };
    let what = format!(
        "{path} has special attributes and belonged to {}:{}; they would lend the rights of {uid}:{gid}. \
         As root, --same-owner with --preserve-special keeps both; without --preserve-special neither is kept",
        meta.uid, meta.gid
    );
    Err(Error::InvalidInput { what })
}

fn is_special(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Fifo | Kind::Socket | Kind::CharDevice { .. } | Kind::BlockDevice { .. })
}
