//! Writes a snapshot to a directory: every byte verified, all of it or none of it.
//!
//! The tree is read part by part. Requests run ahead of the threads that verify, decompress and write; a
//! bounded queue lies between them. The thread that writes a file's last chunk sets its attributes.

mod parts;
mod selection;
mod target;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc::sync_channel},
    time::{Duration, Instant},
};

use futures::{Stream, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

use self::{
    parts::{EntryTally, Parts},
    selection::Selection,
    target::{Fetched, FilePosition, RestorePart, Target},
};
use super::{
    locate::followed,
    open::{check_tree_size, kept_tree, release},
};
use crate::{
    Error, Result,
    catalog::rules::Rules,
    content::{
        TenantStore, reader::Fetch, relocator::Relocator, snapshot_tree::SnapshotTree, workers::blocking,
    },
    format::{record::Record, tree::TreePath},
    id::SnapshotId,
    ops::point_of_no_return::PointOfNoReturn,
    progress::Progress,
    tree::write::{Keeping, Staging},
};

const REQUESTS_AT_ONCE: usize = 4;
const FETCHED_AHEAD: usize = 2;

/// The paths to restore, the directory to make, and the manner.
#[derive(Clone, Debug)]
pub struct Request {
    /// These paths alone, with the directories they are in; without any, all.
    pub paths: Vec<TreePath>,
    /// The directory to make.
    pub target: PathBuf,
    /// Replace a target that is not empty.
    pub force: bool,
    /// The attributes that are restored beside the content.
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

/// The outcome of a restore.
#[derive(Clone, Debug)]
pub struct Report {
    /// The digest of the tree.
    pub snapshot_id: SnapshotId,
    /// Regular files that were written.
    pub files: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// Bytes that were fetched from the store for them.
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
    let (kept, (record, tree)) = kept_tree(store, record).await?;
    let written = write_snapshot(store, (record, tree), staging, request, progress, started).await;
    release(kept).await;
    Ok(Report { elapsed: started.elapsed(), ..written? })
}

async fn write_snapshot(
    store: &TenantStore,
    (record, tree): (Record, Arc<SnapshotTree>),
    staging: Staging,
    request: &Request,
    progress: Arc<dyn Progress>,
    started: Instant,
) -> Result<Report> {
    check_tree_size(&record, &tree)?;
    let snapshot_id = crate::ops::write::snapshot::snapshot_id(&record)
        .ok_or_else(|| Error::damaged(format!("record {}", record.record), "it has no content"))?;
    let (entries, bytes) = match request.paths.is_empty() {
        true => (tree.len(), tree.content_bytes()),
        false => Selection::new(&record, &tree, &request.paths).await?.totals().await?,
    };
    progress.begin("restore", entries, bytes);
    let target = Arc::new(Target { store: store.clone(), staging, progress });
    let (keeping, seen) = (request.keeping, Arc::new(Mutex::new(EntryTally::default())));
    let selection = Selection::new(&record, &tree, &request.paths).await?;
    let parts = Parts::new(selection, Arc::clone(&target), keeping, Arc::clone(&seen));
    let relocator = followed(store, &record, Rules::ALL);
    let fetched = write_all(Arc::clone(&target), parts, &relocator, request.threads.max(1)).await?;
    let target =
        Arc::into_inner(target).ok_or_else(|| Error::Internal { what: "a writer is left".to_owned() })?;
    let seen = std::mem::take(&mut *seen.lock());
    let report = Report {
        snapshot_id,
        files: seen.files,
        bytes,
        fetched_bytes: seen.fetched_bytes,
        skipped: seen.skipped,
        lost_xattrs: target.staging.lost_xattrs(),
        made_plain: seen.made_plain,
        download: fetched.saturating_duration_since(started),
        elapsed: Duration::ZERO,
    };
    let (point_of_no_return, inspector) = (request.point_of_no_return.clone(), request.inspector.clone());
    blocking(move || publish(target.staging, &seen, inspector.as_deref(), &point_of_no_return)).await?;
    Ok(report)
}

/// Makes the links, inspects the whole, sets the attributes of directories, and moves it into place.
fn publish(
    staging: Staging,
    seen: &EntryTally,
    inspector: Option<&dyn Inspector>,
    point_of_no_return: &PointOfNoReturn,
) -> Result<()> {
    staging.make_links(&seen.links)?;
    if let Some(inspector) = inspector {
        inspector.inspect(staging.path())?;
    }
    staging.finish_directories(&seen.directories)?;
    staging.publish(|| point_of_no_return.make())
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
    target: Arc<Target>,
    parts: Parts,
    relocator: &Relocator,
    threads: usize,
) -> Result<Instant> {
    let (sender, receiver) = sync_channel::<Fetched>(FETCHED_AHEAD);
    let store = target.store.clone();
    let writers = tokio::task::spawn_blocking(move || target.run(receiver, threads));
    let get = |next: Result<(Arc<RestorePart>, Fetch<FilePosition>)>| {
        let store = &store;
        async move {
            let (part, fetch) = next?;
            Ok((part, relocator.fetch(store, fetch).await?))
        }
    };
    let mut fetched = std::pin::pin!(fetches(parts).map(get).buffered(REQUESTS_AT_ONCE));
    let mut failed = Ok(());
    'fetching: while let Some(next) = fetched.next().await {
        let (part, fetched): (Arc<RestorePart>, Vec<_>) = match next {
            Ok(next) => next,
            Err(error) => {
                failed = Err(error);
                break;
            }
        };
        for (fetch, bytes) in fetched {
            // A full queue blocks, so it is waited for where blocking is allowed.
            let (sender, next) = (sender.clone(), (Arc::clone(&part), fetch, bytes));
            let sent = tokio::task::spawn_blocking(move || sender.send(next).is_ok()).await;
            if !sent.unwrap_or(false) {
                // The writers have stopped; their error says why.
                break 'fetching;
            }
        }
    }
    let fetched = Instant::now();
    drop(sender);
    let written = writers.await.map_err(|error| Error::Internal { what: error.to_string() })?;
    failed.and(written).map(|()| fetched)
}

/// The fetches of one part after another.
fn fetches(parts: Parts) -> impl Stream<Item = Result<(Arc<RestorePart>, Fetch<FilePosition>)>> {
    let next = |mut parts: Parts| async move {
        let Some((part, fetches)) = parts.next().await? else { return Ok(None) };
        let of_part = fetches.into_iter().map(move |fetch| Ok((Arc::clone(&part), fetch)));
        Ok::<_, Error>(Some((stream::iter(of_part), parts)))
    };
    stream::try_unfold(parts, next).try_flatten()
}
