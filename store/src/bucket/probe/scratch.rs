//! `Scratch` is the probe's own corner of the store, and finds out the outcome of every write in it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use bytes::Bytes;

use crate::bucket::{Bucket, BucketError, Depth, Key, Prefix, Result, Version, Write};

/// How often an ambiguous step is tried before the probe gives up.
pub(super) const ATTEMPTS: u32 = 5;

/// More than any body has that the probe writes.
pub(super) const MOST_BYTES: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct Scratch {
    bucket: Arc<dyn Bucket>,
    prefix: Prefix,
    next: AtomicU32,
    /// Every key that was handed out, to be removed in the end.
    used: Mutex<Vec<Key>>,
}

/// The outcome of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    Applied(Version),
    Refused,
}

impl Scratch {
    pub(super) fn new(bucket: Arc<dyn Bucket>, below: &Prefix) -> Result<Self> {
        let store = bucket.describe();
        let unusable = |reason: String| BucketError::Unsuitable { store: store.clone(), reason };
        let random = getrandom::u64().map_err(|error| unusable(error.to_string()))?;
        let prefix = below.join(&format!("{random:016x}/")).map_err(|error| unusable(error.to_string()))?;
        Ok(Self { bucket, prefix, next: AtomicU32::new(0), used: Mutex::default() })
    }

    pub(super) fn bucket(&self) -> &dyn Bucket {
        &*self.bucket
    }

    /// A key that was never used.
    pub(super) fn key(&self) -> Key {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let key = Key(format!("{}{number}", self.prefix));
        self.used.lock().push(key.clone());
        key
    }

    /// A body that was never used.
    pub(super) fn body(&self, len: usize) -> Bytes {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut body = format!("{} {number} ", self.prefix).into_bytes();
        body.resize(len.max(body.len()), b'.');
        body.into()
    }

    /// Writes a body that is unique to this write, so that a read tells whether an
    /// ambiguous attempt was applied.
    pub(super) async fn put(&self, key: &Key, body: &Bytes, write: Write) -> Result<Outcome> {
        let mut attempt = 0;
        loop {
            let error = match self.bucket.put(key, body.clone().into(), write.clone()).await {
                Ok(version) => return Ok(Outcome::Applied(version)),
                Err(BucketError::AlreadyExists { .. } | BucketError::VersionMismatch { .. }) => {
                    // An earlier attempt may be what this one was refused for.
                    return Ok(self.version_of(key, body).await?.map_or(Outcome::Refused, Outcome::Applied));
                }
                Err(error) if error.is_retryable() => error,
                Err(error) => return Err(error),
            };
            if let Some(version) = self.version_of(key, body).await? {
                return Ok(Outcome::Applied(version));
            }
            attempt += 1;
            if attempt == ATTEMPTS {
                return Err(error);
            }
            pause(attempt).await;
        }
    }

    async fn version_of(&self, key: &Key, body: &Bytes) -> Result<Option<Version>> {
        Ok(self.get(key).await?.filter(|(bytes, _)| bytes == body).map(|(_, version)| version))
    }

    pub(super) async fn get(&self, key: &Key) -> Result<Option<(Bytes, Version)>> {
        let mut attempt = 0;
        loop {
            match self.bucket.get(key, MOST_BYTES).await {
                Ok(object) => return Ok(Some((object.bytes, object.version))),
                Err(BucketError::NotFound { .. }) => return Ok(None),
                Err(error) if error.is_retryable() && attempt + 1 < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
            pause(attempt).await;
        }
    }

    /// Whether a listing shows the key.
    pub(super) async fn lists(&self, key: &Key) -> Result<bool> {
        Ok(self.listed().await?.contains(key))
    }

    async fn listed(&self) -> Result<Vec<Key>> {
        let mut keys = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.bucket.list(&self.prefix, Depth::All, cursor).await?;
            keys.extend(page.entries.into_iter().map(|entry| entry.key));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(keys);
            }
        }
    }

    /// Removes the probe's objects. One that cannot be removed stays: no other probe uses the same names.
    pub(super) async fn remove(&self) {
        let keys = std::mem::take(&mut *self.used.lock());
        futures::future::join_all(keys.iter().map(|key| self.bucket.delete(key))).await;
    }
}

pub(super) async fn pause(attempt: u32) {
    tokio::time::sleep(Duration::from_millis(100) * attempt).await;
}
