//! These tests store for a tenant that may not store any more.

use std::fs;

use crate::desk::{Desk, noise};

fn allow(desk: &Desk, bytes: u64) {
    let folder = desk.path(".config/pstore");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pstore.toml"), format!("[tenants.acme]\nquota_bytes = {bytes}\n")).unwrap();
}

fn packs(desk: &Desk) -> Vec<(String, u64)> {
    let folder = desk.path(".local/share/pstore/store/objects/content/acme/packs");
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
    let desk = Desk::new();
    let first = desk.capture("1");
    fs::write(desk.path("udd/large"), &noise(700_000)[400_000..]).unwrap();
    let second = desk.capture("2");
    fs::remove_file(desk.path("udd/large")).unwrap();
    desk.capture("3");
    let before = packs(&desk);
    let stored: u64 = before.iter().map(|(_, bytes)| bytes).sum();
    allow(&desk, stored + 1000);
    fs::write(desk.path("udd/more"), &noise(2_000_000)[1_500_000..]).unwrap();
    let ran = desk.run("snapshot udd acme/alice --json");
    ran.refused(35, &["quota_bytes", &format!("pstore delete acme/alice --chrome-major 131 --sha {second}")]);
    assert_eq!(ran.json()["error"]["kind"], "quota_exceeded");
    assert_eq!(packs(&desk), before, "it is known to be too much before it is uploaded");
    for _ in 0..2 {
        desk.ok("gc acme --grace 0");
    }
    assert_eq!(packs(&desk), before);
    desk.ok("verify acme/alice --no-cache");
    // As it was told.
    desk.ok(&format!("delete acme/alice --sha {second}"));
    desk.run("snapshot udd acme/alice").refused(35, &["`pstore gc acme` frees"]);
    desk.ok("gc acme --grace 0 --wait");
    allow(&desk, stored + 300_000);
    desk.ok("snapshot udd acme/alice");
    desk.ok(&format!("restore acme/alice out --sha {first}"));
}

#[test]
fn what_changes_nothing_needs_no_room() {
    let desk = Desk::new();
    desk.capture("1");
    allow(&desk, 1);
    assert_eq!(desk.json("snapshot udd acme/alice")["outcome"], "unchanged");
}
