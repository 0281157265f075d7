//! These tests fetch the page as a browser does: its files, its policy, and the log-in.

use std::fs;

use serde_json::{Value, json};
use tests::served::{Reply, Served, request, with_header};

use super::{ALICE, Scene};

/// Logs in, and returns the cookie and what a change must be sent with.
fn logged_in(server: &Served, secret: &str) -> (String, String) {
    let reply = server.call("POST /v1/login", None, Some(&json!({ "token": secret })));
    let known = reply.expect(200);
    let line = set_cookie(&reply);
    let cookie = line.split(';').next().unwrap().to_owned();
    (cookie, known["csrf_token"].as_str().unwrap().to_owned())
}

/// The cookie of a reply, letter by letter: the digits of a cookie are small letters.
fn set_cookie(reply: &Reply) -> String {
    reply.header("set-cookie").unwrap().to_owned()
}

/// Asks with a cookie and more headers.
fn with_cookie(server: &Served, line: &str, cookie: &str, more: &[String], body: Option<&Value>) -> Reply {
    let body = body.map(ToString::to_string);
    let asked = request(line, None, body.as_deref());
    let asked = with_header(&asked, &format!("Cookie: a=b; {cookie}"));
    server.send(&more.iter().fold(asked, |asked, line| with_header(&asked, line)))
}

#[test]
fn the_policy_of_every_file_forbids_what_is_inline_and_what_is_foreign() {
    let scene = Scene::new();
    let server = scene.serve();
    let index = server.call("GET /", None, None);
    assert_eq!((index.status, index.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let page = index.text();
    let named: Vec<&str> = page.split('"').filter_map(|part| part.strip_prefix("/page/")).collect();
    assert_eq!(named, ["icon.svg", "style.css", "app.js"]);
    let app = server.call("GET /page/app.js", None, None).text();
    let modules =
        app.split('"').filter_map(|part| part.strip_prefix("./")).map(|name| format!("/page/{name}"));
    let files: Vec<String> = named.iter().map(|name| format!("/page/{name}")).chain(modules).collect();
    assert!(files.len() > 12, "{files:?}");
    for path in files.iter().map(String::as_str).chain(["/"]) {
        let reply = server.call(&format!("GET {path}"), None, None);
        assert_eq!(reply.status, 200, "{path}");
        let policy = reply.header("content-security-policy").unwrap();
        let directives: Vec<&str> = policy.split(';').map(str::trim).collect();
        for needed in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(directives.contains(&needed), "{path}: no {needed} in {policy}");
        }
        for wrong in ["unsafe", "http", "*", "data:", "blob:", "nonce", "sha256-"] {
            assert!(!policy.contains(wrong), "{path}: {wrong} in {policy}");
        }
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("x-frame-options"), Some("deny"), "{path}");
    }
    server.call("GET /page/mod.rs", None, None).refused(404, "not_found");
    server.call("GET /page/..%2fmod.rs", None, None).refused(404, "not_found");
}

#[test]
fn a_cookie_stands_for_its_token_and_a_change_needs_the_page() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let server = scene.serve();
    server.call("POST /v1/login", None, Some(&json!({ "token": "pstore_wrong" }))).refused(401, "denied");
    let reply = server.call("POST /v1/login", None, Some(&json!({ "token": secret })));
    let line = set_cookie(&reply);
    for part in ["httponly", "samesite=strict", "path=/", "max-age=43"] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    // Nothing of the secret is in it, and only an encrypted page keeps others from seeing it.
    assert!(!line.contains(&secret.to_ascii_lowercase()) && !line.contains("secure"), "{line}");
    let encrypted = with_header(
        &request("POST /v1/login", None, Some(&json!({ "token": secret }).to_string())),
        "Origin: https://here",
    );
    assert!(set_cookie(&server.send(&encrypted)).ends_with("; secure"));

    let (cookie, csrf) = logged_in(&server, &secret);
    let known = with_cookie(&server, "GET /v1/login", &cookie, &[], None).expect(200);
    assert_eq!((&known["role"], &known["tenants"]), (&json!("operate"), &json!(["acme"])));
    assert_eq!(known["csrf_token"], csrf);
    with_cookie(&server, &format!("GET {ALICE}"), &cookie, &[], None).expect(200);
    with_cookie(&server, "GET /v1/profile-snapshots/other/bob", &cookie, &[], None).refused(403, "denied");

    let rollback = format!("POST {ALICE}/rollback");
    let body = json!({ "sha_prefix": scene.shas[0], "confirm": true });
    let header = |value: &str| vec![format!("Pstore-Csrf: {value}")];
    let change = |more: &[String]| with_cookie(&server, &rollback, &cookie, more, Some(&body));
    let problem = change(&[]).refused(403, "denied");
    assert!(problem["detail"].as_str().unwrap().contains("Pstore-Csrf"), "{problem}");
    change(&header(&"0".repeat(64))).refused(403, "denied");
    // What belongs to another log-in is of no use.
    change(&header(&logged_in(&server, &secret).1)).refused(403, "denied");
    // Nor can another site use the cookie, whatever else it sends.
    for site in ["Sec-Fetch-Site: cross-site", "Origin: https://elsewhere"] {
        change(&[header(&csrf), vec![site.to_owned()]].concat()).refused(403, "denied");
        with_cookie(&server, &format!("GET {ALICE}"), &cookie, &[site.to_owned()], None)
            .refused(403, "denied");
        let foreign = request("POST /v1/login", None, Some(&json!({ "token": secret }).to_string()));
        server.send(&with_header(&foreign, site)).refused(403, "denied");
    }
    let done = change(&header(&csrf)).expect(200);
    assert_eq!(done["outcome"], "rolled_back");
    // A token by itself needs none of it.
    server.call(&rollback, Some(&secret), Some(&json!({ "sha_prefix": "latest" }))).expect(200);
}

#[test]
fn a_cookie_ends_with_its_token_and_with_the_key_of_its_server() {
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let key = scene.folder.path().join("login.key");
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    std::os::unix::fs::PermissionsExt::set_mode(&mut fs::metadata(&key).unwrap().permissions(), 0o600);
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let with_key =
        || Served::start_with(&scene.host, &scene.tokens.path, &["--login-key", key.to_str().unwrap()]);
    let (one, two, other) = (with_key(), with_key(), scene.serve());
    let (cookie, _) = logged_in(&one, &secret);
    let ask = |server: &Served| with_cookie(server, &format!("GET {ALICE}"), &cookie, &[], None);
    ask(&one).expect(200);
    ask(&two).expect(200);
    ask(&other).refused(401, "denied");
    // Another secret under the same name is another token.
    let text = fs::read_to_string(&scene.tokens.path).unwrap();
    let line = text.lines().find(|line| line.starts_with("sha256")).unwrap();
    fs::write(&scene.tokens.path, text.replace(line, &format!("sha256 = \"{}\"", "0".repeat(64)))).unwrap();
    ask(&one).refused(401, "denied");
    fs::write(&scene.tokens.path, "").unwrap();
    ask(&two).refused(401, "denied");
}

#[test]
fn a_log_out_ends_the_cookie_wherever_a_copy_of_it_is() {
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let server = scene.serve();
    let ask = |cookie: &str| with_cookie(&server, &format!("GET {ALICE}"), cookie, &[], None);
    let [(cookie, _), (other, _)] = [(); 2].map(|()| logged_in(&server, &secret));
    // A page of another site logs nobody out.
    let foreign = ["Sec-Fetch-Site: cross-site".to_owned()];
    with_cookie(&server, "DELETE /v1/login", &cookie, &foreign, None).expect(200);
    ask(&cookie).expect(200);
    let gone = with_cookie(&server, "DELETE /v1/login", &cookie, &[], None);
    assert!(set_cookie(&gone).contains("max-age=0"), "{gone:?}");
    ask(&cookie).refused(401, "denied");
    with_cookie(&server, "GET /v1/login", &cookie, &[], None).refused(401, "denied");
    // Somebody else who uses the token, or the same person elsewhere, stays.
    ask(&other).expect(200);
    // To leave twice, or without having come, is no mistake.
    with_cookie(&server, "DELETE /v1/login", &cookie, &[], None).expect(200);
    server.call("DELETE /v1/login", None, None).expect(200);
}
