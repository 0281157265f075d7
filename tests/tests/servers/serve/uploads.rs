//! These tests send archives to the server, and have two operators roll back at once.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use sha2::{Digest, Sha256};
use tests::{
    served::{Reply, Served, answer, request, with_header},
    tree::noise,
};

use super::{ALICE, Scene};

pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An archive of the snapshot with these digits, and its Chrome.
pub(super) fn exported(scene: &Scene, sha: &str) -> (Vec<u8>, u64) {
    let folder = scene.folder.path().join("exported");
    let name = format!("acme/alice@{sha}");
    let outcome = scene.host.succeed(["export", &name, "-o", folder.to_str().unwrap()]);
    let major = outcome["chrome_major_version"].as_u64().unwrap();
    (fs::read(outcome["archive"].as_str().unwrap()).unwrap(), major)
}

fn upload(server: &Served, secret: &str, query: &str, lease: Option<&str>, body: &[u8]) -> Reply {
    let head = request(&format!("POST {ALICE}/uploads?{query}"), Some(secret), None);
    let head = match lease {
        Some(lease) => with_header(&head, &format!("Pstore-Lease: {lease}")),
        None => head,
    };
    server.send_bytes(&head, body)
}

#[test]
fn an_archive_becomes_the_current_snapshot_of_whoever_holds_the_lock() {
    let scene = Scene::new();
    let (run, operate) = (scene.token("acme", "run"), scene.token("acme", "operate"));
    let server = scene.serve();
    let (archive, major) = exported(&scene, &scene.shas[0]);
    let query = format!("chrome_major_version={major}&sha256={}", digest(&archive));
    let current = || {
        let list = server.call(&format!("GET {ALICE}"), Some(&run), None).expect(200);
        list["active_sha256_prefix"].as_str().unwrap().to_owned()
    };
    assert_eq!(current(), scene.shas[1]);
    // Without a lease it takes an operator.
    upload(&server, &run, &query, None, &archive).refused(403, "denied");
    let body = json!({ "holder_run_id": "run-1" });
    let taken = server.call(&format!("POST {ALICE}/leases"), Some(&run), Some(&body)).expect(200);
    let token = taken["token"].as_str().unwrap();
    // Nobody passes the holder.
    upload(&server, &operate, &query, None, &archive).refused(409, "lock_held");
    let other = "0".repeat(token.len());
    upload(&server, &run, &query, Some(&other), &archive).refused(409, "lock_lost");
    upload(&server, &run, &query, Some("no token"), &archive).refused(400, "invalid_input");
    assert_eq!(current(), scene.shas[1]);
    let stored = upload(&server, &run, &query, Some(token), &archive).expect(200);
    assert_eq!(stored["archive_sha256"], digest(&archive), "{stored:#}");
    assert_eq!(current(), stored["active_sha256_prefix"].as_str().unwrap());
    let file = server.call(&format!("GET {ALICE}/latest/files/Preferences"), Some(&run), None);
    assert_eq!(file.text(), "first");
    // Sent again, it changes nothing.
    upload(&server, &run, &query, Some(token), &archive).expect(200);
    let held = json!({ "token": token });
    server.call(&format!("DELETE {ALICE}/leases"), Some(&run), Some(&held)).expect(200);
    upload(&server, &operate, &query, None, &archive).expect(200);
}

#[test]
fn what_is_no_archive_changes_nothing_and_leaves_nothing() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let (archive, major) = exported(&scene, &scene.shas[0]);
    let before = server.call(&format!("GET {ALICE}"), Some(&secret), None).expect(200);
    let send = |body: &[u8], sha: &str| {
        upload(&server, &secret, &format!("chrome_major_version={major}&sha256={sha}"), None, body)
    };
    send(&archive, &digest(b"other")).refused(409, "integrity_failed");
    let cut = &archive[..archive.len() - 3];
    send(cut, &digest(cut)).refused(409, "integrity_failed");
    for wrong in [&b""[..], b"no archive", &noise(100_000, 3)] {
        send(wrong, &digest(wrong)).refused(409, "integrity_failed");
    }
    send(&archive, "abc").refused(400, "invalid_input");
    upload(&server, &secret, "", None, &archive).refused(400, "invalid_input");
    // One who leaves in the middle.
    let query = format!("chrome_major_version={major}&sha256={}", digest(&archive));
    let head = request(&format!("POST {ALICE}/uploads?{query}"), Some(&secret), None);
    let mut stream = server.connect();
    stream.write_all(head.replace("Content-Length: 0", "Content-Length: 1000000").as_bytes()).unwrap();
    stream.write_all(&archive[..10]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(stream);
    let after = server.call(&format!("GET {ALICE}"), Some(&secret), None).expect(200);
    assert_eq!(before, after);
    assert_eq!(server.stop().document["drained"], true);
    let cache = scene.folder.path().join("home/cache");
    let left = fs::read_dir(cache).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let left: Vec<String> = left.filter(|name| name.starts_with("pstore-import-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_rollback_is_made_only_from_where_its_caller_thinks_it_is() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let list = server.call(&format!("GET {ALICE}"), Some(&secret), None);
    let tag = list.header("etag").unwrap().to_owned();
    assert_eq!(tag, format!("\"{}\"", scene.shas[1]));
    let roll = |to: &str, tag: &str, confirm: bool| {
        let body = json!({ "sha_prefix": to, "confirm": confirm }).to_string();
        let plain = request(&format!("POST {ALICE}/rollback"), Some(&secret), Some(&body));
        server.send(&with_header(&plain, &format!("If-Match: {tag}")))
    };
    roll(&scene.shas[0], "\"ffffffffffff\"", false).refused(412, "pointer_moved");
    roll(&scene.shas[0], "\"ffffffffffff\"", true).refused(412, "pointer_moved");
    roll(&scene.shas[0], "no tag", true).refused(400, "invalid_input");
    assert_eq!(roll(&scene.shas[0], &tag, true).expect(200)["outcome"], "rolled_back");
    roll(&scene.shas[1], &tag, true).refused(412, "pointer_moved");
    assert_eq!(roll(&scene.shas[1], "*", true).expect(200)["outcome"], "rolled_back");
}

/// The digits of the current snapshot.
fn current(server: &Served, secret: &str) -> String {
    let list = server.call(&format!("GET {ALICE}"), Some(secret), None).expect(200);
    list["active_sha256_prefix"].as_str().unwrap().to_owned()
}

/// An upload of which the server has read the head, has found that it may be made, and waits for the body.
fn begun(server: &Served, secret: &str, query: &str, body: &[u8]) -> TcpStream {
    const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let head = request(&format!("POST {ALICE}/uploads?{query}"), Some(secret), None);
    let head = head.replace("Content-Length: 0", &format!("Content-Length: {}", body.len()));
    let mut stream = server.connect();
    stream.write_all(with_header(&head, "Expect: 100-continue").as_bytes()).unwrap();
    let mut said = vec![0; GO_ON.len()];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(said, GO_ON, "{}", String::from_utf8_lossy(&said));
    stream
}

#[test]
fn an_archive_that_is_sent_again_does_not_undo_what_followed() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let (archive, major) = exported(&scene, &scene.shas[0]);
    let query = format!("chrome_major_version={major}&sha256={}", digest(&archive));
    let first = upload(&server, &secret, &query, None, &archive).expect(200);
    let first = first["active_sha256_prefix"].as_str().unwrap().to_owned();
    let newer = scene.capture("acme/alice", "third");
    let again = upload(&server, &secret, &query, None, &archive).expect(200);
    assert_eq!(
        (&again["outcome"], &again["pointer"]),
        (&json!("unchanged"), &json!("unchanged")),
        "{again:#}"
    );
    assert_eq!((&again["sha256_prefix"], &again["active_sha256_prefix"]), (&json!(first), &json!(null)));
    assert_eq!(current(&server, &secret), newer);
    // Who says what it goes back from, means it.
    let send = |tag: &str| {
        let head = request(&format!("POST {ALICE}/uploads?{query}"), Some(&secret), None);
        server.send_bytes(&with_header(&head, &format!("If-Match: \"{tag}\"")), &archive)
    };
    send(&scene.shas[1]).refused(412, "pointer_moved");
    assert_eq!(current(&server, &secret), newer);
    assert_eq!(send(&newer).expect(200)["pointer"], "flipped");
    assert_eq!(current(&server, &secret), first);
}

#[test]
fn an_archive_does_not_replace_a_snapshot_that_was_stored_while_it_arrived() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let (archive, major) = exported(&scene, &scene.shas[0]);
    let query = format!("chrome_major_version={major}&sha256={}", digest(&archive));
    let mut stream = begun(&server, &secret, &query, &archive);
    let newer = scene.capture("acme/alice", "third");
    stream.write_all(&archive).unwrap();
    answer(&mut stream).refused(409, "pointer_moved");
    assert_eq!(current(&server, &secret), newer);
}

#[test]
fn who_may_not_upload_is_told_before_anything_is_sent() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let body = json!({ "holder_run_id": "run-1" });
    let taken = server.call(&format!("POST {ALICE}/leases"), Some(&secret), Some(&body)).expect(200);
    let token = taken["token"].as_str().unwrap();
    let major = taken["chrome_major_version"].as_u64().unwrap();
    let query = format!("chrome_major_version={major}&sha256={}", digest(b""));
    let announce = |lease: &str, bytes: u64| {
        let head = request(&format!("POST {ALICE}/uploads?{query}"), Some(&secret), None);
        let head = head.replace("Content-Length: 0", &format!("Content-Length: {bytes}"));
        server.send(&with_header(&head, &format!("Pstore-Lease: {lease}")))
    };
    announce(&"0".repeat(token.len()), 1000).refused(409, "lock_lost");
    announce(token, 1 << 50).refused(413, "invalid_input");
}

/// What has all arrived is stored, though its caller goes away or the server is told to stop.
#[test]
fn an_archive_that_has_arrived_is_stored_whoever_goes_away() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    fs::write(scene.folder.path().join("source/large"), noise(3_000_000, 7)).unwrap();
    scene.capture("acme/alice", "third");
    let (archive, major) = exported(&scene, "latest");
    let query = format!("chrome_major_version={major}&sha256={}", digest(&archive));
    let newer = scene.capture("acme/alice", "fourth");
    let mut stream = begun(&server, &secret, &query, &archive);
    stream.write_all(&archive).unwrap();
    drop(stream);
    let began = Instant::now();
    while current(&server, &secret) == newer {
        assert!(began.elapsed() < Duration::from_secs(30), "it was given up: {}", server.said());
        thread::sleep(Duration::from_millis(20));
    }
    let (archive, _) = exported(&scene, &scene.shas[0]);
    let query = format!("chrome_major_version={major}&sha256={}", digest(&archive));
    let mut stream = begun(&server, &secret, &query, &archive);
    server.terminate();
    let began = Instant::now();
    while TcpStream::connect(&server.address).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(10), "it still accepts connections");
        thread::sleep(Duration::from_millis(10));
    }
    stream.write_all(&archive).unwrap();
    let stored = answer(&mut stream).expect(200);
    assert_eq!(stored["pointer"], "flipped", "{stored:#}");
    assert_eq!(server.stop().document["drained"], true);
}
