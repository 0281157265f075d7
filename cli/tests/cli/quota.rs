//! These tests take snapshots for a tenant whose quota is used up: a refusal leaves nothing behind and says what helps.

use std::fs;

use crate::test_host::{TestHost, noise};

fn allow(host: &TestHost, bytes: u64) {
    let folder = host.path(".config/pstore");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pstore.toml"), format!("[tenants.acme]\nquota_bytes = {bytes}\n")).unwrap();
}

fn packs(host: &TestHost) -> Vec<(String, u64)> {
    let folder = host.path(".local/share/pstore/store/objects/content/acme/packs");
    let mut packs: Vec<(String, u64)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()))
        .collect();
    packs.sort();
    packs
}

#[test]
fn a_refused_snapshot_leaves_nothing_behind_and_what_would_help_is_told() {
    let host = TestHost::new();
    let first = host.capture("1");
    fs::write(host.path("udd/large"), &noise(700_000)[400_000..]).unwrap();
    let second = host.capture("2");
    fs::remove_file(host.path("udd/large")).unwrap();
    host.capture("3");
    let before = packs(&host);
    let stored: u64 = before.iter().map(|(_, bytes)| bytes).sum();
    allow(&host, stored + 1000);
    fs::write(host.path("udd/more"), &noise(2_000_000)[1_500_000..]).unwrap();
    let ran = host.run("snapshot udd acme/alice --json");
    ran.refused(35, &["quota_bytes", &format!("pstore delete acme/alice --chrome-major 131 --sha {second}")]);
    assert_eq!(ran.json()["error"]["kind"], "quota_exceeded");
    assert_eq!(packs(&host), before, "it is known to be too much before it is uploaded");
    for _ in 0..2 {
        host.ok("gc acme --grace 0");
    }
    assert_eq!(packs(&host), before);
    host.ok("verify acme/alice --no-cache");
    // As it was told.
    host.ok(&format!("delete acme/alice --sha {second}"));
    host.run("snapshot udd acme/alice").refused(35, &["`pstore gc acme` frees"]);
    host.ok("gc acme --grace 0 --wait");
    allow(&host, stored + 300_000);
    host.ok("snapshot udd acme/alice");
    host.ok(&format!("restore acme/alice out --sha {first}"));
}

#[test]
fn what_changes_nothing_needs_no_room() {
    let host = TestHost::new();
    host.capture("1");
    allow(&host, 1);
    assert_eq!(host.json("snapshot udd acme/alice")["outcome"], "unchanged");
}
