//! These tests use encrypted connections, and clients whose certificates say who they are.

use std::{
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use tests::{
    certificates::{Authority, Certificate, connect, send},
    served::{Reply, Served, answer, request, with_header},
};

use super::{ALICE, Scene};

/// A server with a certificate, which trusts the clients of an authority.
struct Encrypted {
    scene: Scene,
    authority: Authority,
    own: Certificate,
    server: Served,
}

impl Encrypted {
    fn new() -> Self {
        let scene = Scene::new();
        let authority = Authority::new(scene.folder.path(), "authority");
        let own = authority.issue("server", "IP:127.0.0.1");
        let ca = authority.path();
        let files = [&own.path, &own.key, &ca].map(|path| path.to_str().unwrap());
        let more = ["--tls-cert", files[0], "--tls-key", files[1], "--client-ca", files[2]];
        let server = Served::start_with(&scene.host, &scene.tokens.path, &more);
        Self { scene, authority, own, server }
    }

    fn client(&self, name: &str, uri: &str) -> Certificate {
        self.authority.issue(name, &format!("URI:{uri}"))
    }

    fn call(&self, line: &str, secret: Option<&str>, own: Option<&Certificate>) -> Reply {
        send(&self.server, &self.authority, own, &request(line, secret, None))
    }
}

#[test]
fn a_certificate_says_who_calls() {
    let at = Encrypted::new();
    let list = format!("GET {ALICE}");
    let tree = format!("GET {ALICE}/latest/tree");
    let secret = at.scene.token("acme", "read");
    at.call(&list, Some(&secret), None).expect(200);
    at.call(&list, None, None).refused(401, "denied");
    let run = at.client("run", "pstore://tenant/acme?role=run");
    at.call(&list, None, Some(&run)).expect(200);
    at.call(&tree, None, Some(&run)).expect(200);
    at.call("GET /v1/profile-snapshots/other/bob", None, Some(&run)).refused(403, "denied");
    let problem = at.call(&format!("DELETE {ALICE}/ffffffffffff"), None, Some(&run)).refused(403, "denied");
    assert_eq!(problem["detail"], "this needs the role admin, and the certificate has run");
    // A token is asked first, whatever the certificate may do.
    at.call(&tree, Some(&secret), Some(&run)).refused(403, "denied");
    at.call(&list, Some("pstore_wrong"), Some(&run)).refused(401, "denied");
    for (name, uri) in [("none", "spiffe://acme/run"), ("role", "pstore://tenant/acme?role=owner")] {
        let problem = at.call(&list, None, Some(&at.client(name, uri))).refused(401, "denied");
        assert!(problem["detail"].as_str().unwrap().contains("pstore://"), "{problem:#}");
    }
    // A change names the certificate.
    let operate = at.client("operate", "pstore://tenant/acme?role=operate");
    at.call(&format!("PUT {ALICE}/latest/tags/kept"), None, Some(&operate)).expect(200);
    let said = at.server.said();
    assert!(said.contains("caller=\"certificate ") && !said.contains("PRIVATE KEY"), "{said}");
}

/// A browser shows its certificate whichever page makes it ask.
#[test]
fn a_page_of_another_site_cannot_use_a_certificate() {
    let at = Encrypted::new();
    let admin = at.client("admin", "pstore://tenant/acme?role=admin");
    let unlock = request(
        &format!("POST {ALICE}/force-unlock"),
        None,
        Some(r#"{ "reason": "a visit", "confirm": true }"#),
    );
    let send = |request: &str| send(&at.server, &at.authority, Some(&admin), request);
    for line in ["Origin: https://elsewhere.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        send(&with_header(&unlock, line)).refused(403, "denied");
    }
    for line in ["Origin: https://here", "Sec-Fetch-Site: same-origin", "Accept: */*"] {
        send(&with_header(&unlock, line)).expect(200);
    }
    // No page knows a token, so whoever sends one may be on any.
    let secret = at.scene.token("acme", "admin");
    let with_token = with_header(&unlock, &format!("Authorization: Bearer {secret}"));
    send(&with_header(&with_token, "Origin: https://elsewhere.example")).expect(200);
}

#[test]
fn a_certificate_of_another_authority_opens_nothing() {
    let at = Encrypted::new();
    let folder = tempfile::tempdir().unwrap();
    let stranger = Authority::new(folder.path(), "stranger");
    let own = stranger.issue("run", "URI:pstore://tenant/acme?role=admin");
    let mut stream = connect(&at.server, &at.authority, Some(&own));
    let line = request(&format!("GET {ALICE}"), None, None);
    let mut got = Vec::new();
    let ended = stream.write_all(line.as_bytes()).and_then(|()| stream.read_to_end(&mut got).map(drop));
    assert!(ended.is_err() && got.is_empty(), "{}", String::from_utf8_lossy(&got));
    at.call("GET /healthz", None, None).expect(200);
}

#[test]
fn certificates_are_read_again_when_their_files_change() {
    let at = Encrypted::new();
    let list = format!("GET {ALICE}");
    let run = at.client("run", "pstore://tenant/acme?role=run");
    at.call(&list, None, Some(&run)).expect(200);
    // A broken file changes nothing, and that is said.
    let before = fs::read(&at.own.path).unwrap();
    fs::write(&at.own.path, "no certificate").unwrap();
    at.call(&list, None, Some(&run)).expect(200);
    let problem = at.call("GET /readyz", None, None).refused(503, "unavailable");
    assert_eq!(problem["detail"], "the certificates cannot be read");
    fs::write(&at.own.path, before).unwrap();
    at.call("GET /readyz", None, None).expect(200);
    // One connection stays open while the authorities change.
    let mut open = connect(&at.server, &at.authority, Some(&run));
    let staying = request(&list, None, None).replace("Connection: close\r\n", "");
    open.write_all(staying.as_bytes()).unwrap();
    let mut some = [0; 15];
    open.read_exact(&mut some).unwrap();
    assert_eq!(&some, b"HTTP/1.1 200 OK");
    let other = tempfile::tempdir().unwrap();
    let successor = Authority::new(other.path(), "successor");
    fs::copy(successor.path(), at.authority.path()).unwrap();
    let mut rest = Vec::new();
    open.write_all(request(&list, None, None).as_bytes()).unwrap();
    let _ = open.read_to_end(&mut rest);
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("HTTP/1.1 401") && rest.contains("not good any more"), "{rest}");
}

/// Who speaks plain HTTP is told what is spoken here, and who says nothing is left after a while.
#[test]
fn who_does_not_encrypt_comes_to_a_clear_end() {
    let at = Encrypted::new();
    let began = Instant::now();
    let silent: Vec<_> = (0..50).map(|_| at.server.connect()).collect();
    let mut half = at.server.connect();
    half.write_all(&[0x16, 3, 1]).unwrap();
    let problem = at.server.call("GET /healthz", None, None).refused(400, "invalid_input");
    assert_eq!(problem["detail"], "this port speaks TLS");
    at.call("GET /healthz", None, None).expect(200);
    for mut stream in silent.into_iter().chain([half]) {
        let mut left = Vec::new();
        let _ = stream.read_to_end(&mut left);
        assert!(left.is_empty(), "{left:?}");
    }
    let waited = began.elapsed();
    assert!(waited > Duration::from_secs(8) && waited < Duration::from_secs(30), "{waited:?}");
}

#[test]
fn files_that_are_not_fit_are_refused_at_the_start() {
    let scene = Scene::new();
    let authority = Authority::new(scene.folder.path(), "authority");
    let own = authority.issue("server", "IP:127.0.0.1");
    let other = authority.issue("other", "IP:127.0.0.1");
    let file = |name: &str, mode: u32, bytes: &[u8]| {
        let path = scene.folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let open = file("open.key", 0o644, &fs::read(&own.key).unwrap());
    let none = file("none.key", 0o600, b"no key");
    let tokens = scene.tokens.path.to_str().unwrap();
    for (key, listen, words) in [
        (&other.key, "127.0.0.1:0", "does not go with"),
        (&none, "127.0.0.1:0", "holds no key"),
        (&open, "127.0.0.1:0", "can be read by everybody"),
        (&own.key, "unix:/tmp/never.sock", "is not encrypted"),
    ] {
        let (certificate, key) = (own.path.to_str().unwrap(), key.to_str().unwrap());
        let line =
            ["serve", "--tokens", tokens, "--listen", listen, "--tls-cert", certificate, "--tls-key", key];
        let ended = scene.host.start(line).wait();
        assert!(ended.code != Some(0) && ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
}

/// A connection that is encrypted and then says nothing more is no trouble either.
#[test]
fn an_encrypted_caller_that_leaves_is_no_trouble() {
    let at = Encrypted::new();
    for _ in 0..20 {
        let mut stream = connect(&at.server, &at.authority, None);
        stream.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    }
    let mut stream = connect(&at.server, &at.authority, None);
    stream.write_all(request("GET /healthz", None, None).as_bytes()).unwrap();
    answer(&mut stream).expect(200);
    assert_eq!(at.server.stop().document["drained"], true);
}
