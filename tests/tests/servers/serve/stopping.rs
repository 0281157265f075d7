//! These tests end a server, and look at how its callers fare.

use std::{
    io::Write,
    net::TcpStream,
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use tests::served::{Served, answer, request};

use super::{ALICE, Scene};

/// Whether the pointer is moved to a snapshot, within a second.
fn is_current(scene: &Scene, sha: &str) -> bool {
    let began = Instant::now();
    while scene.host.succeed(["list", "acme/alice"])["active_sha256_prefix"] != json!(sha) {
        if began.elapsed() > Duration::from_secs(1) {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A request is carried out or was never begun, whenever its caller leaves.
#[test]
fn a_caller_that_goes_away_leaves_nothing_half_done() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let (mut current, mut moved) = (1, 0);
    for round in 0..8 {
        let target = &scene.shas[1 - current];
        let body = json!({ "sha_prefix": target, "confirm": true }).to_string();
        let whole = request(&format!("POST {ALICE}/rollback"), Some(&secret), Some(&body));
        server.send_and_leave(&whole, Duration::from_millis(round * 3));
        if is_current(&scene, target) {
            (current, moved) = (1 - current, moved + 1);
        }
        assert_eq!(scene.host.succeed(["lock", "show", "acme/alice"])["state"], "free");
    }
    assert!(moved > 0, "no request was begun before its caller left");
    let ended = server.stop();
    assert_eq!((ended.code, &ended.document["drained"]), (Some(0), &true.into()), "{ended:#?}");
    let told =
        ended.stderr.lines().filter(|line| line.contains("audit: POST") && line.contains("status=200"));
    assert_eq!(told.count(), moved, "the log has every change: {}", ended.stderr);
    assert!(is_current(&scene, &scene.shas[current]));
    scene.host.verify("acme/alice", &[]);
}

#[test]
fn a_server_that_is_told_to_stop_answers_what_it_was_asked_before() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let body = json!({ "sha_prefix": scene.shas[0], "confirm": true }).to_string();
    let whole = request(&format!("POST {ALICE}/rollback"), Some(&secret), Some(&body));
    let (begun, rest) = whole.split_at(whole.len() - 3);
    let mut stream = server.connect();
    stream.write_all(begun.as_bytes()).unwrap();
    // It has read the head by the time that it answers another.
    server.call("GET /healthz", None, None).expect(200);
    thread::sleep(Duration::from_millis(200));
    server.terminate();
    let began = Instant::now();
    while TcpStream::connect(&server.address).is_ok() {
        assert!(began.elapsed() < Duration::from_secs(10), "it still accepts connections");
        thread::sleep(Duration::from_millis(10));
    }
    stream.write_all(rest.as_bytes()).unwrap();
    assert_eq!(answer(&mut stream).expect(200)["outcome"], "rolled_back");
    let ended = server.stop();
    assert_eq!((ended.code, &ended.document["drained"]), (Some(0), &true.into()), "{ended:#?}");
}

#[test]
fn a_server_does_not_wait_for_ever_for_those_who_never_finish() {
    let scene = Scene::new();
    let server = Served::start_with(&scene.host, &scene.tokens.path, &["--drain", "1"]);
    let mut stream = server.connect();
    stream.write_all(b"POST /healthz HTTP/1.1\r\nHost:").unwrap();
    thread::sleep(Duration::from_millis(100));
    let ended = server.stop();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert!(ended.stderr.contains("some requests had not ended after 1 s"), "{ended:#?}");
}

#[test]
fn a_socket_serves_as_an_address_does() {
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let path = scene.folder.path().join("socket");
    let listen = format!("unix:{}", path.display());
    let tokens = scene.tokens.path.to_str().unwrap();
    let mut running = scene.host.start(["serve", "--listen", &listen, "--tokens", tokens]);
    running.await_stderr("listening on unix:");
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(request(&format!("GET {ALICE}"), Some(&secret), None).as_bytes()).unwrap();
    answer(&mut stream).expect(200);
    running.kill();
}

#[test]
fn a_server_without_a_token_file_does_not_start() {
    let scene = Scene::new();
    let nowhere = scene.folder.path().join("nowhere").display().to_string();
    let error = scene.host.fail(6, ["serve", "--listen", "127.0.0.1:0", "--tokens", &nowhere]);
    assert!(error["hint"].as_str().unwrap().contains("pstore token new"), "{error:#}");
    let error = scene
        .host
        .fail(6, ["serve", "--listen", "192.0.2.1:1", "--tokens", scene.tokens.path.to_str().unwrap()]);
    assert!(error["message"].as_str().unwrap().contains("cannot listen on"), "{error:#}");
}
