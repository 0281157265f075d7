//! Several servers on one store: they answer as one, and any of them may be killed.

use std::{
    cell::Cell,
    collections::BTreeSet,
    io::Write,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{
    binary::Host,
    served::{Reply, Served, Tokens, answer, request},
    server::SeaweedFs,
};

use super::{ALICE, Scene, captured};

/// Sends each request to the next server.
struct RoundRobin {
    servers: Vec<Served>,
    next: Cell<usize>,
}

impl RoundRobin {
    fn call(&self, line: &str, secret: &str, body: Option<&Value>) -> Reply {
        let at = self.next.replace(self.next.get() + 1);
        self.servers[at % self.servers.len()].call(line, Some(secret), body)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_one_bucket_answer_as_one() {
    let seaweed = SeaweedFs::shared().await;
    let config = seaweed.config();
    let folder = tempfile::tempdir().unwrap();
    let hosts = ["one", "two"]
        .map(|name| Host::s3(&folder.path().join(name), &config).with("PSTORE_SCHEDULES_REAP_SECONDS", "2"));
    let shas = ["first", "second"].map(|text| captured(&hosts[0], folder.path(), "acme/alice", text));
    let tokens = Tokens::new(folder.path());
    let [secret, operator] =
        [("acme", "admin"), ("*", "operate")].map(|(tenant, role)| tokens.add(&hosts[0], tenant, role));
    let servers = hosts.iter().map(|host| Served::start(host, &tokens.path)).collect();
    let fleet = RoundRobin { servers, next: Cell::new(0) };
    // Whoever is asked says the same, also of what the other has just changed.
    for sha in [&shas[0], &shas[1], &shas[0]] {
        let body = json!({ "sha_prefix": sha, "confirm": true });
        fleet.call(&format!("POST {ALICE}/rollback"), &secret, Some(&body)).expect(200);
        let seen = [0, 1].map(|_| fleet.call(&format!("GET {ALICE}"), &secret, None).expect(200));
        assert_eq!(seen[0], seen[1]);
        assert_eq!(seen[0]["active_sha256_prefix"], json!(sha));
        // So that the next change goes to the other one.
        fleet.call("GET /healthz", &secret, None).expect(200);
    }
    // A lease is taken at one, renewed at the other, and given back at either.
    let leases = format!("{ALICE}/leases");
    let holder = json!({ "holder_run_id": "run-1", "ttl_seconds": 60 });
    let token = fleet.call(&format!("POST {leases}"), &secret, Some(&holder)).expect(200)["token"].clone();
    let held = json!({ "token": token });
    for _ in 0..4 {
        fleet.call(&format!("PUT {leases}"), &secret, Some(&held)).expect(200);
        let other = json!({ "holder_run_id": "run-2" });
        fleet.call(&format!("POST {leases}"), &secret, Some(&other)).refused(409, "lock_held");
        fleet.call("GET /healthz", &secret, None).expect(200);
    }
    fleet.call(&format!("DELETE {leases}"), &secret, Some(&held)).expect(200);
    for _ in 0..2 {
        assert_eq!(fleet.call(&format!("GET {leases}"), &secret, None).expect(200)["state"], "free");
    }
    // What is due was done once each time.
    let reap = || {
        let list = fleet.call("GET /v1/schedules", &operator, None).expect(200);
        list["schedules"][0]["last"].clone()
    };
    let began = Instant::now();
    while reap()["fence"].as_u64().is_none_or(|fence| fence < 3) {
        assert!(began.elapsed() < Duration::from_secs(60), "{:#}", reap());
        thread::sleep(Duration::from_millis(200));
    }
    let listed = fleet.call("GET /v1/jobs?limit=200", &operator, None).expect(200);
    let jobs: Vec<&Value> =
        listed["jobs"].as_array().unwrap().iter().filter(|job| job["schedule"] == "reap").collect();
    let fence = reap()["fence"].as_u64().unwrap();
    assert!(jobs.len() as u64 <= fence, "{} jobs in {fence} turns", jobs.len());
    let begun: BTreeSet<&str> = jobs.iter().map(|job| job["job_id"].as_str().unwrap()).collect();
    assert_eq!(begun.len(), jobs.len());
    // Both tell the same of what has happened, once it is old enough to be told.
    thread::sleep(Duration::from_secs(3));
    let events = [0, 1].map(|_| fleet.call("GET /v1/events?limit=1000", &secret, None).expect(200));
    assert_eq!(events[0]["events"], events[1]["events"]);
    let kinds: Vec<&str> =
        events[0]["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "rollback").count(), 3, "{kinds:?}");
}

/// A change is made or it is not, whenever its server dies. What was begun and not ended is named: as a job that
/// was lost, or as a lock with its holder.
#[test]
fn a_server_that_is_killed_leaves_nothing_half_done() {
    let scene = Scene::new();
    let scene = Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene };
    let secret = scene.token("acme", "admin");
    let rollback = |sha: &str| json!({ "sha_prefix": sha, "confirm": true }).to_string();
    let [first, second] = &scene.shas;
    let holder = r#"{ "holder_run_id": "killed", "ttl_seconds": 5 }"#;
    let changes: [(String, String); 7] = [
        (format!("POST {ALICE}/rollback"), rollback(first)),
        (format!("POST {ALICE}/rollback"), rollback(second)),
        (format!("PUT {ALICE}/{first}/tags/kept"), String::new()),
        (format!("DELETE {ALICE}/{first}/tags/kept"), String::new()),
        (format!("POST {ALICE}/leases"), holder.to_owned()),
        ("POST /v1/jobs/gc".to_owned(), r#"{ "tenant_id": "acme" }"#.to_owned()),
        ("POST /v1/jobs/verify".to_owned(), r#"{ "tenant_id": "acme" }"#.to_owned()),
    ];
    for (line, body) in &changes {
        // Before it is answered, and as soon as it is.
        for after in [Some(0), Some(4), Some(12), None] {
            let server = scene.serve();
            let mut stream = server.connect();
            stream.write_all(request(line, Some(&secret), Some(body)).as_bytes()).unwrap();
            let answered = match after {
                Some(after) => {
                    thread::sleep(Duration::from_millis(after));
                    None
                }
                None => Some(answer(&mut stream)),
            };
            drop(server);
            let current = scene.host.succeed(["list", "acme/alice"])["active_sha256_prefix"].clone();
            assert!(scene.shas.iter().any(|sha| current == json!(sha)), "{line}: {current}");
            let lock = scene.host.succeed(["lock", "show", "acme/alice"]);
            assert!(lock["state"] == "free" || lock["holder_run_id"] == "killed", "{line}: {lock:#}");
            scene.host.verify("acme/alice", &[]);
            let Some(reply) = answered else { continue };
            // An earlier try may have done it already.
            assert!(matches!(reply.status, 200 | 404 | 409), "{line}: {reply:#?}");
            if line.ends_with("/rollback") {
                assert_eq!((reply.status, body.contains(current.as_str().unwrap())), (200, true), "{line}");
            }
            if line.ends_with("/leases") {
                assert_eq!(lock["holder_run_id"], "killed", "{line}");
            }
        }
    }
    // Whoever comes next finds what was left, and goes on.
    let server = scene.serve();
    let listed = server.call("GET /v1/jobs", Some(&secret), None).expect(200);
    assert_eq!(listed["unreadable"], 0, "{listed:#}");
    let body = json!({ "sha_prefix": first, "confirm": true, "force": true });
    server.call(&format!("POST {ALICE}/rollback"), Some(&secret), Some(&body)).expect(200);
    scene.host.verify("acme/alice", &[]);
}
