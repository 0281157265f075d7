//! These tests run the contract on every bucket there is.

use std::sync::Arc;

use store::bucket::{
    Access, Bucket, LocalBucket, MemoryBucket, Prefix, Recorder, RetryBucket, RetryPolicy, S3Bucket,
    S3Config, TenantBucket,
};
use tests::{contract, server::SeaweedFs};

#[tokio::test(flavor = "multi_thread")]
async fn memory_holds_the_contract() {
    contract::hold(Arc::new(MemoryBucket::new())).await;
    contract::hold(Arc::new(MemoryBucket::with_page_size(1))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_directory_holds_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    contract::hold(Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrappers_hold_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let local: Arc<dyn Bucket> = Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap());
    let retry = Arc::new(RetryBucket::new(local, RetryPolicy::default()));
    let allowed = [Prefix::new("contract/").unwrap()];
    contract::hold(Arc::new(Recorder::new(Arc::new(TenantBucket::new(retry, allowed))))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_holds_the_contract() {
    let server = SeaweedFs::shared().await;
    contract::hold(Arc::new(S3Bucket::open(server.config()).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_holds_the_contract_without_a_prefix_in_parts_and_in_small_pages() {
    let server = SeaweedFs::shared().await;
    let config = S3Config {
        multipart_threshold_bytes: 50_000,
        part_bytes: 5 << 20,
        page_size: Some(3),
        conditional_delete: false,
        ..server.whole_bucket()
    };
    contract::hold(Arc::new(S3Bucket::open(config).await)).await;
}
