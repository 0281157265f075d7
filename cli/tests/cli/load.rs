//! These tests load a profile for a Chrome, by `restore` and by `run`, and check what is warned of, refused and
//! changed.

use std::{fs, path::Path, process::Stdio};

use serde_json::{Value, json};
use store::format::record::{Mode, Record};

use crate::{
    schema::Schema,
    test_host::{Ran, TestHost, ended, noise, signal, until},
};

/// `pstore run` of a line for the shell, which finds the profile in `$0`.
fn run(host: &TestHost, options: &str, script: &str) -> Ran {
    let line = format!("run acme/alice --chrome-major 131 --json {options} --");
    host.run_args(&line, &["sh", "-c", script, "{profile}"])
}

fn warns(ran: &Ran, words: &str) -> bool {
    let document = ran.json();
    let told = document["warnings"].as_array().unwrap();
    let told = told.iter().any(|warning| warning.as_str().unwrap().contains(words));
    assert_eq!(told, ran.stderr.contains(words), "people and programs are told the same: {ran:?}");
    told
}

#[test]
fn a_profile_that_was_in_another_region_today_is_loaded_with_a_warning() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice --host-region eu-central-1");
    const WORDS: &str = "captured in eu-central-1 less than a day ago and is loaded in us-east-1";
    for (region, is_warned) in [("us-east-1", true), ("eu-central-1", false), ("", false)] {
        let line = format!("restore acme/alice out-{region} --chrome-major 131 --json");
        let restored = host.run_with(&line, &[("PSTORE_HOST_REGION", region)]);
        assert_eq!((restored.code, warns(&restored, WORDS)), (0, is_warned), "{region:?}: {restored:?}");
    }
    let there = run(&host, "--host-region us-east-1", "echo more > $0/more");
    assert!(there.code == 0 && warns(&there, WORDS), "{there:?}");
    // It was captured there: it is at home now.
    assert!(!warns(&run(&host, "--host-region us-east-1", "true"), "less than a day ago"));
}

/// Says of the current snapshot that it was taken from a running browser.
fn make_hot(host: &TestHost) {
    let id = host.json("show acme/alice")["record"].as_str().unwrap().to_owned();
    let path = host.object(&format!("snap-{id}.json"));
    let mut record = Record::decode(&fs::read(&path).unwrap()).unwrap();
    record.mode = Mode::Hot;
    fs::write(path, record.encode()).unwrap();
}

#[test]
fn a_hot_snapshot_is_loaded_only_where_the_tenant_allows_it() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    make_hot(&host);
    assert_eq!(host.json("list acme/alice")["snapshots"][0]["mode"], "hot");

    const WORDS: &str = "was taken from a running browser";
    let restore = "restore acme/alice out --chrome-major 131";
    host.run(&format!("{restore} --require")).refused(30, &[WORDS, "docs/hot-mode.md"]);
    assert!(!host.path("out").exists());
    let refused = host.run(&format!("{restore} --json"));
    refused.refused(0, &["fresh_fallback: starting with an empty profile", WORDS]);
    assert_eq!(refused.json()["outcome"], "fresh_fallback");
    assert!(!host.path("out/Default").exists() && host.path("out/.pstore-load").exists());

    let refused = run(&host, "--require", "touch started");
    refused.refused(30, &[WORDS]);
    assert!(!host.path("started").exists());
    // Without it the command starts afresh, and does not replace what was refused.
    let fresh = run(&host, "", "[ ! -e $0/Default ] && touch started && exit 6");
    fresh.refused(6, &["fresh_fallback", "is stored, but is not made the current one"]);
    let document = fresh.json();
    assert_eq!((&document["load"], &document["snapshot_failed"]), (&"fresh_fallback".into(), &true.into()));

    fs::create_dir_all(host.path(".config/pstore")).unwrap();
    fs::write(host.path(".config/pstore/pstore.toml"), "[tenants.acme]\nmodes = [\"cold\", \"hot\"]\n")
        .unwrap();
    assert_eq!(host.json("restore acme/alice allowed --chrome-major 131")["outcome"], "success");
    assert!(host.path("allowed/Default/History").exists());
    let allowed = run(&host, "--require", "[ -e $0/Default/History ]");
    assert_eq!((allowed.code, &allowed.json()["load"]), (0, &"success".into()), "{allowed:?}");
}

const CRASHED: &str = r#"{"a":1,"profile":{"exit_type":"Crashed","exited_cleanly":false,"name":"x"}}"#;

fn preferences(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_crash_is_made_unseen_if_that_is_asked_for_and_the_next_record_says_so() {
    let host = TestHost::new();
    fs::write(host.path("udd/Default/Preferences"), CRASHED).unwrap();
    host.ok("snapshot udd acme/alice");

    let read = |place: &str| preferences(&fs::read_to_string(host.path(place)).unwrap());
    let as_it_was = host.json("restore acme/alice plain --chrome-major 131");
    assert_eq!(
        (&as_it_was["transforms"], read("plain/Default/Preferences")),
        (&json!([]), preferences(CRASHED))
    );
    let document = host.json("restore acme/alice normal --chrome-major 131 --normalise-exit");
    assert_eq!(document["transforms"], json!(["normalise-exit"]));
    let normal = json!({ "a": 1, "profile": { "exit_type": "Normal", "exited_cleanly": true, "name": "x" } });
    assert_eq!(read("normal/Default/Preferences"), normal);

    let ran = run(&host, "--normalise-exit", "cp $0/Default/Preferences seen");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read("seen"), normal);
    let record = host.json("show acme/alice");
    assert_eq!((&record["transforms"], &record["exit_type"]), (&json!(["normalise-exit"]), &"Normal".into()));
    // It was changed once: what is loaded now needs no change.
    let again = host.json("restore acme/alice again --chrome-major 131 --normalise-exit");
    assert_eq!((&again["transforms"], host.path("again/.pstore-load").exists()), (&json!([]), false));
    host.run("restore acme/alice never --normalise-exit").refused(2, &["--chrome-major"]);
}

#[test]
fn a_run_that_requires_its_profile_does_not_start_without_it() {
    let host = TestHost::new();
    // Nothing to load is nothing that was lost.
    assert_eq!(run(&host, "--require", "exit 4").code, 4);
    host.ok("snapshot udd acme/alice");
    let older = "--chrome-version 131.0.6778.84";
    let refused = run(&host, &format!("--require {older}"), "touch started");
    refused.refused(34, &["the older Chrome 131.0.6778.84 would silently drop"]);
    assert_eq!(refused.json()["error"]["kind"], "version_mismatch");
    assert!(!host.path("started").exists());
    assert_eq!(host.lock_state(), "free");
    assert_eq!(run(&host, older, "touch started; exit 5").code, 5);
    assert!(host.path("started").exists());
}

#[test]
fn a_run_that_requires_its_capture_ends_with_what_went_wrong_with_it() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let current = || host.json("show acme/alice")["record"].clone();
    let good = current();
    let damage = "head -c 3000 /dev/urandom > $0/rest; { printf 'SQLite format 3\\000'; cat $0/rest; } > $0/Default/Cookies; exit 8";
    for (options, code) in [("", 8), ("--require", 29)] {
        let ran = run(&host, options, damage);
        assert_eq!((ran.code, &ran.json()["snapshot_failed"]), (code, &true.into()), "{ran:?}");
        assert_eq!(current(), good);
    }
    let large = "head -c 900000 /dev/zero > $0/large; exit 8";
    let limit = [("PSTORE_MAX_PROFILE_BYTES", "800000")];
    for (options, code) in [("", 8), ("--require", 31)] {
        let line = format!("run acme/alice --chrome-major 131 --json {options} --");
        let mut command = host.command(&line);
        let output = command.args(["sh", "-c", large, "{profile}"]).envs(limit).output().unwrap();
        let ran = Ran::of(&line, output);
        assert_eq!((ran.code, &ran.json()["snapshot_failed"]), (code, &true.into()), "{ran:?}");
        assert!(ran.stderr.contains("the profile was not captured"), "{ran:?}");
        assert_eq!((current(), host.lock_state().as_str()), (good.clone(), "free"));
    }
}

#[test]
fn a_run_prints_one_document_and_its_command_beside_it() {
    let host = TestHost::new();
    let ran = run(&host, "", "echo said; echo told >&2");
    assert_eq!((ran.code, &ran.json()["snapshot_error"]), (0, &Value::Null), "{ran:?}");
    assert!(ran.stderr.contains("said\n") && ran.stderr.contains("told\n"), "{ran:?}");
    let plain =
        host.run_args("run acme/alice --chrome-major 131 --", &["sh", "-c", "echo said", "{profile}"]);
    assert_eq!((plain.code, plain.stdout.as_str()), (0, "said\n"), "{plain:?}");
    let held = host.run_args("lock hold acme/alice --json --", &["echo", "said"]);
    assert_eq!(
        (&held.json()["outcome"], held.stderr.contains("said\n")),
        (&"ended".into(), true),
        "{held:?}"
    );
}

#[test]
fn a_run_says_why_its_profile_was_not_captured() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let ran = run(&host, "--copy", "rm -r $0; exit 3");
    let document = ran.json();
    assert_eq!(Schema::of("run").misfits(&document), Vec::<String>::new());
    assert_eq!((ran.code, &document["snapshot_error"]["kind"]), (3, &"io".into()), "{ran:?}");
    let message = document["snapshot_error"]["message"].as_str().unwrap();
    assert!(ran.stderr.contains(message), "{ran:?}");

    let ran = run(&host, "--chrome-version 131.0.6778.84", "true");
    let document = ran.json();
    let error = &document["snapshot_error"];
    assert_eq!((&error["kind"], &error["exit_code"]), (&"held_back".into(), &29.into()), "{ran:?}");
    let record = document["snapshot"]["record"].as_str().unwrap();
    assert!(error["hint"].as_str().unwrap().contains(&format!("--sha {record} --confirm")), "{error}");
}

#[test]
fn a_run_warns_of_a_path_on_which_chrome_does_without_databases() {
    let host = TestHost::new();
    const WORDS: &str = "the directory's path is longer than 440 bytes";
    for (part, is_warned) in [("long".repeat(40), true), ("short".to_owned(), false)] {
        let place = host.path(&part).join(&part).join(&part).join("profile");
        let ran = run(&host, &format!("--directory {}", place.display()), "echo x > $0/file");
        let warnings = ran.json()["snapshot"]["warnings"].to_string();
        assert_eq!((ran.code, warnings.contains(WORDS)), (0, is_warned), "{ran:?}");
        assert_eq!(ran.stderr.contains(WORDS), is_warned, "{ran:?}");
    }
}

/// Whether a profile that is not whole yet lies somewhere below.
fn is_loading(folder: &Path) -> bool {
    let mut below = fs::read_dir(folder).into_iter().flatten().flatten();
    below.any(|entry| entry.file_name().as_encoded_bytes().starts_with(b".") || is_loading(&entry.path()))
}

/// A run that is told to end while its profile is being written.
fn interrupted(host: &TestHost, name: &str, options: &str) -> Ran {
    let tmp = host.path("tmp");
    fs::create_dir_all(&tmp).unwrap();
    let mut command = host.command(&format!("run acme/alice --chrome-major 131 --json {options} --"));
    command.args(["touch", "started"]).env("TMPDIR", &tmp);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it is loading", || is_loading(&tmp) || is_loading(&host.path("named")));
    signal(&child, name);
    ended(child)
}

#[test]
fn a_run_that_is_told_to_end_while_it_loads_leaves_nothing() {
    let host = TestHost::new();
    fs::write(host.path("udd/large"), noise(100_000_000)).unwrap();
    host.ok("snapshot udd acme/alice");
    let good = host.json("show acme/alice")["record"].clone();
    let place = format!("--directory {}", host.path("named/place").display());
    for (name, code, options) in
        [("TERM", 143, "--copy"), ("INT", 130, "--copy"), ("HUP", 129, "--copy"), ("TERM", 143, &place)]
    {
        let ran = interrupted(&host, name, options);
        ran.refused(code, &["interrupted before the command was started"]);
        let error = &ran.json()["error"];
        assert_eq!((&error["kind"], &error["exit_code"]), (&"interrupted".into(), &code.into()), "{ran:?}");
        assert_eq!(fs::read_dir(host.path("tmp")).unwrap().count(), 0, "{name}: no directory is left");
        assert!(!host.path("named/place").exists() && !host.path("started").exists(), "{ran:?}");
        assert_eq!(host.lock_state(), "free", "{name}");
        assert_eq!(
            host.json("lock show acme/alice")["holder_run_id"],
            Value::Null,
            "given back, not orphaned"
        );
    }
    assert_eq!(fs::read_dir(host.path("named")).unwrap().count(), 0);
    assert_eq!(host.json("show acme/alice")["record"], good);
}

#[test]
fn a_run_that_is_told_to_end_while_it_waits_for_the_lock_ends() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let token = host.acquire("other", "");
    for line in
        ["run acme/alice --wait 600 -- touch started", "lock hold acme/alice --wait 600 -- touch started"]
    {
        let child = host.start(line);
        std::thread::sleep(std::time::Duration::from_millis(500));
        signal(&child, "TERM");
        ended(child).refused(143, &["interrupted before the command was started"]);
    }
    assert!(!host.path("started").exists());
    host.ok(&format!("lock release acme/alice --token {token}"));
}

/// A mount that waits is told by two processes: the command that was typed, and its daemon.
#[test]
fn a_mount_that_is_told_to_end_while_it_waits_for_the_lock_leaves_no_daemon() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    fs::create_dir(host.path("mnt")).unwrap();
    let token = host.acquire("other", "");
    for (more, code) in [("", 130), ("--foreground", 143)] {
        let child = host.start(&format!("mount acme/alice mnt --wait 600 {more}"));
        std::thread::sleep(std::time::Duration::from_millis(500));
        let told = std::time::Instant::now();
        signal(&child, "TERM");
        let ran = ended(child);
        assert_eq!(ran.code, code, "{ran:?}");
        // The program waits two seconds for work that does not listen.
        assert!(told.elapsed() < std::time::Duration::from_millis(1800), "{:?}", told.elapsed());
    }
    let home = host.path("").canonicalize().unwrap();
    let works_here = |entry: fs::DirEntry| fs::read_link(entry.path().join("cwd")).is_ok_and(|at| at == home);
    until("no daemon is left", || !fs::read_dir("/proc").unwrap().flatten().any(works_here));
    host.ok(&format!("lock release acme/alice --token {token}"));
}

#[test]
fn a_snapshot_that_is_not_there_never_becomes_an_empty_profile() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let current = host.json("show acme/alice")["record"].clone();
    for more in ["", "--require"] {
        let restored = host.run(&format!("restore acme/alice out --sha ffffff --chrome-major 131 {more}"));
        assert_eq!((restored.code, host.path("out").exists()), (3, false), "{restored:?}");
        let ran = run(&host, &format!("--sha ffffff {more}"), "touch $0/new");
        assert_eq!(ran.code, 3, "{ran:?}");
    }
    assert_eq!(host.json("show acme/alice")["record"], current);
    assert_eq!(host.json("lock show acme/alice")["state"], "free");
}
