//! These tests revoke the write of a commit: a repair has found something lost, or a collection took it for dead.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use store::{
    bucket::{Access, Bucket, Depth, LocalBucket, Write},
    format::{
        layout,
        record::{Record, State},
    },
};
use tests::{mount_fixture::MountFixture, store_fixture::lineage, tree::noise};

/// How often a commit may be faster than whoever revokes its write.
const ROUNDS: u64 = 30;

/// Revokes the first write that it finds; says whether there was one before it was told to end.
fn revoke_one(store: &Path, ended: &AtomicBool) -> bool {
    let bucket = LocalBucket::open(store, Access::ReadWrite).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    while !ended.load(Ordering::Acquire) {
        if runtime.block_on(revoke(&bucket)) {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

async fn revoke(bucket: &dyn Bucket) -> bool {
    let Ok(page) = bucket.list(&layout::lineage(&lineage("acme/alice")), Depth::Children, None).await else {
        return false;
    };
    for entry in page.entries.iter().filter(|entry| layout::record_of(&entry.key).is_some()) {
        let Ok(object) = bucket.get(&entry.key, u64::MAX).await else { continue };
        let Ok(record) = Record::decode(&object.bytes) else { continue };
        if record.state != State::Writing {
            continue;
        }
        let revoked = Record { state: State::Revoked, lease_seq: record.lease_seq + 1, ..record };
        if bucket.put(&entry.key, revoked.encode().into(), Write::Replace(object.version)).await.is_ok() {
            return true;
        }
    }
    false
}

#[test]
fn a_commit_whose_write_is_revoked_begins_anew_and_stores_everything() {
    let fixture = MountFixture::local();
    fixture.mount();
    for round in 0..ROUNDS {
        fs::write(fixture.mountpoint.join("large"), noise(12_000_000, round)).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (store, told) = (fixture.path("store"), Arc::clone(&ended));
        let revoking = thread::spawn(move || revoke_one(&store, &told));
        let committed = fixture.ask("commit", &[]);
        ended.store(true, Ordering::Release);
        let was_revoked = revoking.join().unwrap();
        assert_eq!(committed.code, Some(0), "{committed:#?}");
        assert_eq!(committed.document["outcome"], "stored", "{committed:#?}");
        if !was_revoked {
            continue;
        }
        let record = committed.document["record"].as_str().unwrap();
        fixture.unmount(&[]);
        let shown = fixture.host.succeed(["show", "acme/alice"]);
        assert_eq!(shown["record"], record);
        let out = fixture.path("out");
        fixture.host.restore("acme/alice", &out);
        assert_eq!(fs::read(out.join("large")).unwrap(), noise(12_000_000, round));
        return;
    }
    panic!("no write was revoked in {ROUNDS} commits");
}
