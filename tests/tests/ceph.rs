//! These tests run on Ceph's gateway, a second, independent implementation with ways of its own. It takes an entity
//! tag only without quotes, ignores the condition of a DELETE and of a completed upload, and answers a lost race
//! with 500.
//!
//! Needs `scripts/start-ceph` running in another terminal, and is run by
//! `cargo nextest run --workspace --features pstore-tests/ceph --test ceph`.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Instant};

use store::bucket::{
    Bucket, IfMatch, OpenSettings, Prefix, ProbeOptions, S3Bucket, S3Config, S3Overrides, StoreUrl,
    open_for_probe, probe,
};
use tests::{chain, contract, server, unique_name};

const ENDPOINT: &str = "http://127.0.0.1:19006";

async fn config() -> S3Config {
    let config = S3Config {
        prefix: Prefix::new(format!("{}/", unique_name())).unwrap(),
        ..server::config(ENDPOINT, "pstore", "admin", "a-secret-only-for-tests")
    };
    server::create_bucket(&config).await.expect("scripts/start-ceph is running");
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn ceph_holds_the_contract_with_its_form_found_out() {
    let bucket = Arc::new(S3Bucket::open(config().await).await);
    contract::hold(bucket.clone()).await;
    assert_eq!(bucket.server().if_match, Some(IfMatch::Unquoted));
}

#[tokio::test(flavor = "multi_thread")]
async fn ceph_holds_the_contract_in_parts_and_small_pages_with_its_form_known() {
    let config = S3Config {
        if_match: Some(IfMatch::Unquoted),
        multipart_threshold_bytes: 50_000,
        part_bytes: 5 << 20,
        page_size: Some(3),
        ..config().await
    };
    contract::hold(Arc::new(S3Bucket::open(config).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ceph_passes_the_probe_without_conditional_delete() {
    let config = S3Config { conditional_delete: true, ..config().await };
    let bucket: Arc<dyn Bucket> = Arc::new(S3Bucket::open(config.clone()).await);
    let started = Instant::now();
    let verdict = probe(&[bucket], &ProbeOptions::default()).await.unwrap();
    eprintln!("{:?}: {verdict:?}", started.elapsed());
    assert!(verdict.ok, "{verdict:?}");
    assert!(!verdict.conditional_delete);
    assert_eq!(verdict.if_match, IfMatch::Unquoted);

    let url: StoreUrl = config.url().parse().unwrap();
    let s3 = S3Overrides {
        endpoint: config.endpoint,
        credentials: config.credentials,
        region: config.region,
        ..S3Overrides::default()
    };
    let settings = OpenSettings { s3, ..OpenSettings::default() };
    let handles = open_for_probe(&url, &settings).await.unwrap();
    let again = probe(&handles, &ProbeOptions::default()).await.unwrap();
    assert!(again.ok && again.if_match == IfMatch::Unquoted, "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_processes_on_ceph_move_one_pointer_in_one_chain() {
    let config = config().await;
    let bucket = Arc::new(S3Bucket::open(config.clone()).await);
    let program = env!("CARGO_BIN_EXE_pointer-flipper");
    let tally = chain::race(program, bucket, 16, chain::rounds(20), &chain::on_server(&config)).await;
    assert!(tally.moved > 16, "{tally:?}");
}
