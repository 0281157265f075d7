//! These tests have a server do the jobs that keep a store in order.

use std::{
    fs::{self, File},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};
use tests::served::Served;

use super::Scene;

/// Begins a job, waits for its end, and returns what is known of it.
#[track_caller]
fn done(server: &Served, secret: &str, kind: &str, body: &Value) -> Value {
    let begun = server.call(&format!("POST /v1/jobs/{kind}"), Some(secret), Some(body)).expect(200);
    ended(server, secret, begun["job_id"].as_str().unwrap())
}

/// A job once it has ended.
#[track_caller]
fn ended(server: &Served, secret: &str, id: &str) -> Value {
    let began = Instant::now();
    loop {
        let job = server.call(&format!("GET /v1/jobs/{id}"), Some(secret), None).expect(200);
        if job["state"] != "running" {
            return job;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{job:#}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_job_comes_to_what_the_command_comes_to() {
    let scene = Scene::new();
    let secret = scene.token("acme", "admin");
    let server = scene.serve();
    let host = &scene.host;
    let plan = json!({ "tenant_id": "acme", "dry_run": true });
    for (kind, command) in [
        ("reap", &["reap", "acme", "--dry-run"][..]),
        ("retention", &["retention", "plan", "acme"]),
        ("gc", &["gc", "acme", "--dry-run"]),
        ("verify", &["verify", "acme"]),
    ] {
        let job = done(&server, &secret, kind, &plan);
        assert_eq!((&job["state"], &job["kind"]), (&json!("done"), &json!(kind)), "{job:#}");
        assert_eq!(job["outcome"], host.succeed(command), "{kind}");
        assert!(job["by"]["run_id"].as_str().unwrap().starts_with("token admin-"), "{job:#}");
        assert!(!job["log"].as_array().unwrap().is_empty(), "{job:#}");
    }
    let listed = server.call("GET /v1/jobs", Some(&secret), None).expect(200);
    let kinds: Vec<&Value> = listed["jobs"].as_array().unwrap().iter().map(|job| &job["kind"]).collect();
    assert_eq!(kinds, ["verify", "gc", "retention", "reap"]);
    // Not only a plan.
    host.succeed(["delete", &format!("acme/alice@{}", scene.shas[0])]);
    let job = done(&server, &secret, "gc", &json!({ "tenant_id": "acme" }));
    assert_eq!(job["outcome"]["outcome"], "collected", "{job:#}");
    host.verify("acme/alice", &[]);
}

#[test]
fn what_a_job_finds_is_told_with_its_outcome() {
    let scene = Scene::new();
    let secret = scene.token("*", "admin");
    let server = scene.serve();
    let packs = scene.folder.path().join("store/objects/content/other/packs");
    for pack in fs::read_dir(packs).unwrap() {
        fs::write(pack.unwrap().path(), "no pack").unwrap();
    }
    let job = done(&server, &secret, "verify", &json!({}));
    assert_eq!((&job["state"], &job["failure"]["kind"]), (&json!("failed"), &json!("damaged")), "{job:#}");
    assert_eq!(job["outcome"]["outcome"], "damaged");
    assert_eq!(job["tenant_id"], Value::Null);
}

/// Whose work it is decides who sees it. Nobody learns of other tenants from a job.
#[test]
fn a_job_is_shown_to_those_whose_tenants_it_is_for() {
    let scene = Scene::new();
    let [acme, other] = ["acme", "other"].map(|tenant| scene.token(tenant, "operate"));
    let operator = scene.token("*", "operate");
    // Nothing is due here that nobody has asked for.
    let scene = Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene };
    let server = scene.serve();
    let plan = json!({ "tenant_id": "acme", "dry_run": true });
    let of_acme = done(&server, &acme, "reap", &plan)["job_id"].clone();
    let of_all = done(&server, &operator, "reap", &json!({ "dry_run": true }))["job_id"].clone();
    for (secret, seen) in [(&acme, vec![&of_acme]), (&other, vec![]), (&operator, vec![&of_all, &of_acme])] {
        let listed = server.call("GET /v1/jobs", Some(secret), None).expect(200);
        let ids: Vec<&Value> = listed["jobs"].as_array().unwrap().iter().map(|job| &job["job_id"]).collect();
        assert_eq!(ids, seen);
        for id in [&of_acme, &of_all] {
            let line = format!("GET /v1/jobs/{}", id.as_str().unwrap());
            let status = server.call(&line, Some(secret), None).status;
            assert_eq!(status, if seen.contains(&id) { 200 } else { 404 }, "{line}");
        }
    }
    let refused = |secret: &str, kind: &str, body: Value| {
        server.call(&format!("POST /v1/jobs/{kind}"), Some(secret), Some(&body)).refused(403, "denied")
    };
    refused(&acme, "reap", json!({ "dry_run": true }));
    refused(&acme, "reap", json!({ "tenant_id": "other" }));
    // What removes something needs more than what looks.
    for kind in ["gc", "retention"] {
        refused(&acme, kind, json!({ "tenant_id": "acme" }));
    }
    refused(&acme, "verify", json!({ "tenant_id": "acme", "repair": true }));
}

/// Another server has begun it, and has died: its document says so.
#[test]
fn every_server_knows_the_jobs_of_the_others() {
    let scene = Scene::new();
    let secret = scene.token("acme", "admin");
    let (first, second) = (scene.serve(), scene.serve());
    let job = done(&first, &secret, "verify", &json!({ "tenant_id": "acme" }));
    let id = job["job_id"].as_str().unwrap();
    let mut seen = second.call(&format!("GET /v1/jobs/{id}"), Some(&secret), None).expect(200);
    assert_eq!((&seen["log"], &seen["progress"]), (&json!([]), &Value::Null));
    for own in ["log", "progress"] {
        seen[own] = job[own].clone();
    }
    assert_eq!(seen, job);
    second.call(&format!("DELETE /v1/jobs/{id}"), Some(&secret), None).refused(409, "conflict");
    drop(first);
    assert_eq!(ended(&second, &secret, id)["state"], "done");
}

/// The locks of a directory are files, and keys share them.
fn lock_file(key: &str) -> String {
    format!("{:02x}", blake3::hash(key.as_bytes()).as_bytes()[0])
}

/// A job that takes long: it sweeps locks that have expired, and writing to them waits for files that somebody
/// holds, for up to ten seconds each.
struct LongJob {
    id: String,
    held: Vec<File>,
}

impl LongJob {
    fn begin(scene: &Scene, server: &Served, secret: &str) -> Self {
        loop {
            let mut held = Vec::new();
            let mut names = Vec::new();
            for profile in PROFILES {
                scene.host.succeed(["lock", "acquire", profile, "--run-id", "gone", "--ttl", "5"]);
            }
            thread::sleep(Duration::from_millis(5100));
            for profile in PROFILES {
                let name = lock_file(&format!("snapshots/{profile}/131/lock.json"));
                let file = File::open(scene.folder.path().join("store/locks").join(&name)).unwrap();
                flock(&file, FlockOperation::LockExclusive).unwrap();
                held.push(file);
                names.push(name);
            }
            let body = json!({ "grace_seconds": 0 });
            let begun = server.call("POST /v1/jobs/reap", Some(secret), Some(&body)).expect(200);
            let id = begun["job_id"].as_str().unwrap().to_owned();
            if !names.contains(&lock_file(&format!("operations/jobs/{id}.json"))) {
                return Self { id, held };
            }
            // By chance the document of the job shares a file with one of the locks.
            drop(held);
            ended(server, secret, &id);
        }
    }
}

const PROFILES: [&str; 2] = ["acme/alice", "other/bob"];

/// It is ended by its own server at once, and by another within seconds.
#[test]
fn a_job_ends_when_somebody_wants_it() {
    let scene = Scene::new();
    let secret = scene.token("*", "operate");
    let scene = Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene };
    let (first, second) = (scene.serve(), scene.serve());
    for server in [&first, &second] {
        let LongJob { id, held } = LongJob::begin(&scene, &first, &secret);
        let told = server.call(&format!("DELETE /v1/jobs/{id}"), Some(&secret), None).expect(200);
        assert_eq!(told["cancel"], true, "{told:#}");
        let job = ended(&first, &secret, &id);
        assert_eq!((&job["state"], &job["failure"]["kind"]), (&json!("cancelled"), &json!("interrupted")));
        server.call(&format!("DELETE /v1/jobs/{id}"), Some(&secret), None).refused(409, "conflict");
        drop(held);
        // The next one goes on. What had been sent to the store when the job was ended may have been done.
        let job = done(&second, &secret, "reap", &json!({ "grace_seconds": 0 }));
        assert_eq!(job["state"], "done", "{job:#}");
        for profile in PROFILES {
            assert_eq!(scene.host.succeed(["lock", "show", profile])["state"], "free");
        }
    }
}

#[test]
fn a_server_that_stops_ends_its_jobs_and_says_so() {
    let scene = Scene::new();
    let secret = scene.token("*", "operate");
    let scene = Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene };
    let (first, second) = (scene.serve(), scene.serve());
    let LongJob { id, held } = LongJob::begin(&scene, &first, &secret);
    let stopped = first.stop();
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
    let job = ended(&second, &secret, &id);
    assert_eq!(job["failure"]["message"], "the server was told to stop", "{job:#}");
    drop(held);
}
