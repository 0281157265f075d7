//! These tests give the checker stores that break an invariant.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use store::bucket::{Access, LocalBucket};

use super::{State, look};

async fn vectors() -> State {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors/store");
    look(&LocalBucket::open(&path, Access::ReadOnly).unwrap()).await
}

#[tokio::test]
async fn the_store_of_the_vectors_is_whole() {
    let state = vectors().await;
    state.must_be_whole();
    state.must_follow(&state);
    assert_eq!((state.records("live").len(), state.records("writing").len()), (1, 1));
}

/// The findings when one object has other bytes.
fn found(objects: &BTreeMap<String, Bytes>, key: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<String> {
    let mut objects = objects.clone();
    let mut bytes = objects[key].to_vec();
    change(&mut bytes);
    objects.insert(key.to_owned(), bytes.into());
    State::of(objects).findings.0
}

#[tokio::test]
async fn every_changed_bit_of_an_object_is_found() {
    let objects = vectors().await.objects;
    for (key, bytes) in &objects {
        // The contract's fields of pointer and lock are anybody's to change, a header's version
        // has room, and a file of another name is nobody's.
        let free = key.ends_with("latest.json") || key.ends_with("lock.json");
        if free || key.contains("probe/") {
            continue;
        }
        let checked =
            if key.contains("/packs/") || key.contains("/index/") { 16..bytes.len() } else { 0..bytes.len() };
        for at in checked.step_by(bytes.len() / 40 + 1) {
            let findings = found(&objects, key, |bytes| bytes[at] ^= 0x10);
            assert!(!findings.is_empty(), "byte {at} of {key}");
        }
    }
}

#[tokio::test]
async fn a_pack_that_is_gone_is_missed() {
    let objects = vectors().await.objects;
    let packs: Vec<_> = objects.keys().filter(|key| key.contains("/packs/")).collect();
    for pack in packs {
        let mut left = objects.clone();
        left.remove(pack);
        let findings = State::of(left).findings.0;
        assert!(findings.iter().any(|finding| finding.contains("I12")), "{pack}: {findings:?}");
    }
}

#[tokio::test]
#[should_panic(expected = "I5")]
async fn a_record_that_came_back_is_noticed() {
    let (before, mut after) = (vectors().await, vectors().await);
    let live = before.records("live")[0];
    after.documents.get_mut(live).unwrap()["state"] = "writing".into();
    after.must_follow(&before);
}
