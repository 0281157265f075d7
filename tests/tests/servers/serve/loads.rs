//! These tests ask with which snapshot a browser starts, and compare the answer with the contract's words.

use serde_json::{Value, json};
use tests::served::{Reply, Served};

use super::{ALICE, Scene};

fn load(server: &Served, secret: &str, profile: &str, body: &Value) -> Reply {
    server.call(&format!("POST /v1/profile-snapshots/acme/{profile}/loads"), Some(secret), Some(body))
}

#[test]
fn a_load_names_the_snapshot_and_its_archive() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let shown = server.call(&format!("GET {ALICE}/latest"), Some(&secret), None).expect(200);
    let major = &shown["chrome_major_version"];
    let loaded = load(&server, &secret, "alice", &json!({ "chrome_major_version": major })).expect(200);
    assert_eq!((&loaded["outcome"], &loaded["reason"]), (&"success".into(), &Value::Null));
    assert_eq!(loaded["snapshot"]["sha256_prefix"], scene.shas[1]);
    assert_eq!(loaded["snapshot"]["record"], shown["record"]);
    let archive = loaded["archive"].as_str().unwrap();
    let fetched = server.call(&format!("GET {archive}"), Some(&secret), None);
    assert_eq!(fetched.status, 200, "{fetched:?}");
    let body = json!({ "chrome_major_version": major, "sha_prefix": scene.shas[0] });
    let older = load(&server, &secret, "alice", &body).expect(200);
    assert_eq!(older["snapshot"]["sha256_prefix"], scene.shas[0]);
    let body = json!({ "chrome_major_version": major, "sha_prefix": "ffffffffffff" });
    load(&server, &secret, "alice", &body).refused(404, "not_found");
}

/// What cannot be loaded is an empty profile with a reason, and no error.
#[test]
fn a_browser_starts_though_nothing_can_be_loaded() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let shown = server.call(&format!("GET {ALICE}/latest"), Some(&secret), None).expect(200);
    let major = shown["chrome_major_version"].as_u64().unwrap();
    let fresh = |profile: &str, body: Value, outcome: &str| {
        let loaded = load(&server, &secret, profile, &body).expect(200);
        assert_eq!(loaded["outcome"], outcome, "{loaded:#}");
        assert!(loaded["reason"].is_string(), "{loaded:#}");
        assert_eq!((&loaded["snapshot"], &loaded["archive"]), (&Value::Null, &Value::Null));
    };
    fresh("nobody", json!({ "chrome_major_version": major }), "no_prior_state");
    fresh("alice", json!({ "chrome_major_version": major + 1 }), "version_mismatch");
    let body = json!({ "chrome_major_version": major + 1, "require": true });
    load(&server, &secret, "alice", &body).refused(409, "version_mismatch");
    let body = json!({ "chrome_major_version": major + 1, "upgrade_from": major });
    let upgraded = load(&server, &secret, "alice", &body).expect(200);
    assert_eq!(upgraded["outcome"], "success");
    assert_eq!(upgraded["snapshot"]["chrome_major_version"], major);
    assert!(!upgraded["warnings"].as_array().unwrap().is_empty(), "{upgraded:#}");
    for wrong in [json!({}), json!({ "chrome_major_version": "x" }), json!({ "chrome_major_version": 0 })] {
        load(&server, &secret, "alice", &wrong).refused(400, "invalid_input");
    }
}
