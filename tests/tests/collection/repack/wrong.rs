//! These tests repack frames that were wrong already when they were written: their checksums are right.

use std::sync::Arc;

use store::{
    ErrorKind,
    bucket::{Bucket, Key, MemoryBucket, Verb},
    format::{
        layout,
        pack::{self, Directory},
    },
    ops::{gc::Collector, verify},
    progress::Silent,
};
use tests::{
    interrupter::{Interrupter, deed},
    store_fixture::StoreFixture,
};

use crate::repack::{NOW, assert_restores, deleted, first_pack, store_and_delete};

/// Makes a pack one that was written with these changes of its frames and of what it says of them.
async fn write_so(memory: &MemoryBucket, key: &Key, change: impl FnOnce(&mut [u8], &mut Directory)) {
    let mut bytes = memory.get(key, u64::MAX).await.unwrap().bytes.to_vec();
    let len = bytes.len() as u64;
    let mut directory = pack::decode_directory(&bytes, len).unwrap();
    bytes.truncate(pack::directory_offset(&bytes[bytes.len() - pack::TRAILER_LEN..], len).unwrap() as usize);
    change(&mut bytes, &mut directory);
    for entry in &mut directory.entries {
        let start = entry.offset as usize;
        entry.crc = crc32c::crc32c(&bytes[start..start + entry.stored_len as usize]);
    }
    pack::append_directory(&mut bytes, &directory);
    memory.damage(key, bytes);
}

/// The content of every frame is another.
fn spoil(frames: &mut [u8], directory: &mut Directory) {
    for entry in &directory.entries {
        frames[entry.offset as usize + 100] ^= 1;
    }
}

async fn mark(fixture: &StoreFixture) {
    let options = verify::Options {
        only: None,
        read_data: true,
        sample: None,
        repair: true,
        memory_bytes: verify::DEFAULT_MEMORY_BYTES,
    };
    let report = verify::verify(&fixture.store, &fixture.lineage, options, Arc::new(Silent)).await.unwrap();
    assert_eq!(report.marked.len(), 1);
}

/// By their ids all of them would be one.
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_its_pack_takes_for_another_than_the_snapshots_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), dir.path()).await;
    let first = first_pack(&memory);
    write_so(&memory, &first, |_, directory| {
        let id = directory.entries[0].id;
        directory.entries.iter_mut().for_each(|entry| entry.id = id);
    })
    .await;
    let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    assert_eq!(done.repacked.failed, 1, "{done:#?}");
    memory.get(&first, u64::MAX).await.unwrap();
    assert_restores(&fixture, dir.path()).await;
}

/// A collection would give it a new place, of which nothing says that it is lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_to_be_lost_is_not_copied() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), dir.path()).await;
    let first = first_pack(&memory);
    write_so(&memory, &first, spoil).await;
    mark(&fixture).await;
    let before = fixture.current().await.unwrap();
    let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    assert_eq!(done.repacked.failed, 1, "{done:#?}");
    memory.get(&first, u64::MAX).await.unwrap();
    assert_eq!(fixture.current().await.unwrap(), before);
    // Nor is it where others look for what need not be stored again.
    let dave = fixture.of("acme/dave");
    dave.snapshot(dir.path()).await.unwrap();
    dave.assert_clean().await;
}

/// The mark names the place that it had when it was found.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_found_to_be_lost_while_it_is_copied_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), dir.path()).await;
    let first = first_pack(&memory);
    write_so(&memory, &first, spoil).await;
    let before = fixture.current().await.unwrap();
    let meanwhile = fixture.clone();
    let packs = layout::packs(&fixture.store.tenant);
    let deed = deed(move || async move { mark(&meanwhile).await });
    let bucket = Arc::new(Interrupter::before(memory.clone(), Verb::Create, packs.as_str(), deed));
    Collector::new(fixture.on(bucket.clone()).store, NOW).run_through().await.unwrap();
    assert!(bucket.is_done());
    let after = fixture.current().await.unwrap();
    assert!(before.damage.is_none() && after.damage.is_some());
    assert_eq!(after.content, before.content);
    memory.get(&first, u64::MAX).await.unwrap();
}

/// Both are moved at once, and have the same ids.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_the_same_content_does_not_suffer_for_it() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), dir.path()).await;
    let first = first_pack(&memory);
    let bob = fixture.of("acme/bob");
    assert_eq!(store_and_delete(&bob, other.path()).await, [true; 3]);
    write_so(&memory, &first, spoil).await;
    let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    assert_eq!((done.repacked.failed, done.repacked.records), (0, 2), "{done:#?}");
    assert_restores(&bob, other.path()).await;
    bob.assert_clean().await;
    let out = tempfile::tempdir().unwrap();
    let answer = fixture.restore(&out.path().join("out")).await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Damaged, "and it is not hidden either");
}
