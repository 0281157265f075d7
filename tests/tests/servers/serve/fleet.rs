//! These tests run several servers on one store: they answer as one.

use std::{
    cell::Cell,
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{
    binary::Host,
    served::{Reply, Served, Tokens},
    server::SeaweedFs,
};

use super::{ALICE, captured};

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
