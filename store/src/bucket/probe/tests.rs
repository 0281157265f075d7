//! These tests probe stores that keep the rules, break them, or lose answers.

use std::{ops::Range, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

use super::*;
use crate::bucket::{
    Body, Deleted, Depth, Fault, FaultBucket, Key, MemoryBucket, Object, Page, Rule, Verb, Version, Write,
};

/// Checks, then writes in a second step: right for one writer, wrong for two.
#[derive(Debug)]
struct CheckThenWrite(MemoryBucket);

#[async_trait]
impl Bucket for CheckThenWrite {
    fn describe(&self) -> String {
        "check-then-write".into()
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        self.0.get(key, max_bytes).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        self.0.get_range(key, range).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let found = self.0.get(key, u64::MAX).await.ok().map(|object| object.version);
        match (write, found) {
            (Write::Create, None) => {}
            (Write::Create, Some(_)) => return Err(BucketError::AlreadyExists { key: key.to_string() }),
            (Write::Replace(version), found) if found.as_ref() == Some(&version) => {}
            (Write::Replace(_), _) => return Err(BucketError::VersionMismatch { key: key.to_string() }),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.0.delete(key).await?;
        self.0.put(key, body, Write::Create).await
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        self.0.list(prefix, depth, cursor).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        self.0.delete(key).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        self.0.delete_if(key, version).await
    }
}

async fn verdict(bucket: Arc<dyn Bucket>) -> Verdict {
    probe(&[bucket], &ProbeOptions::default()).await.unwrap()
}

#[tokio::test]
async fn a_store_that_keeps_the_rules_passes_and_is_left_clean() {
    let memory = Arc::new(MemoryBucket::new());
    let verdict = verdict(memory.clone()).await;
    assert_eq!(verdict.reasons, [] as [&str; 0]);
    assert!(verdict.ok && verdict.conditional_delete);
    assert_eq!(verdict.rounds, 24);
    assert_eq!(memory.keys(), [] as [&str; 0]);
    let json = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
}

#[tokio::test]
async fn a_store_that_checks_and_then_writes_is_refused() {
    let verdict = verdict(Arc::new(CheckThenWrite(MemoryBucket::new()))).await;
    let error = verdict.require("it").unwrap_err().to_string();
    assert!(error.contains("of 8 concurrent creates succeeded"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn lost_answers_are_resolved_by_reading() {
    for verb in [Verb::Create, Verb::Replace] {
        for fault in [Fault::Before, Fault::After] {
            for nth in 1..40 {
                let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
                faults.inject(Rule::new(fault).on(verb).nth(nth));
                let verdict = verdict(faults.clone()).await;
                assert!(verdict.ok, "{verb:?} {fault:?} {nth}: {:?}", verdict.reasons);
                assert_eq!(faults.strikes(), 1);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_gets_no_verdict() {
    let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
    faults.kill();
    let answer = probe(&[faults as Arc<dyn Bucket>], &ProbeOptions::default()).await;
    assert!(matches!(answer, Err(BucketError::Unavailable { .. })), "{answer:?}");
}
