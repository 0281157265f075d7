//! These tests hold locks through the server, as runs elsewhere do.

use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::served::{Reply, Served, request};

use super::{ALICE, Scene};

fn lease(server: &Served, secret: &str, line: &str, body: &Value) -> Reply {
    server.call(line, Some(secret), Some(body))
}

#[test]
fn a_lease_is_taken_renewed_used_and_given_back() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let (server, other) = (scene.serve(), scene.serve());
    let taken = lease(
        &server,
        &secret,
        &format!("POST {ALICE}/leases"),
        &json!({ "holder_run_id": "run-1", "holder_host": "e2b", "holder_host_run_id": "fc-1", "ttl_seconds": 60 }),
    );
    let taken = taken.expect(200);
    assert_eq!((&taken["outcome"], &taken["holder_host"]), (&"acquired".into(), &"e2b".into()));
    let token = taken["token"].as_str().unwrap();

    // Nobody else gets it, and is told who has it.
    let second = json!({ "holder_run_id": "run-2" });
    let problem =
        lease(&server, &secret, &format!("POST {ALICE}/leases?wait=1"), &second).refused(409, "lock_held");
    for (field, value) in [("holder_run_id", "run-1"), ("holder_host", "e2b"), ("holder_host_run_id", "fc-1")]
    {
        assert_eq!(problem[field], value, "{problem:#}");
    }
    assert!(problem["remaining_ms"].as_u64().unwrap() > 0, "{problem:#}");

    // Any server renews it, and any command goes on with it.
    let renewed =
        lease(&other, &secret, &format!("PUT {ALICE}/leases"), &json!({ "token": token })).expect(200);
    assert_eq!((&renewed["outcome"], &renewed["renewal_count"]), (&"renewed".into(), &1.into()));
    let token = renewed["token"].as_str().unwrap();
    let shown = server.call(&format!("GET {ALICE}/leases"), Some(&secret), None).expect(200);
    assert_eq!((&shown["state"], &shown["holder_run_id"]), (&"held".into(), &"run-1".into()));
    scene.host.succeed(["lock", "renew", "acme/alice", "--token", token]);

    let wrong = json!({ "token": "00000000000000000000000000000000" });
    lease(&server, &secret, &format!("PUT {ALICE}/leases"), &wrong).refused(409, "lock_lost");
    let released = |body: &Value| lease(&other, &secret, &format!("DELETE {ALICE}/leases"), body).expect(200);
    assert_eq!(released(&wrong)["outcome"], "not_held");
    assert_eq!(released(&json!({ "token": token }))["outcome"], "released");
    lease(&server, &secret, &format!("PUT {ALICE}/leases"), &json!({ "token": token }))
        .refused(409, "lock_lost");
}

#[test]
fn who_waits_gets_the_lease_when_it_is_given_back() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let (server, other) = (scene.serve(), scene.serve());
    let taken =
        lease(&server, &secret, &format!("POST {ALICE}/leases"), &json!({ "holder_run_id": "run-1" }))
            .expect(200);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            lease(
                &other,
                &secret,
                &format!("POST {ALICE}/leases?wait=30"),
                &json!({ "holder_run_id": "run-2" }),
            )
        });
        thread::sleep(Duration::from_millis(300));
        assert!(!waiting.is_finished());
        lease(&server, &secret, &format!("DELETE {ALICE}/leases"), &json!({ "token": taken["token"] }))
            .expect(200);
        assert_eq!(waiting.join().unwrap().expect(200)["holder_run_id"], "run-2");
    });
}

/// Nobody would give back, or renew, what a caller that is gone was to get.
#[test]
fn who_goes_away_while_waiting_takes_nothing() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let held = lease(&server, &secret, &format!("POST {ALICE}/leases"), &json!({ "holder_run_id": "run-1" }))
        .expect(200);
    let body = json!({ "holder_run_id": "gone" }).to_string();
    let waits = request(&format!("POST {ALICE}/leases?wait=30"), Some(&secret), Some(&body));
    server.send_and_leave(&waits, Duration::from_millis(500));
    lease(&server, &secret, &format!("DELETE {ALICE}/leases"), &json!({ "token": held["token"] }))
        .expect(200);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        let shown = server.call(&format!("GET {ALICE}/leases"), Some(&secret), None).expect(200);
        assert_ne!((&shown["state"], &shown["holder_run_id"]), (&"held".into(), &"gone".into()), "{shown:#}");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(scene.host.succeed(["lock", "show", "acme/alice"])["state"], "free");
}

#[test]
fn a_server_that_stops_keeps_nobody_waiting() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    lease(&server, &secret, &format!("POST {ALICE}/leases"), &json!({ "holder_run_id": "run-1" }))
        .expect(200);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            lease(
                &server,
                &secret,
                &format!("POST {ALICE}/leases?wait=60"),
                &json!({ "holder_run_id": "run-2" }),
            )
        });
        thread::sleep(Duration::from_millis(500));
        let began = Instant::now();
        server.terminate();
        let reply = waiting.join().unwrap();
        assert!(matches!(reply.status, 409 | 503), "{reply:?}");
        assert!(began.elapsed() < Duration::from_secs(20), "it waited {:?}", began.elapsed());
    });
}

#[test]
fn a_lease_that_says_too_little_is_refused() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let acquire =
        |query: &str, body: Value| lease(&server, &secret, &format!("POST {ALICE}/leases{query}"), &body);
    for body in [
        json!({ "holder_run_id": "" }),
        json!({ "holder_run_id": "a\nb" }),
        json!({ "holder_run_id": "x".repeat(300) }),
        json!({ "holder_run_id": "run", "ttl_seconds": 1 }),
        json!({ "holder_run_id": "run", "ttl_seconds": 3601 }),
        json!({ "holder_run_id": "token admin" }),
        json!({ "holder_run_id": "schedule reap" }),
        json!({ "holder_run_id": "certificate\u{2003}3f9a" }),
        json!({ "holder_run_id": "run", "holder_host": " request 1" }),
        json!({ "holder_run_id": "run", "holder_host_run_id": "request 1" }),
    ] {
        acquire("", body).refused(400, "invalid_input");
    }
    acquire("?wait=61", json!({ "holder_run_id": "run" })).refused(400, "invalid_input");
    let put = format!("PUT {ALICE}/leases");
    lease(&server, &secret, &put, &json!({ "token": "short" })).refused(400, "invalid_input");
    assert_eq!(scene.host.succeed(["lock", "show", "acme/alice"])["state"], "free");
}

/// Whoever is refused learns who comes first, and when its own turn could be.
#[test]
fn who_is_refused_learns_of_those_who_wait() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    scene.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "busy", "--ttl", "600"]);
    let body =
        |name: &str| format!(r#"{{ "holder_run_id": "{name}", "holder_host": "e2b", "ttl_seconds": 100 }}"#);
    let ask = |wait: u64, name: &str| {
        request(&format!("POST {ALICE}/leases?wait={wait}"), Some(&secret), Some(&body(name)))
    };
    let problem = server.send(&ask(0, "first")).refused(409, "lock_held");
    let queue = &problem["queue"];
    assert_eq!((&queue["ahead"], &queue["waiting"]), (&json!(0), &json!([])), "{problem:#}");
    assert!(queue["estimated_wait_ms"].as_u64().unwrap() <= 600_000, "{problem:#}");
    let mut waiting = server.connect();
    waiting.write_all(ask(60, "waits").as_bytes()).unwrap();
    let problem = loop {
        let problem = server.send(&ask(0, "second")).refused(409, "lock_held");
        if problem["queue"]["ahead"] == 1 {
            break problem;
        }
    };
    let queue = &problem["queue"];
    let first = &queue["waiting"][0];
    assert_eq!(
        (&first["holder_run_id"], &first["holder_host"]),
        (&json!("waits"), &json!("e2b")),
        "{problem:#}"
    );
    let estimate = queue["estimated_wait_ms"].as_u64().unwrap();
    assert_eq!(estimate, problem["remaining_ms"].as_u64().unwrap() + 100_000, "{problem:#}");
}
