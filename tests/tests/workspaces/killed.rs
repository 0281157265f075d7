//! These tests kill processes while they take a checkpoint: they leave neither a snapshot that nobody ends nor an event
//! that is told of wrongly.

use std::{collections::BTreeSet, fs, thread, time::Duration};

use crate::fixture::{COUNTS, Desk};

#[test]
fn a_row_of_a_checkpoint_that_no_slot_came_to_hold_goes() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.start(&["--auto-interval", "1"]);
    desk.write("one", "1");
    desk.automatic();
    // As if a process had been killed when it had told `session.db` of its checkpoint, and not yet the slots.
    let slots = desk.state().join("slots.json");
    let before = fs::read(&slots).unwrap();
    desk.write("two", "2");
    desk.automatic();
    fs::write(&slots, before).unwrap();
    desk.write("three", "3");
    desk.automatic();
    let rows = |query: &str| -> Vec<Vec<i64>> {
        let db = desk.db();
        let mut select = db.prepare(query).unwrap();
        let columns = select.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get::<_, i64>(at)).collect();
        select.query_map([], row).unwrap().map(Result::unwrap).collect()
    };
    // Three rows for three slots, and no event is in two ranges or in none.
    assert_eq!(
        rows("SELECT slot, start_fs_event_id, stop_fs_event_id FROM snapshot_events ORDER BY id"),
        [[0, 0, 0], [1, 0, 1], [2, 1, 3]]
    );
    assert_eq!(rows(COUNTS), [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [2, 2, 0, 0, 0]]);
}

/// `PSTORE_WORKSPACE_KILLS` makes it longer.
#[test]
fn checkpoints_that_are_killed_at_any_moment_leave_nothing_behind() {
    let kills: u64 = std::env::var("PSTORE_WORKSPACE_KILLS").map_or(30, |text| text.parse().unwrap());
    let desk = Desk::new();
    desk.write("file", "0");
    desk.start(&["--auto-interval", "1", "--auto-max", "3", "--manual-max", "1000"]);
    let project = desk.project.to_str().unwrap();
    let mut longest = Duration::ZERO;
    for round in 0..3 {
        desk.write("file", &format!("measured {round}"));
        let began = std::time::Instant::now();
        desk.run("checkpoint", &[]);
        longest = longest.max(began.elapsed());
    }
    for round in 0..kills {
        desk.write("file", &round.to_string());
        desk.write(&format!("new-{round}"), "x");
        let running = desk.host.start(["checkpoint", project]);
        thread::sleep(longest * u32::try_from(round).unwrap() / u32::try_from(kills).unwrap());
        let _ = running.kill();
        desk.check_db();
    }
    // What a killed process was reading stays until nobody can be reading it any more: after two minutes, or now.
    for pin in fs::read_dir(desk.folder.path().join("store/objects/content/acme/pins")).into_iter().flatten()
    {
        fs::remove_file(pin.unwrap().path()).unwrap();
    }
    // Who goes on ends what was left; two more make sure that no other is current.
    desk.start(&[]);
    for round in 0..2 {
        desk.write("file", &format!("at last {round}"));
        desk.run("checkpoint", &[]);
    }
    let told = desk.run("workspace list", &[]);
    let of = |document: &serde_json::Value, list: &str, field: &str| -> BTreeSet<String> {
        let all = document[list].as_array().unwrap().iter();
        all.map(|one| one[field].as_str().unwrap().to_owned()).collect()
    };
    let stored = desk.host.succeed(["list", "acme/agent-7", "--chrome-major", "65535"]);
    assert_eq!(of(&stored, "snapshots", "record"), of(&told, "checkpoints", "record"));
    // Every file that appeared was told of once.
    for round in 0..kills {
        let name = format!("new-{round}");
        let told = desk.events().iter().filter(|(action, path)| action == "created" && *path == name).count();
        assert_eq!(told, 1, "{name}");
    }
    desk.host.verify("acme/agent-7", &["--chrome-major", "65535"]);
}
