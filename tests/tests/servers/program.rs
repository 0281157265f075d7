//! These tests run the program against S3 servers: all of its commands, and all that a server may refuse.

use std::{fs, path::Path, thread, time::Duration};

use serde_json::Value;
use store::bucket::{S3Config, S3Credentials};
use tests::{
    binary::{self, Host},
    server::{Rclone, SeaweedFs},
    tree::{assert_same, noise},
};

fn fill(source: &Path) {
    fs::create_dir_all(source.join("Default")).unwrap();
    fs::write(source.join("Default/History"), noise(3_000_000, 1)).unwrap();
    fs::write(source.join("Default/Cookies"), "cookie ".repeat(50_000)).unwrap();
    fs::write(source.join("Last Version"), "131.0.6778.85").unwrap();
}

fn check<'a>(doctor: &'a Value, name: &str) -> &'a Value {
    doctor["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap()
}

#[track_caller]
fn assert_says(error: &Value, field: &str, words: &str) {
    assert!(error[field].as_str().is_some_and(|text| text.contains(words)), "no {words:?} in {error:#}");
}

/// The same server under another name: nothing tells the program that it is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_not_tried_is_tried_by_the_first_write() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let elsewhere = config.endpoint.as_ref().unwrap().replace("127.0.0.1", "localhost");
    let here = Host::s3(&dir.path().join("home"), &config);
    let there =
        Host::s3(&dir.path().join("other"), &S3Config { endpoint: Some(elsewhere), ..config.clone() });
    let line = || binary::snapshot(&source, "acme/alice");
    here.succeed(line());
    there.succeed(["list", "acme/alice"]);
    for (host, tries) in [(&here, false), (&there, true), (&there, false), (&here, false)] {
        let ended = host.run(line());
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(ended.stderr.contains("through a server that was not tried yet"), tries, "{ended:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_works() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    fill(&source);
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let host = Host::s3(&dir.path().join("home"), &config);
    let url = format!("s3://{}/{}", config.bucket, config.prefix);
    let url = url.trim_end_matches('/');

    let empty = host.succeed(["doctor"]);
    assert_eq!(
        (&empty["failed"], &check(&empty, "store")["status"]),
        (&0.into(), &"warn".into()),
        "{empty:#}"
    );
    host.fail(3, ["list"]);
    let made = host.succeed(["init"]);
    assert_eq!(host.succeed(["list"])["tenants"], serde_json::json!([]));
    assert_eq!((&made["outcome"], &made["store"]), (&"created".into(), &url.into()));
    let found = host.succeed(["init"]);
    assert_eq!((&found["outcome"], &found["store_id"]), (&"existing".into(), &made["store_id"]));
    host.fail(3, ["list", "acme/alice"]);

    let directory = source.to_str().unwrap();
    let stored = host.succeed(["snapshot", directory, "acme/alice", "--label", "task=checkout"]);
    assert_eq!((&stored["outcome"], &stored["pointer"]), (&"stored".into(), &"flipped".into()));
    assert_eq!((&stored["files"], &stored["chrome_major_version"]), (&3.into(), &131.into()));
    let again = host.succeed(["snapshot", directory, "acme/alice"]);
    assert_eq!((&again["outcome"], &again["pointer"]), (&"unchanged".into(), &"unchanged".into()));
    assert_eq!((&again["record"], &again["stored_bytes"]), (&stored["record"], &0.into()));

    let all = host.succeed(["list"]);
    assert_eq!((&all["store"], &all["tenants"]), (&url.into(), &serde_json::json!(["acme"])), "{all:#}");
    assert_eq!(host.succeed(["list", "acme"])["profiles"][0]["profile_id"], "alice");
    let list = host.succeed(["list", "acme/alice"]);
    let only = &list["snapshots"][0];
    assert_eq!((&only["record"], &only["latest"]), (&stored["record"], &true.into()));
    assert_eq!(only["labels"]["task"], "checkout");
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 1);
    let shown = host.succeed(["show", "acme/alice"]);
    assert_eq!((&shown["record"], &shown["tenant_id"]), (&stored["record"], &"acme".into()));

    // Another host, which has nothing but the address, given as options.
    let keys = config.credentials.as_ref().unwrap();
    let other = Host::local(&dir.path().join("other"), &dir.path().join("not this store"))
        .with("AWS_ACCESS_KEY_ID", &keys.access_key_id)
        .with("AWS_SECRET_ACCESS_KEY", &keys.secret_access_key);
    let endpoint = config.endpoint.as_ref().unwrap();
    let target = out.to_str().unwrap();
    let restore = ["restore", "acme/alice", target, "--store", url, "--endpoint", endpoint];
    let restored = other.succeed(restore);
    assert_eq!((&restored["record"], &restored["files"]), (&stored["record"], &3.into()));
    assert_same(&source, &out);
    other.fail(5, restore);

    host.verify("acme/alice", &[]);
    host.verify("acme/alice", &["--read-data"]);
    let stats = host.succeed(["stats"]);
    let (total, size) = (&stats["total"], &stored["uncompressed_size_bytes"]);
    assert_eq!((&total["snapshots"], &total["uncompressed_size_bytes"]), (&1.into(), size), "{stats:#}");
    let healthy = host.succeed(["doctor"]);
    assert_eq!(healthy["failed"], 0, "{healthy:#}");
    for name in ["store", "conditions", "clock", "bucket"] {
        assert_eq!(check(&healthy, name)["status"], "ok", "{healthy:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_conditions_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    let server = Rclone::start().await;
    let host = Host::s3(&dir.path().join("home"), &server.config());
    for error in [host.fail(12, ["init"]), host.fail(12, binary::snapshot(&source, "acme/alice"))] {
        assert_eq!(error["kind"], "store_refused");
        assert_says(&error, "message", "If-None-Match");
        assert_says(&error, "hint", "pstore doctor");
    }
    let ended = host.run(["doctor"]);
    assert_eq!(ended.code, Some(12), "{ended:#?}");
    assert_eq!(check(&ended.document, "conditions")["status"], "fail");
    // Nothing was begun there.
    host.fail(3, ["list", "acme/alice"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_denied() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    fill(&source);
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let right = Host::s3(&dir.path().join("home"), &config);
    right.snapshot(&source, "acme/alice");
    let target = out.to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["init"],
        &["snapshot", source.to_str().unwrap(), "acme/alice"],
        &["restore", "acme/alice", target],
        &["list", "acme/alice"],
        &["verify", "acme/alice"],
        &["stats"],
    ];
    for (access, secret, advice) in
        [("nobody", "wrong", "AWS_ACCESS_KEY_ID"), ("admin", "wrong", "AWS_SECRET_ACCESS_KEY")]
    {
        let credentials = S3Credentials {
            access_key_id: access.into(),
            secret_access_key: secret.into(),
            session_token: None,
        };
        let config = S3Config { credentials: Some(credentials), ..config.clone() };
        let wrong = Host::s3(&dir.path().join("home"), &config).impatient();
        for command in commands {
            let error = wrong.fail(13, command);
            assert_eq!(error["kind"], "denied");
            assert_says(&error, "hint", "credentials");
        }
        let doctor = wrong.run(["doctor"]);
        assert_eq!((doctor.code, &check(&doctor.document, "store")["status"]), (Some(13), &"fail".into()));
        assert_says(check(&doctor.document, "store"), "advice", advice);
    }
    assert!(!out.exists());
    right.verify("acme/alice", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_no_fault_with_a_credential_that_is_limited_to_one_tenant() {
    let dir = tempfile::tempdir().unwrap();
    let server = SeaweedFs::shared().await;
    let host = Host::s3(&dir.path().join("home"), &server.tenant("globex")).impatient();
    let doctor = host.succeed(["doctor"]);
    assert_eq!(check(&doctor, "store")["status"], "warn", "{doctor:#}");
    assert_says(check(&doctor, "store"), "advice", "limited to one tenant");
    assert_says(check(&doctor, "conditions"), "advice", "`pstore doctor TENANT`");
    let doctor = host.succeed(["doctor", "globex"]);
    assert_eq!(check(&doctor, "conditions")["status"], "ok", "{doctor:#}");
    assert_eq!(check(&doctor, "clock")["status"], "ok", "{doctor:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    fill(&source);
    let server = SeaweedFs::shared().await;
    let config = S3Config { bucket: "no-such-bucket".into(), ..server.config() };
    let host = Host::s3(&dir.path().join("home"), &config).impatient();
    let commands: [&[&str]; 4] = [
        &["init"],
        &["snapshot", source.to_str().unwrap(), "acme/alice"],
        &["restore", "acme/alice", out.to_str().unwrap()],
        &["list"],
    ];
    for command in commands {
        let error = host.fail(12, command);
        assert_says(&error, "message", "the bucket no-such-bucket does not exist");
        assert_says(&error, "hint", "a bucket must exist");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_takes_nothing_along() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    let kept = dir.path().join("kept");
    fill(&source);
    fill(&kept);
    let mut server = SeaweedFs::start().await;
    let config = server.config();
    let host = Host::s3(&dir.path().join("home"), &config).impatient();
    let first = host.snapshot(&kept, "acme/alice");

    for file in 0..40 {
        fs::write(source.join(format!("{file}")), noise(3_000_000, 100 + file)).unwrap();
    }
    let running = host.start(binary::snapshot(&source, "acme/alice"));
    thread::sleep(Duration::from_millis(250));
    server.stop();
    let ended = running.wait();
    assert_eq!(ended.code, Some(14), "{ended:#?}");
    println!("caught in the middle: {}", ended.document["error"]);
    let commands: [&[&str]; 3] = [
        &["list", "acme/alice"],
        &["restore", "acme/alice", out.to_str().unwrap()],
        &["snapshot", kept.to_str().unwrap(), "acme/alice"],
    ];
    for command in commands {
        let error = host.fail(14, command);
        assert_eq!(error["kind"], "unavailable");
        assert_says(&error, "message", config.endpoint.as_ref().unwrap());
        assert_says(&error, "hint", "pstore doctor");
    }
    assert!(!out.exists());
    let doctor = host.run(["doctor"]);
    assert_eq!(doctor.code, Some(14), "{doctor:#?}");

    server.start_again().await;
    host.verify("acme/alice", &["--read-data"]);
    let restored = host.restore("acme/alice", &out);
    assert_eq!(restored["record"], first["record"]);
    assert_same(&kept, &out);
    host.snapshot(&source, "acme/alice");
    fs::remove_dir_all(&out).unwrap();
    host.restore("acme/alice", &out);
    assert_same(&source, &out);
}
