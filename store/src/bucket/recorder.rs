//! `Recorder` writes down every call, for tests that count requests.

use std::{ops::Range, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;

use super::{
    Body, Bucket, Checksum, Deleted, Depth, Key, Object, Page, Prefix, Result, RetryPolicy, ServerFacts,
    Verb, Verdict, Version, Write,
};

/// One call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The method that was called.
    pub verb: Verb,
    /// The key, or for a listing its prefix.
    pub key: String,
    /// Sent for a put, received for a get, zero otherwise.
    pub bytes: u64,
    /// Whether it succeeded.
    pub ok: bool,
}

/// Passes everything on and remembers it, in the order of the answers.
#[derive(Debug)]
pub struct Recorder {
    inner: Arc<dyn Bucket>,
    calls: Mutex<Vec<Call>>,
}

impl Recorder {
    /// Passes every call on, and writes it down.
    pub fn new(inner: Arc<dyn Bucket>) -> Self {
        Self { inner, calls: Mutex::default() }
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.log().clone()
    }

    /// The calls so far; the record starts again.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.log())
    }

    /// How many calls of this kind there were.
    pub fn count(&self, verb: Verb) -> usize {
        self.log().iter().filter(|call| call.verb == verb).count()
    }

    /// Bytes received by reads that succeeded.
    pub fn downloaded_bytes(&self) -> u64 {
        self.log().iter().filter(|call| call.ok && call.verb.is_read()).map(|call| call.bytes).sum()
    }

    /// Bytes sent by puts, refused ones included.
    pub fn uploaded_bytes(&self) -> u64 {
        let puts = |call: &&Call| matches!(call.verb, Verb::Create | Verb::Replace);
        self.log().iter().filter(puts).map(|call| call.bytes).sum()
    }

    fn log(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock()
    }

    fn note<T>(&self, verb: Verb, key: &str, bytes: u64, answer: &Result<T>) {
        self.log().push(Call { verb, key: key.to_owned(), bytes, ok: answer.is_ok() });
    }
}

#[async_trait]
impl Bucket for Recorder {
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

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let answer = self.inner.get(key, max_bytes).await;
        let bytes = answer.as_ref().map_or(0, |object| object.bytes.len() as u64);
        self.note(Verb::Get, key.as_str(), bytes, &answer);
        answer
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let answer = self.inner.get_range(key, range).await;
        let bytes = answer.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.note(Verb::GetRange, key.as_str(), bytes, &answer);
        answer
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let (verb, bytes) = (Verb::of_write(&write), body.len());
        let answer = self.inner.put(key, body, write).await;
        self.note(verb, key.as_str(), bytes, &answer);
        answer
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        let answer = self.inner.list(prefix, depth, cursor).await;
        self.note(Verb::List, prefix.as_str(), 0, &answer);
        answer
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let answer = self.inner.delete(key).await;
        self.note(Verb::Delete, key.as_str(), 0, &answer);
        answer
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        let answer = self.inner.delete_if(key, version).await;
        self.note(Verb::DeleteIf, key.as_str(), 0, &answer);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::MemoryBucket;

    #[tokio::test]
    async fn every_call_is_counted_with_its_bytes() {
        let recorder = Recorder::new(Arc::new(MemoryBucket::new()));
        let key = Key::new("a").unwrap();
        let version = recorder.put(&key, b"four".to_vec().into(), Write::Create).await.unwrap();
        recorder.put(&key, b"four".to_vec().into(), Write::Create).await.unwrap_err();
        recorder.get(&key, u64::MAX).await.unwrap();
        recorder.get_range(&key, 1..3).await.unwrap();
        recorder.list(&Prefix::root(), Depth::All, None).await.unwrap();
        recorder.delete_if(&key, &version).await.unwrap();
        recorder.delete(&key).await.unwrap();

        assert_eq!((recorder.uploaded_bytes(), recorder.downloaded_bytes()), (8, 6));
        assert_eq!((recorder.count(Verb::Create), recorder.count(Verb::Replace)), (2, 0));
        let calls = recorder.take();
        assert_eq!(calls[1], Call { verb: Verb::Create, key: "a".into(), bytes: 4, ok: false });
        assert_eq!(calls.len(), 7);
        assert_eq!(recorder.calls(), []);
    }
}
