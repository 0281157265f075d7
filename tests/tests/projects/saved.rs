//! These tests save states of a project, and look at what a save keeps, refuses and leaves behind.

use std::{fs, os::unix::fs::symlink, path::Path};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tests::binary::assert_says;

use crate::shop::{ALL, Shop, rows, text};

#[test]
fn a_saved_state_has_every_field_of_the_object_model() {
    let shop = Shop::new(ALL);
    let web = shop.web();
    let first = shop.save(&["--label", "ticket=42"])["snapshot"].clone();
    fs::write(shop.path("current/files/readme"), "two").unwrap();
    shop.save(&["--reason", "before-upgrade"]);
    let shown = shop.host.succeed(shop.words("show", "", &[]));
    for field in ["snapshotId", "timestamp", "stateDigest"] {
        assert!(shown[field].is_string(), "{field} in {shown:#}");
    }
    assert_eq!(shown["parentSnapshotId"], first["snapshotId"]);
    assert_eq!((&shown["reason"], &shown["appVersion"]), (&"before-upgrade".into(), &"2.4.1".into()));
    assert_eq!(first["parentSnapshotId"], Value::Null);
    assert_eq!(first["labels"]["ticket"], "42");
    assert_ne!(shown["stateDigest"], first["stateDigest"]);
    let (db, uploads) = (&shown["volumeManifests"]["db"], &shown["volumeManifests"]["uploads"]);
    assert_eq!((&db["consistency"], &db["format"]), (&"sqlite".into(), &"sqlite-copy".into()));
    assert_eq!(db["sqlite"][0]["integrityCheck"], "ok");
    assert_eq!((&uploads["consistency"], &uploads["size"]), (&"generic".into(), &300_000.into()));
    assert_eq!(uploads["digest"], first["volumeManifests"]["uploads"]["digest"]);
    // By the id of the object model as well as by the digits of the store.
    let id = first["snapshotId"].as_str().unwrap();
    assert_eq!(shop.host.succeed(shop.words("show", &format!("@{id}"), &[]))["snapshotId"], id);
    assert_ne!(web.state(), 'T');
    shop.assert_tidy();
}

#[test]
fn a_save_stores_what_changed_and_never_what_a_link_leads_to() {
    let shop = Shop::new(ALL);
    fs::write(shop.path("secret"), "outside").unwrap();
    symlink(shop.path("secret"), shop.path("current/volumes/uploads/link")).unwrap();
    shop.save(&[]);
    let again = shop.save(&[]);
    assert!(again["new_bytes"].as_u64().unwrap() < 10_000, "{again:#}");
    let out = shop.restore_to("", "out");
    assert_eq!(fs::read_link(out.join("volumes/uploads/link")).unwrap(), shop.path("secret"));
    assert_eq!(text(out.join("files/readme")), "one");
    for beside in ["app.db-wal", "app.db-shm"] {
        assert!(!out.join("volumes/db").join(beside).exists(), "{beside} belongs to the database");
    }
}

#[test]
fn hooks_run_without_our_secrets_and_decide_whether_a_save_goes_on() {
    let hook = |command: &str, more: &str| {
        format!(
            "{ALL}\n[[hooks.pre_save]]\ncommand = {command}\n{more}\n[[hooks.post_save]]\nshell = \"touch after\"\n"
        )
    };
    let shop = Shop::new(&hook(r#"["sh", "-c", "env > environment"]"#, r#"environment = { MINE = "yes" }"#));
    shop.save(&[]);
    let environment = text(shop.path("environment"));
    assert!(environment.contains("MINE=yes") && environment.contains("PSTORE_PROJECT=acme/shop"));
    assert!(!environment.contains("AWS_") && !environment.contains("PSTORE_STORE"), "{environment}");

    let failing = r#"["sh", "-c", "echo not today >&2; exit 3"]"#;
    for (more, limit) in [("", ""), (r#"time_limit = "200ms""#, "took longer than 0.2 s")] {
        fs::remove_file(shop.path("after")).unwrap();
        let command = if limit.is_empty() { failing } else { r#"["sleep", "60"]"# };
        shop.say(&hook(command, more));
        let error = shop.host.fail(42, shop.words("save", "", &[]));
        assert_says(&error, "step 3 of 10 (run pre-save hooks): the hook");
        assert_says(&error, if limit.is_empty() { "not today" } else { limit });
        assert!(shop.path("after").exists(), "what the hooks began is ended");
    }
    assert_eq!(shop.states().len(), 1, "the last good state stays, and nothing beside it");
    shop.say(&hook(failing, r#"on_error = "continue""#));
    shop.save(&[]);
    shop.assert_tidy();
}

#[test]
fn a_program_that_a_hook_leaves_running_goes_on_and_nobody_waits_for_it() {
    let shop = Shop::new(&format!(
        "{ALL}\n[[hooks.post_save]]\nshell = \"sleep 300 & echo $! > left.pid\"\ntime_limit = \"20s\"\n"
    ));
    shop.save(&[]);
    let pid = text(shop.path("left.pid"));
    let left = Path::new("/proc").join(pid.trim());
    let is_running = left.exists();
    let _ = kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL);
    assert!(is_running, "the program that the hook has left was ended");
}

#[test]
fn a_save_fails_while_a_schema_change_is_going_on_and_names_the_database() {
    let shop = Shop::new(&ALL.replace("\"sqlite\"", "\"sqlite\"\nwait = \"300ms\""));
    let web = shop.web();
    let database = shop.database("wal");
    database.execute_batch("BEGIN; CREATE TABLE c(n); INSERT INTO c VALUES (1);").unwrap();
    let error = shop.host.fail(32, shop.words("save", "", &[]));
    assert_says(&error, "step 6 of 10 (copy to the store)");
    assert_says(&error, "app.db is in use by a transaction that did not end within 0.3 s");
    assert_ne!(web.state(), 'T');
    assert!(shop.states().is_empty());
    database.execute_batch("COMMIT").unwrap();
    shop.save(&[]);
    assert_eq!(rows(&shop.restore_to("", "out").join("volumes/db/app.db"), "c"), 1);
    shop.assert_tidy();
}

#[test]
fn a_reader_of_long_ago_keeps_no_row_out_of_the_copy() {
    let shop = Shop::new(&ALL.replace("\"sqlite\"", "\"sqlite\"\nwait = \"300ms\""));
    let (reader, writer) = (shop.database("wal"), shop.database("wal"));
    reader.execute_batch("BEGIN; SELECT * FROM a;").unwrap();
    writer.execute_batch("INSERT INTO a VALUES (1)").unwrap();
    let saved = shop.save(&[]);
    let copy = &saved["snapshot"]["volumeManifests"]["db"]["sqlite"][0];
    assert_eq!((&copy["checkpointed"], &copy["integrityCheck"]), (&false.into(), &"ok".into()));
    assert_eq!(rows(&shop.restore_to("", "out").join("volumes/db/app.db"), "a"), 1);
}

#[test]
fn only_listed_databases_are_saved_and_none_outside_the_volume() {
    let shop = Shop::new("[volumes.db]\nconsistency = \"sqlite\"\nfiles = [\"app.db\"]\n");
    fs::write(shop.path("current/volumes/db/other"), "other").unwrap();
    shop.save(&[]);
    let out = shop.restore_to("", "out");
    assert!(out.join("volumes/db/app.db").exists() && !out.join("volumes/db/other").exists());
    fs::rename(shop.database_path(), shop.path("elsewhere.db")).unwrap();
    symlink(shop.path("elsewhere.db"), shop.database_path()).unwrap();
    let error = shop.host.fail(2, shop.words("save", "", &[]));
    assert_says(&error, "leads out of its volume");
}

#[test]
fn services_stay_as_they_were_found() {
    let shop = Shop::new(ALL);
    shop.save(&[]);
    let web = shop.web();
    web.pause();
    shop.save(&[]);
    assert_eq!(web.state(), 'T', "one that was paused stays paused");
    drop(web);
    shop.save(&[]);
    fs::write(shop.path("web.pid"), "one").unwrap();
    let error = shop.host.fail(2, shop.words("save", "", &[]));
    assert_says(&error, "step 5 of 10 (checkpoint the state)");
    assert_eq!(shop.states().len(), 3);
}

#[test]
fn all_processes_of_a_service_rest_while_it_is_copied_and_each_is_then_as_it_was_found() {
    let shop = Shop::new(ALL);
    let service = shop.counting();
    service.pause("idle");
    for round in 0..3 {
        shop.save(&[]);
        let out = shop.restore_to("", &format!("out-{round}")).join("volumes/uploads");
        let number = |name: &str| text(out.join(name)).trim().parse::<i64>().unwrap();
        let (first, second) = (number("a-first"), number("z-second"));
        assert!((0..=1).contains(&(first - second)), "torn: {first} and {second}");
        service.await_count(service.count());
        assert_eq!(service.state("idle"), 'T', "one that was stopped before stays so");
    }
    shop.assert_tidy();
}

#[test]
fn whoever_works_on_a_project_keeps_others_off_and_is_named() {
    let shop = Shop::new(ALL);
    shop.save(&[]);
    let lock = ["lock", "acquire", "acme/shop", "--chrome-major", "65534", "--run-id", "the-upgrade"];
    let held = shop.host.succeed(lock);
    for verb in ["save", "restore"] {
        let error = shop.host.fail(24, shop.words(verb, "", &[]));
        assert_eq!(error["holder_run_id"], "the-upgrade", "{verb}: {error:#}");
    }
    let token = held["token"].as_str().unwrap();
    shop.host.succeed(["lock", "release", "acme/shop", "--chrome-major", "65534", "--token", token]);
    shop.save(&[]);
}

#[test]
fn what_is_wrong_with_a_project_file_is_told_with_its_line() {
    let shop = Shop::new("[volumes.db]\nconsistency = \"oracle\"\n");
    let error = shop.host.fail(2, shop.words("save", "", &[]));
    assert_says(&error, "shop.toml, line 4: unknown variant `oracle`");
    shop.say("[volumes.away]\nconsistency = \"generic\"\n");
    let error = shop.host.fail(3, shop.words("save", "", &[]));
    assert_says(&error, "step 1 of 10 (resolve the project): there is no folder");
    fs::remove_file(shop.file()).unwrap();
    assert_says(&shop.host.fail(3, shop.words("list", "", &[])), "there is no project file");
}
