//! A bucket in which something else happens, once, just before a chosen call.

use std::{
    fmt,
    ops::Range,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use store::bucket::{Body, Bucket, Deleted, Depth, Key, Object, Page, Prefix, Result, Version, Write};

type Deed = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// Does its deed before the first ranged read below a prefix.
pub struct Interrupter {
    inner: Arc<dyn Bucket>,
    prefix: String,
    deed: Mutex<Option<Deed>>,
}

impl Interrupter {
    pub fn before_reading(inner: Arc<dyn Bucket>, prefix: &str, deed: Deed) -> Self {
        Self { inner, prefix: prefix.to_owned(), deed: Mutex::new(Some(deed)) }
    }

    pub fn is_done(&self) -> bool {
        self.deed.lock().unwrap().is_none()
    }
}

impl fmt::Debug for Interrupter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupter").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[async_trait]
impl Bucket for Interrupter {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn get(&self, key: &Key) -> Result<Object> {
        self.inner.get(key).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let struck = key.as_str().starts_with(&self.prefix);
        let deed = if struck { self.deed.lock().unwrap().take() } else { None };
        if let Some(deed) = deed {
            deed().await;
        }
        self.inner.get_range(key, range).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
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
