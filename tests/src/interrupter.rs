//! `Interrupter` is a bucket in which something happens just before one call is passed on.

use std::{fmt, ops::Range, sync::Arc};

use parking_lot::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use store::{
    bucket::{
        Body, Bucket, Deleted, Depth, Key, Object, Page, Prefix, Result, RetryPolicy, ServerFacts, Verb,
        Verdict, Version, Write,
    },
    format::record::{Record, State},
};
use tokio::runtime::Handle;

pub type Deed = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;
/// Whether this call is the one, and if so, the interruption before it.
type Trap = Box<dyn FnMut(Verb, &Key) -> Option<BoxFuture<'static, ()>> + Send>;

/// Something to be done meanwhile; the interrupted call waits until it is done.
pub fn deed<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) -> Deed {
    Box::new(move || {
        let runtime = Handle::current();
        let done = tokio::task::spawn_blocking(move || runtime.block_on(work()));
        Box::pin(async { done.await.unwrap() })
    })
}

/// Does its deed once.
pub struct Interrupter {
    inner: Arc<dyn Bucket>,
    trap: Mutex<Option<Trap>>,
}

impl Interrupter {
    /// Before the first ranged read below a prefix.
    pub fn before_reading(inner: Arc<dyn Bucket>, prefix: &str, deed: Deed) -> Self {
        Self::before(inner, Verb::GetRange, prefix, deed)
    }

    /// Before the call of this number, of any kind; the first is 1. Listings do not count.
    pub fn at(inner: Arc<dyn Bucket>, number: usize, deed: Deed) -> Self {
        let (mut calls, mut deed) = (0, Some(deed));
        let trap: Trap = Box::new(move |_, _| {
            calls += 1;
            if calls == number { deed.take().map(|deed| deed()) } else { None }
        });
        Self { inner, trap: Mutex::new(Some(trap)) }
    }

    /// Before the first call of this kind below a prefix.
    pub fn before(inner: Arc<dyn Bucket>, chosen: Verb, prefix: &str, deed: Deed) -> Self {
        let (prefix, mut deed) = (prefix.to_owned(), Some(deed));
        let trap: Trap = Box::new(move |verb, key| {
            let struck = verb == chosen && key.as_str().starts_with(&prefix);
            if struck { deed.take().map(|deed| deed()) } else { None }
        });
        Self { inner, trap: Mutex::new(Some(trap)) }
    }

    /// Before the first read of `key` that comes after something was created below a prefix.
    pub fn between(inner: Arc<dyn Bucket>, created: &str, key: &Key, deed: Deed) -> Self {
        let (created, key, mut deed) = (created.to_owned(), key.clone(), Some(deed));
        let mut is_created = false;
        let trap: Trap = Box::new(move |verb, called| {
            is_created |= verb == Verb::Create && called.as_str().starts_with(&created);
            let struck = is_created && verb == Verb::Get && *called == key;
            if struck { deed.take().map(|deed| deed()) } else { None }
        });
        Self { inner, trap: Mutex::new(Some(trap)) }
    }

    /// A collection revokes the first write, just before it is published.
    pub fn revoking(inner: Arc<dyn Bucket>) -> Self {
        let bucket = Arc::clone(&inner);
        let trap: Trap = Box::new(move |verb, key| {
            let struck = verb == Verb::Replace && key.name().starts_with("snap-");
            struck.then(|| Box::pin(revoke(Arc::clone(&bucket), key.clone())) as _)
        });
        Self { inner, trap: Mutex::new(Some(trap)) }
    }

    pub fn is_done(&self) -> bool {
        self.trap.lock().is_none()
    }

    async fn pass(&self, verb: Verb, key: &Key) {
        let deed = {
            let mut trap = self.trap.lock();
            let deed = trap.as_mut().and_then(|trap| trap(verb, key));
            if deed.is_some() {
                *trap = None;
            }
            deed
        };
        if let Some(deed) = deed {
            deed.await;
        }
    }
}

async fn revoke(bucket: Arc<dyn Bucket>, key: Key) {
    let object = bucket.get(&key, u64::MAX).await.unwrap();
    let mut record = Record::decode(&object.bytes).unwrap();
    record.state = State::Revoked;
    bucket.put(&key, record.encode().into(), Write::Replace(object.version)).await.unwrap();
}

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Bucket for Interrupter {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn server(&self) -> ServerFacts {
        self.inner.server()
    }

    fn trust(&self, verdict: &Verdict) {
        self.inner.trust(verdict);
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.inner.retry_policy()
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        self.pass(Verb::Get, key).await;
        self.inner.get(key, max_bytes).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        self.pass(Verb::GetRange, key).await;
        self.inner.get_range(key, range).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        self.pass(Verb::of_write(&write), key).await;
        self.inner.put(key, body, write).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.inner.list(prefix, depth, cursor).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.pass(Verb::Delete, key).await;
        self.inner.delete(key).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.pass(Verb::DeleteIf, key).await;
        self.inner.delete_if(key, version).await
    }
}
