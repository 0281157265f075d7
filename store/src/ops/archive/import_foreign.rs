//! Makes a snapshot of the archive that another program has moved the pointer to.
//!
//! A program that knows only the contract uploads an archive and its manifest and moves the
//! pointer. That is honoured: the archive is verified, stored as a snapshot once, and the
//! pointer is told which one it is. What it says to others does not change.

use std::{
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};

use bytes::{Buf, Bytes};
use tokio::runtime::Handle;

use super::import::{self, Inspector};
use crate::{
    Error, Result,
    bucket::{Bucket, BucketError, Key, RetryPolicy},
    catalog::{
        lineage_handle::LineageHandle,
        pointer::{self, VersionedPointer as PointerRead},
        records,
    },
    content::TenantStore,
    format::{
        event::Actor,
        layout, limits,
        manifest::Manifest,
        pointer::{Pointer, Target},
        record::Record,
    },
    name::Lineage,
    ops::write::snapshot::About,
    progress::Progress,
};

/// The pointer may move while an archive is read.
const ATTEMPTS: u32 = 3;
/// How much of an archive is fetched at a time.
const PART_BYTES: u64 = 8 << 20;
const NAMED: &str = "the pointer names it";

/// The terms on which archives are taken in.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// In whose name it is done.
    pub actor: Actor,
    /// The facts for the record where a manifest says nothing.
    pub about: About,
    /// The most that the files may have.
    pub max_bytes: u64,
    /// How much the tenant may have stored when this is done; more is refused.
    pub quota_bytes: Option<u64>,
    /// How many threads compress.
    pub threads: usize,
    /// The inspector of the databases, and a directory for it. Without one, nobody inspects them.
    pub judge: Option<(Arc<dyn Inspector>, PathBuf)>,
}

impl Adoption {
    /// Makes a snapshot of the pointer's target. `None` if it is one already, or if the pointer
    /// names nothing.
    pub async fn adopt(
        &self,
        store: &TenantStore,
        lineage: &Lineage,
        progress: Arc<dyn Progress>,
    ) -> Result<Option<Record>> {
        let handle = LineageHandle::new(store.clone(), lineage.clone(), self.actor.clone());
        for attempt in 1..=ATTEMPTS {
            let Some(read) = pointer::read(store, lineage).await? else { return Ok(None) };
            let Target::Foreign(_) = read.pointer.target() else { return Ok(None) };
            let record = self.record(store, lineage, &read, Arc::clone(&progress)).await?;
            if handle.recognise(&read, record.record).await? {
                tracing::info!(%lineage, record = %record.record, "an archive of another program is a snapshot now");
                return Ok(Some(record));
            }
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
        }
        Err(Error::Conflict { what: format!("the pointer of {lineage}") })
    }

    /// The snapshot of the archive that is named, made if there is none.
    async fn record(
        &self,
        store: &TenantStore,
        lineage: &Lineage,
        read: &PointerRead,
        progress: Arc<dyn Progress>,
    ) -> Result<Record> {
        let pointer = &read.pointer;
        let manifest = manifest(store, lineage, pointer).await?;
        let key = named(lineage, &pointer.active_archive_key)?;
        let from = pointer.flipped_from_sha256_prefix.as_str();
        self.taken_in(store, lineage, manifest, (key, from), progress).await
    }

    /// The snapshot of an archive that another program has stored, made if there is none. The
    /// pointer stays where it is.
    pub async fn take_in(
        &self,
        store: &TenantStore,
        lineage: &Lineage,
        manifest: Manifest,
        progress: Arc<dyn Progress>,
    ) -> Result<Record> {
        let key = layout::archive_key(lineage, &manifest.archive_sha256);
        let from: String = manifest.predecessor_sha256.chars().take(12).collect();
        self.taken_in(store, lineage, manifest, (key, &from), progress).await
    }

    /// The snapshot of the archive at `key`, built on the one whose prefix is `from` if that is there.
    async fn taken_in(
        &self,
        store: &TenantStore,
        lineage: &Lineage,
        manifest: Manifest,
        (key, from): (Key, &str),
        progress: Arc<dyn Progress>,
    ) -> Result<Record> {
        let sha256 = manifest.archive_sha256.to_string();
        let live = records::live(store, lineage).await?;
        if let Some(known) = live.iter().rfind(|record| record.archive_sha256.as_ref() == Some(&sha256)) {
            return Ok(known.clone());
        }
        let base = live.into_iter().rfind(|record| !from.is_empty() && record.sha256_prefix() == from);
        let stream = Parts {
            bucket: Arc::clone(&store.bucket),
            key: key.clone(),
            next: 0,
            size: manifest.archive_size_bytes,
            part: Bytes::new(),
            runtime: Handle::current(),
        };
        let request = import::Request {
            form: import::Form::Archive,
            lineage: lineage.clone(),
            name: key.to_string(),
            source: ("archive", key.to_string()),
            manifest: Some(manifest),
            about: self.about.clone(),
            max_bytes: self.max_bytes,
            quota_bytes: self.quota_bytes,
            threads: self.threads,
            handle: None,
            carried: Vec::new(),
            judge: self.judge.clone(),
        };
        Ok(import::import(store, request, base, Box::new(stream), progress).await?.record)
    }
}

/// The manifest of the archive that a pointer names.
async fn manifest(store: &TenantStore, lineage: &Lineage, pointer: &Pointer) -> Result<Manifest> {
    let key = named(lineage, &pointer.active_manifest_key)?;
    let absent = |error| match error {
        // It names nothing that exists, and yet has our block: then it was no program's move.
        BucketError::NotFound { .. } if pointer.pstore.is_some() && pointer.block().is_none() => {
            let archive = &pointer.active_sha256_prefix;
            let reason = format!("it was changed after pstore wrote it, and there is no archive {archive}");
            Error::damaged(layout::latest(lineage), reason)
        }
        BucketError::NotFound { key } => Error::Missing { object: key, by: NAMED },
        error => error.into(),
    };
    let object = store.bucket.get(&key, limits::MANIFEST).await.map_err(absent)?;
    let manifest = Manifest::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if manifest.lineage().name != lineage.name {
        return Err(Error::damaged(key, format!("it is the manifest of {}", manifest.lineage())));
    }
    if manifest.chrome_major_version != lineage.chrome_major {
        let told = manifest.chrome_major_version;
        let reason = format!("the archive of {lineage} is of Chrome {told}, as its manifest says");
        return Err(Error::VersionMismatch { reason });
    }
    if manifest.archive_sha256.prefix() != pointer.active_sha256_prefix {
        let (told, named) = (manifest.archive_sha256.prefix(), &pointer.active_sha256_prefix);
        return Err(Error::damaged(key, format!("it is the manifest of archive {told}, and not of {named}")));
    }
    Ok(manifest)
}

/// A key that somebody else has written down: one of this lineage's objects.
fn named(lineage: &Lineage, key: &str) -> Result<Key> {
    let outside = || {
        Error::damaged(layout::latest(lineage), format!("it names {key:?}, which is not one of its archives"))
    };
    if !key.starts_with(layout::lineage(lineage).as_str()) {
        return Err(outside());
    }
    Key::new(key).map_err(|_| outside())
}

/// An object, read part by part on a thread that may block.
struct Parts {
    bucket: Arc<dyn Bucket>,
    key: Key,
    next: u64,
    size: u64,
    part: Bytes,
    runtime: Handle,
}

impl Parts {
    fn fetch(&mut self) -> Result<()> {
        let get = |start, end| self.runtime.block_on(self.bucket.get_range(&self.key, start..end));
        if self.next >= self.size {
            // What goes on after its end is another archive than the manifest is about.
            return match get(self.size, self.size + 1) {
                Err(BucketError::Truncated { .. }) => Ok(()),
                Ok(_) => {
                    let reason = format!("it is longer than {} bytes, as its manifest has it", self.size);
                    Err(Error::damaged(&self.key, reason))
                }
                Err(error) => Err(error.into()),
            };
        }
        let end = self.size.min(self.next + PART_BYTES);
        let part = get(self.next, end).map_err(|error| match error {
            BucketError::NotFound { key } => Error::Missing { object: key, by: NAMED },
            error => error.into(),
        })?;
        (self.part, self.next) = (part, end);
        Ok(())
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.part.is_empty() && !buffer.is_empty() {
            self.fetch().map_err(io::Error::other)?;
        }
        let got = self.part.len().min(buffer.len());
        self.part.copy_to_slice(&mut buffer[..got]);
        Ok(got)
    }
}
