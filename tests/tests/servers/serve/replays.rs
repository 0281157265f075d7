//! These tests repeat requests with one `Idempotency-Key`: the server carries each out once.

use std::{fs, path::Path, thread};

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

/// A lease is given again only while it is one.
#[test]
fn a_lease_that_has_ended_is_taken_anew() {
    let scene = Scene::new();
    let secret = scene.token("acme", "admin");
    let server = scene.serve();
    let lease = json!({ "holder_run_id": "run-1" });
    let first = post(&server, &secret, "leases", "k1", &lease).expect(200);
    let held = json!({ "token": first["token"] });
    server.call(&format!("DELETE {ALICE}/leases"), Some(&secret), Some(&held)).expect(200);
    let second = post(&server, &secret, "leases", "k1", &lease);
    assert_eq!(second.header("idempotency-replayed"), None);
    assert_ne!(second.expect(200)["token"], first["token"]);
    let again = post(&server, &secret, "leases", "k1", &lease);
    assert_eq!((again.header("idempotency-replayed"), again.json()), (Some("true"), second.json()));
    // Somebody else has it.
    post(&server, &secret, "force-unlock", "k2", &json!({ "reason": "a test", "confirm": true })).expect(200);
    post(&server, &secret, "leases", "k3", &json!({ "holder_run_id": "run-2" })).expect(200);
    post(&server, &secret, "leases", "k1", &lease).refused(409, "lock_held");
}

/// How many events a store has that is a directory.
fn events_below(folder: &Path) -> usize {
    let below = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    below.map(|path| if path.is_dir() { events_below(&path) } else { usize::from(is_event(&path)) }).sum()
}

fn is_event(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "events")
}

#[test]
fn an_answer_that_is_given_again_is_no_event() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let events = || events_below(&scene.folder.path().join("store"));
    let roll = json!({ "sha_prefix": scene.shas[0], "confirm": true });
    let before = events();
    post(&server, &secret, "rollback", "k", &roll).expect(200);
    let after = events();
    assert!(after > before);
    post(&server, &secret, "rollback", "k", &roll).expect(200);
    assert_eq!(events(), after);
}

/// A mount that ends with a commit ends like this, too.
#[test]
fn a_deletion_whose_answer_was_lost_gets_it_again() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let lease = post(&server, &secret, "leases", "k1", &json!({ "holder_run_id": "run-1" })).expect(200);
    let held = json!({ "token": lease["token"] }).to_string();
    let plain = request(&format!("DELETE {ALICE}/leases"), Some(&secret), Some(&held));
    let delete = || server.send(&with_header(&plain, "Idempotency-Key: k1-end"));
    let (first, again) = (delete(), delete());
    assert_eq!(first.expect(200), again.expect(200));
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        (None, Some("true"))
    );
}
