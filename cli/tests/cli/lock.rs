//! These tests take the lock of a profile, keep it and give it back.

use serde_json::Value;

use crate::test_host::{TestHost, ended};

fn stored() -> TestHost {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host
}

#[test]
fn a_lock_is_taken_renewed_shown_and_given_back() {
    let host = stored();
    assert_eq!(host.ok("lock show acme/alice"), "nobody holds the lock of acme/alice (Chrome 131)\n");
    let taken = host.json("lock acquire acme/alice --run-id run-1 --host h1 --host-run-id fc-01");
    assert_eq!(taken["outcome"], "acquired");
    assert_eq!(taken["renewal_count"], 0);
    let token = taken["token"].as_str().unwrap();
    let list = host.json("list acme/alice");
    assert_eq!(taken["active_sha256_prefix"], list["active_sha256_prefix"]);

    let shown = host.json("lock show acme/alice");
    assert_eq!(
        (&shown["state"], &shown["claimed"], &shown["pstore"]),
        (&"held".into(), &true.into(), &true.into())
    );
    for field in ["holder_run_id", "holder_host", "holder_host_run_id", "acquired_at_ms", "expires_at_ms"] {
        assert_eq!(shown[field], taken[field], "{field}");
    }
    let text = host.ok("lock show acme/alice");
    for part in ["holder    run-1, h1, fc-01\n", "renewed   0 times, last ", "expires   in 29"] {
        assert!(text.contains(part), "{part:?}: {text}");
    }

    let renewed = host.json(&format!("lock renew acme/alice --token {token}"));
    assert_eq!((&renewed["outcome"], &renewed["renewal_count"]), (&"renewed".into(), &1.into()));
    assert_eq!((&renewed["token"], &renewed["acquired_at_ms"]), (&taken["token"], &taken["acquired_at_ms"]));
    let quiet = host.run_with("lock renew acme/alice -q", &[("PSTORE_LOCK_TOKEN", token)]);
    assert_eq!(quiet.stdout.trim(), token);
    assert!(host.ok("lock show acme/alice").contains("renewed   2 times, last "));

    assert_eq!(host.json(&format!("lock release acme/alice --token {token}"))["outcome"], "released");
    assert_eq!(host.lock_state(), "free");
    assert_eq!(host.json(&format!("lock release acme/alice --token {token}"))["outcome"], "not_held");
    host.run(&format!("lock renew acme/alice --token {token}"))
        .refused(25, &["was lost", "`pstore log acme/alice --chrome-major 131`"]);
}

#[test]
fn a_conflict_names_the_holder() {
    let host = stored();
    host.acquire("run-1", "--host h1 --host-run-id fc-01 --ttl 77");
    let said = [
        "acme/alice (Chrome 131) is locked by run \"run-1\" on \"h1\" (\"fc-01\"), not renewed yet, expires in 7",
    ];
    host.run("lock acquire acme/alice").refused(24, &said);
    host.run("lock hold acme/alice -- true").refused(24, &said);
    let document = host.json("lock acquire acme/alice");
    let error = &document["error"];
    assert_eq!((&error["kind"], &error["exit_code"]), (&"lock_held".into(), &24.into()));
    for (field, value) in [("holder_run_id", "run-1"), ("holder_host", "h1"), ("holder_host_run_id", "fc-01")]
    {
        assert_eq!(error[field], value);
    }
    assert_eq!(error["renewal_count"], 0);
    let (remaining, acquired) = (error["remaining_ms"].as_u64().unwrap(), error["acquired_at_ms"].as_u64());
    assert!(remaining > 40_000 && remaining <= 77_000, "{error}");
    assert!(acquired.unwrap() > 1_700_000_000_000, "{error}");
}

#[test]
fn one_waits_for_another_to_give_it_back() {
    let host = stored();
    let token = host.acquire("first", "");
    let waiting = host.start("lock acquire acme/alice --run-id second --wait 60 --json");
    std::thread::sleep(std::time::Duration::from_millis(400));
    host.ok(&format!("lock release acme/alice --token {token}"));
    let taken: Value = ended(waiting).json();
    assert_eq!((&taken["outcome"], &taken["holder_run_id"]), (&"acquired".into(), &"second".into()));
    let ran = host.run("lock acquire acme/alice --wait 1");
    ran.refused(24, &["\"second\""]);
}

#[test]
fn an_expired_lock_is_taken_and_that_is_written_down() {
    let host = stored();
    let old = host.forget("first", "");
    let taken = host.json("lock acquire acme/alice --run-id second --wait 30");
    assert_eq!((&taken["outcome"], &taken["holder_run_id"]), (&"forced_expired".into(), &"second".into()));
    let event = host.event("lock_evicted");
    assert_eq!((&event["holder_run_id"], &event["reason"]), (&"first".into(), &"ttl_expired".into()));
    assert_eq!(event["by"]["run_id"], "second");
    host.run(&format!("lock renew acme/alice --token {old}")).refused(25, &["lost to run \"second\""]);
}

#[test]
fn an_expired_lock_that_nobody_took_is_still_its_holders() {
    let host = stored();
    let token = host.forget("first", "");
    assert_eq!(host.lock_state(), "expired");
    assert!(host.ok("lock show acme/alice").contains("ago; the next command takes it"));
    host.change("by the holder");
    host.ok(&format!("snapshot udd acme/alice --lock-token {token}"));
    host.ok(&format!("lock renew acme/alice --token {token}"));
}

#[test]
fn a_profile_that_is_new_is_named_with_its_chrome() {
    let host = stored();
    host.run("lock acquire acme/bob").refused(3, &["acme/bob does not exist", "--chrome-major 131"]);
    let token = host.ok("lock acquire acme/bob --chrome-major 131 -q").trim().to_owned();
    assert_eq!(host.json("lock show acme/bob --chrome-major 131")["state"], "held");
    host.run("snapshot udd acme/bob").refused(24, &["acme/bob (Chrome 131) is locked"]);
    host.ok(&format!("snapshot udd acme/bob --lock-token {token}"));
}

#[test]
fn of_several_chromes_the_newest_is_locked_unless_another_is_named() {
    let host = stored();
    host.ok("snapshot udd acme/alice --chrome-major 130 --force");
    let ran = host.run("lock acquire acme/alice");
    assert!(ran.stderr.contains("Chrome 130, 131; taking 131, the newest"), "{ran:?}");
    for (major, state) in [(130, "free"), (131, "held")] {
        assert_eq!(host.json(&format!("lock show acme/alice --chrome-major {major}"))["state"], state);
    }
    assert_eq!(host.json("lock acquire acme/alice --chrome-major 130")["chrome_major_version"], 130);
    host.run("lock show acme/alice --chrome-major 7").refused(3, &["snapshots of Chrome 130, 131"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let host = stored();
    host.run("lock acquire acme/alice --ttl 4").refused(2, &["from 5 to 86400 seconds"]);
    host.run("lock acquire acme/alice --ttl 86401").refused(2, &["from 5 to 86400 seconds"]);
    host.run("lock acquire acme/alice --wait soon").refused(2, &["a whole number of seconds"]);
    host.run("lock renew acme/alice").refused(2, &["--token is missing", "`pstore lock acquire`"]);
    host.run("lock renew acme/alice --token zz").refused(2, &["\"zz\" is not a valid lock token"]);
    host.run("lock hold acme/alice").refused(2, &["<COMMAND>"]);
    host.run_args("lock acquire acme/alice", &["--run-id", "a\nb"]).refused(2, &["no control characters"]);
    host.run_args("lock acquire acme/alice", &["--host", &"h".repeat(257)])
        .refused(2, &["at most 256 bytes"]);
    let variable = [("PSTORE_LOCK_TOKEN", "zz")];
    host.run_with("snapshot udd acme/alice", &variable).refused(2, &["PSTORE_LOCK_TOKEN: \"zz\" is not"]);
    assert_eq!(host.lock_state(), "free");
}
