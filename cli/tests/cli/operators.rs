//! These tests do what people on call do: take locks away, go back, give names.

use std::fs;

use crate::test_host::TestHost;

fn stored() -> (TestHost, String, String) {
    let host = TestHost::new();
    let first = host.capture("first");
    let second = host.capture("second");
    (host, first, second)
}

#[test]
fn the_reaper_takes_what_has_expired_and_nothing_else() {
    let (host, ..) = stored();
    host.ok("snapshot udd acme/bob");
    host.ok("snapshot udd other/carol");
    host.forget("forgotten", "--host h1 --host-run-id fc-01");
    host.ok("lock acquire acme/bob --run-id alive -q");
    let fresh = host.json("reap --run-id reaper");
    assert_eq!(
        (&fresh["evicted"], &fresh["left"]),
        (&serde_json::json!([]), &2.into()),
        "less than the grace of 60 s"
    );
    assert_eq!(fresh["tenants"], 2);

    let ran = host.run("reap --grace 0 --json --run-id reaper");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stderr.contains("warning: ") && ran.stderr.contains("holder_run_id=\"forgotten\""),
        "{ran:?}"
    );
    let swept = ran.json();
    assert_eq!(
        (&swept["left"], &swept["free"], &swept["failed"]),
        (&1.into(), &1.into(), &serde_json::json!([]))
    );
    let evicted = &swept["evicted"][0];
    for (field, value) in [
        ("holder_run_id", "forgotten"),
        ("holder_host", "h1"),
        ("holder_host_run_id", "fc-01"),
        ("reason", "ttl_expired"),
        ("profile_id", "alice"),
    ] {
        assert_eq!(evicted[field], value);
    }
    assert_eq!(host.lock_state(), "free");
    assert_eq!(host.json("lock show acme/bob")["holder_run_id"], "alive");
    let event = host.event("lock_evicted");
    assert_eq!((&event["by"]["run_id"], &event["holder_run_id"]), (&"reaper".into(), &"forgotten".into()));
    assert_eq!(host.ok("reap acme --grace 0"), "0 locks evicted, 1 held\n");
    host.run("reap nobody").refused(3, &["nobody does not exist", "acme, other"]);
}

#[test]
fn the_reaper_says_whose_lock_it_took_in_words_too() {
    let (host, ..) = stored();
    host.forget("forgotten", "--host h1");
    let text = host.ok("reap --grace 0");
    assert!(
        text.starts_with("evicted acme/alice (Chrome 131): run \"forgotten\" on \"h1\", expired "),
        "{text}"
    );
    assert!(text.ends_with("1 lock evicted, 0 held\n"), "{text}");
}

#[test]
fn one_that_cannot_be_read_keeps_no_other_from_being_swept() {
    let (host, ..) = stored();
    host.ok("snapshot udd acme/bob");
    host.ok("snapshot udd other/carol");
    host.forget("forgotten", "");
    let bob = host.path(".local/share/pstore/store/objects/snapshots/acme/bob/131/lock.json");
    fs::write(bob, "{").unwrap();
    let tenant = host.path(".local/share/pstore/store/objects/content/other/tenant.json");
    fs::write(tenant, "{").unwrap();
    let ran = host.run("reap --grace 0 --json");
    ran.refused(40, &["2 of 2 tenants failed", "other is passed over", "the lock of acme/bob"]);
    let swept = ran.json();
    assert_eq!(swept["evicted"][0]["holder_run_id"], "forgotten");
    assert_eq!(
        (&swept["failed"][0]["profile"], &swept["failed"][1]["profile"]),
        (&"the lock of acme/bob (Chrome 131)".into(), &"other".into())
    );
}

#[test]
fn a_lock_is_taken_away_only_with_a_reason_and_a_confirmation() {
    let (host, ..) = stored();
    let token = host.acquire("stuck", "--host h1");
    let before = fs::read(host.object("lock.json")).unwrap();
    host.run("force-unlock acme/alice").refused(2, &["--reason"]);
    host.run("force-unlock acme/alice --confirm").refused(2, &["--reason"]);
    host.run_args("force-unlock acme/alice --confirm", &["--reason", "  "])
        .refused(2, &["--reason is empty"]);
    let long = "x".repeat(4097);
    host.run_args("force-unlock acme/alice --confirm", &["--reason", &long])
        .refused(2, &["longer than 4096"]);
    let plan = host.ok("force-unlock acme/alice --reason gone");
    assert!(
        plan.contains("is locked by run \"stuck\" on \"h1\"") && plan.contains("nothing was written"),
        "{plan}"
    );
    assert_eq!(host.json("force-unlock acme/alice --reason gone")["outcome"], "planned");
    assert_eq!(fs::read(host.object("lock.json")).unwrap(), before);

    let ran =
        host.run_args("force-unlock acme/alice --confirm --run-id op", &["--reason", " the host is gone "]);
    assert_eq!(
        ran.stdout,
        "the lock of acme/alice (Chrome 131) was taken away from run \"stuck\" on \"h1\"\n"
    );
    let lock: serde_json::Value =
        serde_json::from_slice(&fs::read(host.object("lock.json")).unwrap()).unwrap();
    assert_eq!((&lock["holder_run_id"], &lock["expires_at_ms"]), (&"operator-force".into(), &0.into()));
    let event = host.event("force_unlock");
    assert_eq!((&event["by"]["run_id"], &event["reason"]), (&"op".into(), &"the host is gone".into()));
    assert_eq!(event["holder_run_id"], "stuck");
    host.run(&format!("lock renew acme/alice --token {token}")).refused(25, &["was lost"]);
    assert_eq!(host.json("force-unlock acme/alice --reason again --confirm")["outcome"], "free");
}

#[test]
fn a_lock_that_cannot_be_read_is_replaced() {
    let (host, ..) = stored();
    for garbage in ["", "garbage", "{}", "[1]"] {
        host.acquire("unlucky", "");
        fs::write(host.object("lock.json"), garbage).unwrap();
        host.change(garbage);
        host.run("snapshot udd acme/alice").refused(10, &["lock.json is damaged", "`pstore force-unlock"]);
        let ran = host.run("force-unlock acme/alice --reason damaged");
        assert!(ran.stderr.contains("the lock cannot be read"), "{ran:?}");
        assert!(ran.stdout.contains("locked by a holder that cannot be read"), "{ran:?}");
        let taken = host.json("force-unlock acme/alice --reason damaged --confirm");
        assert_eq!(
            (&taken["outcome"], &taken["holder_run_id"]),
            (&"operator_force".into(), &serde_json::Value::Null)
        );
        host.ok("snapshot udd acme/alice");
    }
}

#[test]
fn going_back_is_planned_then_done() {
    let (host, first, second) = stored();
    let plan = host.ok(&format!("rollback acme/alice --sha {}", &first[..8]));
    assert!(plan.contains(&format!("from      {second}  captured ")), "{plan}");
    assert!(plan.contains(&format!("to        {first}  captured ")), "{plan}");
    assert!(plan.contains("nothing was written; add --confirm"), "{plan}");
    assert_eq!(host.json("list acme/alice")["active_sha256_prefix"], second.as_str());

    let done = host.json(&format!("rollback acme/alice --sha {first} --confirm --reason bad --run-id op"));
    assert_eq!(done["outcome"], "rolled_back");
    assert_eq!(done["flipped_from_sha256_prefix"], second.as_str());
    assert_eq!(host.json("list acme/alice")["active_sha256_prefix"], first.as_str());
    let event = host.event("rollback");
    assert_eq!((&event["by"]["run_id"], &event["reason"]), (&"op".into(), &"bad".into()));
    assert_eq!(event["to_sha256_prefix"], first.as_str());
    assert_eq!(host.json(&format!("rollback acme/alice --sha {first} --confirm"))["outcome"], "unchanged");
    host.run("rollback acme/alice").refused(2, &["`pstore rollback acme/alice@REF`"]);
    host.run("rollback acme/alice --sha 0000000000000000").refused(3, &["does not exist", "`pstore list"]);
}

#[test]
fn going_back_waits_for_whoever_holds_the_lock_unless_forced() {
    let (host, first, _) = stored();
    let token = host.acquire("busy", "");
    let line = format!("rollback acme/alice --sha {first} --confirm");
    host.run(&line).refused(24, &["\"busy\"", "--force"]);
    host.run(&format!("rollback acme/alice --sha {first}")).refused(24, &["\"busy\""]);
    assert_eq!(host.json(&line)["error"]["holder_run_id"], "busy");
    host.ok(&format!("{line} --force"));
    assert_eq!(host.json("list acme/alice")["active_sha256_prefix"], first.as_str());
    assert_eq!(host.json(&format!("lock release acme/alice --token {token}"))["outcome"], "released");
}

#[test]
fn names_are_given_shown_and_taken_away() {
    let (host, first, second) = stored();
    let tagged = host.json("tag acme/alice release-1");
    assert_eq!((&tagged["outcome"], &tagged["sha256_prefix"]), (&"tagged".into(), &second.as_str().into()));
    assert_eq!(host.json("tag acme/alice release-1")["outcome"], "unchanged");
    host.ok(&format!("tag acme/alice before --sha {first}"));
    let list = host.ok("list acme/alice");
    assert!(list.lines().nth(1).unwrap().ends_with("#before"), "{list}");
    assert!(list.lines().nth(2).unwrap().ends_with("#release-1"), "{list}");
    assert_eq!(host.json("list acme/alice")["snapshots"][0]["tags"], serde_json::json!(["before"]));
    assert!(host.ok("show acme/alice").contains("tag       release-1, "));
    assert_eq!(host.json(&format!("untag acme/alice before --sha {first}"))["tags"], serde_json::json!([]));
    host.run(&format!("untag acme/alice before --sha {first}"))
        .refused(3, &["tag \"before\"", "does not exist"]);
    host.run("tag acme/alice a/b").refused(2, &["A-Z a-z 0-9 . _ -"]);
    host.run(&format!("tag acme/alice {}", "x".repeat(65))).refused(2, &["1 to 64"]);
}
