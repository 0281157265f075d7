//! These tests take a store away for a while: that costs time, not the snapshot.

use std::{fs, sync::Arc, time::Duration};

use store::bucket::{Fault, FaultBucket, MemoryBucket, RetryBucket, RetryPolicy, Rule, Verb};
use tests::{store_fixture::StoreFixture, tree::noise};

/// More than a fixed handful of attempts would survive.
const LOST: u64 = 12;

/// As patient as by default, but in a hurry.
const POLICY: RetryPolicy = RetryPolicy {
    first_pause: Duration::from_millis(1),
    longest_pause: Duration::from_millis(2),
    deadline: Duration::from_secs(60),
};

/// The lease, the packs and the publishing each lose many answers, before or after they are
/// applied; the same is sent again, and it is applied once.
#[tokio::test(flavor = "multi_thread")]
async fn every_write_of_a_snapshot_is_sent_again_until_it_is_answered() {
    for fault in [Fault::Before, Fault::After] {
        for (verb, at) in [(Verb::Create, "/snap-"), (Verb::Create, "/packs/"), (Verb::Replace, "/snap-")] {
            let dir = tempfile::tempdir().unwrap();
            let source = dir.path().join("source");
            fs::create_dir(&source).unwrap();
            fs::write(source.join("History"), noise(300_000, 1)).unwrap();
            let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
            let fixture = StoreFixture::open(Arc::new(RetryBucket::new(faults.clone(), POLICY)), None).await;
            for nth in 1..=LOST {
                faults.inject(Rule::new(fault).on(verb).at(at).nth(nth));
            }
            fixture
                .snapshot(&source)
                .await
                .unwrap_or_else(|error| panic!("{fault:?} {verb:?} {at}: {error}"));
            let struck = faults.strikes();
            assert!(struck == LOST || fault == Fault::After && struck > 0, "{struck} of {LOST}");
            faults.heal();
            fixture.assert_clean().await;
        }
    }
}

/// And no longer than it was told to.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stays_away_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("History"), noise(300_000, 1)).unwrap();
    let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
    let policy = RetryPolicy { deadline: Duration::from_millis(50), ..POLICY };
    let fixture = StoreFixture::open(Arc::new(RetryBucket::new(faults.clone(), policy)), None).await;
    faults.inject(Rule::new(Fault::Before).on(Verb::Replace).at("/snap-").always());
    let error = fixture.snapshot(dir.path()).await.unwrap_err();
    assert_eq!(error.kind(), store::ErrorKind::Unavailable, "{error}");
    assert!(faults.strikes() > 5, "{}", faults.strikes());
}
