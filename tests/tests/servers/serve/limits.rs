//! These tests send requests that are malformed, too many or too slow, and look for every change in the log.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use tests::{
    binary::Host,
    served::{Reply, Served, Tokens, answer, request},
    server::config,
};

use super::{ALICE, Scene};

#[test]
fn what_is_no_request_is_a_clear_answer() {
    let scene = Scene::new();
    let secret = scene.token("*", "admin");
    let server = scene.serve();
    let send = |line: &str, body: &str| server.send(&request(line, Some(&secret), Some(body)));
    let rollback = format!("POST {ALICE}/rollback");
    for body in ["", "{", "[]", "null", "{}", r#"{"sha_prefix":1}"#, r#"{"sha_prefix":"latest","colour":1}"#]
    {
        send(&rollback, body).refused(400, "invalid_input");
    }
    send(&rollback, r#"{"sha_prefix":"no such thing"}"#).refused(400, "invalid_input");
    send(&rollback, r#"{"sha_prefix":"../../latest"}"#).refused(400, "invalid_input");
    send("GET /v1/profile-snapshots/acme", "").refused(404, "not_found");
    send("GET /v2", "").refused(404, "not_found");
    send(&format!("PATCH {ALICE}"), "").refused(405, "invalid_input");
    send("GET /v1/profile-snapshots/acme/%2e%2e", "").refused(400, "invalid_input");
    send("GET /v1/profile-snapshots/acme/..%2f..%2fother", "").refused(400, "invalid_input");
    send("GET /v1/profile-snapshots/acme/%ff", "").refused(400, "invalid_input");
    send(&format!("GET {ALICE}/%00"), "").refused(400, "invalid_input");
    send(&rollback, &"x".repeat(70_000)).refused(413, "invalid_input");
    // One that does not say how long it is.
    let mut chunks =
        request(&rollback, Some(&secret), None).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    for _ in 0..20 {
        chunks += &format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    }
    server.send(&chunks).refused(413, "invalid_input");
    let long = "x".repeat(400_000);
    let reply = server.send(&format!("GET /healthz HTTP/1.1\r\nConnection: close\r\nX-Long: {long}\r\n\r\n"));
    assert_eq!(reply.status, 431, "{reply:?}");
    server.call("GET /healthz", None, None).expect(200);
}

/// Every answer can be found in the log, and nobody keeps it.
#[test]
fn every_answer_has_a_name() {
    let scene = Scene::new();
    let server = scene.serve();
    let mut names = Vec::new();
    for line in ["GET /healthz", "GET /nowhere", "PUT /healthz", &format!("GET {ALICE}")] {
        let reply = server.call(line, None, None);
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
        names.push(reply.header("x-request-id").unwrap().to_owned());
        if reply.status != 200 {
            assert_eq!(
                reply.json()["request_id"].as_str().unwrap().to_ascii_lowercase(),
                names[names.len() - 1]
            );
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[test]
fn callers_that_never_finish_keep_nobody_out() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    let mut idle = server.connect();
    let mut slow = Vec::new();
    for at in 0..200 {
        let mut stream = server.connect();
        let whole =
            request(&format!("POST {ALICE}/rollback"), Some(&secret), Some("{ \"sha_prefix\": \"latest\" }"));
        // Some stop within the head, some within the body.
        stream.write_all(&whole.as_bytes()[..if at % 2 == 0 { 20 } else { whole.len() - 5 }]).unwrap();
        slow.push((stream, whole));
    }
    let callers = (0..8).map(|_| {
        let line = format!("GET {ALICE}");
        let (address, secret) = (server.address.clone(), secret.clone());
        thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(request(&line, Some(&secret), None).as_bytes()).unwrap();
            answer(&mut stream).status
        })
    });
    let answered: Vec<u16> =
        callers.collect::<Vec<_>>().into_iter().map(|caller| caller.join().unwrap()).collect();
    assert_eq!(answered, [200; 8]);
    // One that goes on in time is served.
    let (mut stream, whole) = slow.pop().unwrap();
    stream.write_all(&whole.as_bytes()[whole.len() - 5..]).unwrap();
    answer(&mut stream).expect(200);
    // The others are told so, once they have had their time.
    let mut told = [0, 0];
    for (at, (mut stream, _)) in slow.into_iter().enumerate() {
        answer(&mut stream).refused(408, "invalid_input");
        told[at % 2] += 1;
    }
    assert_eq!(told, [100, 99]);
    // Who asks nothing is told nothing.
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
}

/// A server that may have few files open has fewer connections, of which one address has at most half. The store
/// has files left, and others are served.
#[tokio::test(flavor = "multi_thread")]
async fn one_address_leaves_connections_to_others_and_files_to_the_store() {
    /// A quarter of the files that the server may have open.
    const SHARE: usize = 32;
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let server = Served::start(&scene.host.clone().within_files(4 * SHARE as u64), &scene.tokens.path);
    let mut idle: Vec<_> = (0..SHARE).map(|_| server.connect()).collect();
    let list = request(&format!("GET {ALICE}"), Some(&secret), None);
    for _ in 0..3 {
        let refused = server.send(&list);
        let problem = refused.refused(503, "unavailable");
        assert_eq!(problem["detail"], "address 127.0.0.1 has too many connections");
    }
    // Those that are there go on.
    let mut own = idle.pop().unwrap();
    own.write_all(list.as_bytes()).unwrap();
    answer(&mut own).expect(200);
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let stream = elsewhere.connect(server.address.parse().unwrap()).await.unwrap();
    let mut stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.write_all(list.as_bytes()).unwrap();
    answer(&mut stream).expect(200);
    // Those who leave make room.
    drop((idle, own));
    while server.send(&list).status != 200 {
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_asks_too_often_is_told_when_to_ask_again() {
    let scene = Scene::new();
    let server = Served::start_with(&scene.host, &scene.tokens.path, &["--rate", "5"]);
    let replies: Vec<Reply> = (0..60).map(|_| server.call("GET /healthz", None, None)).collect();
    let refused: Vec<&Reply> = replies.iter().filter(|reply| reply.status != 200).collect();
    assert!(replies[..10].iter().all(|reply| reply.status == 200) && !refused.is_empty(), "{replies:?}");
    for reply in refused {
        reply.refused(429, "unavailable");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
}

/// Callers behind one proxy have one address: what is counted is the token of each.
#[test]
fn who_shows_a_token_does_not_pay_for_those_who_show_none() {
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let server = Served::start_with(&scene.host, &scene.tokens.path, &["--rate", "1"]);
    let nobody = || server.call(&format!("GET {ALICE}"), Some("pstore_wrong"), None);
    let began = Instant::now();
    while nobody().status != 429 {
        assert!(began.elapsed() < Duration::from_secs(30), "guesses are not counted");
    }
    server.call(&format!("GET {ALICE}"), Some(&secret), None).expect(200);
}

/// All that come beyond the bound are refused at once, whoever has come before: those who have room wait
/// much longer than it takes the others to come. Nobody counts the seconds.
#[test]
fn who_waits_beside_too_many_is_told_to_come_back() {
    /// Half of the room that there is.
    const WAITING: usize = 64;
    const MORE: usize = 12;
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    scene.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "busy", "--ttl", "600"]);
    let holder = r#"{ "holder_run_id": "waits" }"#;
    let wait =
        |seconds: u64| request(&format!("POST {ALICE}/leases?wait={seconds}"), Some(&secret), Some(holder));
    let mut waiting: Vec<_> = (0..WAITING + MORE)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(wait(60).as_bytes()).unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    let mut refused = 0;
    while refused < MORE {
        thread::sleep(Duration::from_millis(20));
        waiting.retain_mut(|stream| {
            if stream.peek(&mut [0]).is_err() {
                return true;
            }
            stream.set_nonblocking(false).unwrap();
            let reply = answer(stream);
            reply.refused(503, "unavailable");
            assert_eq!(reply.header("retry-after"), Some("5"));
            refused += 1;
            false
        });
    }
    assert_eq!(waiting.len(), WAITING);
    server.send(&wait(60)).refused(503, "unavailable");
    // A tenant leaves room to others.
    let other = scene.token("other", "run");
    let bob = "POST /v1/profile-snapshots/other/bob/leases?wait=1";
    server.send(&request(bob, Some(&other), Some(holder))).expect(200);
    // Whoever does not wait is answered all the same.
    server.call(&format!("GET {ALICE}/leases"), Some(&secret), None).expect(200);
    server.send(&wait(0)).refused(409, "lock_held");
    // Those who leave make room.
    drop(waiting);
    while server.send(&wait(1)).status != 409 {
        thread::sleep(Duration::from_millis(50));
    }
}

/// A store that never answers: all that come beyond the bound are told to come back, and not to wait with the others.
#[test]
fn what_is_heavy_is_bounded_for_each_tenant() {
    const BESIDE: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = config(&format!("http://{}", silent.local_addr().unwrap()), "profiles", "key", "secret");
    let host = Host::s3(&folder.path().join("home"), &config).with("PSTORE_SCHEDULES_REAP_SECONDS", "0");
    let tokens = Tokens::new(folder.path());
    let secret = tokens.add(&host, "acme", "run");
    let load = r#"{ "chrome_major_version": 131 }"#;
    for (line, body, half, what) in [
        (format!("GET {ALICE}/latest/tree"), None, 8, "trees to look at"),
        (format!("GET {ALICE}/latest/diff/latest~1"), None, 8, "trees to look at"),
        (format!("GET {ALICE}/latest/files/x"), None, 16, "downloads in progress"),
        (format!("POST {ALICE}/loads"), Some(load), 8, "loads in progress"),
        (format!("GET {ALICE}/events"), None, 128, "requests in progress"),
    ] {
        let server = Served::start(&host, &tokens.path);
        let asked = request(&line, Some(&secret), body);
        let mut streams: Vec<_> = (0..half + BESIDE)
            .map(|_| {
                let mut stream = server.connect();
                stream.write_all(asked.as_bytes()).unwrap();
                stream.set_nonblocking(true).unwrap();
                stream
            })
            .collect();
        let mut refused = 0;
        while refused < BESIDE {
            thread::sleep(Duration::from_millis(10));
            streams.retain_mut(|stream| {
                if stream.peek(&mut [0]).is_err() {
                    return true;
                }
                stream.set_nonblocking(false).unwrap();
                let problem = answer(stream).refused(503, "unavailable");
                assert_eq!(problem["detail"], format!("tenant acme has too many {what}"), "{line}");
                refused += 1;
                false
            });
        }
        assert_eq!(streams.len(), half, "{line}");
    }
}

/// Without a flag the log has every change, and who made it; reads it has with -v.
#[test]
fn every_change_is_in_the_log() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    server.call(&format!("GET {ALICE}"), Some(&secret), None).expect(200);
    let body = serde_json::json!({ "sha_prefix": scene.shas[0], "confirm": true });
    let done = server.call(&format!("POST {ALICE}/rollback"), Some(&secret), Some(&body));
    server.call(&format!("DELETE {ALICE}/{}", scene.shas[1]), Some(&secret), None).refused(403, "denied");
    let id = done.header("x-request-id").unwrap().to_ascii_uppercase();
    let said = server.stop().stderr;
    let line = said.lines().find(|line| line.contains(&id)).unwrap_or_else(|| panic!("{said}"));
    for words in ["audit: POST", "/rollback", "caller=\"token operate-", "peer=\"127.0.0.1\"", "status=200"] {
        assert!(line.contains(words), "no {words} in {line}");
    }
    assert!(
        said.contains("audit: DELETE") && said.contains("status=403") && !said.contains("GET /v1"),
        "{said}"
    );
}
