//! These tests ask for the overview of many profiles: who needs somebody, who holds a lock, and how much is stored.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{
    many_profiles::{self, Many},
    served::Served,
};

use super::{ALICE, Scene};

/// Asks until the answer is as it should be: a server looks again a moment after it is asked.
#[track_caller]
fn until(server: &Served, secret: &str, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let found = server.call(&format!("GET {path}"), Some(secret), None).expect(200);
        if fits(&found) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{path} stays {found:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn kinds(row: &Value) -> Vec<&str> {
    row["attention"].as_array().unwrap().iter().map(|reason| reason["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_profile_is_shown_as_it_is_after_each_change() {
    let scene = Scene::new();
    let [acme, all] = ["acme", "*"].map(|tenant| scene.token(tenant, "admin"));
    let server = scene.serve();
    let whole = until(&server, &all, "/v1/profiles", |page| page["complete"] == true);
    assert_eq!(
        (&whole["tenants"], &whole["profiles"], &whole["snapshots"]),
        (&json!(2), &json!(2), &json!(3))
    );
    // A tenant sees its own alone, and so do the numbers.
    let own = until(&server, &acme, "/v1/profiles", |page| page["complete"] == true);
    assert_eq!(
        (&own["tenants"], &own["profiles"], &own["rows"][0]["profile_id"]),
        (&json!(1), &json!(1), &json!("alice"))
    );
    assert_eq!((kinds(&own["rows"][0]).len(), &own["attention"]["any"]), (0, &json!(0)));

    // Rolled back: a newer one is stored.
    let body = json!({ "sha_prefix": scene.shas[0], "confirm": true });
    server.call(&format!("POST {ALICE}/rollback"), Some(&acme), Some(&body)).expect(200);
    let seen = until(&server, &acme, "/v1/profiles?attention=true", |page| page["total"] == 1);
    assert_eq!(kinds(&seen["rows"][0]), ["behind"]);
    assert_eq!(seen["rows"][0]["current"]["sha256_prefix"], scene.shas[0]);

    // Held back: something is expected, and not there.
    scene.host.succeed(["expect", "acme/alice", "--cookie", ".example.com:sid"]);
    let source = scene.folder.path().join("source");
    fs::write(source.join("Preferences"), "fourth").unwrap();
    scene.host.run(["snapshot", source.to_str().unwrap(), "acme/alice", "--chrome-major", "131"]);
    let seen = until(&server, &acme, "/v1/profiles?kind=held_back", |page| page["total"] == 1);
    let reason = &seen["rows"][0]["attention"][0];
    assert_eq!(reason["kind"], "held_back");
    assert!(reason["detail"].as_str().unwrap().contains("cookie .example.com:sid"), "{reason}");
    assert_eq!(seen["rows"][0]["snapshots"], 3);

    // Stale is a question of what counts as old.
    until(&server, &acme, "/v1/profiles?stale_after_seconds=0&kind=stale", |page| page["total"] == 1);
    until(&server, &acme, "/v1/profiles?kind=stale", |page| page["total"] == 0);
    until(&server, &all, "/v1/profiles?search=OTHER/", |page| page["total"] == 1);

    // Locked, and free again.
    let lease = json!({ "holder_run_id": "run-1", "holder_host": "e2b", "ttl_seconds": 300 });
    let held = server.call(&format!("POST {ALICE}/leases"), Some(&acme), Some(&lease)).expect(200);
    let locks = until(&server, &acme, "/v1/locks", |page| page["total"] == 1);
    let lock = &locks["locks"][0];
    assert_eq!(
        (&lock["holder_run_id"], &lock["state"], &lock["profile_id"]),
        (&json!("run-1"), &json!("held"), &json!("alice"))
    );
    assert!((200_000..=300_000).contains(&lock["remaining_ms"].as_u64().unwrap()), "{lock}");
    server
        .call(&format!("DELETE {ALICE}/leases"), Some(&acme), Some(&json!({ "token": held["token"] })))
        .expect(200);
    until(&server, &acme, "/v1/locks", |page| page["total"] == 0);

    let usage = until(&server, &all, "/v1/usage?days=7", |page| page["total"] == 2);
    let days = usage["daily_stored_bytes"].as_array().unwrap();
    assert_eq!(days.len(), 7);
    assert_eq!((&days[0], &days[6]), (&json!(0), &usage["stored_bytes"]));
    assert!(
        usage["stored_bytes"].as_u64().unwrap() > 0 && usage["tenants"][0]["tenant_id"] == "acme",
        "{usage:#}"
    );
}

/// The measurement with a large store is `overview-scale`; this holds that nothing is read twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_again_knows_what_the_one_before_it_has_read() {
    let scene = Scene::new();
    let store = scene.folder.path().join("store");
    let many = Many { tenants: 3, profiles: 40, snapshots: 3 };
    many_profiles::make(&store, many).await;
    let secret = scene.token("*", "read");
    let first = scene.serve();
    let page = until(&first, &secret, "/v1/profiles?limit=500", |page| page["complete"] == true);
    // Those of the scene, those that were made up, and one template for each tenant.
    assert_eq!(page["profiles"], 2 + 3 * 40 + 3);
    let tally = &page["attention"];
    assert_eq!(
        (&tally["held_back"], &tally["damaged"], &tally["stale"]),
        (&json!(3), &json!(1), &json!(4)),
        "{tally:#}"
    );
    assert_eq!(
        (&tally["fallback"], &tally["lapsing"], &tally["behind"]),
        (&json!(2), &json!(2), &json!(0)),
        "{tally:#}"
    );
    let rows = page["rows"].as_array().unwrap();
    assert_eq!((kinds(&rows[0])[0], kinds(&rows[1])[0]), ("damaged", "held_back"));
    drop(first);
    // Records that cannot be read any more, and are listed as before, are not read again: the cache tells of them.
    spoil(&store.join("objects/snapshots"));
    let second = scene.serve();
    for _ in 0..5 {
        let known = second.call("GET /v1/profiles?limit=500", Some(&secret), None).expect(200);
        assert_eq!((&known["complete"], &known["profiles"]), (&json!(true), &page["profiles"]));
        assert_eq!(known["attention"], page["attention"]);
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Writes over every record that was made up, and leaves its size and its time.
fn spoil(snapshots: &Path) {
    let mut spoilt = 0;
    for tenant in fs::read_dir(snapshots).unwrap().map(|entry| entry.unwrap().path()) {
        for profile in fs::read_dir(&tenant).unwrap().map(|entry| entry.unwrap().path()) {
            if !profile.file_name().unwrap().to_str().unwrap().starts_with("profile-") {
                continue;
            }
            for object in fs::read_dir(profile.join("131")).unwrap().map(|entry| entry.unwrap().path()) {
                if object.file_name().unwrap().to_str().unwrap().starts_with("snap-") {
                    let before = fs::metadata(&object).unwrap();
                    fs::write(&object, vec![b'x'; before.len() as usize]).unwrap();
                    let file = fs::File::options().write(true).open(&object).unwrap();
                    file.set_modified(before.modified().unwrap()).unwrap();
                    spoilt += 1;
                }
            }
        }
    }
    assert_eq!(spoilt, 3 * 40 * 3);
}
