//! These tests read events, page by page and as they happen.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::served::{Served, request, with_header};

use super::{ALICE, Scene};

/// A server on which nothing happens by itself.
fn quiet() -> Scene {
    let scene = Scene::new();
    Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene }
}

/// All events, by pages of two.
fn all(server: &Served, secret: &str) -> Vec<Value> {
    let (mut events, mut after) = (Vec::new(), String::new());
    loop {
        let line = format!("GET /v1/events?limit=2{after}");
        let page = server.call(&line, Some(secret), None).expect(200);
        events.extend(page["events"].as_array().unwrap().iter().cloned());
        if page["has_more"] == false {
            return events;
        }
        after = format!("&after={}", page["next"].as_str().unwrap());
    }
}

/// Waits until the feed has so many: it tells what is two seconds old.
#[track_caller]
fn settled(server: &Served, secret: &str, count: usize) -> Vec<Value> {
    let began = Instant::now();
    loop {
        let events = all(server, secret);
        if events.len() >= count {
            return events;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{events:#?}");
        thread::sleep(Duration::from_millis(200));
    }
}

fn rollback(server: &Served, secret: &str, sha: &str) -> String {
    let body = json!({ "sha_prefix": sha, "confirm": true, "reason": "a test" });
    let reply = server.call(&format!("POST {ALICE}/rollback"), Some(secret), Some(&body));
    reply.expect(200);
    reply.header("x-request-id").unwrap().to_ascii_uppercase()
}

#[test]
fn events_of_all_profiles_come_in_one_order_and_to_those_they_concern() {
    let scene = quiet();
    let [acme, other] = ["acme", "other"].map(|tenant| scene.token(tenant, "operate"));
    let operator = scene.token("*", "admin");
    let server = scene.serve();
    // Two snapshots of alice, one of bob: each has moved a pointer.
    assert_eq!(settled(&server, &operator, 3).len(), 3);
    let of_bob = all(&server, &other);
    assert_eq!((of_bob.len(), &of_bob[0]["profile_id"]), (1, &json!("bob")));
    let id = rollback(&server, &acme, &scene.shas[0]);
    // The move is told, and so is the request: who, what, from where, and what came of it.
    let events = settled(&server, &acme, 4);
    let kinds: BTreeSet<&str> = events[2..].iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, BTreeSet::from(["request", "rollback"]), "{events:#?}");
    let told = events.iter().find(|event| event["kind"] == "request").unwrap();
    assert_eq!(told["by"]["host_run_id"], json!(format!("request {id}")), "{told:#}");
    let asked = &told["request"];
    assert_eq!((&asked["method"], &asked["status"]), (&json!("POST"), &json!(200)), "{told:#}");
    assert_eq!((&asked["peer"], &asked["path"]), (&json!("127.0.0.1"), &json!(format!("{ALICE}/rollback"))));
    assert_eq!(all(&server, &other).len(), 1);
    // What is done for the store as a whole is told to those who may see all.
    let body = json!({ "dry_run": true });
    let job = server.call("POST /v1/jobs/reap", Some(&operator), Some(&body)).expect(200)["job_id"].clone();
    let events = settled(&server, &operator, 6);
    let told = events.iter().find(|event| event["kind"] == "job").unwrap();
    assert_eq!((&told["job_id"], &told["tenant_id"]), (&job, &Value::Null), "{told:#}");
    assert_eq!(all(&server, &acme).len(), 4);
    // What is refused, or only planned, changes nothing, and is only in the log.
    let plan = json!({ "sha_prefix": scene.shas[1], "reason": "a plan" });
    let planned = server.call(&format!("POST {ALICE}/rollback"), Some(&acme), Some(&plan)).expect(200);
    assert_eq!(planned["outcome"], "planned");
    let plan = json!({ "reason": "a plan" });
    server.call(&format!("POST {ALICE}/force-unlock"), Some(&operator), Some(&plan)).expect(200);
    server.call(&format!("DELETE {ALICE}/ffffffffffff"), Some(&operator), None).refused(404, "not_found");
    thread::sleep(Duration::from_secs(3));
    assert_eq!(all(&server, &acme).len(), 4);
    let refused = server.call("GET /v1/events?tenant_id=other", Some(&acme), None);
    refused.refused(403, "denied");
}

/// Somebody who follows events.
struct Follower {
    lines: std::io::Lines<BufReader<TcpStream>>,
}

impl Follower {
    fn new(server: &Served, secret: &str, last: Option<&str>) -> Self {
        let mut stream = server.connect();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let whole = request("GET /v1/events", Some(secret), None)
            .replace("Host: here\r\n", &format!("Host: here\r\nAccept: text/event-stream\r\n{last}"));
        stream.write_all(whole.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream).lines();
        let head = lines.by_ref().map(Result::unwrap).take_while(|line| !line.is_empty());
        let head: Vec<String> = head.map(|line| line.to_ascii_lowercase()).collect();
        assert!(head[0].contains(" 200 "), "{head:?}");
        assert!(head.iter().any(|line| line == "content-type: text/event-stream"), "{head:?}");
        Self { lines }
    }

    /// The id and the document of the next event.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut id = None;
        for line in self.lines.by_ref() {
            let line = line.ok()?;
            if let Some(found) = line.strip_prefix("id: ") {
                id = Some(found.to_owned());
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some((id?, serde_json::from_str(data).unwrap()));
            }
        }
        None
    }
}

#[test]
fn who_follows_events_misses_none_on_whichever_server() {
    let scene = quiet();
    let secret = scene.token("acme", "operate");
    let (first, second) = (scene.serve(), scene.serve());
    settled(&first, &secret, 2);
    let mut follower = Follower::new(&first, &secret, None);
    rollback(&second, &secret, &scene.shas[0]);
    let (id, event) = follower.next().unwrap();
    let (_, other) = follower.next().unwrap();
    let kinds = BTreeSet::from([&event, &other].map(|event| event["kind"].as_str().unwrap()));
    assert_eq!(kinds, BTreeSet::from(["request", "rollback"]));
    // The server goes, and another goes on where it was.
    drop((follower, first));
    rollback(&second, &secret, &scene.shas[1]);
    let mut follower = Follower::new(&second, &secret, Some(&id));
    let seen: Vec<Value> = (0..3).map(|_| follower.next().unwrap().1).collect();
    assert_eq!(seen[0]["event_id"], other["event_id"]);
    assert_eq!(settled(&second, &secret, 6)[3..], seen);
    // A server that stops keeps no stream, and nobody waits for it.
    let stopped = second.stop();
    assert_eq!((stopped.code, follower.next()), (Some(0), None), "{stopped:#?}");
}

/// A stream is no way around what is taken from a caller: each loses its token, a tenant, or its time.
#[test]
fn a_stream_ends_with_the_right_to_it() {
    let scene = quiet();
    let before = fs::read_to_string(&scene.tokens.path).unwrap_or_default();
    let secret = scene.token("acme", "read");
    let entry = fs::read_to_string(&scene.tokens.path).unwrap();
    let server = scene.serve();
    for changed in [
        before,
        entry.replace("acme", "other"),
        entry.replace("expires_at_ms = ", "expires_at_ms = 1700000000000 # "),
    ] {
        fs::write(&scene.tokens.path, &entry).unwrap();
        let mut follower = loop {
            // The file is read again when its time has changed.
            if server.call("GET /v1/events?limit=1", Some(&secret), None).status == 200 {
                break Follower::new(&server, &secret, None);
            }
            thread::sleep(Duration::from_millis(50));
        };
        fs::write(&scene.tokens.path, &changed).unwrap();
        // The last chunk is empty; the connection may go on.
        assert!(follower.lines.by_ref().map(Result::unwrap).any(|line| line == "0"), "{changed}");
    }
}

#[test]
fn those_who_follow_events_are_bounded() {
    let scene = quiet();
    let secrets = ["acme", "acme", "other"].map(|tenant| scene.token(tenant, "read"));
    let server = scene.serve();
    let mut followers = Vec::new();
    // Half of the room is one caller's, and all of it is two callers'.
    for secret in &secrets[..2] {
        followers.extend((0..16).map(|_| Follower::new(&server, secret, None)));
        let whole = with_header(&request("GET /v1/events", Some(secret), None), "Accept: text/event-stream");
        server.send(&whole).refused(503, "unavailable");
        server.call("GET /v1/events", Some(secret), None).expect(200);
    }
    let whole = with_header(&request("GET /v1/events", Some(&secrets[2]), None), "Accept: text/event-stream");
    server.send(&whole).refused(503, "unavailable");
    drop(followers);
}
