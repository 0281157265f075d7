//! These tests take snapshots while somebody else wants the profile too.

use std::{
    fs::{self, File},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
    process::{Child, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use serde_json::Value;

use crate::test_host::{Ran, TestHost, ended, noise, signal, until};

fn stored() -> TestHost {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host
}

/// A snapshot that has taken the lock and was then stopped, before it has moved the pointer.
///
/// Whoever replaces the pointer locks a file of the store for that. The file is ours while we
/// look: what is seen then stays so until the snapshot rests, however long that takes. Nor does
/// it renew its lock by itself when it goes on.
fn stopped(host: &TestHost, options: &str) -> Child {
    for at in 0..24 {
        fs::write(host.path(&format!("udd/{at}")), noise(3_000_000 + at)).unwrap();
    }
    let pointer = || object(host, "latest.json")["active_sha256_prefix"].clone();
    let gate = gate_of_the_pointer(host);
    for attempt in 0..20 {
        let before = pointer();
        let child = host
            .command(&format!("snapshot udd acme/alice {options}"))
            .envs([("PSTORE_LOCK_TTL_SECONDS", "86400"), ("PSTORE_LOCK_RENEW_SECONDS", "43200")])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        until("the pointer is claimed", || {
            gate.lock().unwrap();
            let is_so = is_claimed(host) || pointer() != before;
            if !is_so {
                gate.unlock().unwrap();
            }
            is_so
        });
        stop(host, &child);
        let is_at_work = pointer() == before;
        gate.unlock().unwrap();
        if is_at_work {
            return child;
        }
        // It has moved the pointer between two looks.
        signal(&child, "KILL");
        ended(child);
        host.change(&attempt.to_string());
    }
    panic!("it is never seen at work");
}

fn object(host: &TestHost, name: &str) -> Value {
    serde_json::from_slice(&fs::read(host.object(name)).unwrap()).unwrap()
}

/// Whether somebody holds the lock and has written that into the pointer.
fn is_claimed(host: &TestHost) -> bool {
    let (lock, pointer) = (object(host, "lock.json"), object(host, "latest.json"));
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let nonce = &lock["pstore"]["nonce"];
    lock["expires_at_ms"].as_u64() > Some(now_ms)
        && nonce.is_string()
        && pointer["pstore"]["lease"]["nonce"] == *nonce
}

/// The file that is locked to replace the pointer of acme/alice.
fn gate_of_the_pointer(host: &TestHost) -> File {
    let slot = blake3::hash(b"snapshots/acme/alice/131/latest.json").as_bytes()[0];
    let path = host.path(&format!(".local/share/pstore/store/locks/{slot:02x}"));
    File::options().read(true).write(true).open(path).expect("somebody has locked it before")
}

/// Where it keeps nobody from the files of the store: those are locked for moments only, and
/// a process that rests in one of them is another story.
fn stop(host: &TestHost, child: &Child) {
    let id = child.id().to_string();
    let rests = || {
        let threads = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        threads.flatten().all(|thread| {
            // Those that have ended by themselves may still be listed, or be gone by now.
            let Ok(stat) = fs::read_to_string(thread.path().join("stat")) else { return true };
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 'Z', 'X']))
        })
    };
    let locks = || {
        let held = fs::read_to_string("/proc/locks").unwrap();
        let files = fs::read_dir(host.path(".local/share/pstore/store/locks")).unwrap();
        let files: Vec<String> =
            files.flatten().map(|file| format!(":{}", file.metadata().unwrap().ino())).collect();
        held.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.contains(&id.as_str())
                && files.iter().any(|file| words.iter().any(|word| word.ends_with(file)))
        })
    };
    loop {
        signal(child, "STOP");
        until("it rests", rests);
        if !locks() {
            return;
        }
        // For no longer than it takes to say so.
        signal(child, "CONT");
    }
}

fn going_on(child: Child) -> Ran {
    signal(&child, "CONT");
    ended(child)
}

/// The command in the hint, in backquotes.
fn advised(ran: &Ran) -> String {
    let hint = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("hint: `pstore "))
        .unwrap_or_else(|| panic!("{ran:?}"));
    hint.split('`').next().unwrap().to_owned()
}

/// Everybody who opens a file.
struct Looks(OwnedFd);

impl Looks {
    fn at(path: &Path) -> Self {
        let watch = inotify::init(CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, path, WatchFlags::OPEN).unwrap();
        Self(watch)
    }

    fn wait_for(&self, count: usize) {
        let mut buffer = [MaybeUninit::uninit(); 512];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        for _ in 0..count {
            assert_eq!(events.next().unwrap().events(), ReadFlags::OPEN);
        }
    }
}

#[test]
fn somebody_elses_lock_is_respected() {
    let host = stored();
    let token = host.acquire("other", "--host elsewhere");
    host.change("mine");
    let ran = host.run("snapshot udd acme/alice");
    ran.refused(
        24,
        &[
            "is locked by run \"other\" on \"elsewhere\"",
            "--wait SECONDS",
            "`pstore force-unlock acme/alice --chrome-major 131",
        ],
    );
    assert_eq!(host.json("snapshot udd acme/alice")["error"]["holder_run_id"], "other");
    let looks = Looks::at(&host.object("lock.json"));
    let waiting = host.start("snapshot udd acme/alice --wait 60");
    // Who finds it held does not look again unless it waits.
    looks.wait_for(3);
    host.ok(&format!("lock release acme/alice --token {token}"));
    let ran = ended(waiting);
    assert!(ran.code == 0 && ran.stdout.contains("pointer  moved from"), "{ran:?}");
    assert_eq!(host.lock_state(), "free");
}

#[test]
fn a_token_is_as_good_as_the_lock() {
    let host = stored();
    let token = host.acquire("mine", "");
    host.change("one");
    host.ok(&format!("snapshot udd acme/alice --lock-token {token}"));
    assert_eq!(host.lock_state(), "held", "its taker gives it back");
    assert_eq!(host.event("flip")["by"]["run_id"], "mine", "and is who acts");
    host.change("two");
    let ran = host.run_with("snapshot udd acme/alice", &[("PSTORE_LOCK_TOKEN", &token)]);
    assert_eq!(ran.code, 0, "{ran:?}");
    host.change("three");
    host.run_with("snapshot udd acme/alice", &[("PSTORE_LOCK_TOKEN", "")]).refused(24, &["\"mine\""]);
    host.run_with("snapshot udd acme/bob", &[("PSTORE_LOCK_TOKEN", &token)])
        .refused(25, &["acme/bob", "PSTORE_LOCK_TOKEN is not that of this profile's lock"]);
}

#[test]
fn a_stale_token_moves_nothing() {
    let host = stored();
    let token = host.acquire("mine", "");
    host.ok("force-unlock acme/alice --reason test --confirm");
    let before = host.json("list acme/alice");
    host.change("late");
    let stale = format!("snapshot udd acme/alice --lock-token {token}");
    host.run(&stale).refused(25, &["was lost", "is not that of this profile's lock"]);
    host.acquire("other", "");
    host.run(&stale).refused(25, &["was lost to run \"other\""]);
    assert_eq!(host.json(&stale)["error"]["holder_run_id"], "other");
    assert_eq!(host.json("list acme/alice"), before);
}

#[test]
fn a_holder_whose_pointer_an_operator_moved_does_not_move_it_back() {
    let host = stored();
    let first = host.json("list acme/alice")["active_sha256_prefix"].as_str().unwrap().to_owned();
    host.capture("second");
    let token = host.acquire("mine", "");
    host.ok(&format!("rollback acme/alice --sha {first} --confirm --force --reason broken"));
    host.change("third");
    host.run(&format!("snapshot udd acme/alice --lock-token {token}"))
        .refused(26, &["`pstore log acme/alice --chrome-major 131` tells who"]);
    assert!(host.ok("lock show acme/alice").contains("claim     none: this holder cannot move the pointer"));
    assert_eq!(host.json("list acme/alice")["active_sha256_prefix"], first.as_str());
}

#[test]
fn what_was_stored_when_an_operator_moved_the_pointer_can_still_be_chosen() {
    let host = stored();
    let first = host.json("list acme/alice")["active_sha256_prefix"].as_str().unwrap().to_owned();
    host.capture("second");
    let child = stopped(&host, "");
    host.ok(&format!("rollback acme/alice --sha {first} --confirm --force --reason broken"));
    let ran = going_on(child);
    ran.refused(26, &["was moved by somebody else", "is stored"]);
    assert_eq!(host.json("list acme/alice")["active_sha256_prefix"], first.as_str());
    let advised = advised(&ran);
    assert!(host.ok(&advised).contains("the pointer was moved"), "{advised}");
    host.ok("restore acme/alice out");
    assert!(host.path("out/23").exists());
}

#[test]
fn what_was_stored_when_the_lock_was_lost_can_still_be_chosen() {
    let host = stored();
    let child = stopped(&host, "--run-id victim");
    host.ok("force-unlock acme/alice --reason stuck --confirm");
    let token = host.acquire("successor", "");
    let ran = going_on(child);
    ran.refused(25, &["was lost to run \"successor\"", "is stored"]);
    assert_eq!(host.event("lock_lost")["by"]["run_id"], "victim");
    let advised = advised(&ran);
    host.run(&advised).refused(24, &["\"successor\"", "--force"]);
    host.ok(&format!("lock release acme/alice --token {token}"));
    host.ok(&advised);
}

#[test]
fn a_snapshot_that_was_killed_is_in_nobodys_way() {
    let host = stored();
    let child = stopped(&host, "--run-id killed");
    host.run("snapshot udd acme/alice").refused(24, &["\"killed\""]);
    signal(&child, "KILL");
    ended(child);
    host.ok("snapshot udd acme/alice");
    let event = host.event("lock_evicted");
    assert_eq!((&event["holder_run_id"], &event["reason"]), (&"killed".into(), &"holder_dead".into()));
    host.ok("verify acme/alice --read-data");
}

#[test]
fn a_snapshot_that_is_told_to_end_gives_the_lock_back() {
    for name in ["INT", "TERM"] {
        let host = stored();
        let child = stopped(&host, "");
        signal(&child, name);
        let ran = going_on(child);
        assert_eq!(ran.code, 130, "{name}: {ran:?}");
        assert_eq!(host.lock_state(), "free", "{name}");
        host.ok("snapshot udd acme/alice");
    }
}

#[test]
fn two_at_once_end_in_order() {
    let host = stored();
    host.change("both");
    fs::create_dir(host.path("other")).unwrap();
    fs::write(host.path("other/file"), "another profile altogether").unwrap();
    let one = host.start("snapshot udd acme/alice --wait 60");
    let two = host.start("snapshot other acme/alice --chrome-major 131 --wait 60");
    for ran in [ended(one), ended(two)] {
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let flips: Vec<_> = host.events().into_iter().filter(|event| event["kind"] == "flip").collect();
    assert_eq!(flips.len(), 3);
    assert_eq!(flips[2]["from_sha256_prefix"], flips[1]["to_sha256_prefix"]);
    assert_eq!(host.lock_state(), "free");
}
