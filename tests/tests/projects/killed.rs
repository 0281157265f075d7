//! These tests kill a save after each of its steps, and a restore at its moments, and look at what the next command finds.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt};

use tests::kill_at::{Moment, kill_at, moments, timed};

use crate::shop::{ALL, Shop, text};

/// Every step takes long enough to be met, and what hooks began can be seen.
const SLOW: &str = r#"
[[hooks.pre_save]]
shell = "touch maintenance; sleep 0.1"

[[hooks.post_save]]
shell = "rm -f maintenance"
"#;

#[test]
fn a_save_that_is_killed_after_any_step_leaves_services_running_and_nothing_partial() {
    let shop = Shop::new(&format!("{ALL}{SLOW}"));
    let web = shop.web();
    shop.save(&[]);
    let mut states = 1;
    for step in 1..=10 {
        fs::write(shop.path("current/files/readme"), format!("{step}")).unwrap();
        let mut save = shop.start_save();
        save.await_stderr(&format!("step {step} of 10"));
        save.kill();
        // The first command of this project that comes after it.
        let listed = shop.states();
        assert_ne!(web.state(), 'T', "killed in step {step}");
        assert!(!shop.path("maintenance").exists(), "killed in step {step}");
        assert!((states..=states + 1).contains(&listed.len()), "killed in step {step}: {listed:#?}");
        let is_saved = listed.len() > states;
        assert!(!is_saved || step >= 8, "a state before the pointer moved, in step {step}");
        assert!(is_saved || step <= 8, "no state after the pointer moved, in step {step}");
        assert_eq!(listed.last().unwrap()["current"], true);
        shop.assert_tidy();
        let out = shop.restore_to("", &format!("out-{step}"));
        if is_saved {
            assert_eq!(text(out.join("files/readme")), format!("{step}"));
        }
        // Nobody has to wait for a lock of the dead.
        shop.save(&[]);
        states = listed.len() + 1;
    }
    assert_eq!(web.state(), 'S');
}

/// So many that a save is met while it copies them, and the service rests.
fn many_uploads(shop: &Shop) {
    for number in 0..20_000 {
        fs::write(shop.path(&format!("current/volumes/uploads/{number}")), "upload").unwrap();
    }
}

#[test]
fn services_that_a_killed_save_had_paused_go_on_at_the_next_command() {
    let shop = Shop::new(ALL);
    let web = shop.web();
    many_uploads(&shop);
    let save = shop.start_save();
    web.await_state('T');
    save.kill();
    assert_eq!(web.state(), 'T');
    let ended = shop.host.run(shop.words("list", "", &[]));
    assert!(ended.stderr.contains("was cut short; letting its services go on"), "{}", ended.stderr);
    web.await_state('S');
    assert!(shop.states().is_empty());
    // One that was paused before the save was killed stays so.
    web.pause();
    shop.save(&[]);
    assert_eq!(web.state(), 'T');
    let tidy = fs::metadata(shop.path("home/.local/state/pstore/sessions/.projects/acme+shop.json")).unwrap();
    assert_eq!((tidy.len(), tidy.mode() & 0o777), (0, 0o600), "the note says nothing any more");
}

#[test]
fn all_processes_of_a_service_that_a_killed_save_had_at_rest_go_on_at_the_next_command() {
    let shop = Shop::new(ALL);
    let service = shop.counting();
    many_uploads(&shop);
    service.pause("idle");
    let save = shop.start_save();
    service.await_state("worker", 'T');
    save.kill();
    assert_eq!(service.state("worker"), 'T');
    let before = service.count();
    assert!(shop.states().is_empty());
    service.await_count(before);
    assert_eq!(service.state("idle"), 'T', "one that was stopped before stays so");
    shop.save(&[]);
    shop.assert_tidy();
}

#[test]
fn services_go_on_though_the_next_save_cannot_begin() {
    let shop = Shop::new(ALL);
    let web = shop.web();
    many_uploads(&shop);
    let save = shop.start_save();
    web.await_state('T');
    save.kill();
    // Neither its Docker nor a volume is where it was.
    let volume = "[volumes.data]\nconsistency = \"generic\"\ndocker_volume = \"data\"\n";
    shop.say(&format!("docker_host = \"unix:///nowhere/docker.sock\"\n{ALL}{volume}"));
    shop.host.fail(14, shop.words("save", "", &[]));
    web.await_state('S');
    fs::rename(shop.path("current"), shop.path("away")).unwrap();
    shop.say(ALL);
    shop.host.fail(3, shop.words("save", "", &[]));
    fs::rename(shop.path("away"), shop.path("current")).unwrap();
    shop.save(&[]);
    shop.assert_tidy();
}

#[test]
fn a_save_that_is_interrupted_lets_services_go_on_by_itself() {
    let shop = Shop::new(ALL);
    let web = shop.web();
    many_uploads(&shop);
    let save = shop.start_save();
    web.await_state('T');
    let pid = rustix::process::Pid::from_raw(i32::try_from(save.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = save.wait();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_ne!(web.state(), 'T');
    assert!(shop.states().is_empty());
    shop.save(&[]);
    shop.assert_tidy();
}

/// So many that a restore is met while it moves them.
const VOLUMES: [&str; 10] = ["db", "uploads", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8"];

/// A project that says one word everywhere.
fn saying(word: &str) -> Shop {
    let mut text = "[volumes.db]\nconsistency = \"sqlite\"\n".to_owned();
    for name in &VOLUMES[1..] {
        text.push_str(&format!("\n[volumes.{name}]\nconsistency = \"generic\"\n"));
    }
    let shop = Shop::new(&text);
    for name in &VOLUMES[2..] {
        fs::create_dir(shop.path(&format!("current/volumes/{name}"))).unwrap();
    }
    say(&shop, word);
    shop
}

fn say(shop: &Shop, word: &str) {
    fs::write(shop.path("current/files/readme"), word).unwrap();
    for name in &VOLUMES[1..] {
        fs::write(shop.path(&format!("current/volumes/{name}/word")), word).unwrap();
    }
    let rows = format!("DELETE FROM a; INSERT INTO a VALUES ('{word}')");
    shop.database("wal").execute_batch(&rows).unwrap();
}

/// All words that it says.
fn said(shop: &Shop) -> BTreeSet<String> {
    let files = VOLUMES[1..].iter().map(|name| shop.path(&format!("current/volumes/{name}/word")));
    let mut words: BTreeSet<String> = files.map(text).collect();
    words.insert(text(shop.path("current/files/readme")));
    words.insert(shop.database("wal").query_row("SELECT n FROM a", [], |row| row.get(0)).unwrap());
    words
}

#[test]
fn a_restore_in_place_that_is_killed_at_any_moment_replaces_all_or_nothing() {
    let shop = saying("one");
    let first = shop.save(&[])["snapshot"]["snapshotId"].as_str().unwrap().to_owned();
    let words = shop.words("restore", &format!("@{first}"), &[]);
    say(&shop, "two");
    let usual = timed(|| drop(shop.host.succeed(&words)));
    let [root, volumes] = ["", "current/volumes"].map(|name| shop.path(name));
    let places = ["files", "volumes/uploads", "volumes/v1", "volumes/v4", "volumes/v8"]
        .map(|name| shop.path(&format!("current/{name}")));
    // When the state is written beside the project, when it is brought near, and while each place is replaced.
    let met = [Moment::Entry(&root), Moment::Entry(&volumes)];
    let moved = places.iter().map(|place| Moment::Change(place));
    let all = moments(10, usual, 7).into_iter().chain(met).chain(moved);
    for (round, moment) in all.enumerate() {
        say(&shop, "two");
        let ended = kill_at(|| shop.host.start(&words), moment);
        // The first command of this project that comes after it.
        shop.states();
        let found = said(&shop);
        assert_eq!(found.len(), 1, "round {round}, {moment:?}: {found:?}, {ended:#?}");
        let is_restored = found.contains("one");
        assert!(is_restored || ended.code != Some(0), "round {round}, {moment:?}: it told of success");
        shop.assert_tidy();
    }
    shop.host.succeed(&words);
    assert_eq!(said(&shop), BTreeSet::from(["one".to_owned()]));
}
