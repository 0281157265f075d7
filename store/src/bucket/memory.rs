//! `MemoryBucket` keeps a bucket in memory, for tests.
//!
//! As strict as the weakest store the layers above must work on: a version is the digest
//! of the bytes, so equal bytes have equal versions, and listings come in small pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, Range},
    time::{Duration, SystemTime},
};

use parking_lot::{Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Body, Bucket, BucketError, Deleted, Depth, Entry, Key, Object, Page, Prefix, Result, ServerFacts, Stamp,
    Verdict, Version, Write,
};

const DEFAULT_PAGE_SIZE: usize = 7;

#[derive(Clone, Debug)]
struct Stored {
    bytes: Bytes,
    version: Version,
    modified: SystemTime,
}

#[derive(Debug, Default)]
struct Objects {
    objects: BTreeMap<String, Stored>,
    /// How far this store's clock is ahead of the host's.
    ahead: Duration,
    server: ServerFacts,
    trusted: Option<Verdict>,
}

/// Objects in a map.
#[derive(Debug)]
pub struct MemoryBucket {
    state: Mutex<Objects>,
    page_size: usize,
}

impl Default for MemoryBucket {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryBucket {
    /// An empty bucket.
    pub fn new() -> Self {
        Self::with_page_size(DEFAULT_PAGE_SIZE)
    }

    /// `page_size`: how many entries and folders one page of a listing holds, at least one.
    pub fn with_page_size(page_size: usize) -> Self {
        Self { state: Mutex::default(), page_size: page_size.max(1) }
    }

    /// Moves the store's clock forward: everything in it grows older.
    pub fn advance(&self, by: Duration) {
        self.state().ahead += by;
    }

    /// Replaces an object's bytes behind everybody's back, as a damaged disk would.
    pub fn damage(&self, key: &Key, bytes: impl Into<Bytes>) {
        if let Some(stored) = self.state().objects.get_mut(key.as_str()) {
            stored.bytes = bytes.into();
        }
    }

    /// From now on this is another server, and nothing is known of it.
    pub fn become_server(&self, server: ServerFacts) {
        let mut state = self.state();
        (state.server, state.trusted) = (server, None);
    }

    /// The verdict that was taken over last.
    pub fn trusted(&self) -> Option<Verdict> {
        self.state().trusted.clone()
    }

    /// Every key, sorted.
    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, Objects> {
        self.state.lock()
    }
}

impl Objects {
    fn now(&self) -> SystemTime {
        SystemTime::now() + self.ahead
    }

    fn stored(&self, key: &Key) -> Result<&Stored> {
        self.objects.get(key.as_str()).ok_or_else(|| BucketError::NotFound { key: key.to_string() })
    }

    fn must_hold(&self, key: &Key, version: &Version) -> Result<()> {
        match self.objects.get(key.as_str()) {
            Some(stored) if stored.version == *version => Ok(()),
            _ => Err(BucketError::VersionMismatch { key: key.to_string() }),
        }
    }
}

#[async_trait]
impl Bucket for MemoryBucket {
    fn describe(&self) -> String {
        "memory".into()
    }

    fn server(&self) -> ServerFacts {
        self.state().server.clone()
    }

    fn trust(&self, verdict: &Verdict) {
        self.state().trusted = Some(verdict.clone());
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let state = self.state();
        let Stored { bytes, version, modified } = state.stored(key)?.clone();
        Object { bytes, version, stamp: Stamp { modified, now: state.now() } }.within(key, max_bytes)
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let state = self.state();
        let bytes = &state.stored(key)?.bytes;
        let actual = bytes.len() as u64;
        if range.end > actual {
            return Err(BucketError::Truncated {
                key: key.to_string(),
                actual,
                start: range.start,
                end: range.end,
            });
        }
        Ok(bytes.slice(range.start as usize..range.end as usize))
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let bytes = match body {
            Body::Bytes(bytes) => bytes,
            Body::File { path, .. } => std::fs::read(&path)
                .map_err(|source| BucketError::Io { path: path.display().to_string(), source })?
                .into(),
        };
        let mut state = self.state();
        match &write {
            Write::Create if state.objects.contains_key(key.as_str()) => {
                return Err(BucketError::AlreadyExists { key: key.to_string() });
            }
            Write::Create => {}
            Write::Replace(version) => state.must_hold(key, version)?,
        }
        let version = Version::of(&bytes);
        let stored = Stored { bytes, version: version.clone(), modified: state.now() };
        state.objects.insert(key.to_string(), stored);
        Ok(version)
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        let state = self.state();
        let mut page = Page::default();
        let mut folders = BTreeSet::new();
        let from = match &cursor {
            Some(cursor) => Bound::Excluded(cursor.as_str()),
            None => Bound::Included(prefix.as_str()),
        };
        // A cursor is the last key or folder shown; no key ends in a slash, every folder does.
        let shown = cursor.as_deref().filter(|cursor| cursor.ends_with('/'));
        let mut last = None;
        for (key, stored) in state.objects.range::<str, _>((from, Bound::Unbounded)) {
            let Some(rest) = key.strip_prefix(prefix.as_str()) else { break };
            if shown.is_some_and(|folder| key.starts_with(folder)) {
                continue;
            }
            let folder = match depth {
                Depth::All => None,
                Depth::Children => rest.find('/').map(|slash| &key[..=prefix.as_str().len() + slash]),
            };
            if folder.is_some_and(|folder| folders.contains(folder)) {
                continue;
            }
            if page.entries.len() + folders.len() == self.page_size {
                page.next = last;
                break;
            }
            last = Some(folder.unwrap_or(key).to_owned());
            match folder {
                Some(folder) => {
                    folders.insert(folder.to_owned());
                }
                None => page.entries.push(Entry {
                    key: Key(key.clone()),
                    size: stored.bytes.len() as u64,
                    modified: stored.modified,
                }),
            }
        }
        page.folders = folders.into_iter().map(Prefix).collect();
        Ok(page)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.state().objects.remove(key.as_str());
        Ok(())
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        let mut state = self.state();
        state.must_hold(key, version)?;
        state.objects.remove(key.as_str());
        Ok(Deleted::Yes)
    }
}
