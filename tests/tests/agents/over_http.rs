//! These tests drive `/mcp` of `pstore serve` with the official Python client, and with tokens of several tenants.

use serde_json::{Value, json};
use tests::served::{Served, Tokens, request, with_header};

use crate::scene::{CURRENT, PREVIOUS, Scene};

/// A server that offers the workspaces of a scene, and a token of `acme`.
struct Offered {
    scene: Scene,
    tokens: Tokens,
    server: Served,
    secret: String,
}

impl Offered {
    fn new() -> Self {
        let scene = Scene::new();
        let tokens = Tokens::new(scene.folder.path());
        let secret = tokens.add(&scene.host, "acme", "run");
        let workspaces = scene.workspaces().to_str().unwrap().to_owned();
        let server = Served::start_with(&scene.host, &tokens.path, &["--workspaces", &workspaces]);
        Self { scene, tokens, server, secret }
    }

    #[track_caller]
    fn play(&self, scenario: &str, mode: &str, more: &Value) {
        let mut document = more.clone();
        document["url"] = format!("http://{}/mcp", self.server.address).into();
        document["token"] = self.secret.as_str().into();
        self.scene.drive(scenario, mode, &mut document);
        assert!(!self.server.said().contains("panic"), "{}", self.server.said());
        assert!(!self.server.said().contains(&self.secret), "{}", self.server.said());
    }
}

#[test]
fn every_tool_does_what_it_says() {
    // The fork is a second workspace, so the first has to be named from then on.
    Offered::new().play("every_tool", CURRENT, &json!({ "workspace": "acme/agent-7" }));
}

#[test]
fn every_tool_does_what_it_says_in_the_revisions_before() {
    Offered::new().play("every_tool", PREVIOUS, &json!({ "workspace": "acme/agent-7" }));
}

#[test]
fn what_is_wrong_is_told_with_what_to_do_next_and_nothing_outside_is_touched() {
    Offered::new().play("what_is_wrong", CURRENT, &json!({}));
}

#[test]
fn a_long_call_tells_how_far_it_is_and_keeps_no_other_waiting() {
    Offered::new().play("two_calls_at_once", CURRENT, &json!({}));
}

#[test]
fn a_token_reaches_the_workspaces_of_its_own_tenants_and_learns_of_no_other() {
    let offered = Offered::new();
    let other = offered.scene.workspaces().join("other");
    offered.scene.start(&other, "globex/agent-1");
    offered.scene.start(&offered.scene.workspaces().join("second"), "acme/agent-8");
    let more = json!({ "own": ["acme/agent-7", "acme/agent-8"], "other": "globex/agent-1", "other_directory": other });
    offered.play("other_tenants", CURRENT, &more);
}

#[test]
fn who_has_no_token_or_too_small_a_role_is_refused() {
    let offered = Offered::new();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    offered.server.call("POST /mcp", None, Some(&body)).refused(401, "denied");
    offered.server.call("POST /mcp", Some("wrong"), Some(&body)).refused(401, "denied");
    let reader = offered.tokens.add(&offered.scene.host, "acme", "read");
    let refused = tests::served::Served::start_with(
        &offered.scene.host,
        &offered.tokens.path,
        &["--workspaces", offered.scene.workspaces().to_str().unwrap()],
    );
    refused.call("POST /mcp", Some(&reader), Some(&body)).refused(403, "denied");
}

#[test]
fn what_is_no_message_is_refused_and_the_server_goes_on() {
    let offered = Offered::new();
    let send = |body: &str| {
        let head = request("POST /mcp", Some(&offered.secret), Some(body));
        let head = with_header(&head, "Accept: application/json, text/event-stream");
        offered.server.send(&with_header(&head, "Content-Type: application/json"))
    };
    for body in ["", "{", "[]", "{}", r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0","id":1,"method":7}"#] {
        let status = send(body).status;
        assert!((400..500).contains(&status), "{body}: {status}");
    }
    let huge = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(send(&huge).status, 413);
    assert_eq!(offered.server.call("GET /mcp", Some(&offered.secret), None).status, 405);
    assert_eq!(offered.server.call("DELETE /mcp", Some(&offered.secret), None).status, 405);
    offered.play("a_full_pool", CURRENT, &json!({}));
}

#[test]
fn a_server_without_workspaces_says_how_it_gets_them() {
    let scene = Scene::new();
    let tokens = Tokens::new(scene.folder.path());
    let secret = tokens.add(&scene.host, "acme", "run");
    let server = Served::start(&scene.host, &tokens.path);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let problem = server.call("POST /mcp", Some(&secret), Some(&body)).refused(404, "not_found");
    assert!(problem["hint"].as_str().unwrap().contains("--workspaces"), "{problem:#}");
}
