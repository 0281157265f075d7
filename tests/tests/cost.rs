//! Cost follows what changed: counted in requests and bytes, not in seconds.

#![allow(clippy::unwrap_used)]

use std::{fs, path::Path, sync::Arc};

use store::bucket::{Bucket, Call, MemoryBucket, Recorder, Verb};
use tests::{
    tree::{assert_same, noise},
    world::World,
};

const FILES: usize = 12_800;
const FILE_BYTES: usize = 120_000;

/// 1.5 GB in as many files as a large profile has; it compresses well, so that the test is quick.
fn large_profile(root: &Path) {
    for at in 0..FILES {
        let folder = root.join(format!("Default/Cache/{:02}", at % 64));
        fs::create_dir_all(&folder).unwrap();
        let mut bytes = vec![0; FILE_BYTES];
        for (page, bytes) in bytes.chunks_mut(4096).enumerate() {
            bytes[..16].copy_from_slice(&((at * 1000 + page) as u128).to_le_bytes());
        }
        fs::write(folder.join(format!("f_{at:06x}")), bytes).unwrap();
    }
}

fn change_one_megabyte(root: &Path, seed: u64) {
    for part in 0..8 {
        let at = (part * 1597 + 5) % FILES;
        let path = root.join(format!("Default/Cache/{:02}/f_{at:06x}", at % 64));
        fs::write(path, noise(131_072, seed + part as u64)).unwrap();
    }
}

fn uploads(calls: &[Call]) -> (usize, u64) {
    let puts: Vec<&Call> =
        calls.iter().filter(|call| matches!(call.verb, Verb::Create | Verb::Replace)).collect();
    (puts.len(), puts.iter().map(|call| call.bytes).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_changed_in_a_large_profile_is_two_megabytes_in_ten_requests() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    large_profile(&source);
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::with_page_size(1000))));
    let bucket: Arc<dyn Bucket> = recorder.clone();
    let world = World::open(Arc::clone(&bucket), Some(dir.path().join("cache"))).await;
    world.snapshot(&source).await.unwrap();
    let mut total_meta_packs = 1;
    for generation in 1..=12_u64 {
        change_one_megabyte(&source, generation * 100);
        recorder.take();
        // Every other time on a host that has never seen this store.
        let host =
            if generation % 2 == 0 { World::open(Arc::clone(&bucket), None).await } else { world.clone() };
        recorder.take();
        let report = host.snapshot(&source).await.unwrap();
        let calls = recorder.take();
        let (requests, bytes) = uploads(&calls);
        assert!(bytes <= 2_000_000, "generation {generation}: {bytes} bytes uploaded");
        assert!(requests <= 10, "generation {generation}: {requests} uploads");
        // A host that knows nothing also fetches the indexes of the writes so far.
        let most = if generation % 2 == 0 { 27 + generation as usize } else { 25 };
        assert!(calls.len() <= most, "generation {generation}: {} requests in all: {calls:#?}", calls.len());
        assert!(report.counts.new_bytes <= 1_100_000, "{report:?}");
        let record = world.current().await.unwrap();
        let content = record.content.unwrap();
        let meta: std::collections::BTreeSet<_> =
            content.meta_ranges.iter().map(|range| range.pack).collect();
        assert!(meta.len() <= 8, "metadata lies in {} packs", meta.len());
        total_meta_packs += 1;
    }
    assert_eq!(total_meta_packs, 13);
    let out = dir.path().join("out");
    World::open(bucket, None).await.restore(&out).await.unwrap();
    assert_same(&source, &out);
}
