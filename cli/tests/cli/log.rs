//! These tests read from the log what has happened, with who, when and why.

use crate::test_host::TestHost;

#[test]
fn everything_that_happens_is_told_in_order() {
    let host = TestHost::new();
    let first = host.capture("first");
    let second = host.capture("second");
    host.ok(&format!(
        "rollback acme/alice --sha {first} --confirm --reason logged-out --run-id op-1 --host host"
    ));
    host.ok(&format!("delete acme/alice --sha {second} --reason broken --run-id op-2 --host host"));
    host.acquire("stuck", "--host h1 --host-run-id fc-01");
    host.ok("force-unlock acme/alice --reason host-died --confirm --run-id op-3 --host host");
    host.forget("forgotten", "");
    host.ok("reap --grace 0 -q --run-id reaper --host host");

    let kinds: Vec<String> =
        host.events().iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["flip", "flip", "rollback", "delete", "force_unlock", "lock_evicted"]);
    let text = host.ok("log acme/alice");
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with("WHEN (UTC) ") && rows.len() == 7, "{text}");
    for (row, parts) in [
        (1, vec!["flip", "nothing -> ", &first]),
        (2, vec!["flip", &first, " -> ", &second]),
        (3, vec!["rollback", "op-1 on host", "logged-out"]),
        (4, vec!["delete", &second, "op-2 on host", "broken"]),
        (5, vec!["force_unlock", "held by stuck", "op-3 on host", "host-died"]),
        (6, vec!["lock_evicted", "held by forgotten", "reaper on host", "ttl_expired"]),
    ] {
        assert!(rows[row].starts_with("20") && rows[row].as_bytes()[10] == b' ', "a time: {text}");
        for part in parts {
            assert!(rows[row].contains(part), "{part:?} in row {row}: {text}");
        }
    }
    assert_eq!(host.ok("log acme/alice --last 1").lines().count(), 2);
    assert_eq!(host.ok("log acme/alice --last 0"), text);
}

#[test]
fn an_event_that_cannot_be_read_hides_no_other() {
    let host = TestHost::new();
    host.capture("first");
    host.capture("second");
    let events: Vec<_> =
        std::fs::read_dir(host.object("events")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let oldest = events.iter().min().unwrap();
    std::fs::write(oldest, "{").unwrap();
    let ran = host.run("log acme/alice --json");
    assert!(ran.code == 0 && ran.stderr.contains("is damaged"), "{ran:?}");
    assert_eq!((&ran.json()["unreadable"], ran.json()["events"].as_array().unwrap().len()), (&1.into(), 1));
}

#[test]
fn an_event_that_was_never_stored_is_told_all_the_same() {
    let host = TestHost::new();
    host.capture("first");
    for entry in std::fs::read_dir(host.object("events")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(host.events().len(), 1, "the pointer itself knows how it came there");
    host.capture("second");
    assert_eq!(host.events().len(), 2, "and the next move stores that first");
}

#[test]
fn what_is_not_there_has_no_log() {
    let host = TestHost::new();
    host.run("log acme/alice").refused(3, &["there is no store"]);
    host.ok("snapshot udd acme/alice");
    host.run("log acme/bob").refused(3, &["acme/bob does not exist", "acme/alice"]);
    host.run("log other/bob").refused(3, &["tenant other does not exist"]);
    host.run("log acme/alice --last some").refused(2, &["--last"]);
}
