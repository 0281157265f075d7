//! These tests send requests of a caller that wants more than its token is for.

use std::time::Duration;

use serde_json::json;
use tests::served::{Reply, Served, request, with_header};

use super::{ALICE, Scene};

/// One tenant's administrator asks for what is another's, in every way in which a path can be written.
#[test]
fn no_way_of_writing_a_path_leads_to_another_tenant() {
    let scene = Scene::new();
    let secret = scene.token("acme", "admin");
    let server = scene.serve();
    let get = |path: &str| server.send(&request(&format!("GET {path}"), Some(&secret), None));
    for path in [
        "/v1/profile-snapshots/other/bob",
        "/v1/profile-snapshots/%6fther/bob",
        "/v1/profile-snapshots/%6Fther/%62ob",
        "/v1/profile-snapshots/other/bob?tenant_id=acme",
        "/v1/profile-snapshots/other/bob#/acme",
        "/v1/profile-snapshots/other/bob/",
        "/v1/profile-snapshots/other/bob/latest",
        "/v1/profile-snapshots/other/bob/latest/files/Preferences",
        "/v1/profile-snapshots/acme/../other/bob",
        "/v1/profile-snapshots/acme/%2e%2e/other/bob",
        "/v1/profile-snapshots/acme/..%2fother%2fbob",
        "/v1/profile-snapshots/acme/..%2Fother/bob",
        "/v1/profile-snapshots/acme/..%252fother%252fbob",
        "/v1/profile-snapshots/acme/alice/../../other/bob",
        "/v1/profile-snapshots/acme/alice/latest/../../../other/bob/latest",
        "/v1/profile-snapshots/acme/alice/latest/files/../../../../other/bob",
        "/v1/profile-snapshots/acme/alice/latest/files/..%2f..%2fother",
        "/v1/profile-snapshots/acme/alice/latest/files/%2fetc%2fpasswd",
        "/v1/profile-snapshots/acme/alice/latest/tree?path=../../other",
        "/v1/profile-snapshots/acme/alice/latest/diff/other%2fbob@latest",
        "/v1/profile-snapshots/acme/alice/other%2fbob@latest",
        "/v1/profile-snapshots/acme/bob@latest",
        "/v1/profile-snapshots/acme%2f..%2fother/bob",
        "/v1/profile-snapshots/acme%00/../other/bob",
        "/v1/profile-snapshots/acme,other/bob",
        "/v1/profile-snapshots/*/bob",
        "/v1/profile-snapshots/OTHER/bob",
        "/v1/profile-snapshots/acme;other/bob",
        "/v1/profile-snapshots//other/bob",
        "//v1/profile-snapshots/other/bob",
        "/V1/profile-snapshots/other/bob",
        "/v1/./profile-snapshots/other/bob",
        "http://elsewhere/v1/profile-snapshots/other/bob",
        "/v1/tenants/other/stats",
        "/v1/tenants/acme%2f..%2fother/stats",
        "/v1/events?tenant_id=other",
        "/v1/events?tenant_id=acme&tenant_id=other",
        "/v1/events?tenant_id=../other",
    ] {
        let reply = get(path);
        assert!(matches!(reply.status, 400 | 403 | 404), "{path}: {reply:#?}");
        assert!(!reply.text().contains("third"), "{path}: {reply:#?}");
    }
    // However it is written, what is one's own is one's own.
    for path in ["/v1/profile-snapshots/%61cme/alice", "http://here/v1/profile-snapshots/acme/alice"] {
        get(path).expect(200);
    }
}

/// A proxy may read such a request in one way and the server in another.
#[test]
fn a_request_that_can_be_read_in_two_ways_is_refused() {
    let scene = Scene::new();
    let [acme, other] = ["acme", "other"].map(|tenant| scene.token(tenant, "admin"));
    let server = scene.serve();
    let list = request(&format!("GET {ALICE}"), Some(&acme), None);
    server.send(&list).expect(200);
    for first in [&acme, &other] {
        let twice = with_header(&list, &format!("Authorization: Bearer {first}"));
        server.send(&twice).refused(401, "denied");
    }
    let body = json!({ "sha_prefix": "latest" }).to_string();
    let rollback = request(&format!("POST {ALICE}/rollback"), Some(&acme), Some(&body));
    for header in ["Idempotency-Key: one", "If-Match: \"x\""] {
        let twice = with_header(&with_header(&rollback, header), header);
        server.send(&twice).refused(400, "invalid_input");
    }
    let hidden = request(&format!("GET {ALICE}"), Some(&acme), None);
    for confusing in [
        with_header(&rollback, "Transfer-Encoding: chunked"),
        with_header(&rollback, "Transfer-Encoding: identity"),
        with_header(&rollback, "Transfer-Encoding: chunked, identity"),
        with_header(&rollback, "Content-Length: 1"),
        with_header(&rollback, "Content-Length: 1, 2"),
        with_header(&rollback, "Content-Length: -1"),
        with_header(&rollback, "Content-Length: 99999999999999999999999"),
        with_header(&rollback, "X-Name : with a space"),
        rollback.replacen("HTTP/1.1", "HTTP/1.0\r\nTransfer-Encoding: chunked", 1),
    ] {
        let reply = server.send(&format!("{}{hidden}", confusing.replace("Connection: close\r\n", "")));
        assert!(matches!(reply.status, 400 | 413), "{confusing}: {reply:#?}");
        // What follows is taken for nothing.
        assert!(!reply.text().contains("HTTP/1.1"), "{confusing}: {reply:#?}");
    }
}

/// The largest numbers there are, wherever one is taken.
#[test]
fn a_number_that_is_too_large_is_an_answer_like_any_other() {
    const MOST: &str = "18446744073709551615";
    let scene = Scene::new();
    let secret = scene.token("acme", "admin");
    let server = scene.serve();
    let send = |line: &str, body: &str| server.send(&request(line, Some(&secret), Some(body)));
    for (line, body) in [
        (format!("GET {ALICE}?limit={MOST}"), String::new()),
        (format!("GET {ALICE}?limit={MOST}0"), String::new()),
        (format!("GET {ALICE}?chrome_major_version={MOST}"), String::new()),
        (format!("GET {ALICE}/events?last={MOST}"), String::new()),
        (format!("GET {ALICE}/latest~{MOST}"), String::new()),
        (format!("GET {ALICE}/9999999-11-15T10:00"), String::new()),
        (format!("GET /v1/events?limit={MOST}"), String::new()),
        (format!("GET /v1/jobs?limit={MOST}"), String::new()),
        (format!("POST {ALICE}/leases?wait={MOST}"), r#"{ "holder_run_id": "run" }"#.to_owned()),
        (format!("POST {ALICE}/leases"), format!(r#"{{ "holder_run_id": "run", "ttl_seconds": {MOST} }}"#)),
        (format!("POST {ALICE}/loads"), format!(r#"{{ "chrome_major_version": {MOST} }}"#)),
    ] {
        let reply = send(&line, &body);
        assert!(matches!(reply.status, 200 | 400 | 404), "{line} {body}: {reply:#?}");
    }
    for (kind, field) in [("reap", "grace_seconds"), ("verify", "read_data")] {
        let body = format!(r#"{{ "tenant_id": "acme", "{field}": {MOST} }}"#);
        let begun = send(&format!("POST /v1/jobs/{kind}"), &body).expect(200);
        let id = begun["job_id"].as_str().unwrap();
        let job = loop {
            let job = send(&format!("GET /v1/jobs/{id}"), "").expect(200);
            if job["state"] != "running" {
                break job;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(job["state"], "done", "{job:#}");
    }
    assert!(!server.said().contains("panic"), "{}", server.said());
}

/// Whoever asks for the head alone is told what it would be told otherwise, and gets nothing of it.
#[test]
fn a_head_needs_the_same_token_and_brings_no_body() {
    let scene = Scene::new();
    let [reader, stranger] =
        [("acme", "read"), ("other", "admin")].map(|(tenant, role)| scene.token(tenant, role));
    let server = scene.serve();
    let head = |path: &str, secret: Option<&str>| -> Reply {
        let reply = server.call(&format!("HEAD {path}"), secret, None);
        assert!(reply.body.is_empty(), "{path}: {reply:#?}");
        reply
    };
    for below in ["", "/latest", "/latest/history", "/events", "/leases"] {
        let path = format!("{ALICE}{below}");
        assert_eq!(head(&path, Some(&reader)).status, 200, "{path}");
        assert_eq!(head(&path, Some(&stranger)).status, 403, "{path}");
        assert_eq!(head(&path, None).status, 401, "{path}");
    }
    for below in ["/latest/files/Preferences", "/latest/archive", "/latest/tree"] {
        assert_eq!(head(&format!("{ALICE}{below}"), Some(&reader)).status, 403, "{below}");
    }
    assert_eq!(head("/v1/nothing", Some(&reader)).status, 404);
}

/// A query as long as a head may be is an answer, and so is one that is longer.
#[test]
fn a_query_of_any_length_is_answered() {
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let server = scene.serve();
    let ask = |length: usize| -> Reply {
        server.send(&request(&format!("GET {ALICE}?after={}", "x".repeat(length)), Some(&secret), None))
    };
    ask(10_000).refused(409, "conflict");
    for length in [70_000, 1 << 20] {
        let reply = ask(length);
        assert!(matches!(reply.status, 414 | 431), "{length}: {}", reply.head);
    }
    assert!(healthy(&server));
}

fn healthy(server: &Served) -> bool {
    server.call("GET /healthz", None, None).status == 200
}
