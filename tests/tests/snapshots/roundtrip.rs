//! These tests restore snapshots: what was stored comes out, exactly.
//!
//! Tests of restore belong here; `cli/tests/cli/load.rs` tests the command.

use std::{fs, os::unix::fs::FileExt, sync::Arc};

use store::{
    ErrorKind,
    bucket::{Access, Bucket, BucketError, Key, LocalBucket, MemoryBucket, S3Bucket},
    catalog::store::Store,
    ops::write::snapshot::Outcome,
};
use tests::{
    server::SeaweedFs,
    store_fixture::StoreFixture,
    tree::{assert_same, make_odd, noise, set_mtime},
};

async fn every_odd_entry_round_trips(bucket: Arc<dyn Bucket>) {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    let skipped = make_odd(&source);
    let fixture = StoreFixture::open(Arc::clone(&bucket), None).await;
    let report = fixture.snapshot(&source).await.unwrap();
    assert_eq!(report.outcome, Outcome::Stored);
    assert_eq!(report.skipped.total(), skipped);
    assert_eq!(report.counts.hard_links, 2);
    fixture.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
    // On another host, without any cache, and from the restored copy: nothing is new.
    let other = StoreFixture::open(bucket, None).await;
    for copy in ["source", "out"] {
        let again = other.snapshot(&dir.path().join(copy)).await.unwrap();
        assert_eq!(again.outcome, Outcome::Unchanged, "{copy}");
        assert_eq!(again.snapshot_id, report.snapshot_id);
    }
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    every_odd_entry_round_trips(Arc::new(MemoryBucket::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_directory() {
    let root = tempfile::tempdir().unwrap();
    every_odd_entry_round_trips(Arc::new(LocalBucket::open(root.path(), Access::ReadWrite).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_directory_is_a_snapshot_too() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fixture.snapshot(&source).await.unwrap();
    fixture.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_change_stores_little() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("large"), noise(40_000_000, 1)).unwrap();
    let bucket = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(bucket.clone(), None).await;
    fixture.snapshot(&source).await.unwrap();
    let file = fs::File::options().write(true).open(source.join("large")).unwrap();
    file.write_all_at(b"changed", 20_000_000).unwrap();
    let report = fixture.snapshot(&source).await.unwrap();
    assert_eq!(report.outcome, Outcome::Stored);
    assert!(report.counts.new_bytes < 600_000, "{report:?}");
    fixture.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_an_s3_server() {
    let server = SeaweedFs::shared().await;
    every_odd_entry_round_trips(Arc::new(S3Bucket::open(server.config()).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_for_one_tenant_suffices_for_it_and_for_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    make_odd(&source);
    let server = SeaweedFs::shared().await;
    let bucket: Arc<dyn Bucket> = Arc::new(S3Bucket::open(server.tenant("acme")).await);
    let fixture = StoreFixture::open(Arc::clone(&bucket), None).await;
    fixture.snapshot(&source).await.unwrap();
    fixture.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
    fixture.assert_clean().await;
    // The other tenant, with acme's credential: not even its configuration can be read.
    let store = Store::new(bucket, None);
    for tenant in ["globex", "newcomer"] {
        let error = store.writable_tenant(&tenant.parse().unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    }
    // And from inside acme's own view nothing else can be named at all.
    let outside = Key::new("content/globex/tenant.json").unwrap();
    let error = fixture.store.bucket.get(&outside, u64::MAX).await.unwrap_err();
    assert!(matches!(error, BucketError::Denied { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_restore_left_is_removed_and_what_a_running_one_needs_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir(&source).unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fixture.snapshot(&source).await.unwrap();
    let (dead, alive) = (dir.path().join(".out.pstore-dead"), dir.path().join(".out.pstore-alive"));
    for left in [&dead, &alive] {
        fs::create_dir(left).unwrap();
        fs::write(left.join("Cookies"), "half").unwrap();
        set_mtime(left, 1_000_000_000, 0);
    }
    let running = fs::File::open(&alive).unwrap();
    running.lock().unwrap();
    fixture.restore(&dir.path().join("out")).await.unwrap();
    assert!(!dead.exists() && alive.join("Cookies").exists());
}
