//! These tests change one bit of an object, truncate it or remove it: that is found and named, and never leads to
//! wrong bytes.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use store::{
    ErrorKind,
    bucket::{Bucket, Key, MemoryBucket, Write},
    format::lock::Lock,
};
use tests::{
    store_fixture::StoreFixture,
    tree::{assert_same, make_odd},
};

/// What can befall an object.
#[derive(Clone, Copy, Debug)]
enum Damage {
    FlippedAt(f64),
    Truncated,
    Emptied,
    Missing,
}

const DAMAGES: [Damage; 8] = [
    Damage::FlippedAt(0.0),
    Damage::FlippedAt(0.3),
    Damage::FlippedAt(0.5),
    Damage::FlippedAt(0.8),
    Damage::FlippedAt(1.0),
    Damage::Truncated,
    Damage::Emptied,
    Damage::Missing,
];

async fn inflict(bucket: &MemoryBucket, key: &Key, damage: Damage) {
    let bytes = bucket.get(key, u64::MAX).await.unwrap().bytes.to_vec();
    let damaged = match damage {
        Damage::FlippedAt(share) => {
            let mut bytes = bytes;
            let at = ((bytes.len() - 1) as f64 * share) as usize;
            bytes[at] ^= 0x04;
            bytes
        }
        Damage::Truncated => bytes[..bytes.len() - 2].to_vec(),
        Damage::Emptied => Vec::new(),
        Damage::Missing => return bucket.delete(key).await.unwrap(),
    };
    bucket.damage(key, damaged);
}

async fn still_a_lock(bucket: &MemoryBucket, key: &Key) -> bool {
    Lock::decode(&bucket.get(key, u64::MAX).await.unwrap().bytes).is_ok()
}

async fn mend(bucket: &MemoryBucket, key: &Key, whole: &bytes::Bytes) {
    match bucket.put(key, whole.clone().into(), Write::Create).await {
        Ok(_) => {}
        Err(_) => bucket.damage(key, whole.clone()),
    }
}

/// A store with two snapshots of a tree, the second with changes.
async fn two_generations(source: &Path) -> (Arc<MemoryBucket>, StoreFixture) {
    fs::create_dir(source).unwrap();
    make_odd(source);
    let bucket = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(bucket.clone(), None).await;
    fixture.snapshot(source).await.unwrap();
    fs::write(source.join("a/text"), "another text\n".repeat(50_000)).unwrap();
    fixture.snapshot(source).await.unwrap();
    (bucket, fixture)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_damaged_object_is_found_and_named_and_no_wrong_byte_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let (bucket, fixture) = two_generations(&source).await;
    let kinds: BTreeSet<&str> = bucket.keys().iter().map(|key| kind(key)).collect();
    assert_eq!(
        kinds,
        BTreeSet::from(["event", "index", "latest", "lock", "meta", "pack", "record", "store", "tenant"])
    );
    for name in bucket.keys() {
        let key = Key::new(&name).unwrap();
        let whole = bucket.get(&key, u64::MAX).await.unwrap().bytes;
        for damage in DAMAGES {
            inflict(&bucket, &key, damage).await;
            if !matches!(kind(&name), "store" | "tenant") {
                let findings = fixture.verify().await.unwrap().damage;
                let named = findings
                    .iter()
                    .any(|found| found.object.contains(key.name()) || found.reason.contains(key.name()));
                // What is missing altogether is as if it had never been, if nothing says that it
                // should be there.
                let gone =
                    matches!(kind(&name), "record" | "event" | "lock") && matches!(damage, Damage::Missing);
                // The contract's own fields of a lock carry no digest: another name is another holder.
                let gone = gone || kind(&name) == "lock" && still_a_lock(&bucket, &key).await;
                assert!(named || gone, "{name} {damage:?}: {findings:#?}");
            }
            let out = dir.path().join("out");
            match fixture.restore(&out).await {
                Ok(_) => {
                    assert_same(&source, &out);
                    fs::remove_dir_all(&out).unwrap();
                }
                Err(error) => {
                    let kind = error.kind();
                    assert!(
                        matches!(kind, ErrorKind::Damaged | ErrorKind::NotFound),
                        "{name} {damage:?}: {kind:?} {error}"
                    );
                    assert!(!out.exists());
                    let left: Vec<_> =
                        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
                    assert_eq!(left, ["source"], "something is left behind");
                }
            }
            mend(&bucket, &key, &whole).await;
        }
    }
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_configuration_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let (bucket, _) = two_generations(&dir.path().join("source")).await;
    let key = Key::new("content/acme/tenant.json").unwrap();
    inflict(&bucket, &key, Damage::FlippedAt(0.5)).await;
    let store = store::catalog::store::Store::new(bucket.clone(), None);
    let error = store.tenant(&"acme".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(error.to_string().contains("content/acme/tenant.json"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_cache_costs_time_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (source, cache) = (dir.path().join("source"), dir.path().join("cache"));
    fs::create_dir(&source).unwrap();
    make_odd(&source);
    let bucket: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(bucket, Some(cache.clone())).await;
    fixture.snapshot(&source).await.unwrap();
    let files = || {
        let mut files = Vec::new();
        let mut folders = vec![cache.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    };
    assert!(files().len() >= 2);
    for round in 0..4_usize {
        for path in files() {
            let mut bytes = fs::read(&path).unwrap();
            match round {
                0 => bytes.clear(),
                1 => bytes.truncate(bytes.len() / 2),
                _ => {
                    let at = bytes.len() * round / 5;
                    bytes[at] ^= 1;
                }
            }
            fs::write(&path, bytes).unwrap();
        }
        let report = fixture.snapshot(&source).await.unwrap();
        assert_eq!(report.outcome, store::ops::write::snapshot::Outcome::Unchanged);
        let out = dir.path().join(format!("out{round}"));
        fixture.restore(&out).await.unwrap();
        assert_same(&source, &out);
        fs::write(source.join("changing"), format!("{round}").repeat(10_000)).unwrap();
        fixture.snapshot(&source).await.unwrap();
        fixture.assert_clean().await;
    }
}

fn kind(key: &str) -> &'static str {
    match key {
        _ if key.ends_with("-meta") => "meta",
        _ if key.contains("/events/") => "event",
        _ if key.ends_with("lock.json") => "lock",
        _ if key.contains("/packs/") => "pack",
        _ if key.contains("/index/") => "index",
        _ if key.contains("/snap-") => "record",
        _ if key.ends_with("latest.json") => "latest",
        _ if key.ends_with("tenant.json") => "tenant",
        "pstore.json" => "store",
        other => panic!("what is {other}?"),
    }
}
