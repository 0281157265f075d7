//! `RetryBucket` repeats reads, lists and deletes that failed, by a `RetryPolicy`.
//!
//! Reads, lists and plain deletes are repeated with growing, jittered pauses. A
//! conditional write or delete is never resent here: its first delivery may have been
//! applied, and then the second is refused because of the first. A caller that can tell
//! these apart (by a unique body or name) resends it there, for as long as this bucket would;
//! see [`super::put_unique`].

use std::{fs::File, future::Future, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use super::{
    Body, Bucket, BucketError, Checksum, Deleted, Depth, Key, Object, Page, Prefix, Result, ServerFacts,
    Verdict, Version, Write, round_trips::Rounds,
};

/// How long and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The upper end of the first pause; it doubles each time.
    pub first_pause: Duration,
    /// The longest any pause may be.
    pub longest_pause: Duration,
    /// How long to go on after the first failure; zero: not at all. What an attempt took does
    /// not count, so that a long upload is sent again like a short one.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            deadline: Duration::from_secs(60),
        }
    }
}

/// So many attempts follow the first, however long they take: one that hangs until its time is over
/// leaves none of the deadline to the next.
const LEAST_RETRIES: u32 = 2;

impl RetryPolicy {
    /// Of a bucket without retries of its own: enough to make good a lost answer or two.
    pub const BRIEF: Self = Self {
        first_pause: Duration::from_millis(100),
        longest_pause: Duration::from_millis(500),
        deadline: Duration::from_millis(1500),
    };

    /// The first attempt starts now.
    pub fn start(self) -> Attempts {
        Attempts { policy: self, last_start: None, failed: 0 }
    }

    /// A random pause before attempt `attempt` (the second attempt is 1): full jitter, so
    /// that clients which failed together do not return together.
    pub fn pause(&self, attempt: u32) -> Duration {
        let longest = self.first_pause.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        longest.min(self.longest_pause).mul_f64(random_fraction())
    }
}

/// The attempts at one thing.
#[derive(Debug)]
pub struct Attempts {
    policy: RetryPolicy,
    /// No attempt but the least starts later, once one has failed.
    last_start: Option<Instant>,
    failed: u32,
}

impl Attempts {
    /// After an attempt that failed with `error`: waits for the turn of the next. `false` if
    /// none may start any more.
    pub async fn again(&mut self, error: &BucketError) -> bool {
        if self.policy.deadline.is_zero() {
            return false;
        }
        self.failed += 1;
        let (pause, now) = (self.policy.pause(self.failed), Instant::now());
        let last_start = *self.last_start.get_or_insert(now + self.policy.deadline);
        if now + pause > last_start && self.failed > LEAST_RETRIES {
            return false;
        }
        tracing::debug!(%error, attempt = self.failed, ?pause, "sending a request again");
        tokio::time::sleep(pause).await;
        true
    }
}

/// Repeats calls that failed with a retryable kind.
#[derive(Debug)]
pub struct RetryBucket {
    inner: Arc<dyn Bucket>,
    policy: RetryPolicy,
    rounds: Rounds,
}

impl RetryBucket {
    /// Repeats calls that fail for as long as `policy` says.
    pub fn new(inner: Arc<dyn Bucket>, policy: RetryPolicy) -> Self {
        Self { inner, policy, rounds: Rounds::default() }
    }

    async fn repeat<T, F: Future<Output = Result<T>>>(&self, call: impl Fn() -> F) -> Result<T> {
        let mut attempts = self.policy.start();
        loop {
            match self.rounds.count(call()).await {
                Err(error) if error.is_retryable() && attempts.again(&error).await => {}
                answer => return answer,
            }
        }
    }
}

#[async_trait]
impl Bucket for RetryBucket {
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
        self.policy
    }

    fn round_trips(&self) -> u64 {
        self.rounds.so_far()
    }

    fn file(&self, key: &Key) -> Option<Result<File>> {
        self.inner.file(key)
    }

    async fn link(&self, key: &Key, lifetime: Duration) -> Result<Option<String>> {
        self.inner.link(key, lifetime).await
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        self.repeat(|| self.inner.get(key, max_bytes)).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        self.repeat(|| self.inner.get_range(key, range.clone())).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        self.rounds.count(self.inner.put(key, body, write)).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.repeat(|| self.inner.list(prefix, depth, cursor.clone())).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.repeat(|| self.inner.delete(key)).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.rounds.count(self.inner.delete_if(key, version)).await
    }
}

/// Between zero and one. Without randomness the pause is merely the longest.
fn random_fraction() -> f64 {
    getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{DelayBucket, Fault, FaultBucket, MemoryBucket, Rule, Verb};

    fn buckets() -> (Arc<FaultBucket>, RetryBucket) {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let retry = RetryBucket::new(faults.clone(), RetryPolicy::default());
        (faults, retry)
    }

    fn key() -> Key {
        Key::new("a").unwrap()
    }

    async fn create(bucket: &dyn Bucket) -> Result<Version> {
        bucket.put(&key(), b"1".to_vec().into(), Write::Create).await
    }

    #[tokio::test(start_paused = true)]
    async fn reads_lists_and_deletes_are_sent_again() {
        let (faults, retry) = buckets();
        create(&retry).await.unwrap();
        for verb in [Verb::Get, Verb::GetRange, Verb::List, Verb::Delete] {
            for nth in 1..=3 {
                faults.inject(Rule::new(Fault::Before).on(verb).nth(nth));
            }
        }
        retry.get(&key(), u64::MAX).await.unwrap();
        retry.get_range(&key(), 0..1).await.unwrap();
        retry.list(&Prefix::root(), Depth::All, None).await.unwrap();
        retry.delete(&key()).await.unwrap();
        assert_eq!(faults.strikes(), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn what_carries_a_condition_is_sent_once() {
        let (faults, retry) = buckets();
        let version = create(&retry).await.unwrap();
        for verb in [Verb::Create, Verb::Replace, Verb::DeleteIf] {
            faults.inject(Rule::new(Fault::Before).on(verb));
        }
        let before = faults.calls();
        assert!(create(&retry).await.unwrap_err().is_ambiguous());
        let replace = Write::Replace(version.clone());
        assert!(retry.put(&key(), b"2".to_vec().into(), replace).await.unwrap_err().is_ambiguous());
        assert!(retry.delete_if(&key(), &version).await.unwrap_err().is_ambiguous());
        assert_eq!(faults.calls() - before, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_at_the_deadline_and_never_starts_after_a_definite_answer() {
        let (faults, retry) = buckets();
        let answer = retry.get(&key(), u64::MAX).await;
        assert!(matches!(answer, Err(BucketError::NotFound { .. })), "{answer:?}");
        assert_eq!(faults.calls(), 1);

        faults.kill();
        let started = Instant::now();
        assert!(retry.get(&key(), u64::MAX).await.unwrap_err().is_retryable());
        assert!(started.elapsed() <= RetryPolicy::default().deadline, "{:?}", started.elapsed());
        assert!(faults.calls() > 10, "{}", faults.calls());
    }

    /// Each attempt takes longer than all of them may together.
    #[tokio::test(start_paused = true)]
    async fn what_takes_long_is_sent_again_all_the_same() {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let late = Arc::new(DelayBucket::new(faults.clone()));
        late.set(5 * RetryPolicy::default().deadline);
        let retry = RetryBucket::new(late, RetryPolicy::default());
        create(&retry).await.unwrap();
        for nth in 1..=2 {
            faults.inject(Rule::new(Fault::Before).on(Verb::Get).nth(nth));
        }
        retry.get(&key(), u64::MAX).await.unwrap();
        assert_eq!(faults.strikes(), 2);
        faults.kill();
        let before = faults.calls();
        retry.get(&key(), u64::MAX).await.unwrap_err();
        assert_eq!(faults.calls() - before, 3);
    }
}
