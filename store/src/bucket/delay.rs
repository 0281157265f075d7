//! `DelayBucket` delays every answer by the same time, for tests that count round trips: on a clock that is
//! paused, work that takes three delays makes three requests one after another.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Body, Bucket, Checksum, Deleted, Depth, Key, Object, Page, Prefix, Result, RetryPolicy, ServerFacts,
    Verdict, Version, Write,
};

/// Passes everything on, late. The call is made when half of the delay is over, so that
/// calls which leave together also arrive together.
#[derive(Debug)]
pub struct DelayBucket {
    inner: Arc<dyn Bucket>,
    delay_ns: AtomicU64,
}

impl DelayBucket {
    /// Without a delay at first.
    pub fn new(inner: Arc<dyn Bucket>) -> Self {
        Self { inner, delay_ns: AtomicU64::new(0) }
    }

    /// Delays every answer from now on by so much.
    pub fn set(&self, delay: Duration) {
        self.delay_ns.store(delay.as_nanos() as u64, Ordering::Relaxed);
    }

    async fn late<T>(&self, call: impl Future<Output = T>) -> T {
        let half = Duration::from_nanos(self.delay_ns.load(Ordering::Relaxed) / 2);
        if half.is_zero() {
            return call.await;
        }
        tokio::time::sleep(half).await;
        let answer = call.await;
        tokio::time::sleep(half).await;
        answer
    }
}

#[async_trait]
impl Bucket for DelayBucket {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn server(&self) -> ServerFacts {
        self.inner.server()
    }

    fn trust(&self, verdict: &Verdict) {
        self.inner.trust(verdict);
    }

    async fn checks(&self, key: &Key, checksum: Checksum) -> Result<bool> {
        self.late(self.inner.checks(key, checksum)).await
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.inner.retry_policy()
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        self.late(self.inner.get(key, max_bytes)).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        self.late(self.inner.get_range(key, range)).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        self.late(self.inner.put(key, body, write)).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.late(self.inner.list(prefix, depth, cursor)).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.late(self.inner.delete(key)).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.late(self.inner.delete_if(key, version)).await
    }
}
