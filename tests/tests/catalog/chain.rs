//! These tests have sixteen processes move one pointer: their moves are one chain, none is lost, and who lost knows
//! it.
//!
//! `PSTORE_CHAIN_ROUNDS` is how often each of them does, if not as often as here.

use std::sync::Arc;

use store::bucket::{Access, Bucket, LocalBucket, MemoryBucket, S3Bucket};
use tests::{
    chain::{move_about, on_directory, on_server, race, rounds, verify},
    server::SeaweedFs,
    store_fixture::StoreFixture,
};

const WRITERS: usize = 16;
const FLIPPER: &str = env!("CARGO_BIN_EXE_pointer-flipper");

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_processes_on_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap());
    let tally = race(FLIPPER, bucket, WRITERS, rounds(16), &on_directory(folder.path())).await;
    assert_eq!(tally.unknown, 0);
    assert!(tally.moved > WRITERS, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_tasks_in_memory() {
    let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(Arc::clone(&bucket), None).await;
    fixture.snapshots(5).await;
    let first = fixture.handle("test").pointer().await.unwrap().unwrap().pointer;
    let rounds = rounds(16);
    let tasks: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (bucket, name) = (Arc::clone(&bucket), format!("writer-{writer}"));
            tokio::spawn(async move { move_about(bucket, &name, rounds).await })
        })
        .collect();
    let mut reports = Vec::new();
    for task in tasks {
        reports.extend(task.await.unwrap());
    }
    let tally = verify(&fixture, &first, &reports).await;
    eprintln!("{tally:?} of {}", WRITERS * rounds);
    assert_eq!(tally.unknown, 0);
    assert!(tally.moved > WRITERS, "{tally:?}");
}

/// On a server whose losers are slow.
#[tokio::test(flavor = "multi_thread")]
async fn processes_on_a_server() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let bucket = Arc::new(S3Bucket::open(config.clone()).await);
    let tally = race(FLIPPER, bucket, WRITERS, rounds(2), &on_server(&config)).await;
    assert!(tally.moved > 0, "{tally:?}");
}
