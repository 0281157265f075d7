//! Publishes a snapshot's archive and manifest, for programs that know only the contract.
//!
//! 1. The archive is written to a file: its name is its digest, which no other publication has.
//! 2. The record names the upload, so that every remnant of it has an owner.
//! 3. Archive, then manifest. A listing afterwards must show both, else neither stays.
//! 4. The record names the archive, by replacing the very version of 2: a collection that took
//!    the publication for dead has replaced it, and then nothing stays. Both must be listed
//!    still: a removal looks at the records first.
//! 5. The pointer names it, if it points at this snapshot.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;

use super::export::{self, Archive, Exported, Seal};
use crate::{
    Error, Result,
    bucket::{Body, Bucket, BucketError, Depth, Key, RetryPolicy, Version, put_unique_once},
    catalog::{cas, lineage_handle::LineageHandle, records},
    format::{
        Unknown, layout, limits,
        manifest::Manifest,
        record::{Publishing, Record, State},
    },
    id::{RecordId, Sha256},
    progress::Progress,
    scratch::{self, Scratch},
};

/// How often an upload is tried again before the snapshot counts as failed.
const RETRIES: u32 = 3;
const ATTEMPTS: u32 = 5;

/// How snapshots are published.
#[derive(Clone, Debug)]
pub struct PublishJob {
    /// How the archive is written.
    pub export: export::Request,
    /// Before every move of the pointer; else only where programs were seen that know nothing
    /// but the contract: they would find no archive, and start afresh.
    pub always: bool,
    /// Where the archive is written before it is sent: there is room for one.
    pub scratch: PathBuf,
}

/// The outcome of a publication.
#[derive(Clone, Debug)]
pub struct Published {
    /// The digest of the compressed archive.
    pub archive_sha256: Sha256,
    /// How long the compressed archive is.
    pub archive_size_bytes: u64,
    /// Where the archive lies.
    pub archive_key: Key,
    /// Where its manifest lies.
    pub manifest_key: Key,
    /// `None` if it had been published before.
    pub written: Option<Archive>,
    /// Whether the pointer names it now.
    pub current: bool,
}

/// Publishes the snapshot `target`. What was published before is left as it is.
pub async fn publish(
    handle: &LineageHandle,
    target: RecordId,
    job: &PublishJob,
    progress: Arc<dyn Progress>,
) -> Result<Published> {
    let (sha256, size_bytes, written) = store(handle, target, job, progress).await?;
    let current = handle.name_archive(target).await?;
    Ok(Published {
        archive_sha256: sha256,
        archive_size_bytes: size_bytes,
        archive_key: layout::archive_key(handle.lineage(), &sha256),
        manifest_key: layout::manifest_key(handle.lineage(), &sha256),
        written,
        current,
    })
}

/// Puts the archive into the bucket, and its name into the record.
pub(in crate::ops) async fn store(
    handle: &LineageHandle,
    target: RecordId,
    job: &PublishJob,
    progress: Arc<dyn Progress>,
) -> Result<(Sha256, u64, Option<Archive>)> {
    Box::pin(store_packed(handle, target, &ExportJob { handle, job, progress })).await
}

/// The objects to send, and the directory that holds them until then.
#[derive(Debug)]
pub struct Parcel {
    archive: Archive,
    manifest: Manifest,
    body: Body,
    folder: Option<Scratch>,
}

impl Parcel {
    /// An archive whose bytes are `body`.
    pub fn new(archive: Archive, manifest: Manifest, body: Body) -> Self {
        Self { archive, manifest, body, folder: None }
    }
}

/// Makes the archive of a record.
#[async_trait]
pub trait Packer: Sync {
    /// It ends with `seal`, if there is one.
    async fn pack(&self, record: &Record, seal: Option<Seal>) -> Result<Parcel>;
}

struct ExportJob<'a> {
    handle: &'a LineageHandle,
    job: &'a PublishJob,
    progress: Arc<dyn Progress>,
}

#[async_trait]
impl Packer for ExportJob<'_> {
    async fn pack(&self, record: &Record, seal: Option<Seal>) -> Result<Parcel> {
        let folder = Scratch::make(&self.job.scratch, scratch::Kind::Publish)?;
        let (store, lineage) = (self.handle.store(), self.handle.lineage());
        let request = export::Request { seal, ..self.job.export };
        let progress = Arc::clone(&self.progress);
        let exported =
            Box::pin(export::to_directory(store, lineage, record, request, folder.path(), progress)).await?;
        let Exported { archive, manifest, archive_path, .. } = exported;
        let body = Body::File { path: archive_path, len: archive.size_bytes };
        Ok(Parcel { folder: Some(folder), ..Parcel::new(archive, manifest, body) })
    }
}

/// Puts the archive that `packer` makes of the record `target` into the bucket, and its name into the record.
pub async fn store_packed(
    handle: &LineageHandle,
    target: RecordId,
    packer: &dyn Packer,
) -> Result<(Sha256, u64, Option<Archive>)> {
    for _ in 0..ATTEMPTS {
        let (record, _) = live(handle, target).await?;
        let before = named(&record);
        if let (Some(sha), Some(size)) = (before, record.archive_size_bytes)
            && arrived(handle, &sha, size).await?
        {
            return Ok((sha, size, None));
        }
        let seal = Seal::of(&record);
        let parcel = packer.pack(&record, handle.rules().fresh_archive_names.then_some(seal)).await?;
        let archive = parcel.archive.clone();
        let (record, version) = match Box::pin(announce(handle, seal, &archive)).await? {
            Announced::Ours(record, version) => (*record, version),
            Announced::Published(sha, size) => return Ok((sha, size, None)),
            Announced::Outdated => continue,
        };
        let sent = Box::pin(send(handle, &parcel)).await;
        drop(parcel.folder);
        match sent {
            Ok(()) => {}
            // Something else has the name. So this publication gets another one.
            Err(Error::Bucket(BucketError::AlreadyExists { .. })) => {
                withdraw(handle, record, version, seal, &archive.sha256).await;
                continue;
            }
            Err(error) => {
                withdraw(handle, record, version, seal, &archive.sha256).await;
                return Err(error);
            }
        }
        let record = Box::pin(confirm(handle, record, version, (seal, &archive))).await?;
        if !arrived(handle, &archive.sha256, archive.size_bytes).await? {
            return Err(not_both(handle, &archive.sha256));
        }
        // Somebody had removed half of the one before: what is left of that is of no use.
        if let Some(before) = before.filter(|before| *before != archive.sha256) {
            match handle.name_archive(target).await {
                // What that may name is left alone.
                Err(Error::Damaged { .. }) => {}
                named => {
                    named?;
                    handle.remove_unnamed(&record, vec![before]).await?;
                }
            }
        }
        return Ok((archive.sha256, archive.size_bytes, Some(archive)));
    }
    Err(Error::Conflict { what: format!("record {target} of {}", handle.lineage()) })
}

fn named(record: &Record) -> Option<Sha256> {
    record.archive_sha256.as_ref()?.parse().ok()
}

/// The record of a snapshot that is live.
pub(in crate::ops) async fn live(handle: &LineageHandle, target: RecordId) -> Result<(Record, Version)> {
    let (record, version) = records::get(handle.store(), handle.lineage(), target).await?;
    if record.state != State::Live {
        return Err(Error::NotFound { what: format!("snapshot {target} of {}", handle.lineage()) });
    }
    Ok((record, version))
}

enum Announced {
    /// The record, and its version, that says so.
    Ours(Box<Record>, Version),
    /// Somebody else was faster.
    Published(Sha256, u64),
    /// A publication was given up since the archive was made, and that has its name.
    Outdated,
}

/// Announces the upload in the record.
async fn announce(handle: &LineageHandle, seal: Seal, archive: &Archive) -> Result<Announced> {
    let target = seal.record;
    for _ in 0..ATTEMPTS {
        let (mut record, version) = live(handle, target).await?;
        if let (Some(sha), Some(size)) = (named(&record), record.archive_size_bytes)
            && arrived(handle, &sha, size).await?
        {
            return Ok(Announced::Published(sha, size));
        }
        let other = |other: &Publishing| other.abandoned || other.archive_sha256 != archive.sha256;
        if record.publishing.as_ref().is_some_and(other) {
            // Another level, or another publisher that is slow or dead: its archive goes first.
            match handle.give_up_publication(record, version).await {
                Ok(()) | Err(Error::Conflict { .. }) => continue,
                Err(error) => return Err(error),
            }
        }
        if record.publications != seal.publication && handle.rules().fresh_archive_names {
            return Ok(Announced::Outdated);
        }
        record.publishing = Some(Publishing {
            archive_sha256: archive.sha256,
            archive_size_bytes: archive.size_bytes,
            tar_sha256: archive.tar_sha256,
            started_at_ms: handle.now_ms(),
            abandoned: false,
            unknown: Unknown::new(),
        });
        record.lease_seq += 1;
        match handle.replace_record(&record, version).await {
            Ok(version) => return Ok(Announced::Ours(Box::new(record), version)),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Conflict { what: format!("record {target} of {}", handle.lineage()) })
}

/// Archive, then manifest; both must then be listed. Nothing is removed to make room: a removal
/// that arrives late would hit the new objects.
async fn send(handle: &LineageHandle, parcel: &Parcel) -> Result<()> {
    let (bucket, lineage) = (&*handle.store().bucket, handle.lineage());
    let Parcel { archive, manifest, body, .. } = parcel;
    put(bucket, &layout::archive_key(lineage, &archive.sha256), body.clone()).await?;
    let key = layout::manifest_key(lineage, &archive.sha256);
    match put(bucket, &key, manifest.encode().into()).await {
        // One of an earlier publication, from before its predecessor had an archive.
        Err(Error::Bucket(BucketError::AlreadyExists { .. })) => {
            let found = bucket.get(&key, limits::MANIFEST).await?;
            // Another that replaces it meanwhile says the same of the same archive.
            cas::replace(bucket, &key, manifest.encode().into(), found.version).await?;
        }
        sent => sent?,
    }
    if arrived(handle, &archive.sha256, archive.size_bytes).await? {
        return Ok(());
    }
    Err(not_both(handle, &archive.sha256))
}

fn not_both(handle: &LineageHandle, sha: &Sha256) -> Error {
    let what = "an archive and its manifest were stored, but are not both listed";
    Error::damaged(layout::archive_key(handle.lineage(), sha), what)
}

/// Sends it, and again so many times if that fails.
async fn put(bucket: &dyn Bucket, key: &Key, body: Body) -> Result<()> {
    let mut retry = 0;
    loop {
        match put_unique_once(bucket, key, body.clone()).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_retryable() && retry < RETRIES => {
                retry += 1;
                tracing::warn!(%key, %error, retry, "an upload failed; trying again");
                tokio::time::sleep(RetryPolicy::default().pause(retry)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a listing shows both, the archive in its full length.
async fn arrived(handle: &LineageHandle, sha: &Sha256, size_bytes: u64) -> Result<bool> {
    let lineage = handle.lineage();
    let prefix = layout::lineage(lineage);
    let (entries, _) = records::list_all(&*handle.store().bucket, &prefix, Depth::Children).await?;
    let (archive, manifest) = (layout::archive_key(lineage, sha), layout::manifest_key(lineage, sha));
    let listed = |key: &Key| entries.iter().find(|entry| entry.key == *key);
    Ok(listed(&archive).is_some_and(|entry| entry.size == size_bytes) && listed(&manifest).is_some())
}

/// A publication that failed leaves nothing; if even that fails, a collection finds it.
async fn withdraw(handle: &LineageHandle, record: Record, version: Version, seal: Seal, sha: &Sha256) {
    let removed = match handle.give_up_publication(record, version).await {
        Err(Error::Conflict { .. }) => {
            match records::get(handle.store(), handle.lineage(), seal.record).await {
                Ok((now, _)) => clear(handle, &now, seal, sha).await,
                Err(error) => Err(error),
            }
        }
        given_up => given_up,
    };
    if let Err(error) = removed {
        tracing::warn!(%error, "what is left of a publication is for a garbage collection");
    }
}

/// The record names the archive. A change of the record meanwhile is looked at: a tag does not
/// matter, a deletion or a collection does.
async fn confirm(
    handle: &LineageHandle,
    mut record: Record,
    mut version: Version,
    (seal, archive): (Seal, &Archive),
) -> Result<Record> {
    for _ in 0..ATTEMPTS {
        // The one it had is given up, and its name with it.
        if named(&record).is_some_and(|before| before != archive.sha256) {
            record.publications += 1;
        }
        record.archive_sha256 = Some(archive.sha256.to_string());
        record.archive_size_bytes = Some(archive.size_bytes);
        record.tar_sha256 = Some(archive.tar_sha256);
        record.publishing = None;
        record.lease_seq += 1;
        match handle.replace_record(&record, version).await {
            Ok(_) => return Ok(record),
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        let (now, read) = records::get(handle.store(), handle.lineage(), record.record).await?;
        let expected = expects(&now, &archive.sha256);
        if now.state == State::Live && !expected && named(&now) == Some(archive.sha256) {
            return Ok(now);
        }
        if now.state != State::Live || !expected {
            clear(handle, &now, seal, &archive.sha256).await?;
            break;
        }
        (record, version) = (now, read);
    }
    Err(Error::Conflict { what: format!("record {} of {}", record.record, handle.lineage()) })
}

/// Whether the record says that this archive is on its way, and nobody has given it up.
fn expects(record: &Record, sha: &Sha256) -> bool {
    record
        .publishing
        .as_ref()
        .is_some_and(|publishing| publishing.archive_sha256 == *sha && !publishing.abandoned)
}

/// Removes the uploads of a publication that another process has given up, as the record says by now. A
/// record that is trashed may be live again: a deletion removes the archives that it names.
async fn clear(handle: &LineageHandle, now: &Record, seal: Seal, sha: &Sha256) -> Result<()> {
    let given_up = match now.state {
        State::Live => named(now) != Some(*sha) && !expects(now, sha),
        State::Trashed => now.removing || now.publications > seal.publication,
        State::Tombstone | State::Writing | State::Revoked => true,
    };
    if given_up { handle.remove_unnamed(now, vec![*sha]).await } else { Ok(()) }
}
