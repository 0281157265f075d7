//! These tests follow how a snapshot came about.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::test_host::TestHost;

/// Three snapshots on top of each other; their ids, oldest first.
fn three() -> (TestHost, Vec<String>) {
    let host = TestHost::new();
    let ids = (0..3).map(|turn| {
        fs::write(host.path("udd/turn"), turn.to_string()).unwrap();
        let line =
            format!("snapshot -q udd acme/alice --host box --host-run-id run-{turn} --label turn={turn}");
        host.run(&line).stdout.trim().to_owned()
    });
    let ids = ids.collect();
    (host, ids)
}

fn record(host: &TestHost, sha: &str) -> PathBuf {
    let id = host.json(&format!("show acme/alice --sha {sha}"))["record"].as_str().unwrap().to_owned();
    host.path(&format!(".local/share/pstore/store/objects/snapshots/acme/alice/131/snap-{id}.json"))
}

#[test]
fn the_chain_is_told_back_to_the_first() {
    let (host, ids) = three();
    let text = host.ok("history acme/alice");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    for (line, id) in lines[1..4].iter().zip(ids.iter().rev()) {
        assert!(line.contains(&id[..12]) && line.contains("cold") && line.contains("manual"), "{line}");
    }
    assert!(lines[1].contains("box/run-2") && lines[1].ends_with("turn=2"), "{text}");
    assert_eq!(lines[4], "nothing came before it: it is the first snapshot of acme/alice (Chrome 131)");
    let text = host.ok(&format!("history acme/alice --sha {}", &ids[1][..12]));
    assert!(text.lines().count() == 4 && !text.contains(&ids[2][..12]), "{text}");
}

#[test]
fn the_document_has_the_chain_and_its_end() {
    let (host, ids) = three();
    let document = host.json("history acme/alice");
    let snapshots = document["snapshots"].as_array().unwrap();
    let found: Vec<&Value> = snapshots.iter().map(|line| &line["snapshot_id"]).collect();
    assert_eq!(found, [&json!(ids[2]), &json!(ids[1]), &json!(ids[0])]);
    assert_eq!(snapshots[0]["parent"], snapshots[1]["record"]);
    assert_eq!(snapshots[0]["captured_by"]["host_run_id"], "run-2");
    assert_eq!(snapshots[0]["state"], "live");
    let message = "nothing came before it: it is the first snapshot of acme/alice (Chrome 131)";
    let end = json!({ "reason": "first", "record": null, "sha256_prefix": null, "message": message });
    assert_eq!(document["end"], end);
}

#[test]
fn where_a_chain_ends_early_is_said() {
    let (host, ids) = three();
    let oldest = record(&host, &ids[0]);
    let whole = fs::read(&oldest).unwrap();
    let end = |expected: &str| {
        let document = host.json("history acme/alice");
        assert_eq!(document["snapshots"].as_array().unwrap().len(), 2);
        assert_eq!(document["end"]["reason"], expected);
        assert_eq!(document["end"]["sha256_prefix"], ids[0][..12]);
    };
    fs::remove_file(&oldest).unwrap();
    end("deleted");
    let text = host.ok("history acme/alice");
    assert!(text.ends_with(&format!("before it came {}, which was deleted\n", &ids[0][..12])), "{text}");
    fs::write(&oldest, &whole[..whole.len() / 2]).unwrap();
    end("unreadable");
    assert!(host.ok("history acme/alice").contains("which cannot be read: "));
}

#[test]
fn what_is_not_there_has_no_history() {
    let (host, _) = three();
    host.run("history acme/bob").refused(3, &["profile acme/bob does not exist"]);
    host.run("history acme/alice --sha ffffffffffff").refused(3, &["does not exist"]);
    host.run("history acme").refused(2, &["write it as TENANT/PROFILE"]);
}
