//! These tests probe real stores: who passes, who is refused and why.

use std::{sync::Arc, time::Instant};

use store::bucket::{
    Access, Bucket, BucketError, IfMatch, LocalBucket, ProbeOptions, S3Bucket, S3Config, Verdict, probe,
};
use tests::server::{Rclone, SeaweedFs};

async fn verdict(config: &S3Config) -> Verdict {
    let mut handles: Vec<Arc<dyn Bucket>> = Vec::new();
    for _ in 0..4 {
        handles.push(Arc::new(S3Bucket::open(config.clone()).await));
    }
    let started = Instant::now();
    let verdict = probe(&handles, &ProbeOptions::default()).await.unwrap();
    eprintln!("{:?}: {verdict:?}", started.elapsed());
    verdict
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_passes_and_is_left_clean() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let verdict = verdict(&config).await;
    assert_eq!(verdict.reasons, [] as [&str; 0]);
    assert!(verdict.ok && verdict.conditional_delete && verdict.rounds >= 4);
    assert_eq!(verdict.if_match, IfMatch::Quoted);
    let bucket = S3Bucket::open(config).await;
    let left = bucket.list(&store::bucket::Prefix::root(), store::bucket::Depth::All, None).await.unwrap();
    assert_eq!(left.entries, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_directory_passes_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let handles: Vec<Arc<dyn Bucket>> = (0..4)
        .map(|_| Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap()) as Arc<dyn Bucket>)
        .collect();
    let verdict = probe(&handles, &ProbeOptions::default()).await.unwrap();
    assert!(verdict.ok && verdict.conditional_delete, "{verdict:?}");
    assert_eq!(verdict.rounds, 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_conditions_is_refused() {
    let server = Rclone::start().await;
    let verdict = verdict(&server.config()).await;
    let error = verdict.require("rclone").unwrap_err();
    assert!(matches!(error, BucketError::Unsuitable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("If-None-Match is ignored") && text.contains("If-Match is ignored"), "{text}");
}
