//! These tests check what goes by the rules of the configuration, and what never does.

use std::fs;

use serde_json::Value;

use crate::test_host::TestHost;

/// A profile with these rules.
pub fn configured(rules: &str) -> TestHost {
    let host = TestHost::new();
    let folder = host.path(".config/pstore");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pstore.toml"), format!("[tenants.acme]\n{rules}\n")).unwrap();
    host
}

fn stored(host: &TestHost) -> Vec<String> {
    let list = host.json("list acme/alice");
    let snapshots = list["snapshots"].as_array().unwrap();
    snapshots.iter().map(|line| line["sha256_prefix"].as_str().unwrap().to_owned()).collect()
}

fn decisions(document: &Value) -> Vec<(&str, &str, &str)> {
    let text = |line: &'_ Value, field: &str| -> &'static str {
        Box::leak(line[field].as_str().unwrap().to_owned().into_boxed_str())
    };
    let lines = document["snapshots"].as_array().unwrap();
    lines
        .iter()
        .map(|line| (text(line, "sha256_prefix"), text(line, "decision"), text(line, "rule")))
        .collect()
}

#[test]
fn without_rules_everything_stays() {
    let host = TestHost::new();
    let all = [host.capture("1"), host.capture("2"), host.capture("3")];
    let plan = host.json("retention plan acme/alice");
    assert_eq!(
        decisions(&plan),
        [(&*all[2], "keep", "current"), (&*all[1], "keep", "no_rule"), (&*all[0], "keep", "no_rule")]
    );
    assert_eq!(host.json("retention apply")["removed"], 0);
    assert_eq!(stored(&host).len(), 3);
}

#[test]
fn a_new_snapshot_takes_the_place_of_the_only_one() {
    let host = configured("retention.keep = \"one\"");
    host.capture("1");
    let second = host.capture("2");
    assert_eq!(stored(&host), [second.as_str()]);
    let event = host.event("delete");
    assert_eq!(event["reason"], "retention: only the current one is kept");
    host.ok("verify acme/alice --read-data");
}

#[test]
fn what_was_held_back_removes_nothing_and_stays() {
    let host = configured("retention.keep = \"one\"");
    host.capture("1");
    fs::write(host.path("udd/.pstore.json"), "{}").ok();
    host.ok("restore acme/alice fresh --chrome-major 99");
    let ran = host.run("snapshot fresh acme/alice --chrome-major 131");
    assert_eq!(ran.code, 29, "{ran:?}");
    assert_eq!(stored(&host).len(), 2);
    // Nor is it removed itself, before anybody has decided about it.
    let current = host.capture("2");
    let left = stored(&host);
    assert_eq!((left.len(), left.contains(&current)), (2, true), "{left:?}");
    let text = host.ok("retention plan acme/alice");
    assert!(text.contains("it was held back (fallback), and waits 6 more days for a decision"), "{text}");
    assert_eq!(host.json("retention apply acme/alice")["removed"], 0);
}

/// Whoever moves the pointer to it has decided: from then on it is like any other.
#[test]
fn a_rollback_ends_the_wait_of_what_was_held_back() {
    let host = configured("retention.keep = 1");
    host.capture("1");
    host.ok("restore acme/alice fresh --chrome-major 99");
    let ran = host.run("snapshot fresh acme/alice --chrome-major 131 --json");
    let held = ran.json()["record"].as_str().unwrap().to_owned();
    let waits = || host.json(&format!("show acme/alice --sha {held}"))["held_back"].clone();
    assert_eq!((ran.code, waits()), (29, "fallback".into()), "{ran:?}");
    let back = format!("rollback acme/alice --sha {held} --reason looked");
    host.ok(&back);
    assert_eq!(waits(), "fallback", "nothing was written");
    host.ok(&format!("{back} --confirm"));
    assert_eq!(waits(), Value::Null);
    let current = host.capture("2");
    assert_eq!(stored(&host), [current.as_str()]);
}

#[test]
fn a_plan_removes_nothing_and_tells_what_would_go() {
    let host = TestHost::new();
    let all = [host.capture("1"), host.capture("2"), host.capture("3")];
    host.ok(&format!("tag acme/alice first --sha {}", all[0]));
    let folder = host.path(".config/pstore");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("pstore.toml"), "[tenants.acme.profiles.alice]\nretention.keep = 1\n").unwrap();
    let plan = host.json("retention plan acme");
    let expected =
        [(&*all[2], "keep", "current"), (&*all[1], "remove", "keep"), (&*all[0], "keep", "tagged")];
    assert_eq!(decisions(&plan), expected);
    let text = host.ok("retention plan");
    assert!(text.contains("the newest 1 are kept, and it is number 2"), "{text}");
    assert!(text.contains("it is tagged \"first\""), "{text}");
    assert!(text.contains("1 snapshot would be removed"), "{text}");
    assert_eq!(stored(&host).len(), 3);
    let applied = host.json("retention apply acme/alice");
    assert_eq!(decisions(&applied)[1], (&*all[1], "removed", "keep"));
    assert_eq!(stored(&host), [all[0].as_str(), all[2].as_str()]);
}

#[test]
fn a_full_pool_of_checkpoints_refuses_the_next_and_rolls_the_others() {
    let host = configured("retention.auto = 1\nretention.manual = 2");
    let kept = [host.capture("1"), host.capture("2")];
    host.change("3");
    let ran = host.run("snapshot udd acme/alice --json");
    ran.refused(35, &["retention.manual allows 2"]);
    assert_eq!(ran.json()["error"]["kind"], "quota_exceeded");
    for n in 0..3 {
        host.change(&format!("auto {n}"));
        host.ok("snapshot udd acme/alice --reason autosave");
    }
    let left = stored(&host);
    assert_eq!((&left[..2], left.len()), (&kept[..], 3));
}

#[test]
fn who_acts_sets_the_reason_and_rules_speak_of_it() {
    let host = configured("retention.run_end = 1");
    host.capture("asked for");
    let run = |content: &str| {
        let script = format!("echo {content} > $0/Default/note");
        let ran = host.run_args("run acme/alice --copy -- sh -c", &[&script, "{profile}"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stderr.contains("captured acme/alice: snapshot "), "{ran:?}");
    };
    ["one", "two", "three"].into_iter().for_each(run);
    let reasons = |host: &TestHost| -> Vec<String> {
        let list = host.json("list acme/alice");
        let rows = list["snapshots"].as_array().unwrap();
        rows.iter().map(|row| row["reason"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(reasons(&host), ["manual", "run_end"]);
    host.ok("export acme/alice -o archives");
    let archive = fs::read_dir(host.path("archives")).unwrap().map(|entry| entry.unwrap().path());
    let archive = archive.into_iter().find(|path| path.to_str().unwrap().ends_with(".tar.zst")).unwrap();
    host.ok(&format!("import {} acme/bob", archive.display()));
    assert_eq!(host.json("list acme/bob")["snapshots"][0]["reason"], "import");
}

#[test]
fn a_profile_that_is_not_there_has_no_plan() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    for verb in ["plan", "apply"] {
        host.run(&format!("retention {verb} acme/alicf")).refused(3, &["acme/alicf", "acme/alice"]);
    }
}
