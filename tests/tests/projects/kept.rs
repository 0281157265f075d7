//! These tests keep one saved state, and are named after the sentences of that policy.

use std::fs;

use crate::shop::{ALL, Shop, text};

fn keep(text: &str) -> String {
    format!("keep = \"one\"\n{text}")
}

#[test]
fn we_keep_exactly_one_snapshot_the_most_recent() {
    let shop = Shop::new(&keep(ALL));
    let first = shop.save(&[]);
    assert_eq!(first["removed"], serde_json::json!([]));
    for round in 0..2 {
        fs::write(shop.path("current/files/readme"), format!("{round}")).unwrap();
        let saved = shop.save(&[]);
        assert_eq!(saved["removed"].as_array().unwrap().len(), 1, "{saved:#}");
        let states = shop.states();
        assert_eq!((states.len(), &states[0]["snapshotId"]), (1, &saved["snapshot"]["snapshotId"]));
    }
    assert_eq!(text(shop.restore_to("", "out").join("files/readme")), "1");
}

#[test]
fn the_new_snapshot_is_fully_durable_before_any_old_one_is_removed() {
    let shop = Shop::new(&keep(ALL));
    shop.save(&[]);
    for step in 6..=9 {
        let mut save = shop.start_save();
        save.await_stderr(&format!("step {step} of 10"));
        save.kill();
        let states = shop.states();
        assert!(!states.is_empty(), "killed in step {step}");
        shop.restore_to("", &format!("out-{step}"));
        shop.assert_tidy();
    }
}

#[test]
fn it_self_heals_any_backlog_is_cleared_on_the_next_save() {
    let shop = Shop::new(ALL);
    (0..3).for_each(|_| drop(shop.save(&[])));
    shop.host.succeed(["tag", "acme/shop@latest", "golden", "--chrome-major", "65534"]);
    shop.say(&keep(ALL));
    let saved = shop.save(&[]);
    assert_eq!(saved["removed"].as_array().unwrap().len(), 2, "{saved:#}");
    assert_eq!(shop.states().len(), 2, "what somebody tagged stays");
    shop.host.succeed(["untag", "acme/shop@golden", "golden", "--chrome-major", "65534"]);
    shop.save(&[]);
    assert_eq!(shop.states().len(), 1);
    // The content goes, and then what is left of the records.
    shop.host.succeed(["gc", "acme", "--grace", "0"]);
    shop.host.succeed(["gc", "acme", "--grace", "0"]);
    shop.restore_to("", "out");
    shop.assert_tidy();
}

#[test]
fn a_state_with_a_damaged_database_supersedes_no_good_one() {
    let shop = Shop::new(&keep(ALL));
    let mut database = shop.database("delete");
    let writing = database.transaction().unwrap();
    for _ in 0..2000 {
        writing.execute("INSERT INTO a VALUES (randomblob(500))", []).unwrap();
    }
    writing.commit().unwrap();
    drop(database);
    let good = shop.save(&[]);
    let mut bytes = fs::read(shop.database_path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8192].fill(0xff);
    fs::write(shop.database_path(), bytes).unwrap();
    let saved = shop.save(&[]);
    let found = &saved["snapshot"]["volumeManifests"]["db"]["sqlite"][0]["integrityCheck"];
    assert_ne!(found, "ok", "{saved:#}");
    assert_eq!(saved["removed"], serde_json::json!([]));
    assert_eq!(shop.states()[0]["snapshotId"], good["snapshot"]["snapshotId"]);
}
