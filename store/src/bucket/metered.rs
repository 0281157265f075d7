//! `MeteredBucket` tells a meter of every request to a store: its verb, how it ended, and how long it took.
//!
//! It lies below the retries, so that each attempt counts. Content that is read through [`Bucket::file`] is no request.

use std::{
    fmt::Debug,
    fs::File,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Body, Bucket, BucketError, Checksum, Deleted, Depth, Key, Object, Page, Prefix, Result, RetryPolicy,
    ServerFacts, Verb, Verdict, Version, Write,
};

/// Hears of every request. Called where the work is done; must be quick.
pub trait RequestMeter: Debug + Send + Sync {
    /// A request was answered, or failed.
    fn request(&self, request: &MeteredRequest);
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeteredRequest {
    /// The method that was called.
    pub verb: Verb,
    /// How it ended.
    pub outcome: RequestOutcome,
    /// How long it took.
    pub elapsed: Duration,
    /// The bytes of the body that was sent.
    pub sent_bytes: u64,
    /// The bytes of the object, or of the part of it, that was received.
    pub received_bytes: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestOutcome {
    /// It was done.
    Ok,
    /// There is no such object.
    NotFound,
    /// Another version of the object is there, or another write was under way.
    Conflict,
    /// The credentials do not allow it.
    Denied,
    /// There was no definite answer.
    Unavailable,
    /// Anything else.
    Error,
}

impl RequestOutcome {
    /// Every outcome.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::NotFound, Self::Conflict, Self::Denied, Self::Unavailable, Self::Error];

    /// The word that metrics have for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Error => "error",
        }
    }

    fn of<T>(answer: &Result<T>) -> Self {
        match answer {
            Ok(_) => Self::Ok,
            Err(BucketError::NotFound { .. }) => Self::NotFound,
            Err(
                BucketError::AlreadyExists { .. }
                | BucketError::VersionMismatch { .. }
                | BucketError::Contended { .. },
            ) => Self::Conflict,
            Err(BucketError::Denied { .. }) => Self::Denied,
            Err(BucketError::Unavailable { .. }) => Self::Unavailable,
            Err(_) => Self::Error,
        }
    }
}

/// Passes every call on, and tells its meter.
#[derive(Debug)]
pub struct MeteredBucket {
    inner: Arc<dyn Bucket>,
    meter: Arc<dyn RequestMeter>,
}

impl MeteredBucket {
    /// Tells `meter` of every call of `inner`.
    pub fn new(inner: Arc<dyn Bucket>, meter: Arc<dyn RequestMeter>) -> Self {
        Self { inner, meter }
    }

    async fn metered<T>(
        &self,
        verb: Verb,
        sent_bytes: u64,
        call: impl Future<Output = Result<T>>,
        received: impl FnOnce(&T) -> u64,
    ) -> Result<T> {
        let began = Instant::now();
        let answer = call.await;
        self.meter.request(&MeteredRequest {
            verb,
            outcome: RequestOutcome::of(&answer),
            elapsed: began.elapsed(),
            sent_bytes,
            received_bytes: answer.as_ref().map_or(0, received),
        });
        answer
    }
}

#[async_trait]
impl Bucket for MeteredBucket {
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
        self.inner.checks(key, checksum).await
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.inner.retry_policy()
    }

    fn round_trips(&self) -> u64 {
        self.inner.round_trips()
    }

    fn file(&self, key: &Key) -> Option<Result<File>> {
        self.inner.file(key)
    }

    async fn link(&self, key: &Key, lifetime: Duration) -> Result<Option<String>> {
        self.inner.link(key, lifetime).await
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let call = self.inner.get(key, max_bytes);
        self.metered(Verb::Get, 0, call, |object| object.bytes.len() as u64).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let call = self.inner.get_range(key, range);
        self.metered(Verb::GetRange, 0, call, |bytes| bytes.len() as u64).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let (verb, bytes) = (Verb::of_write(&write), body.len());
        self.metered(verb, bytes, self.inner.put(key, body, write), |_| 0).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.metered(Verb::List, 0, self.inner.list(prefix, depth, cursor), |_| 0).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.metered(Verb::Delete, 0, self.inner.delete(key), |()| 0).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.metered(Verb::DeleteIf, 0, self.inner.delete_if(key, version), |_| 0).await
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::bucket::{Fault, FaultBucket, MemoryBucket, Rule};

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<(Verb, RequestOutcome, u64, u64)>>);

    impl RequestMeter for Heard {
        fn request(&self, request: &MeteredRequest) {
            let MeteredRequest { verb, outcome, sent_bytes, received_bytes, .. } = *request;
            self.0.lock().push((verb, outcome, sent_bytes, received_bytes));
        }
    }

    #[tokio::test]
    async fn every_request_is_heard_of_with_its_verb_outcome_and_bytes() {
        let (heard, faults) =
            (Arc::new(Heard::default()), Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new()))));
        faults.inject(Rule::new(Fault::Before).on(Verb::List));
        let bucket = MeteredBucket::new(faults, heard.clone());
        let key = Key::new("a").unwrap();
        bucket.get(&key, 10).await.unwrap_err();
        let version = bucket.put(&key, b"four".to_vec().into(), Write::Create).await.unwrap();
        bucket.put(&key, b"five!".to_vec().into(), Write::Create).await.unwrap_err();
        bucket.get(&key, 10).await.unwrap();
        bucket.get_range(&key, 1..3).await.unwrap();
        bucket.list(&Prefix::root(), Depth::All, None).await.unwrap_err();
        bucket.delete_if(&key, &version).await.unwrap();
        bucket.delete(&key).await.unwrap();
        use RequestOutcome::{Conflict, NotFound, Ok, Unavailable};
        assert_eq!(
            *heard.0.lock(),
            [
                (Verb::Get, NotFound, 0, 0),
                (Verb::Create, Ok, 4, 0),
                (Verb::Create, Conflict, 5, 0),
                (Verb::Get, Ok, 0, 4),
                (Verb::GetRange, Ok, 0, 2),
                (Verb::List, Unavailable, 0, 0),
                (Verb::DeleteIf, Ok, 0, 0),
                (Verb::Delete, Ok, 0, 0),
            ]
        );
    }
}
