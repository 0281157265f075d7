//! Requests that are sent again.

use std::thread;

use serde_json::{Value, json};
use tests::served::{Reply, Served, request, with_header};

use super::{ALICE, Scene};

fn post(server: &Served, secret: &str, below: &str, key: &str, body: &Value) -> Reply {
    let plain = request(&format!("POST {ALICE}/{below}"), Some(secret), Some(&body.to_string()));
    server.send(&with_header(&plain, &format!("Idempotency-Key: {key}")))
}

#[test]
fn a_request_that_is_sent_again_is_carried_out_once() {
    let scene = Scene::new();
    let (secret, other) = (scene.token("acme", "admin"), scene.token("acme", "admin"));
    let server = scene.serve();
    let lease = json!({ "holder_run_id": "run-1" });
    let first = post(&server, &secret, "leases", "k1", &lease);
    let again = post(&server, &secret, "leases", "k1", &lease);
    // The token that was lost on the way.
    assert_eq!(first.expect(200), again.expect(200));
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
    assert_ne!(first.header("x-request-id"), again.header("x-request-id"));
    // The key of another caller, or of another request.
    post(&server, &other, "leases", "k1", &lease).refused(409, "lock_held");
    post(&server, &secret, "leases", "k1", &json!({ "holder_run_id": "run-2" }))
        .refused(422, "invalid_input");
    post(&server, &secret, "force-unlock", "k1", &json!({ "reason": "x" })).refused(422, "invalid_input");
    // What was refused is tried again.
    let roll = json!({ "sha_prefix": scene.shas[0], "confirm": true });
    post(&server, &secret, "rollback", "k2", &roll).refused(409, "lock_held");
    let unlock = json!({ "reason": "a test", "confirm": true });
    post(&server, &secret, "force-unlock", "k3", &unlock).expect(200);
    assert_eq!(post(&server, &secret, "rollback", "k2", &roll).expect(200)["outcome"], "rolled_back");
    assert_eq!(post(&server, &secret, "rollback", "k2", &roll).expect(200)["outcome"], "rolled_back");
    assert_eq!(post(&server, &secret, "rollback", "k4", &roll).expect(200)["outcome"], "unchanged");
    for wrong in ["", &"x".repeat(256)] {
        post(&server, &secret, "rollback", wrong, &roll).refused(400, "invalid_input");
    }
}

#[test]
fn of_many_that_are_sent_at_once_one_is_carried_out() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let lease = json!({ "holder_run_id": "run-1" });
    let replies: Vec<Reply> = thread::scope(|scope| {
        let senders: Vec<_> =
            (0..16).map(|_| scope.spawn(|| post(&server, &secret, "leases", "k", &lease))).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let mut tokens: Vec<String> = replies
        .iter()
        .filter(|reply| reply.status == 200)
        .map(|reply| reply.json()["token"].as_str().unwrap().to_owned())
        .collect();
    tokens.dedup();
    assert_eq!(tokens.len(), 1);
    replies.iter().filter(|reply| reply.status != 200).for_each(|reply| drop(reply.refused(409, "conflict")));
}
