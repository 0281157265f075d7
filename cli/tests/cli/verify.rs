//! Checking a part of it, and making good what can be.

use std::fs;

use crate::desk::Desk;

fn indexes(desk: &Desk) -> Vec<std::path::PathBuf> {
    let folder = desk.path(".local/share/pstore/store/objects/content/acme/index");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_lost_index_is_written_anew_from_what_packs_hold() {
    let desk = Desk::new();
    desk.capture("1");
    let before = indexes(&desk);
    assert_eq!(before.len(), 1);
    for damage in [None, Some("damage")] {
        for index in indexes(&desk) {
            match damage {
                None => fs::remove_file(index).unwrap(),
                Some(bytes) => fs::write(index, bytes).unwrap(),
            }
        }
        desk.run("verify acme/alice --no-cache").refused(10, &["damaged"]);
        let repaired = desk.run("verify acme/alice --no-cache --repair --json");
        assert_eq!((repaired.code, &repaired.json()["outcome"]), (36, &"repaired".into()), "{repaired:?}");
        assert_eq!(indexes(&desk).len(), 1);
        desk.ok("verify acme/alice --no-cache");
    }
    // What it says is right: another profile shares all content.
    let other = desk.json("snapshot udd acme/other --no-cache");
    assert_eq!(other["new_chunks"], 0, "{other}");
}

#[test]
fn what_cannot_be_repaired_is_told_with_the_files_it_hits() {
    let desk = Desk::new();
    desk.capture("1");
    let packs = desk.path(".local/share/pstore/store/objects/content/acme/packs");
    let largest = fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path());
    let largest = largest.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    bytes[1000] ^= 1;
    fs::write(&largest, bytes).unwrap();
    let ran = desk.run("verify acme/alice --no-cache --repair");
    ran.refused(10, &["is damaged"]);
    assert!(ran.stdout.contains("Default/History"), "{ran:?}");
}

#[test]
fn a_share_of_the_content_is_another_one_each_day() {
    let desk = Desk::new();
    desk.capture("1");
    let all = desk.json("verify acme/alice --no-cache");
    let part = desk.json("verify acme/alice --no-cache --read-data=10%");
    assert_eq!((&all["sample"], &part["sample"]["of"]), (&serde_json::Value::Null, &10.into()));
    assert!(part["read_bytes"].as_u64() <= all["read_bytes"].as_u64());
    assert_eq!(desk.json("verify acme/alice --no-cache --read-data=100%")["read_bytes"], all["read_bytes"]);
    assert_eq!(desk.json("verify acme/alice --no-cache --structure")["read_bytes"], 0);
    let week = desk.json("verify acme/alice --no-cache --read-data=1/7");
    assert!(week["read_bytes"].as_u64() <= all["read_bytes"].as_u64(), "{week}");
    assert_eq!(desk.json("verify acme/alice --no-cache --read-data=1/1")["read_bytes"], all["read_bytes"]);
    desk.run("verify acme/alice --read-data=0%").refused(2, &["1% to 100%"]);
    desk.run("verify acme/alice --read-data=1/0").refused(2, &["1/1 to 1/1000"]);
}
