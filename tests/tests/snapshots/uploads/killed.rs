//! These tests kill the program while it stores a profile for the first time, on a real server.

use std::{fs, path::Path};

use store::{
    bucket::{Bucket, S3Bucket, S3Config, Write},
    format::{config::TenantConfig, layout},
};
use tests::{
    binary::{self, Host},
    proxy::{FaultPlan, FaultyProxy},
    server::SeaweedFs,
    tree::{assert_same, noise},
};

const PROFILE: &str = "acme/alice";
const MIB: usize = 1 << 20;
const FILES: u64 = 40;
/// The smallest there are.
const PACK_BYTES: u32 = MIB as u32;
/// How many packs travel at a time.
const IN_FLIGHT: u64 = 2;

/// Ten packs and a little.
fn fill(source: &Path) {
    fs::create_dir_all(source.join("Default")).unwrap();
    for file in 0..FILES {
        fs::write(source.join(format!("Default/f_{file:03}")), noise(MIB / 4, file)).unwrap();
    }
}

/// Only packs and the like are counted, or vanish.
fn counted(most_bodies: Option<u64>) -> FaultPlan {
    FaultPlan { least_body_bytes: MIB / 2, most_bodies, ..FaultPlan::none() }
}

/// Makes the tenant, with small packs.
async fn with_small_packs(config: &S3Config, host: &Host, dir: &Path) {
    let source = dir.join("small");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("file"), "small").unwrap();
    host.snapshot(&source, "acme/bob");
    let bucket = S3Bucket::open(config.clone()).await;
    let key = layout::tenant_config(&"acme".parse().unwrap());
    let object = bucket.get(&key, u64::MAX).await.unwrap();
    let mut tenant = TenantConfig::decode(&object.bytes).unwrap();
    tenant.chunking.pack_bytes = PACK_BYTES;
    bucket.put(&key, tenant.encode().into(), Write::Replace(object.version)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_snapshot_that_was_killed_goes_on_from_the_packs_it_had_stored() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let proxy = FaultyProxy::before(&config, counted(None));
    let [host, other] =
        ["home", "other"].map(|home| Host::s3(&dir.path().join(home), &proxy.through(&config)));
    with_small_packs(&config, &other, dir.path()).await;
    fill(&source);

    // Four of five packs arrive. The next ones take up all places of packs on their way, so what
    // is known of those that arrived has been noted by then.
    let most = 8;
    assert_eq!(proxy.body_bytes(), 0);
    proxy.set(counted(Some(most)));
    let running = host.start(binary::snapshot(&source, PROFILE));
    proxy.wait_for_vanished(IN_FLIGHT);
    assert_eq!(running.kill().code, None);
    let first = proxy.body_bytes();

    // Meanwhile a file changes that was stored with the first packs.
    fs::write(source.join("Default/f_000"), noise(MIB / 4, 1000)).unwrap();
    proxy.set(counted(None));
    let stored = host.snapshot(&source, PROFILE);
    assert_eq!(stored["taken_over_packs"], most, "{stored:#}");
    let total: u64 = (FILES as usize * MIB / 4).try_into().unwrap();
    let (again, changed) = (proxy.body_bytes() - first, MIB as u64 / 4);
    println!("{first} bytes were sent before it was killed, {again} after that, of {total}");
    assert!(first > total * 7 / 10 && again > 0, "{first} and {again} of {total}");
    assert!(first + again <= total + total / 20 + changed + u64::from(PACK_BYTES), "{first} and {again}");
    let taken = stored["taken_over_bytes"].as_u64().unwrap();
    assert!(taken > first - total / 20 - changed && taken < first, "{taken} of {first}");

    // As anybody else sees it.
    other.restore(PROFILE, &out);
    assert_same(&source, &out);
    other.verify(PROFILE, &["--read-data"]);
    // And once more, nothing is taken over: it is a snapshot like any other.
    fs::write(source.join("Default/f_001"), noise(MIB / 4, 1001)).unwrap();
    let next = host.snapshot(&source, PROFILE);
    assert_eq!((&next["taken_over_packs"], &next["taken_over_bytes"]), (&0.into(), &0.into()), "{next:#}");
    // Another host finds in the indexes what was taken over.
    let twin = other.snapshot(&source, "acme/carol");
    assert_eq!(twin["new_chunks"], 0, "{twin:#}");
}
