//! These tests are a client that knows the contract alone: its five routes, and the names of its fields.

use serde_json::{Value, json};

use super::{ALICE, Scene};

fn shas(list: &Value) -> Vec<&str> {
    let rows = list["snapshots"].as_array().unwrap();
    rows.iter().map(|row| row["sha256_prefix"].as_str().unwrap()).collect()
}

#[test]
fn a_client_of_the_contract_lists_shows_rolls_back_deletes_and_unlocks() {
    let scene = Scene::new();
    let secret = scene.token("acme", "admin");
    let server = scene.serve();
    let call = |line: String, body: Option<Value>| server.call(&line, Some(&secret), body.as_ref());
    let [first, second] = &scene.shas;

    let list = call(format!("GET {ALICE}"), None).expect(200);
    assert_eq!(shas(&list), [first, second]);
    assert_eq!((&list["active_sha256_prefix"], &list["next"]), (&json!(second), &Value::Null));
    let newest = &list["snapshots"][1];
    for field in ["captured_at_ms", "mode", "chrome_major_version", "uncompressed_size_bytes"] {
        assert!(!newest[field].is_null(), "{field} is missing in {newest:#}");
    }

    let shown = call(format!("GET {ALICE}/{first}"), None).expect(200);
    assert_eq!((&shown["tenant_id"], &shown["profile_id"]), (&"acme".into(), &"alice".into()));
    assert_eq!((&shown["mode"], &shown["chrome_major_version"]), (&"cold".into(), &131.into()));
    assert_eq!(call(format!("GET {ALICE}/latest"), None).expect(200)["record"], newest["record"]);
    call(format!("GET {ALICE}/ffffffffffff"), None).refused(404, "not_found");
    call("GET /v1/profile-snapshots/acme/nobody".to_owned(), None).refused(404, "not_found");

    // What names another snapshot tomorrow, or may name several, deletes none.
    for vague in ["latest~1", "latest", "2026-11-15T10:00", "some-tag", &first[..11]] {
        let problem = call(format!("DELETE {ALICE}/{vague}"), None).refused(400, "invalid_input");
        assert!(problem["hint"].as_str().unwrap().contains("at least 12 digits"), "{problem:#}");
    }
    assert_eq!(shas(&call(format!("GET {ALICE}"), None).expect(200)), [first, second]);

    // The current one stays.
    let problem = call(format!("DELETE {ALICE}/{second}"), None).refused(409, "snapshot_needed");
    assert_eq!(problem["exit_code"], 27);

    let rollback = |confirm: bool| {
        let body = json!({ "sha_prefix": first, "confirm": confirm, "reason": "logged out" });
        call(format!("POST {ALICE}/rollback"), Some(body)).expect(200)
    };
    assert_eq!(rollback(false)["outcome"], "planned");
    assert_eq!(call(format!("GET {ALICE}"), None).expect(200)["active_sha256_prefix"], json!(second));
    let moved = rollback(true);
    assert_eq!((&moved["outcome"], &moved["active_sha256_prefix"]), (&"rolled_back".into(), &json!(first)));
    assert_eq!(moved["flipped_from_sha256_prefix"], json!(second));

    let deleted = call(format!("DELETE {ALICE}/{second}?reason=bad%20login"), None).expect(200);
    assert_eq!((&deleted["outcome"], &deleted["reason"]), (&"deleted".into(), &"bad login".into()));
    assert_eq!(shas(&call(format!("GET {ALICE}"), None).expect(200)), [first]);

    scene.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "stuck"]);
    let unlock = |body: Value| call(format!("POST {ALICE}/force-unlock"), Some(body));
    unlock(json!({ "confirm": true })).refused(400, "invalid_input");
    unlock(json!({ "confirm": true, "reason": " " })).refused(400, "invalid_input");
    let planned = unlock(json!({ "reason": "the host is gone" })).expect(200);
    assert_eq!((&planned["outcome"], &planned["holder_run_id"]), (&"planned".into(), &"stuck".into()));
    // Nobody moves the pointer past a holder.
    let body = json!({ "sha_prefix": first, "confirm": true });
    call(format!("POST {ALICE}/rollback"), Some(body)).refused(409, "lock_held");
    let done = unlock(json!({ "reason": "the host is gone", "confirm": true })).expect(200);
    assert_eq!((&done["outcome"], &done["holder_run_id"]), (&"operator_force".into(), &"stuck".into()));
    assert_eq!(scene.host.succeed(["lock", "show", "acme/alice"])["state"], "free");

    // The log names the token and the request.
    let log = scene.host.succeed(["log", "acme/alice", "--last", "0"]);
    let events = log["events"].as_array().unwrap();
    for kind in ["rollback", "force_unlock"] {
        let event =
            events.iter().find(|event| event["kind"] == kind).unwrap_or_else(|| panic!("{events:#?}"));
        assert!(event["by"]["run_id"].as_str().unwrap().starts_with("token admin-"), "{event:#}");
        assert!(event["by"]["host_run_id"].as_str().unwrap().starts_with("request "), "{event:#}");
    }
}

#[test]
fn a_rollback_past_a_holder_names_it() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    scene.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "busy", "--host", "h1"]);
    let body = json!({ "sha_prefix": scene.shas[0], "confirm": true });
    let reply = server.call(&format!("POST {ALICE}/rollback"), Some(&secret), Some(&body));
    let problem = reply.refused(409, "lock_held");
    assert_eq!((&problem["holder_run_id"], &problem["holder_host"]), (&"busy".into(), &"h1".into()));
    assert_eq!(problem["exit_code"], 24);
    // Only who may take locks away may do so this way.
    let forced = json!({ "sha_prefix": scene.shas[0], "confirm": true, "force": true });
    let call = |secret: &str| server.call(&format!("POST {ALICE}/rollback"), Some(secret), Some(&forced));
    call(&secret).refused(403, "denied");
    assert_eq!(scene.host.succeed(["lock", "show", "acme/alice"])["holder_run_id"], "busy");
    let admin = scene.token("acme", "admin");
    assert_eq!(call(&admin).expect(200)["outcome"], "rolled_back");
}

#[test]
fn a_long_list_comes_page_by_page() {
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let server = scene.serve();
    let mut all = scene.shas.to_vec();
    all.extend(["3", "4", "5"].map(|text| scene.capture("acme/alice", text)));
    let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let line = format!("GET {ALICE}?limit=2{after}");
        let page = server.call(&line, Some(&secret), None).expect(200);
        found.extend(shas(&page).into_iter().map(str::to_owned));
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!((found, pages), (all.clone(), 3));
    let everything = server.call(&format!("GET {ALICE}?limit=5"), Some(&secret), None).expect(200);
    assert_eq!((shas(&everything).len(), &everything["next"]), (5, &Value::Null));
    for wrong in ["limit=0", "limit=1001", "limit=x", "page=2", "chrome_major_version=0"] {
        server.call(&format!("GET {ALICE}?{wrong}"), Some(&secret), None).refused(400, "invalid_input");
    }
    server.call(&format!("GET {ALICE}?after=131:gone"), Some(&secret), None).refused(409, "conflict");
}
