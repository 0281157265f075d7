//! These tests run on hosts whose clocks are wrong, by an hour or by forty days.

use std::path::Path;

use crate::{
    retention::configured,
    test_host::{Ran, TestHost},
};

const FAKETIME: &str = "/usr/bin/faketime";

/// Runs a line on a host whose clock is off by so much.
pub fn run_at(host: &TestHost, offset: &str, line: &str) -> Ran {
    assert!(Path::new(FAKETIME).exists(), "scripts/setup test installs faketime");
    let command = host.command(line);
    let mut faked = std::process::Command::new(FAKETIME);
    faked.args(["-f", offset]).arg(command.get_program()).args(command.get_args());
    faked.env_clear().env("NO_FAKE_STAT", "1").current_dir(command.get_current_dir().unwrap());
    faked.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Ran::of(line, faked.output().unwrap())
}

fn stored() -> TestHost {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host
}

#[test]
fn the_clock_is_really_wrong() {
    let host = stored();
    let event = |offset: &str| {
        host.change(offset);
        assert_eq!(run_at(&host, offset, "snapshot udd acme/alice").code, 0);
        let events = host.events();
        events.iter().map(|event| event["at_ms"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let now = event("+0");
    assert!(event("+1h").iter().max() > now.iter().max().map(|at| at + 3_500_000).as_ref());
}

#[test]
fn a_lock_that_is_held_is_not_taken_whatever_the_clock_says() {
    for offset in ["+1h", "-1h"] {
        let host = stored();
        host.acquire("holder", "--ttl 30");
        for line in
            ["lock acquire acme/alice", "snapshot udd acme/alice --rescan", "lock hold acme/alice -- true"]
        {
            host.change(line);
            run_at(&host, offset, line).refused(24, &["\"holder\"", "expires in 2"]);
        }
        let swept = run_at(&host, offset, "reap --grace 0 --json").json();
        assert_eq!((&swept["left"], &swept["evicted"]), (&1.into(), &serde_json::json!([])), "{offset}");
        let shown = run_at(&host, offset, "lock show acme/alice --json").json();
        assert_eq!(shown["state"], "held", "{offset}");
    }
}

#[test]
fn a_lock_that_has_expired_is_taken_whatever_the_clock_says() {
    for offset in ["+1h", "-1h"] {
        let host = stored();
        host.forget("holder", "");
        let taken = run_at(&host, offset, "lock acquire acme/alice --json --ttl 5").json();
        assert_eq!(taken["outcome"], "forced_expired", "{offset}: {taken}");
        host.age_lock();
        let swept = run_at(&host, offset, "reap --grace 0 --json").json();
        assert_eq!(swept["evicted"].as_array().unwrap().len(), 1, "{offset}: {swept}");
    }
}

#[test]
fn a_lock_taken_on_a_wrong_clock_holds_as_long_as_any_other() {
    for offset in ["+1h", "-1h"] {
        let host = stored();
        let token = run_at(&host, offset, "lock acquire acme/alice -q --ttl 30 --run-id wrong");
        host.run("lock acquire acme/alice").refused(24, &["\"wrong\"", "expires in 2"]);
        let token = token.stdout.trim();
        host.change(offset);
        let ran = run_at(&host, offset, &format!("snapshot udd acme/alice --lock-token {token}"));
        assert_eq!(ran.code, 0, "{ran:?}");
        host.ok(&format!("lock renew acme/alice --token {token}"));
        assert_eq!(host.json(&format!("lock release acme/alice --token {token}"))["outcome"], "released");
    }
}

/// Takes a snapshot on a host whose clock is off by so much; its record.
fn captured_at(host: &TestHost, offset: &str, change: &str) -> String {
    host.change(change);
    let document = run_at(host, offset, "snapshot udd acme/alice --json").json();
    document["record"].as_str().unwrap_or_else(|| panic!("{document}")).to_owned()
}

/// The records there are, as they are listed.
fn listed(host: &TestHost) -> Vec<String> {
    let document = host.json("list acme/alice");
    let snapshots = document["snapshots"].as_array().unwrap();
    snapshots.iter().map(|entry| entry["record"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_snapshot_of_a_host_with_a_wrong_clock_makes_no_other_old() {
    for offset in ["+40d", "-40d"] {
        let host = configured("retention.max_age_days = 30");
        let mut taken: Vec<String> =
            ["1", "2", "3", "4"].map(|change| captured_at(&host, "+0", change)).to_vec();
        taken.push(captured_at(&host, offset, "5"));
        assert_eq!(listed(&host), taken, "{offset}");
        // Nor does it look old to others, once it is not the current one any more.
        taken.push(captured_at(&host, "+0", "6"));
        assert_eq!(listed(&host), taken, "{offset}");
        for offset in ["+0", "+40d", "-40d"] {
            let applied = run_at(&host, offset, "retention apply --json").json();
            assert_eq!(applied["removed"], 0, "{offset}: {applied}");
        }
    }
}

#[test]
fn a_snapshot_of_a_host_with_a_wrong_clock_has_the_place_at_which_it_was_stored() {
    for offset in ["+40d", "-40d"] {
        let host = configured("retention.keep = 3");
        let taken: Vec<String> = [("+0", "1"), (offset, "2"), ("+0", "3"), ("+0", "4"), ("+0", "5")]
            .map(|(offset, change)| captured_at(&host, offset, change))
            .to_vec();
        assert_eq!(listed(&host), taken[2..], "{offset}");
        let host = configured("retention.keep = 3");
        let taken: Vec<String> = [("+0", "1"), ("+0", "2"), ("+0", "3"), (offset, "4"), ("+0", "5")]
            .map(|(offset, change)| captured_at(&host, offset, change))
            .to_vec();
        assert_eq!(listed(&host), taken[2..], "{offset}");
    }
}

#[test]
fn a_tag_protects_for_its_time_whatever_the_clock_of_who_set_it_says() {
    for offset in ["+40d", "-40d"] {
        let host = configured("retention.keep = \"one\"\nretention.tagged_days = 30");
        let tagged = captured_at(&host, "+0", "1");
        assert_eq!(run_at(&host, offset, "tag acme/alice keep").code, 0);
        let current = captured_at(&host, "+0", "2");
        assert_eq!(listed(&host), [tagged, current], "{offset}");
    }
}
