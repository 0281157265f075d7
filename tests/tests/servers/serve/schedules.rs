//! These tests watch servers take turns at periodic jobs.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tests::served::Served;

use super::Scene;

/// A scene in which locks are reaped so often.
fn often(seconds: &str) -> Scene {
    let scene = Scene::new();
    Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", seconds), ..scene }
}

/// The last turn of the reaper, once there is one with at least this fence, and it has ended.
#[track_caller]
fn turn(server: &Served, secret: &str, fence: u64) -> Value {
    let began = Instant::now();
    loop {
        let list = server.call("GET /v1/schedules", Some(secret), None).expect(200);
        let reap = list["schedules"].as_array().unwrap().iter().find(|each| each["name"] == "reap").unwrap();
        let last = &reap["last"];
        if last["fence"].as_u64().is_some_and(|last| last >= fence) && !last["outcome"].is_null() {
            return last.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{list:#}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The jobs that were due, the newest first.
fn due(server: &Served, secret: &str) -> Vec<Value> {
    let listed = server.call("GET /v1/jobs?limit=200", Some(secret), None).expect(200);
    let jobs = listed["jobs"].as_array().unwrap();
    jobs.iter().filter(|job| job["schedule"] == "reap").cloned().collect()
}

#[test]
fn each_turn_is_one_servers_however_many_there_are() {
    let scene = often("2");
    let secret = scene.token("*", "operate");
    let servers: Vec<Served> = (0..3).map(|_| scene.serve()).collect();
    turn(&servers[0], &secret, 4);
    // All have seen the same, and each turn was one job, not earlier than the one before allows.
    let jobs = due(&servers[1], &secret);
    let last = turn(&servers[2], &secret, jobs.len() as u64);
    assert!(last["fence"].as_u64().unwrap() >= jobs.len() as u64, "{last:#}");
    let begun: Vec<u64> = jobs.iter().map(|job| job["begun_at_ms"].as_u64().unwrap()).collect();
    // The document of a job is written a moment after its turn was taken.
    assert!(begun.windows(2).all(|pair| pair[0] + 500 >= pair[1] + 2000), "{begun:?}");
    assert!(jobs.iter().all(|job| job["by"]["run_id"] == "schedule reap"), "{jobs:#?}");
}

#[test]
fn turns_come_though_nobody_asks_and_go_on_at_another_server() {
    let scene = often("1");
    let secret = scene.token("*", "operate");
    let server = scene.serve();
    let job = turn(&server, &secret, 1)["job_id"].clone();
    let job =
        server.call(&format!("GET /v1/jobs/{}", job.as_str().unwrap()), Some(&secret), None).expect(200);
    assert_eq!((&job["state"], &job["outcome"]["outcome"]), (&json!("done"), &json!("swept")), "{job:#}");
    let killed = turn(&server, &secret, 2);
    drop(server);
    // Another takes the next turns.
    let next = scene.serve();
    let fence = killed["fence"].as_u64().unwrap() + 1;
    let last = turn(&next, &secret, fence + 1);
    assert_ne!(last["server"], killed["server"]);
}

#[test]
fn a_server_without_jobs_takes_no_turn_and_begins_none() {
    let scene = often("1");
    let secret = scene.token("*", "operate");
    let server = Served::start_with(&scene.host, &scene.tokens.path, &["--no-jobs"]);
    thread::sleep(Duration::from_secs(3));
    let list = server.call("GET /v1/schedules", Some(&secret), None).expect(200);
    assert_eq!(
        (&list["takes_turns"], &list["schedules"][0]["last"]),
        (&json!(false), &Value::Null),
        "{list:#}"
    );
    let refused = server.call("POST /v1/jobs/reap", Some(&secret), Some(&json!({ "dry_run": true })));
    refused.refused(503, "unavailable");
    assert_eq!(refused.header("retry-after"), Some("5"));
}

/// Each schedule comes to a job and to an event. A check reads one part of the content, and says which.
#[test]
fn what_is_switched_on_is_done_and_told() {
    let scene = often("0");
    let names = ["retention", "gc", "verify"];
    let variable = |name: &str| format!("PSTORE_SCHEDULES_{}_SECONDS", name.to_ascii_uppercase());
    let host = scene.host.clone().with("PSTORE_SCHEDULES_VERIFY_PARTS", "7");
    let host = names.iter().fold(host, |host, name| host.with(&variable(name), "2"));
    let secret = scene.token("*", "operate");
    let server = Served::start(&host, &scene.tokens.path);
    let get = |path: &str| server.call(&format!("GET {path}"), Some(&secret), None).expect(200);
    let began = Instant::now();
    for name in names {
        // An event is told when it is about two seconds old.
        let job = loop {
            let told = get("/v1/events?limit=1000");
            let told = told["events"]
                .as_array()
                .unwrap()
                .iter()
                .find(|event| event["kind"] == "job" && event["reason"] == format!("{name} done"));
            if let Some(told) = told {
                break told["job_id"].as_str().unwrap().to_owned();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{}", server.said());
            thread::sleep(Duration::from_millis(100));
        };
        let job = get(&format!("/v1/jobs/{job}"));
        assert_eq!((&job["schedule"], &job["tenant_id"]), (&json!(name), &Value::Null), "{job:#}");
        let sample = &job["outcome"]["sample"];
        match name {
            "verify" => assert!(sample["of"] == 7 && sample["part"].as_u64().unwrap() <= 7, "{job:#}"),
            _ => assert!(sample.is_null(), "{job:#}"),
        }
    }
}

#[test]
fn locks_are_reaped_again_and_again_without_a_server() {
    let scene = Scene::new();
    scene.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "gone", "--ttl", "5"]);
    let mut reaper = scene.host.start(["reap", "--every", "1s", "--grace", "1"]);
    reaper.await_stderr("evicted acme/alice (Chrome 131): run \"gone\"");
    kill_process(Pid::from_raw(i32::try_from(reaper.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    let ended = reaper.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    // The document is that of the last sweep.
    assert_eq!(
        (&ended.document["outcome"], &ended.document["left"]),
        (&json!("swept"), &json!(0)),
        "{ended:#?}"
    );
}
