//! A bucket in which a collection revokes the first write, just before it is published.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    bucket::{Body, Bucket, Deleted, Depth, Key, Object, Page, Prefix, Result, Version, Write},
    format::record::{Record, State},
};

#[derive(Debug)]
pub struct Revoker {
    inner: Arc<dyn Bucket>,
    revoked: AtomicU64,
}

impl Revoker {
    pub fn new(inner: Arc<dyn Bucket>) -> Self {
        Self { inner, revoked: AtomicU64::new(0) }
    }

    pub fn revoked(&self) -> u64 {
        self.revoked.load(Ordering::Relaxed)
    }

    async fn revoke(&self, key: &Key) -> Result<()> {
        let object = self.inner.get(key).await?;
        let mut record = Record::decode(&object.bytes).unwrap();
        record.state = State::Revoked;
        self.inner.put(key, record.encode().into(), Write::Replace(object.version)).await?;
        Ok(())
    }
}

#[async_trait]
impl Bucket for Revoker {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn get(&self, key: &Key) -> Result<Object> {
        self.inner.get(key).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        self.inner.get_range(key, range).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let publishes = key.name().starts_with("snap-") && matches!(write, Write::Replace(_));
        if publishes && self.revoked.fetch_max(1, Ordering::Relaxed) == 0 {
            self.revoke(key).await?;
        }
        self.inner.put(key, body, write).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.inner.list(prefix, depth, cursor).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.inner.delete(key).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.inner.delete_if(key, version).await
    }
}
