//! These tests fill the pools with checkpoints, and take files back from them.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::json;
use tests::tree::noise;

use crate::fixture::{COUNTS, Desk, tree};

#[test]
fn what_an_agent_breaks_comes_back_with_mode_and_time() {
    let desk = Desk::new();
    desk.write("src/main.py", "print(1)\n");
    desk.write("src/run.sh", "true\n");
    fs::set_permissions(desk.project.join("src/run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    desk.start(&[]);
    let good = desk.run("checkpoint", &["--name", "good"]);
    assert_eq!((&good["outcome"], &good["checkpoint"]["slot"]), (&json!("created"), &json!(10)));
    let before = tree(&desk.project);

    desk.write("src/main.py", "print(2)\n");
    fs::set_permissions(desk.project.join("src/run.sh"), fs::Permissions::from_mode(0o600)).unwrap();
    desk.write("build/out.o", "x");
    let changes = desk.run("workspace changes", &["--since", "good"]);
    let told: BTreeMap<&str, &str> = changes["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (change["path"].as_str().unwrap(), change["change"].as_str().unwrap()))
        .collect();
    let expected = [
        ("build", "created"),
        ("build/out.o", "created"),
        ("src/main.py", "modified"),
        ("src/run.sh", "metadata"),
    ];
    assert_eq!(told, BTreeMap::from(expected));

    let preview = desk.run("workspace revert", &["--all", "--to", "good", "--preview"]);
    assert_eq!((&preview["reverted"], &preview["before"]), (&json!(false), &json!(null)));
    assert_eq!(desk.read("src/main.py"), "print(2)\n");

    let one = desk.run("workspace revert", &["src/main.py"]);
    assert_eq!((&one["restored"], &one["removed"]), (&json!(1), &json!(0)));
    assert_eq!(desk.read("src/main.py"), "print(1)\n");
    assert!(desk.project.join("build/out.o").exists());

    let all = desk.run("workspace revert", &["--all", "--to", "good"]);
    assert_eq!((&all["restored"], &all["removed"]), (&json!(1), &json!(2)));
    assert_eq!(tree(&desk.project), before);
    assert_eq!(desk.run("workspace changes", &["--since", "good"])["changes"], json!([]));

    // A revert can be reverted.
    let before_restore = all["before"]["checkpoint"].as_str().unwrap();
    assert_eq!(all["before"]["name"], "before-restore");
    desk.run("workspace revert", &["--all", "--to", before_restore]);
    assert_eq!(desk.read("build/out.o"), "x");
    desk.host.verify("acme/agent-7", &[]);
}

#[test]
fn a_file_that_was_created_later_goes_and_a_folder_comes_back_where_a_file_is() {
    let desk = Desk::new();
    desk.write("lib/a", "a");
    desk.write("lib/deep/b", "b");
    desk.start(&[]);
    let before = tree(&desk.project);
    fs::remove_dir_all(desk.project.join("lib")).unwrap();
    desk.run("workspace revert", &["lib/deep/b"]);
    assert_eq!(desk.read("lib/deep/b"), "b");
    assert!(!desk.project.join("lib/a").exists());
    fs::remove_dir_all(desk.project.join("lib")).unwrap();
    desk.write("lib", "now a file");
    desk.write("later", "later");
    desk.fail(3, "workspace revert", &["later"]);
    desk.run("workspace revert", &["later", "--to", "cp-0"]);
    assert!(!desk.project.join("later").exists());
    desk.run("workspace revert", &["lib", "--to", "cp-0"]);
    assert_eq!(tree(&desk.project), before);
}

#[test]
fn the_ring_overwrites_its_oldest_slot_and_a_full_named_pool_is_an_error() {
    let desk = Desk::new();
    desk.write("file", "0");
    desk.start(&["--auto-max", "3", "--manual-max", "2", "--auto-interval", "1"]);
    let mut slots = Vec::new();
    for round in 1..5 {
        desk.write("file", &round.to_string());
        let taken = desk.automatic();
        slots.push(taken["checkpoint"]["slot"].as_u64().unwrap());
    }
    assert_eq!(slots, [1, 2, 0, 1]);
    assert_eq!(desk.automatic()["outcome"], "unchanged");
    desk.run("checkpoint", &["--name", "one"]);
    desk.run("checkpoint", &[]);
    let full = desk.fail(35, "checkpoint", &["--name", "three"]);
    assert!(full["hint"].as_str().unwrap().contains("workspace delete"), "{full:#}");
    desk.fail(2, "checkpoint", &["--name", "cp-4"]);

    let listed = desk.run("workspace list", &[]);
    let checkpoints = listed["checkpoints"].as_array().unwrap();
    assert_eq!(checkpoints.len(), 5);
    for found in checkpoints {
        for field in ["slot", "timestamp", "epoch_secs", "epoch_millis", "origin", "name", "hash"] {
            assert!(found.get(field).is_some(), "{field} in {found:#}");
        }
        assert_eq!(found["hash"].is_null(), found["origin"] == "auto");
    }
    // The record of an overwritten slot goes: there are those of three slots, and the named ones share the newest.
    let stored = |desk: &Desk| {
        let list = desk.host.succeed(["list", "acme/agent-7", "--chrome-major", "65535"]);
        list["snapshots"].as_array().unwrap().len()
    };
    assert_eq!(stored(&desk), 3);

    // Rules that remove all else leave the pools alone.
    let config = desk.folder.path().join("pstore.toml");
    fs::write(&config, "[tenants.acme.retention]\nkeep = \"one\"\ntagged_days = 1\nmax_count = 1\n").unwrap();
    let config = config.to_str().unwrap();
    desk.host.succeed(["retention", "apply", "acme", "--config", config]);
    assert_eq!(stored(&desk), 3);

    assert_eq!(desk.run("workspace delete", &["one"])["deleted"]["slot"], 3);
    assert_eq!(desk.run("checkpoint", &["--name", "three"])["checkpoint"]["slot"], 3);
    desk.write("file", "1 000");
    desk.run("workspace revert", &["file", "--to", "three"]);
    assert_eq!(desk.read("file"), "4");
}

#[test]
fn session_db_has_the_tables_ranges_and_counts_that_other_programs_read() {
    let desk = Desk::new();
    desk.write("kept", "kept");
    desk.write("gone", "gone");
    desk.start(&["--auto-interval", "1"]);
    desk.write("new", "new");
    desk.write("kept", "changed");
    fs::remove_file(desk.project.join("gone")).unwrap();
    assert_eq!(desk.automatic()["checkpoint"]["slot"], 1);
    desk.run("checkpoint", &["--name", "fork-here"]);
    desk.run("workspace revert", &["kept", "--to", "cp-0"]);
    desk.write("new", "newer");
    assert_eq!(desk.automatic()["outcome"], "created");

    let db = desk.db();
    let columns = |table: &str| -> Vec<String> {
        let mut columns = db.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).unwrap();
        columns.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(columns("fs_events"), ["id", "timestamp", "action", "path", "size"]);
    assert_eq!(
        columns("snapshot_events"),
        ["id", "timestamp", "slot", "origin", "name", "files_count", "start_fs_event_id", "stop_fs_event_id"]
    );
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    let events = desk.events();
    let told: Vec<(&str, &str)> = events.iter().map(|(a, p)| (a.as_str(), p.as_str())).collect();
    assert_eq!(
        told,
        [
            ("deleted", "gone"),
            ("modified", "kept"),
            ("created", "new"),
            ("restored", "kept (from cp-0)"),
            ("modified", "new"),
        ]
    );
    let mut counted = db.prepare(COUNTS).unwrap();
    let rows = counted.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, [row.get::<_, i64>(1)?, row.get(2)?, row.get(3)?, row.get(4)?]))
    });
    let counts: BTreeMap<i64, [i64; 4]> = rows.unwrap().map(Result::unwrap).collect();
    // Of a named one the range begins with the first event; automatic ones follow one another.
    assert_eq!(counts[&0], [0; 4]);
    assert_eq!(counts[&1], [1, 1, 1, 0]);
    assert_eq!(counts[&10], [1, 1, 1, 0]);
    assert_eq!(counts[&2], [0, 1, 0, 1], "{counts:?}");
    let (start, stop): (i64, i64) = db
        .query_row(
            "SELECT start_fs_event_id, stop_fs_event_id FROM snapshot_events WHERE slot = 10",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!((start, stop), (0, 3));
}

#[test]
fn a_fork_is_a_workspace_of_its_own_with_the_events_up_to_there() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.start(&[]);
    desk.write("file", "2");
    desk.run("checkpoint", &["--name", "two"]);
    desk.write("file", "3");
    desk.run("checkpoint", &["--name", "three"]);
    let target = desk.folder.path().join("try-1");
    let target = target.to_str().unwrap();
    let fork = desk.run("workspace fork", &[target, "--from", "two"]);
    assert_eq!(fork["profile_id"], "agent-7.try-1");
    assert_eq!(fs::read_to_string(format!("{target}/file")).unwrap(), "2");
    let events = desk.host.succeed(["workspace", "events", target]);
    assert_eq!(events["counts"], json!({ "created": 0, "modified": 1, "deleted": 0, "restored": 0 }));
    // What happens in one does not concern the other.
    fs::write(format!("{target}/file"), "mine").unwrap();
    desk.host.succeed(["workspace", "revert", target, "file"]);
    assert_eq!(fs::read_to_string(format!("{target}/file")).unwrap(), "2");
    assert_eq!(desk.read("file"), "3");
    desk.fail(5, "workspace fork", &[target, "acme/other"]);
}

#[test]
fn the_history_of_a_path_and_the_diff_of_a_text_are_told() {
    let desk = Desk::new();
    desk.write("main.py", "one\ntwo\nthree\n");
    desk.start(&[]);
    desk.write("main.py", "one\n2\nthree\n");
    desk.run("checkpoint", &["--name", "second"]);
    fs::remove_file(desk.project.join("main.py")).unwrap();
    let history = desk.run("workspace history", &["main.py"]);
    let states: Vec<&str> =
        history["versions"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["deleted", "modified", "created"]);
    desk.fail(3, "workspace history", &["nobody.py"]);
    desk.write("main.py", "one\ntwo\nthree\n");
    let text = desk.text("workspace changes", &["--diff"]);
    assert!(text.contains("-2\n+two\n"), "{text}");
}

#[test]
fn a_collection_takes_what_no_slot_holds_and_nothing_else() {
    let desk = Desk::new();
    let write = |seed| fs::write(desk.project.join("large"), noise(2 << 20, seed)).unwrap();
    let stored = || bytes_below(&desk.folder.path().join("store"));
    write(1);
    desk.start(&["--auto-interval", "1", "--auto-max", "2"]);
    write(2);
    desk.run("checkpoint", &["--name", "kept"]);
    write(3);
    desk.run("checkpoint", &["--name", "deleted"]);
    for seed in [4, 5, 6] {
        write(seed);
        desk.automatic();
    }
    let collect = || {
        for _ in 0..2 {
            desk.host.succeed(["gc", "acme", "--grace", "0"]);
        }
    };
    collect();
    let before = stored();
    desk.run("workspace delete", &["deleted"]);
    collect();
    assert!(stored() + (1 << 20) <= before, "{} of {before} bytes", stored());
    // The ring has the last two, and the named one is kept.
    for (checkpoint, seed) in [("kept", 2), ("cp-0", 5), ("cp-1", 6)] {
        let listed = desk.run("workspace list", &[]);
        let slots = listed["checkpoints"].as_array().unwrap();
        assert!(
            slots.iter().any(|one| one["checkpoint"] == checkpoint || one["name"] == checkpoint),
            "{listed:#}"
        );
        let target = desk.folder.path().join(checkpoint);
        let made = desk.run("workspace fork", &[target.to_str().unwrap(), "--from", checkpoint]);
        assert_eq!(made["files"], 1);
        assert_eq!(fs::read(target.join("large")).unwrap(), noise(2 << 20, seed), "{checkpoint}");
    }
    desk.host.verify("acme/agent-7", &["--chrome-major", "65535"]);
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { bytes_below(&path) } else { path.metadata().unwrap().len() }).sum()
}
