//! Opens a snapshot for a mount, locked or pinned, in few requests one after another.
//!
//! ```text
//! configuration, lock, pointer            the lineage is known; else these two come after a list
//! PUT lock   | record         | PUT root  of the snapshot the pointer named just now
//! PUT claim  | tree and table | record
//! ```
//!
//! The snapshot that was read beside the claim is used only if the claim was made on the very pointer
//! that named it; else it is read again. A snapshot cannot be deleted while the pointer names it, so the
//! claim then protects the one that was read. The root of a session is written before it is known that there
//! will be one, if the lock seems to be free; else by the process that begins it.
//!
//! How much a tenant has stored does not matter: nothing here lists packs, records or indexes.

mod open_pinned;
mod opened_tree;
#[cfg(test)]
mod tests;

use open_pinned::{Attempt, Lasting};
pub use open_pinned::{Kept, kept};
pub(in crate::ops) use open_pinned::{kept_tree, release};
pub use opened_tree::OpenedTree;

use std::sync::Arc;

use futures::{
    StreamExt,
    future::{Either, select},
    stream,
};

use super::resolve::{self, Reference};
use crate::{
    Error, Result,
    bucket::RetryPolicy,
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Hold, LockAndPointer, Patience, Terms},
        pins,
        pointer::{self, VersionedPointer},
        records,
        rules::Rules,
        session_root::{Owner, Roots},
        store::Store,
        work_in_progress,
    },
    content::{
        TenantStore, chunk::Piece, meta::Metadata, relocator::LOOKS, snapshot_tree::SnapshotTree,
        workers::blocking,
    },
    format::{
        event::Actor,
        pointer::{Pointer, Target},
        record::{Record, State},
        table::Location,
        tree::Entry,
        work_in_progress::WorkInProgress,
    },
    id::{FlipId, RecordId},
    name::{ChromeMajor, Lineage, ProfileName},
};

/// Pointers that are read at once while a lineage is chosen.
const REQUESTS_AT_ONCE: usize = 16;
/// How often a reader starts over when the record changes while it is being pinned.
const ATTEMPTS: u32 = 5;

/// A snapshot whose names and places are known; its content is not fetched.
#[derive(Debug)]
pub struct Opened {
    /// The record of the snapshot.
    pub record: Record,
    /// The segments of its tree and tables.
    pub metadata: Metadata,
    /// The tree.
    pub entries: Vec<Entry>,
    /// Of every chunk, in the order in which the entries name them.
    pub locations: Vec<Location>,
}

impl Opened {
    /// Reads the metadata of `record`: from this host's cache, else in one round of requests.
    pub async fn load(store: &TenantStore, record: Record) -> Result<Self> {
        let (record, metadata) = Self::metadata(store, record).await?;
        blocking(move || {
            let (entries, locations) = metadata.decode()?;
            check_size(&record, &entries)?;
            Ok(Self { record, metadata, entries, locations })
        })
        .await
    }

    /// The metadata of `record`. If it was moved since that was read, it is read again.
    pub(in crate::ops) async fn metadata(store: &TenantStore, record: Record) -> Result<(Record, Metadata)> {
        as_it_is_now(store, record, |record| async move {
            let content = record
                .content
                .as_ref()
                .ok_or_else(|| Error::damaged(format!("record {}", record.record), "it has no content"))?;
            Metadata::load(store, record.record, record.generation, content).await
        })
        .await
    }

    /// For each entry, its chunks in order.
    pub fn pieces(&self) -> impl Iterator<Item = Vec<Piece>> + '_ {
        let mut locations = self.locations.iter();
        self.entries.iter().map(move |entry| {
            let chunks = entry.chunks().zip(locations.by_ref());
            chunks.map(|((id, raw_len), location)| Piece { id, raw_len, location: *location }).collect()
        })
    }
}

/// Has `read` read something of a snapshot. If that was moved since its record was read, it is read again.
pub(in crate::ops) async fn as_it_is_now<T, F>(
    store: &TenantStore,
    mut record: Record,
    read: impl Fn(Record) -> F,
) -> Result<(Record, T)>
where
    F: Future<Output = Result<T>>,
{
    let mut looks = 1;
    loop {
        match read(record.clone()).await {
            Err(missing @ Error::Missing { .. }) if looks < LOOKS => {
                let now = records::current(store, &record.lineage(), record.record).await?;
                if now.generation == record.generation {
                    return Err(missing);
                }
                (record, looks) = (now, looks + 1);
            }
            read => return read.map(|read| (record, read)),
        }
    }
}

/// A record says how large its files are, and limits are compared with that before anything is
/// fetched: so it must be so.
fn check_size(record: &Record, entries: &[Entry]) -> Result<()> {
    check_bytes(record, entries.iter().map(Entry::size).sum())
}

/// The same of a tree that is read by need: its root says how large the files of each segment are.
pub(in crate::ops) fn check_tree_size(record: &Record, tree: &SnapshotTree) -> Result<()> {
    check_bytes(record, tree.content_bytes())
}

fn check_bytes(record: &Record, found: u64) -> Result<()> {
    if found == record.uncompressed_size_bytes {
        return Ok(());
    }
    let reason = format!("its files have {found} bytes, and {} in it", record.uncompressed_size_bytes);
    Err(Error::damaged(format!("record {}", record.record), reason))
}

/// A profile in the hands of one holder.
#[derive(Debug)]
pub struct Locked {
    /// The tenant.
    pub store: TenantStore,
    /// The lineage that is mounted.
    pub lineage: Lineage,
    /// The right to move its pointer.
    pub hold: Hold,
    /// The snapshot that was claimed; `None` if there is none yet. The lock is held even if
    /// it cannot be read: its holder may start afresh, if the error allows that.
    pub opened: Result<Option<OpenedTree>>,
    /// The work in progress of a run that did not end; nobody has continued it yet.
    pub in_progress: Option<WorkInProgress>,
    /// The roots of the session that was named. The process that begins it makes [sure](Roots::ensure) of the
    /// one on the snapshot it builds on.
    pub roots: Option<Arc<Roots>>,
}

/// Takes the lock, claims the pointer, and reads its target. Without a `major` the newest
/// lineage that has a snapshot is meant; with one, the profile need not exist yet. `session` is
/// for a process that will write.
pub async fn locked(
    store: &Store,
    name: &ProfileName,
    major: Option<ChromeMajor>,
    actor: Actor,
    terms: Terms,
    patience: Patience,
    session: Option<Owner>,
) -> Result<Locked> {
    let bucket = &*store.bucket_of(&name.tenant);
    let chosen = match major {
        Some(chrome_major) => {
            let lineage = Lineage { name: name.clone(), chrome_major };
            let beside = LockAndPointer::of(bucket, &lineage);
            let (store, survey) = store.writable_tenant_beside(&name.tenant, beside).await?;
            (store, lineage, survey?)
        }
        None => {
            let beside = records::lineages_in(bucket, name);
            let (store, all) = store.writable_tenant_beside(&name.tenant, beside).await?;
            let (lineage, survey) = newest(name, all?, |lineage| async move {
                let survey = LockAndPointer::of(bucket, &lineage).await;
                (lineage, survey)
            })
            .await?;
            (store, lineage, survey?)
        }
    };
    let (store, lineage, survey) = chosen;
    let handle = LineageHandle::new(store.clone(), lineage.clone(), actor);
    let seen = survey.pointer.clone();
    let roots = session.map(|owner| Arc::new(Roots::new(store.clone(), owner)));
    let is_held = survey.lock.as_ref().is_some_and(|lock| handle.is_live(lock));
    let (acquired, (opened, in_progress, ())) = {
        let acquiring = std::pin::pin!(handle.acquire_after(survey, terms, patience));
        let early = seen.as_ref().filter(|_| !is_held);
        let rooting = root_early(roots.as_deref(), &lineage, early);
        let hint = in_progress(&store, &lineage);
        let reading = futures::future::join3(load(&store, &lineage, seen.as_ref()), hint, rooting);
        let reading = std::pin::pin!(reading);
        match select(acquiring, reading).await {
            // Who does not get the lock need not wait for what he may not use, unless he has to
            // take something away that is on its way.
            Either::Left((Err(error), _)) if early.is_none() || roots.is_none() => return Err(error),
            Either::Left((acquired, reading)) => (acquired, reading.await),
            Either::Right((read, acquiring)) => (acquiring.await, read),
        }
    };
    let hold = match (acquired, &roots) {
        (Ok(hold), _) => hold,
        (Err(error), roots) => {
            if let Some(roots) = roots {
                roots.keep_only(None).await;
            }
            return Err(error);
        }
    };
    let claimed = hold.read().await;
    let opened = if is_next(&claimed.pointer, seen.as_ref()) {
        opened
    } else {
        load(&store, &lineage, Some(&claimed)).await
    };
    // Its holder may have saved something since.
    let in_progress = if is_held { self::in_progress(&store, &lineage).await } else { in_progress };
    Ok(Locked { store, lineage, hold, opened, in_progress, roots })
}

/// The work in progress of a run that did not end. A failure to read it is no reason not to mount.
async fn in_progress(store: &TenantStore, lineage: &Lineage) -> Option<WorkInProgress> {
    let hint = work_in_progress::read(store, lineage).await;
    hint.unwrap_or_else(|error| {
        tracing::warn!(%error, "whether {lineage} has work in progress cannot be told");
        None
    })
    .map(|hint| hint.wip)
}

/// Roots the pointer's target. The process that begins the session finds out whether that counts.
async fn root_early(roots: Option<&Roots>, lineage: &Lineage, seen: Option<&VersionedPointer>) {
    let target = seen.map_or(Target::Nothing, |read| read.pointer.target());
    if let (Some(roots), Target::Record(record)) = (roots, target)
        && let Err(error) = roots.ensure(lineage, record).await
    {
        tracing::debug!(%error, "a session could not be rooted ahead");
    }
}

/// A snapshot that is read without a lock.
#[derive(Debug)]
pub struct Unlocked {
    /// The tenant.
    pub store: TenantStore,
    /// The lineage that is mounted.
    pub lineage: Lineage,
    /// `None` if who reads may not write to the store: then nothing keeps the snapshot.
    pub kept: Option<Kept>,
    /// The snapshot that is mounted.
    pub opened: OpenedTree,
    /// Of the session that was named; the snapshot is rooted.
    pub roots: Option<Arc<Roots>>,
}

/// Pins a snapshot, keeps it pinned and reads its metadata: the one that is named, else the
/// current one. `session` is for a process that will write.
pub async fn pinned(
    store: &Store,
    name: &ProfileName,
    major: Option<ChromeMajor>,
    reference: Option<&Reference>,
    session: Option<Owner>,
) -> Result<Unlocked> {
    let bucket = &*store.bucket_of(&name.tenant);
    let (store, lineage, pointer) = match major {
        Some(chrome_major) => {
            let lineage = Lineage { name: name.clone(), chrome_major };
            let beside = pointer::read_from(bucket, &lineage);
            let (store, pointer) = store.tenant_beside(&name.tenant, beside).await?;
            (store, lineage, pointer)
        }
        None => {
            let beside = records::lineages_in(bucket, name);
            let (store, all) = store.tenant_beside(&name.tenant, beside).await?;
            let (lineage, pointer) = newest(name, all?, |lineage| async move {
                let pointer = pointer::read_from(bucket, &lineage).await;
                (lineage, pointer)
            })
            .await?;
            (store, lineage, pointer)
        }
    };
    let lasting =
        Lasting { ttl: pins::DEFAULT_TTL, renew_every: pins::DEFAULT_RENEW_EVERY, rules: Rules::ALL };
    let roots = session.map(|owner| Arc::new(Roots::new(store.clone(), owner)));
    let mut seen = Some(pointer);
    for attempt in 1..=ATTEMPTS {
        let record = match (reference, seen.take()) {
            (None, Some(Ok(Some(read)))) if !read.pointer.is_empty() => {
                resolve::pointed(&store, &lineage, &read).await?
            }
            (None, Some(Err(error))) => return Err(error),
            _ => resolve::snapshot(&store, &lineage, reference).await?,
        };
        if record.state == State::Trashed {
            // A deletion of what the pointer names takes this step back.
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
            continue;
        }
        let (id, rooting) = (record.record, root(roots.as_deref(), &lineage, record.record));
        let opening = OpenedTree::load(&store, record.clone());
        let (attempt, rooted) =
            futures::future::join(Attempt::on(&store, &lineage, &record, lasting, opening), rooting).await;
        let failed = match (attempt, rooted) {
            (Ok(Attempt::Kept(kept, opened)), Ok(())) => {
                if let Some(roots) = &roots {
                    // The pin held before the root was there and holds still: a deletion has
                    // found one or the other.
                    roots.counts(id).await;
                }
                return Ok(Unlocked { store, lineage, kept: Some(kept), opened, roots });
            }
            // Who only reads may do so without a pin; who will write may not.
            (Ok(Attempt::Unpinned(error, opened)), _) if roots.is_none() => {
                tracing::debug!(%error, "the snapshot is read without a pin");
                return Ok(Unlocked { store, lineage, kept: None, opened, roots });
            }
            (Ok(Attempt::Kept((pinned, _), _)), Err(error)) => {
                pinned.release().await;
                Some(error)
            }
            (Ok(Attempt::Changed), _) => None,
            (Ok(Attempt::Unpinned(error, _)) | Err(error), _) => Some(error),
        };
        if let Some(roots) = &roots {
            roots.keep_only(None).await;
        }
        if let Some(error) = failed {
            return Err(error);
        }
    }
    Err(Error::Conflict { what: format!("a snapshot of {lineage}") })
}

async fn root(roots: Option<&Roots>, lineage: &Lineage, record: RecordId) -> Result<()> {
    match roots {
        Some(roots) => roots.place(lineage, record).await,
        None => Ok(()),
    }
}

/// The snapshot that a pointer names, if it names any.
async fn load(
    store: &TenantStore,
    lineage: &Lineage,
    read: Option<&VersionedPointer>,
) -> Result<Option<OpenedTree>> {
    let Some(read) = read.filter(|read| !read.pointer.is_empty()) else { return Ok(None) };
    let record = resolve::pointed(store, lineage, read).await?;
    OpenedTree::load(store, record).await.map(Some)
}

/// Whether `claimed` was written on top of `seen` and nothing else.
fn is_next(claimed: &Pointer, seen: Option<&VersionedPointer>) -> bool {
    let before: Option<FlipId> = claimed.block().and_then(|block| block.recent.last().copied());
    match seen {
        None => before.is_none(),
        Some(seen) => before.is_some() && before == seen.pointer.block().map(|block| block.flip_id),
    }
}

/// The known facts about a lineage while one is chosen.
trait Names {
    /// Whether its pointer points at something, as far as can be told: one that is damaged
    /// is there, and will be told about.
    fn names_something(&self) -> bool;
}

impl Names for Option<VersionedPointer> {
    fn names_something(&self) -> bool {
        self.as_ref().is_some_and(|read| !read.pointer.is_empty())
    }
}

impl Names for LockAndPointer {
    fn names_something(&self) -> bool {
        self.pointer.names_something()
    }
}

/// The newest lineage whose pointer points at something, else the newest; all of them are
/// looked at at once. See [`resolve::lineage`].
async fn newest<T, F>(
    name: &ProfileName,
    all: Vec<Lineage>,
    look: impl Fn(Lineage) -> F,
) -> Result<(Lineage, Result<T>)>
where
    T: Names,
    F: Future<Output = (Lineage, Result<T>)>,
{
    let mut looks: Vec<(Lineage, Result<T>)> =
        stream::iter(all.into_iter().rev()).map(look).buffered(REQUESTS_AT_ONCE).collect().await;
    let chosen = looks.iter().position(|(_, look)| match look {
        Ok(look) => look.names_something(),
        Err(_) => true,
    });
    if looks.is_empty() {
        return Err(Error::NotFound { what: format!("profile {name}") });
    }
    Ok(looks.swap_remove(chosen.unwrap_or(0)))
}
