//! These tests follow the id of a request: into the answer, the log, and the requests to the store's server.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    sync::mpsc,
    thread,
};

use serde_json::Value;
use tests::{
    binary::Host,
    served::{Served, Tokens, request},
    server,
};

use super::{ALICE, Scene};

#[test]
fn a_log_of_documents_has_the_time_and_the_name_of_the_request() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = Served::start_with(&scene.host, &scene.tokens.path, &["--json-log"]);
    let body = format!(r#"{{ "sha_prefix": "{}", "confirm": true }}"#, scene.shas[0]);
    let named = |name: &str| {
        let whole = request(&format!("POST {ALICE}/rollback"), Some(&secret), Some(&body));
        server.send(&whole.replace("Host: here\r\n", &format!("Host: here\r\nX-Request-Id: {name}\r\n")))
    };
    let reply = named("trace-7.A_b");
    assert_eq!(reply.header("x-request-id"), Some("trace-7.a_b"), "heads are compared in small letters");
    // A name that does not fit into a log is not taken.
    assert_ne!(named("two words").header("x-request-id"), Some("two words"));
    let said = server.stop().stderr;
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line =
        lines.iter().find(|line| line["request_id"] == "trace-7.A_b").unwrap_or_else(|| panic!("{said}"));
    assert_eq!((&line["level"], &line["status"]), (&"info".into(), &200.into()), "{line:#}");
    let at = line["at"].as_str().unwrap();
    assert!(at.len() == "2026-11-17T22:00:00.000Z".len() && at.starts_with("20"), "{at}");
    assert!(line["caller"].as_str().unwrap().starts_with("token operate-"), "{line:#}");
}

/// The store's server learns for which request it is asked, and its access log with it.
#[test]
fn the_name_of_a_request_reaches_the_server_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (heads, asked) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
            if heads.send(head).is_err() {
                return;
            }
        }
    });
    let config = server::config(&endpoint, "profiles", "key", "secret");
    let host = Host::s3(&folder.path().join("home"), &config).with("PSTORE_SCHEDULES_REAP_SECONDS", "0");
    let tokens = Tokens::new(folder.path());
    let secret = tokens.add(&host, "acme", "read");
    let server = Served::start(&host, &tokens.path);
    let reply = server.call(&format!("GET {ALICE}"), Some(&secret), None);
    let name = format!("request/{}", reply.header("x-request-id").unwrap().to_ascii_uppercase());
    // The server asks for something by itself, too, under another name.
    let mut agents = asked.try_iter().map(|head| {
        let agent =
            head.into_iter().find(|line| line.to_ascii_lowercase().starts_with("user-agent:")).unwrap();
        assert!(agent.contains(" request/"), "{agent} without a name");
        agent
    });
    assert!(agents.any(|agent| agent.ends_with(&name)), "nothing was asked for as {name}");
}
