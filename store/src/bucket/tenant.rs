//! `TenantBucket` narrows a bucket to one tenant's prefixes.
//!
//! A key outside is refused before any request is made, so a mistake above cannot reach
//! another tenant's data even where the server's credentials would allow it. Its answers
//! tell the time of the store's clock.

use std::{fs::File, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Body, Bucket, BucketError, Deleted, Depth, Key, Object, Page, Prefix, Result, RetryPolicy, ServerFacts,
    StoreClock, Verdict, Version, Write,
};

/// Passes on calls for keys below one of its prefixes, and no others.
#[derive(Clone, Debug)]
pub struct TenantBucket {
    inner: Arc<dyn Bucket>,
    allowed: Arc<[Prefix]>,
    clock: Arc<StoreClock>,
}

impl TenantBucket {
    /// No prefix allows nothing; the root prefix allows everything.
    pub fn new(inner: Arc<dyn Bucket>, allowed: impl Into<Arc<[Prefix]>>) -> Self {
        Self { inner, allowed: allowed.into(), clock: Arc::default() }
    }

    /// Sets this clock by its answers.
    pub fn with_clock(self, clock: Arc<StoreClock>) -> Self {
        Self { clock, ..self }
    }

    fn allows(&self, name: &str) -> Result<()> {
        if self.allowed.iter().any(|prefix| name.starts_with(prefix.as_str())) {
            return Ok(());
        }
        let allowed = self.allowed.iter().map(Prefix::as_str).collect::<Vec<_>>().join(", ");
        Err(BucketError::Denied {
            key: name.to_owned(),
            reason: format!("it is outside what this tenant may touch ({allowed})"),
        })
    }

    /// A server that lists keys it was not asked for cannot be trusted with a prefix at all.
    fn within(&self, name: &str, prefix: &Prefix) -> Result<()> {
        if name.starts_with(prefix.as_str()) {
            return Ok(());
        }
        Err(BucketError::Rejected {
            key: prefix.to_string(),
            store: self.inner.describe(),
            reason: format!("its listing of the prefix holds {name}, which is outside"),
        })
    }
}

#[async_trait]
impl Bucket for TenantBucket {
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

    fn round_trips(&self) -> u64 {
        self.inner.round_trips()
    }

    fn file(&self, key: &Key) -> Option<Result<File>> {
        match self.allows(key.as_str()) {
            Ok(()) => self.inner.file(key),
            Err(error) => Some(Err(error)),
        }
    }

    async fn link(&self, key: &Key, lifetime: Duration) -> Result<Option<String>> {
        self.allows(key.as_str())?;
        self.inner.link(key, lifetime).await
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        self.allows(key.as_str())?;
        let object = self.inner.get(key, max_bytes).await?;
        self.clock.learn(object.stamp.now);
        Ok(object)
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        self.allows(key.as_str())?;
        self.inner.get_range(key, range).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        self.allows(key.as_str())?;
        self.inner.put(key, body, write).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.allows(prefix.as_str())?;
        let page = self.inner.list(prefix, depth, cursor).await?;
        for entry in &page.entries {
            self.within(entry.key.as_str(), prefix)?;
        }
        for folder in &page.folders {
            self.within(folder.as_str(), prefix)?;
        }
        Ok(page)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.allows(key.as_str())?;
        self.inner.delete(key).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.allows(key.as_str())?;
        self.inner.delete_if(key, version).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{MemoryBucket, Recorder};

    #[tokio::test]
    async fn a_key_outside_is_refused_without_a_call() {
        let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::new())));
        let allowed = [Prefix::new("content/acme/").unwrap(), Prefix::new("snapshots/acme/").unwrap()];
        let acme = TenantBucket::new(recorder.clone(), allowed);

        let mine = Key::new("content/acme/a").unwrap();
        let version = acme.put(&mine, b"1".to_vec().into(), Write::Create).await.unwrap();
        assert_eq!(recorder.take().len(), 1);

        for foreign in ["content/acmeh/a", "content/acme", "snapshots/other/acme/a", "lock.json"] {
            let key = Key::new(foreign).unwrap();
            let prefix = Prefix::new(format!("{foreign}x/")).unwrap();
            let denied = [
                acme.get(&key, u64::MAX).await.map(drop),
                acme.file(&key).unwrap_or_else(|| panic!("{key} was asked for")).map(drop),
                acme.get_range(&key, 0..1).await.map(drop),
                acme.put(&key, b"1".to_vec().into(), Write::Create).await.map(drop),
                acme.put(&key, b"1".to_vec().into(), Write::Replace(version.clone())).await.map(drop),
                acme.list(&prefix, Depth::All, None).await.map(drop),
                acme.list(&Prefix::root(), Depth::Children, None).await.map(drop),
                acme.delete(&key).await,
                acme.delete_if(&key, &version).await.map(drop),
            ];
            for answer in denied {
                assert!(matches!(answer, Err(BucketError::Denied { .. })), "{answer:?}");
            }
        }
        assert_eq!(recorder.calls(), []);
    }
}
