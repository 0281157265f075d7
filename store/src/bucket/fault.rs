//! `FaultBucket` fails on purpose, for tests: the k-th call fails, in a chosen way.
//!
//! Deterministic: calls are counted in the order in which they start.

use std::{future::Future, ops::Range, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::{
    Body, Bucket, BucketError, Checksum, Deleted, Depth, Key, Object, Page, Prefix, Result, RetryPolicy,
    ServerFacts, Verb, Verdict, Version, Write,
};

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Ambiguous, and not applied.
    Before,
    /// Ambiguous, though applied.
    After,
    /// Refused with a failed condition, though applied: a proxy sent it twice.
    Refused,
    /// A read returns half of its bytes. A ranged read tells; a whole one cannot.
    Truncated,
    /// A read returns its bytes with one bit changed.
    Flipped,
    /// This call and all later ones fail, and this one is not applied: the host died.
    KilledBefore,
    /// This call and all later ones fail, but this one is applied.
    KilledAfter,
    /// No answer ever comes, and nothing is applied.
    Silence,
}

/// The calls that a fault befalls.
#[derive(Clone, Debug)]
pub struct Rule {
    verb: Option<Verb>,
    key_part: Option<String>,
    /// Counted among the calls that match, from one. Zero: all of them.
    nth: u64,
    seen: u64,
    fault: Fault,
}

impl Rule {
    /// The first call of all, unless narrowed.
    pub fn new(fault: Fault) -> Self {
        Self { verb: None, key_part: None, nth: 1, seen: 0, fault }
    }

    /// Only calls of this kind.
    pub fn on(self, verb: Verb) -> Self {
        Self { verb: Some(verb), ..self }
    }

    /// Only calls whose key (or prefix, for a listing) contains this.
    pub fn at(self, key_part: impl Into<String>) -> Self {
        Self { key_part: Some(key_part.into()), ..self }
    }

    /// The n-th call that matches, from one.
    pub fn nth(self, nth: u64) -> Self {
        Self { nth: nth.max(1), ..self }
    }

    /// Every call that matches.
    pub fn always(self) -> Self {
        Self { nth: 0, ..self }
    }

    fn strikes(&mut self, verb: Verb, key: &str) -> bool {
        if self.verb.is_some_and(|only| only != verb) {
            return false;
        }
        if self.key_part.as_deref().is_some_and(|part| !key.contains(part)) {
            return false;
        }
        self.seen += 1;
        self.nth == 0 || self.nth == self.seen
    }
}

#[derive(Debug, Default)]
struct FaultState {
    rules: Vec<Rule>,
    calls: u64,
    strikes: u64,
    killed: bool,
}

/// Passes everything on, except where a rule strikes.
#[derive(Debug)]
pub struct FaultBucket {
    inner: Arc<dyn Bucket>,
    state: Mutex<FaultState>,
}

impl FaultBucket {
    /// Passes every call on until a rule strikes.
    pub fn new(inner: Arc<dyn Bucket>) -> Self {
        Self { inner, state: Mutex::default() }
    }

    /// The first rule that strikes decides; every rule counts every call it matches.
    pub fn inject(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// From now on every call fails.
    pub fn kill(&self) {
        self.state().killed = true;
    }

    /// Forgets all rules and the kill; counting goes on.
    pub fn heal(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.killed = false;
    }

    /// How many calls were made: the range of k in "for every k, fail the k-th".
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// How many calls a rule struck. Zero means a test did not test anything.
    pub fn strikes(&self) -> u64 {
        self.state().strikes
    }

    fn state(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock()
    }

    fn fate(&self, verb: Verb, key: &str) -> Option<Fault> {
        let mut state = self.state();
        state.calls += 1;
        if state.killed {
            return Some(Fault::KilledBefore);
        }
        let mut fate = None;
        for rule in &mut state.rules {
            if rule.strikes(verb, key) && fate.is_none() {
                fate = Some(rule.fault);
            }
        }
        state.strikes += u64::from(fate.is_some());
        state.killed = matches!(fate, Some(Fault::KilledBefore | Fault::KilledAfter));
        fate
    }

    async fn through<T>(
        &self,
        verb: Verb,
        key: &str,
        call: impl Future<Output = Result<T>>,
        damage: impl FnOnce(T, Fault) -> Result<T>,
    ) -> Result<T> {
        let Some(fault) = self.fate(verb, key) else { return call.await };
        match fault {
            Fault::Before | Fault::KilledBefore => {}
            Fault::After | Fault::KilledAfter => drop(call.await),
            Fault::Refused => {
                call.await?;
                let key = key.to_owned();
                return Err(match verb {
                    Verb::Create => BucketError::AlreadyExists { key },
                    _ => BucketError::VersionMismatch { key },
                });
            }
            Fault::Truncated | Fault::Flipped => return damage(call.await?, fault),
            Fault::Silence => return std::future::pending().await,
        }
        Err(BucketError::Unavailable {
            key: key.to_owned(),
            store: self.describe(),
            reason: format!("injected: {fault:?}"),
        })
    }
}

#[async_trait]
impl Bucket for FaultBucket {
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
        let damage = |object: Object, fault| Ok(Object { bytes: damaged(object.bytes, fault), ..object });
        self.through(Verb::Get, key.as_str(), self.inner.get(key, max_bytes), damage).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let Range { start, end } = range.clone();
        let damage = |bytes: Bytes, fault| match fault {
            Fault::Truncated => {
                let actual = start + bytes.len() as u64 / 2;
                Err(BucketError::Truncated { key: key.to_string(), actual, start, end })
            }
            _ => Ok(damaged(bytes, fault)),
        };
        self.through(Verb::GetRange, key.as_str(), self.inner.get_range(key, range), damage).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let verb = Verb::of_write(&write);
        self.through(verb, key.as_str(), self.inner.put(key, body, write), unharmed).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.through(Verb::List, prefix.as_str(), self.inner.list(prefix, depth, cursor), unharmed).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.through(Verb::Delete, key.as_str(), self.inner.delete(key), unharmed).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.through(Verb::DeleteIf, key.as_str(), self.inner.delete_if(key, version), unharmed).await
    }
}

/// Leaves an answer without bytes as it is: there is nothing to damage.
fn unharmed<T>(answer: T, _: Fault) -> Result<T> {
    Ok(answer)
}

fn damaged(bytes: Bytes, fault: Fault) -> Bytes {
    let middle = bytes.len() / 2;
    if fault == Fault::Truncated {
        return bytes.slice(..middle);
    }
    let mut bytes = BytesMut::from(&bytes[..]);
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 1;
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::MemoryBucket;

    fn bucket() -> FaultBucket {
        FaultBucket::new(Arc::new(MemoryBucket::new()))
    }

    fn key() -> Key {
        Key::new("a").unwrap()
    }

    async fn create(bucket: &FaultBucket) -> Result<Version> {
        bucket.put(&key(), b"four".to_vec().into(), Write::Create).await
    }

    #[tokio::test]
    async fn an_ambiguous_write_is_applied_or_not_as_chosen() {
        for (fault, applied) in [(Fault::Before, false), (Fault::After, true)] {
            let bucket = bucket();
            bucket.inject(Rule::new(fault).on(Verb::Create));
            assert!(create(&bucket).await.unwrap_err().is_ambiguous());
            assert_eq!(bucket.get(&key(), u64::MAX).await.is_ok(), applied);
        }
    }

    #[tokio::test]
    async fn a_refused_write_was_applied_all_the_same() {
        let bucket = bucket();
        bucket.inject(Rule::new(Fault::Refused).on(Verb::Create));
        assert!(matches!(create(&bucket).await, Err(BucketError::AlreadyExists { .. })));
        let version = bucket.get(&key(), u64::MAX).await.unwrap().version;
        bucket.inject(Rule::new(Fault::Refused).on(Verb::Replace));
        let answer = bucket.put(&key(), b"new".to_vec().into(), Write::Replace(version)).await;
        assert!(matches!(answer, Err(BucketError::VersionMismatch { .. })));
        assert_eq!(&bucket.get(&key(), u64::MAX).await.unwrap().bytes[..], b"new");
    }

    #[tokio::test]
    async fn reads_are_damaged() {
        let bucket = bucket();
        create(&bucket).await.unwrap();
        bucket.inject(Rule::new(Fault::Truncated).on(Verb::Get));
        bucket.inject(Rule::new(Fault::Flipped).on(Verb::Get).nth(2));
        bucket.inject(Rule::new(Fault::Truncated).on(Verb::GetRange));
        assert_eq!(&bucket.get(&key(), u64::MAX).await.unwrap().bytes[..], b"fo");
        assert_eq!(&bucket.get(&key(), u64::MAX).await.unwrap().bytes[..], b"fotr");
        assert_eq!(&bucket.get(&key(), u64::MAX).await.unwrap().bytes[..], b"four");
        let answer = bucket.get_range(&key(), 0..4).await;
        assert!(matches!(answer, Err(BucketError::Truncated { actual: 2, .. })), "{answer:?}");
        assert_eq!(bucket.strikes(), 3);
    }

    #[tokio::test]
    async fn after_the_kill_nothing_works_until_it_is_healed() {
        let bucket = bucket();
        bucket.inject(Rule::new(Fault::KilledAfter).nth(2));
        create(&bucket).await.unwrap();
        bucket.get(&key(), u64::MAX).await.unwrap_err();
        bucket.delete(&key()).await.unwrap_err();
        bucket.heal();
        bucket.get(&key(), u64::MAX).await.unwrap();
        assert_eq!(bucket.calls(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_lasts() {
        let bucket = bucket();
        bucket.inject(Rule::new(Fault::Silence).at("a"));
        let hour = std::time::Duration::from_secs(3600);
        tokio::time::timeout(hour, bucket.get(&key(), u64::MAX)).await.unwrap_err();
    }
}
