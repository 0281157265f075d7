//! These tests restore saved states: to another folder, and in the place of the project's own.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::{Host, assert_says};

use crate::shop::{ALL, Shop, rows, text};

#[test]
fn a_restore_in_place_brings_everything_back_and_saves_what_was_there() {
    let shop = Shop::new(ALL);
    shop.database("wal").execute_batch("INSERT INTO a VALUES (1)").unwrap();
    shop.save(&[]);
    // A log beside the database belongs to the rows of now.
    let database = shop.database("wal");
    database.execute_batch("INSERT INTO a VALUES (2); INSERT INTO a VALUES (3)").unwrap();
    shop.leave(database);
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    fs::write(shop.path("current/volumes/uploads/later"), "later").unwrap();
    let restored = shop.host.succeed(shop.words("restore", "", &[]));
    assert_eq!(text(shop.path("current/files/readme")), "one");
    assert!(!shop.path("current/volumes/uploads/later").exists());
    assert_eq!(rows(&shop.database_path(), "a"), 1);
    let states = shop.states();
    assert_eq!(states.len(), 2);
    assert_eq!(states[1]["reason"], "before-restore");
    assert_eq!(states[1]["snapshotId"], restored["saved_before"]);
    // And forward again.
    shop.host.succeed(shop.words("restore", "", &[]));
    assert_eq!(text(shop.path("current/volumes/uploads/later")), "later");
    assert_eq!(rows(&shop.database_path(), "a"), 3);
    shop.assert_tidy();
}

#[test]
fn a_restore_of_listed_databases_leaves_their_neighbours() {
    let shop = Shop::new("[volumes.db]\nconsistency = \"sqlite\"\nfiles = [\"app.db\"]\n");
    shop.save(&[]);
    let database = shop.database("wal");
    database.execute_batch("INSERT INTO a VALUES (1)").unwrap();
    shop.leave(database);
    fs::write(shop.path("current/volumes/db/other"), "other").unwrap();
    shop.host.succeed(shop.words("restore", "", &[]));
    assert_eq!(rows(&shop.database_path(), "a"), 0);
    assert_eq!(text(shop.path("current/volumes/db/other")), "other");
    shop.assert_tidy();
}

#[test]
fn nothing_is_restored_below_a_service_that_runs() {
    let shop = Shop::new(ALL);
    shop.save(&[]);
    let web = shop.web();
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    let error = shop.host.fail(32, shop.words("restore", "", &[]));
    assert_says(&error, "service \"web\" runs");
    assert_eq!(text(shop.path("current/files/readme")), "two");
    assert_eq!(shop.states().len(), 1);
    assert_eq!(text(shop.restore_to("", "out").join("files/readme")), "one");
    drop(web);
    shop.assert_tidy();
}

/// The project file names no service, and the app runs.
#[test]
fn nothing_is_restored_below_a_program_that_has_its_files_open() {
    let shop =
        Shop::new("[volumes.db]\nconsistency = \"sqlite\"\n\n[volumes.uploads]\nconsistency = \"generic\"\n");
    shop.save(&[]);
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    for name in ["current/volumes/db/app.db", "current/volumes/uploads/photo", "current/files/readme"] {
        let opener = shop.opener(name);
        let error = shop.host.fail(32, shop.words("restore", "", &[]));
        assert_says(&error, &format!("process {} (sleep) has ", opener.id()));
        assert_says(&error, &format!("{name} open"));
        assert_eq!(text(shop.path("current/files/readme")), "two");
        assert_eq!(shop.states().len(), 1, "nothing was saved for it");
    }
    shop.host.succeed(shop.words("restore", "", &[]));
    assert_eq!(text(shop.path("current/files/readme")), "one");
    shop.assert_tidy();
}

#[test]
fn a_program_that_opens_a_database_while_its_state_is_written_is_met_before_it_is_replaced() {
    let tables = "[volumes.db]\nconsistency = \"sqlite\"\n";
    let shop = Shop::new(tables);
    shop.save(&[]);
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    // It runs when the state of now is saved, after the first look.
    let hook = "sleep 600 9<>current/volumes/db/app.db & echo $! > opener.pid";
    shop.say(&format!("{tables}\n[[hooks.pre_save]]\nshell = \"{hook}\"\n"));
    let ended = shop.host.run(shop.words("restore", "", &[]));
    let opener = text(shop.path("opener.pid")).trim().parse().unwrap();
    kill_process(Pid::from_raw(opener).unwrap(), Signal::KILL).unwrap();
    assert_eq!(ended.code, Some(32), "{ended:#?}");
    assert_says(&ended.document["error"], &format!("process {opener} ("));
    assert_eq!(text(shop.path("current/files/readme")), "two");
    shop.say(tables);
    shop.assert_tidy();
}

/// Else an app that hooks stop and start could never be restored.
#[test]
fn what_a_hook_starts_after_a_save_is_started_when_the_restored_state_is_in_its_place() {
    let tables = "[volumes.db]\nconsistency = \"sqlite\"\n";
    let shop = Shop::new(tables);
    shop.save(&[]);
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    let hook = "sleep 600 9<>current/volumes/db/app.db & echo $! > opener.pid";
    shop.say(&format!("{tables}\n[[hooks.post_save]]\nshell = \"{hook}\"\n"));
    let ended = shop.host.run(shop.words("restore", "", &[]));
    let opener: i32 = text(shop.path("opener.pid")).trim().parse().unwrap();
    let number = |path: PathBuf| fs::metadata(path).map(|found| found.ino()).ok();
    let opened = number(format!("/proc/{opener}/fd/9").into());
    kill_process(Pid::from_raw(opener).unwrap(), Signal::KILL).unwrap();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(text(shop.path("current/files/readme")), "one");
    assert_eq!(opened, number(shop.path("current/volumes/db/app.db")));
    shop.say(tables);
    shop.assert_tidy();
}

#[test]
fn a_restore_to_a_folder_is_whole_or_absent_and_names_what_it_does_not_find() {
    let shop = Shop::new(ALL);
    shop.save(&[]);
    let out = shop.restore_to("@latest", "out");
    let target = out.to_str().unwrap();
    let error = shop.host.fail(5, shop.words("restore", "", &["--to", target]));
    assert!(error["hint"].as_str().unwrap().contains("--force"), "{error:#}");
    shop.host.succeed(shop.words("restore", "", &["--to", target, "--force"]));
    shop.host.fail(3, shop.words("restore", "@latest~3", &[]));
    shop.host.fail(3, shop.words("show", "@01a1f072-4e72-7ac2-b912-5fb728b37149", &[]));
    let delete = shop.host.fail(27, shop.words("delete", "@latest", &[]));
    assert_says(&delete, "it is the current one");
    shop.host.fail(2, shop.words("delete", "", &[]));
    shop.save(&[]);
    shop.host.succeed(shop.words("delete", "@latest~1", &["--reason", "old"]));
    assert_eq!(shop.states().len(), 1);
}

#[test]
fn an_older_state_is_found_by_its_id_though_a_newer_one_is_damaged() {
    let shop = Shop::new(ALL);
    let first = shop.save(&[])["snapshot"]["snapshotId"].as_str().unwrap().to_owned();
    let before = packs(&shop.path("store"));
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    let second = shop.save(&[]);
    let packs_of_the_second: Vec<PathBuf> = packs(&shop.path("store")).difference(&before).cloned().collect();
    assert!(!packs_of_the_second.is_empty());
    packs_of_the_second.iter().for_each(|pack| fs::remove_file(pack).unwrap());
    // Another host, which has nothing of it in its cache.
    let host = Host::local(&shop.path("home-2"), &shop.path("store"));
    let target = shop.path("out");
    let words = ["--to", target.to_str().unwrap()];
    host.succeed(shop.words("restore", &format!("@{first}"), &words));
    assert_eq!(text(target.join("files/readme")), "one");
    // One that is not found may be the one that cannot be read.
    let absent = "@01a1f072-4e72-7ac2-b912-5fb728b37149";
    let ended = host.run(shop.words("show", absent, &[]));
    assert_ne!(ended.code, Some(0), "{ended:#?}");
    let error = &ended.document["error"];
    assert_says(error, "among those that can be read; these cannot:");
    assert_says(error, second["sha256_prefix"].as_str().unwrap());
}

fn packs(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let below = entries.flat_map(|path| match path.is_dir() {
        true => packs(&path),
        false => BTreeSet::from([path]),
    });
    below.filter(|path| path.to_string_lossy().contains("/packs/")).collect()
}
