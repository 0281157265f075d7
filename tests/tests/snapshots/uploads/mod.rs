//! These tests send bodies over a network that changes or loses them: nothing is stored that was not sent, and what
//! is sent again is no more than what was lost. And writes that are cut short: the next one goes on from what they
//! have stored.

mod killed;
mod resumed;

use std::sync::Arc;

use store::bucket::{
    Body, Bucket, BucketError, Checksum, Key, ProbeOptions, RetryBucket, RetryPolicy, S3Bucket, S3Config,
    Write, probe, put_unique,
};
use tests::{
    proxy::{FaultPlan, FaultyProxy, NetworkFault},
    server::SeaweedFs,
    tree::noise,
};

const LEN: usize = 2 << 20;
const PART: u64 = 5 << 20;

fn key() -> Key {
    Key::new("pack").unwrap()
}

/// Only bodies of packs and parts meet with it.
fn bad(fault: NetworkFault, one_in: u64) -> FaultPlan {
    FaultPlan { least_body_bytes: LEN, seed: 1, ..FaultPlan::none() }.with(fault, one_in)
}

async fn open(config: &S3Config, checksum: Checksum) -> S3Bucket {
    S3Bucket::open(S3Config { checksum: Some(checksum), ..config.clone() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_changed_on_its_way_is_refused_and_sent_again() {
    let server = SeaweedFs::shared().await;
    let sent = noise(LEN, 1);
    for (checksum, is_stored) in
        [(Checksum::Crc32c, false), (Checksum::ContentMd5, false), (Checksum::Unchecked, true)]
    {
        let config = server.config();
        let proxy = FaultyProxy::before(&config, bad(NetworkFault::Flipped, 1));
        let (bucket, direct) = (open(&proxy.through(&config), checksum).await, open(&config, checksum).await);
        let answer = bucket.put(&key(), sent.clone().into(), Write::Create).await;
        assert_eq!(answer.is_ok(), is_stored, "{checksum:?}: {answer:?}");
        assert_eq!(proxy.faults(), 1);
        if is_stored {
            // Which is why it is not sent so where there is another way.
            assert_ne!(direct.get(&key(), u64::MAX).await.unwrap().bytes, sent);
            continue;
        }
        assert!(answer.unwrap_err().is_retryable());
        assert!(matches!(direct.get(&key(), u64::MAX).await, Err(BucketError::NotFound { .. })));
        proxy.set(bad(NetworkFault::Flipped, 2));
        let retry = RetryBucket::new(Arc::new(bucket), RetryPolicy::default());
        for number in 0..6 {
            let key = Key::new(format!("pack-{number}")).unwrap();
            put_unique(&retry, &key, sent.clone().into()).await.unwrap();
            assert_eq!(direct.get(&key, u64::MAX).await.unwrap().bytes, sent);
        }
        assert!(proxy.faults() > 1, "{}", proxy.faults());
    }
}

/// The upload as a whole is made once: without sending parts again it would not end well.
#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_was_lost_or_changed_is_sent_again_alone() {
    let server = SeaweedFs::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let (path, sent) = (folder.path().join("archive"), noise(4 * PART as usize + 3 * LEN, 2));
    std::fs::write(&path, &sent).unwrap();
    for checksum in Checksum::ALL {
        for fault in [NetworkFault::Flipped, NetworkFault::ResetWithin, NetworkFault::InternalError] {
            let config = S3Config {
                multipart_threshold_bytes: PART,
                part_bytes: PART,
                part_patience: RetryPolicy { first_pause: std::time::Duration::ZERO, ..Default::default() },
                ..server.config()
            };
            let proxy = FaultyProxy::before(&config, bad(fault, 2));
            let bucket = open(&proxy.through(&config), checksum).await;
            let body = Body::File { path: path.clone(), len: sent.len() as u64 };
            bucket.put(&key(), body, Write::Create).await.unwrap();
            assert!(bucket.get(&key(), u64::MAX).await.unwrap().bytes == sent, "{checksum:?} {fault:?}");
            let (requests, faults) = (proxy.requests(), proxy.faults());
            assert!(faults > 0, "{requests}");
            // Begin, six parts, look, complete, and the read back.
            assert_eq!(requests, 10 + faults, "{checksum:?} {fault:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_finds_out_what_a_server_checks() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let bucket = Arc::new(S3Bucket::open(config.clone()).await);
    for checksum in Checksum::ALL {
        assert!(bucket.checks(&Key::new(format!("{checksum:?}")).unwrap(), checksum).await.unwrap());
    }
    let verdict = probe(&[bucket as Arc<dyn Bucket>], &ProbeOptions::default()).await.unwrap();
    assert_eq!(verdict.checksum, Some(Checksum::Crc32c));
    // Whoever trusts it sends what it says.
    let proxy = FaultyProxy::before(&config, bad(NetworkFault::Flipped, 1));
    let trusting = S3Bucket::open(proxy.through(&config)).await;
    trusting.trust(&verdict);
    trusting.put(&key(), noise(LEN, 1).into(), Write::Create).await.unwrap_err();
}
