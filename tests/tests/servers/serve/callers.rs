//! These tests check what each caller may do, and what others are told.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::served::{Reply, Served};

use super::Scene;

const ROLES: [&str; 4] = ["read", "run", "operate", "admin"];

/// A route, as one may try it without changing anything.
struct Tried {
    method: &'static str,
    /// Its path, as the description has it; `P` stands for that of a profile.
    path: &'static str,
    /// What is put in place of `{sha_prefix}`.
    sha: &'static str,
    body: Option<&'static str>,
    /// What each role is answered for its own tenant.
    own: [u16; 4],
}

const fn tried(
    method: &'static str,
    path: &'static str,
    sha: &'static str,
    body: Option<&'static str>,
    own: [u16; 4],
) -> Tried {
    Tried { method, path, sha, body, own }
}

const ALL: [u16; 4] = [200; 4];
const RUN: [u16; 4] = [403, 200, 200, 200];

/// What everybody is answered, route by route. For a tenant that is not the caller's it is always 403.
/// Where a route would change something it is asked for what it must refuse, with a status of its own.
const TABLE: &[Tried] = &[
    tried("GET", "P", "", None, ALL),
    tried("GET", "P/{sha_prefix}", "latest", None, ALL),
    tried("POST", "P/rollback", "", Some(r#"{ "sha_prefix": "latest~1" }"#), [403, 403, 200, 200]),
    tried("DELETE", "P/{sha_prefix}", "ffffffffffff", None, [403, 403, 403, 404]),
    tried("POST", "P/force-unlock", "", Some(r#"{ "reason": "a test" }"#), [403, 403, 403, 200]),
    tried("GET", "P/{sha_prefix}/history", "latest", None, ALL),
    tried("GET", "P/{sha_prefix}/tree", "latest", None, RUN),
    tried("GET", "P/{sha_prefix}/files/{path}", "latest", None, RUN),
    tried("GET", "P/{sha_prefix}/diff/{other_sha_prefix}", "latest~1", None, RUN),
    tried("GET", "P/{sha_prefix}/archive", "latest", None, RUN),
    tried("POST", "P/loads", "", Some(r#"{ "chrome_major_version": 131 }"#), RUN),
    tried("POST", "P/uploads", "", None, [403, 400, 400, 400]),
    tried("PUT", "P/{sha_prefix}/tags/{tag}", "ffffffffffff", None, [403, 403, 404, 404]),
    tried("DELETE", "P/{sha_prefix}/tags/{tag}", "latest", None, [403, 403, 404, 404]),
    tried("GET", "P/events", "", None, ALL),
    tried("GET", "P/leases", "", None, ALL),
    tried("POST", "P/leases", "", Some("{}"), [403, 400, 400, 400]),
    tried("PUT", "P/leases", "", Some("{}"), [403, 400, 400, 400]),
    tried("DELETE", "P/leases", "", Some("{}"), [403, 400, 400, 400]),
    tried("GET", "/v1/tenants/{tenant_id}/stats", "", None, ALL),
    // The profile has snapshots, and none of a container. This server reaches no Docker.
    tried("GET", "/v1/container-snapshots/{tenant_id}/{profile_id}", "", None, [404; 4]),
    tried(
        "POST",
        "/v1/container-snapshots/{tenant_id}/{profile_id}",
        "",
        Some(r#"{ "container": "web" }"#),
        [403, 404, 404, 404],
    ),
    tried("GET", "/v1/project-snapshots/{tenant_id}/{profile_id}", "", None, [404; 4]),
    tried("POST", "/v1/project-snapshots/{tenant_id}/{profile_id}", "", Some("{}"), [403, 404, 404, 404]),
];

/// A route that names no tenant in its path.
struct OfToken {
    line: &'static str,
    body: Option<&'static str>,
    /// What each role is answered with a token for acme alone.
    acme: [u16; 4],
    /// The same with a token for all tenants.
    all: [u16; 4],
}

const fn of_token(line: &'static str, body: Option<&'static str>, acme: [u16; 4], all: [u16; 4]) -> OfToken {
    OfToken { line, body, acme, all }
}

const OPERATE: [u16; 4] = [403, 403, 200, 200];
const NOT_FOUND: [u16; 4] = [403, 403, 404, 404];
const NOBODY: [u16; 4] = [403; 4];
const NO_MOUNTS: [u16; 4] = [403, 404, 404, 404];
/// Of a tenant that does not exist, which only a token for all is told.
const FOREIGN: Option<&str> = Some(r#"{ "tenant_id": "nobody", "dry_run": true }"#);

/// What everybody is answered by routes that name no tenant in their path.
const TOKEN_TABLE: [OfToken; 20] = [
    of_token("GET /v1/login", None, ALL, ALL),
    of_token("GET /v1/profiles", None, ALL, ALL),
    of_token("GET /v1/locks", None, ALL, ALL),
    of_token("GET /v1/usage", None, ALL, ALL),
    of_token("GET /v1/sessions", None, ALL, ALL),
    of_token("GET /v1/jobs", None, OPERATE, OPERATE),
    of_token("GET /v1/jobs/{job_id}", None, NOT_FOUND, NOT_FOUND),
    of_token("DELETE /v1/jobs/{job_id}", None, NOT_FOUND, NOT_FOUND),
    of_token("POST /v1/jobs/reap", FOREIGN, NOBODY, NOT_FOUND),
    of_token("POST /v1/jobs/retention", FOREIGN, NOBODY, NOT_FOUND),
    of_token("POST /v1/jobs/gc", FOREIGN, NOBODY, NOT_FOUND),
    of_token("POST /v1/jobs/verify", FOREIGN, NOBODY, NOT_FOUND),
    of_token("GET /v1/schedules", None, NOBODY, OPERATE),
    of_token("GET /metrics", None, NOBODY, ALL),
    of_token("GET /v1/events", None, ALL, ALL),
    // This server makes no mounts, and offers no workspaces.
    of_token("GET /v1/mounts", None, [404; 4], [404; 4]),
    of_token("POST /v1/mounts", Some(r#"{ "tenant_id": "other", "profile_id": "bob" }"#), NOBODY, NO_MOUNTS),
    of_token("POST /v1/mounts/{mount_id}/commit", None, NO_MOUNTS, NO_MOUNTS),
    of_token("DELETE /v1/mounts/{mount_id}", None, NO_MOUNTS, NO_MOUNTS),
    of_token(
        "POST /mcp",
        Some(r#"{ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }"#),
        NO_MOUNTS,
        NO_MOUNTS,
    ),
];

impl OfToken {
    fn on(&self, server: &Served, secret: Option<&str>) -> Reply {
        let body: Option<Value> = self.body.map(|body| serde_json::from_str(body).unwrap());
        let id = "01KA8Y6ZZZ0000000000000000";
        let line = self.line.replace("{job_id}", id).replace("{mount_id}", id);
        server.call(&line, secret, body.as_ref())
    }
}

impl Tried {
    /// As the description has it.
    fn described(&self) -> String {
        let path = self.path.replacen('P', "/v1/profile-snapshots/{tenant_id}/{profile_id}", 1);
        format!("{} {path}", self.method)
    }

    /// Tries it on `TENANT/PROFILE`.
    fn on(&self, server: &Served, profile: &str, secret: Option<&str>) -> Reply {
        let body: Option<Value> = self.body.map(|body| serde_json::from_str(body).unwrap());
        let (tenant, profile) = profile.split_once('/').unwrap();
        let places = [
            ("{tenant_id}", tenant),
            ("{profile_id}", profile),
            ("{sha_prefix}", self.sha),
            ("{other_sha_prefix}", "latest"),
            ("{tag}", "no-such-tag"),
            ("{path}", "Preferences"),
        ];
        let line = places.iter().fold(self.described(), |line, (name, value)| line.replace(name, value));
        server.call(&line, secret, body.as_ref())
    }
}

/// What tells one answer from another.
fn told(reply: &Reply) -> (u16, Value) {
    let mut document = reply.json();
    document["request_id"].take();
    (reply.status, document)
}

#[test]
fn every_route_answers_every_role_as_the_table_says() {
    let scene = Scene::new();
    let secrets = ROLES.map(|role| scene.token("acme", role));
    let everywhere = ROLES.map(|role| scene.token("*", role));
    let server = scene.serve();
    for route in TABLE {
        let shown = route.described();
        for (at, role) in ROLES.into_iter().enumerate() {
            let own = route.on(&server, "acme/alice", Some(&secrets[at]));
            assert_eq!(own.status, route.own[at], "{shown} as {role}: {own:#?}");
            let any = route.on(&server, "acme/alice", Some(&everywhere[at]));
            assert_eq!(any.status, route.own[at], "{shown} as {role} of all tenants: {any:#?}");
            // A stranger cannot find out whether there is such a tenant or profile.
            let foreign = ["other/bob", "other/nobody", "nobody/alice", "..%2f/x"]
                .map(|profile| told(&route.on(&server, profile, Some(&secrets[at]))));
            assert_eq!(foreign[0].0, 403, "{shown} as {role} of another tenant: {foreign:#?}");
            assert!(foreign.iter().all(|answer| *answer == foreign[0]), "{shown} as {role}: {foreign:#?}");
        }
        for nobody in [None, Some("pstore_wrong"), Some("")] {
            let reply = route.on(&server, "acme/alice", nobody);
            reply.refused(401, "denied");
            assert_eq!(reply.header("www-authenticate"), Some("bearer"));
        }
    }
    for route in &TOKEN_TABLE {
        for (at, role) in ROLES.into_iter().enumerate() {
            let acme = route.on(&server, Some(&secrets[at]));
            assert_eq!(acme.status, route.acme[at], "{} as {role} of acme: {acme:#?}", route.line);
            let all = route.on(&server, Some(&everywhere[at]));
            assert_eq!(all.status, route.all[at], "{} as {role} of all tenants: {all:#?}", route.line);
        }
        for nobody in [None, Some("pstore_wrong"), Some("")] {
            route.on(&server, nobody).refused(401, "denied");
        }
    }
    for (open, status) in OPEN {
        let line = open.replace("{file}", "app.js");
        assert_eq!(server.call(&line, None, None).status, status, "{open}");
    }
}

/// What decides beside the route: what is asked of it.
const ASKED: [OfToken; 12] = [
    of_token("GET /v1/profiles?tenant_id=other", None, NOBODY, ALL),
    of_token("GET /v1/locks?limit=0", None, [400; 4], [400; 4]),
    of_token("GET /v1/sessions?tenant_id=other", None, NOBODY, ALL),
    of_token(
        "POST /v1/profile-snapshots/acme/alice/rollback",
        Some(r#"{ "sha_prefix": "latest~1", "force": true }"#),
        [403, 403, 403, 200],
        [403, 403, 403, 200],
    ),
    of_token(
        "POST /v1/profile-snapshots/acme/alice/uploads?chrome_major_version=131&sha256=0000000000000000000000000000000000000000000000000000000000000000",
        None,
        [403, 403, 409, 409],
        [403, 403, 409, 409],
    ),
    of_token("POST /v1/jobs/reap", Some("{}"), NOBODY, OPERATE),
    of_token("POST /v1/jobs/retention", Some(r#"{ "tenant_id": "nobody" }"#), NOBODY, [403, 403, 403, 404]),
    of_token("POST /v1/jobs/gc", Some(r#"{ "tenant_id": "nobody" }"#), NOBODY, [403, 403, 403, 404]),
    of_token(
        "POST /v1/jobs/verify",
        Some(r#"{ "tenant_id": "nobody", "repair": true }"#),
        NOBODY,
        [403, 403, 403, 404],
    ),
    of_token("GET /v1/events?tenant_id=acme", None, ALL, ALL),
    of_token("GET /v1/events?tenant_id=other", None, NOBODY, ALL),
    of_token("GET /v1/jobs?limit=0", None, [403, 403, 400, 400], [403, 403, 400, 400]),
];

#[test]
fn what_is_asked_for_may_need_more_than_its_route() {
    let scene = Scene::new();
    let scene = Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene };
    let secrets = ROLES.map(|role| scene.token("acme", role));
    let everywhere = ROLES.map(|role| scene.token("*", role));
    let server = scene.serve();
    for route in &ASKED {
        for (at, role) in ROLES.into_iter().enumerate() {
            let acme = route.on(&server, Some(&secrets[at]));
            assert_eq!(acme.status, route.acme[at], "{} as {role} of acme: {acme:#?}", route.line);
            let all = route.on(&server, Some(&everywhere[at]));
            assert_eq!(all.status, route.all[at], "{} as {role} of all tenants: {all:#?}", route.line);
        }
    }
    // For its own tenant an operator plans, and an administrator does it.
    for kind in ["retention", "gc"] {
        let (plan, real) = (json!({ "tenant_id": "acme", "dry_run": true }), json!({ "tenant_id": "acme" }));
        let ask = |at: usize, body: &Value| loop {
            let reply = server.call(&format!("POST /v1/jobs/{kind}"), Some(&secrets[at]), Some(body));
            // One job of a tenant at a time.
            if reply.status != 503 {
                break reply.status;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!((ask(2, &plan), ask(2, &real), ask(3, &real)), (200, 403, 200), "{kind}");
    }
}

/// The routes that need no token, and what they answer to a request without a body.
const OPEN: [(&str, u16); 8] = [
    ("GET /healthz", 200),
    ("GET /readyz", 200),
    ("GET /openapi.json", 200),
    ("GET /docs", 200),
    ("GET /", 200),
    ("GET /page/{file}", 200),
    ("POST /v1/login", 400),
    ("DELETE /v1/login", 200),
];

#[test]
fn the_description_has_the_routes_of_the_table_and_no_others() {
    let scene = Scene::new();
    let server = scene.serve();
    let description = server.call("GET /openapi.json", None, None).expect(200);
    assert_eq!(description["openapi"], "3.1.0");
    let mut described = BTreeSet::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let needs_token = !operation["security"].is_null();
            described.insert((format!("{} {path}", method.to_ascii_uppercase()), needs_token));
        }
    }
    let open = OPEN.map(|(line, _)| (line.to_owned(), false));
    let tried = TABLE.iter().map(Tried::described);
    let tried = tried.chain(TOKEN_TABLE.iter().map(|route| route.line.to_owned()));
    assert_eq!(described, open.into_iter().chain(tried.map(|route| (route, true))).collect());
    let page = server.call("GET /docs", None, None);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    let text = page.text();
    assert!(described.iter().all(|(route, _)| text.contains(route.as_str())), "{text}");
}

#[test]
fn tokens_are_read_again_when_their_file_changes() {
    let scene = Scene::new();
    let first = scene.token("acme", "read");
    let server = scene.serve();
    let status = |secret: &str| server.call(&format!("GET {}", super::ALICE), Some(secret), None).status;
    assert_eq!(status(&first), 200);
    let before = fs::read_to_string(&scene.tokens.path).unwrap();
    let second = scene.token("acme", "read");
    assert_eq!((status(&first), status(&second)), (200, 200));
    // A broken file changes nothing, and that is said.
    fs::write(&scene.tokens.path, "[[token]").unwrap();
    assert_eq!((status(&first), status(&second)), (200, 200));
    assert!(server.said().contains("the tokens stay as they were"), "{}", server.said());
    // A token that is removed opens nothing.
    fs::write(&scene.tokens.path, before).unwrap();
    assert_eq!((status(&first), status(&second)), (200, 401));
}

#[test]
fn a_token_ends_when_its_time_is_over() {
    let scene = Scene::new();
    let secret = scene.token("acme", "read");
    let server = scene.serve();
    let ask = || server.call(&format!("GET {}", super::ALICE), Some(&secret), None);
    ask().expect(200);
    let text = fs::read_to_string(&scene.tokens.path).unwrap();
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("expires_at_ms")).collect();
    fs::write(&scene.tokens.path, format!("{}\nexpires_at_ms = 1700000000000\n", kept.join("\n").trim_end()))
        .unwrap();
    let problem = ask().refused(401, "denied");
    assert_eq!(problem["detail"], "this token has expired");
}

/// Those who watch a server may be anybody: they are told that something is wrong, and not where.
#[test]
fn a_server_is_ready_while_it_has_its_store_and_its_tokens() {
    let scene = Scene::new();
    let server = scene.serve();
    let ready = || server.call("GET /readyz", None, None);
    let seen = ready().expect(200);
    assert!(seen["clock_skew_ms"].as_u64().unwrap() < 5000, "{seen:#}");
    // Servers with the same settings say so, and others do not.
    let digest =
        |server: &Served| server.call("GET /readyz", None, None).expect(200)["configuration"].clone();
    let other = Scene { host: scene.host.clone().with("PSTORE_SCHEDULES_GC_SECONDS", "77"), ..Scene::new() };
    assert_eq!(digest(&scene.serve()), seen["configuration"]);
    assert_ne!(digest(&Served::start(&other.host, &scene.tokens.path)), seen["configuration"]);
    let tokens = fs::read_to_string(&scene.tokens.path).unwrap();
    fs::write(&scene.tokens.path, "[[token]").unwrap();
    assert_eq!(ready().refused(503, "unavailable")["detail"], "the token file cannot be read");
    fs::write(&scene.tokens.path, tokens).unwrap();
    ready().expect(200);
    let (store, aside) = (scene.folder.path().join("store"), scene.folder.path().join("aside"));
    fs::rename(&store, &aside).unwrap();
    let began = Instant::now();
    while ready().status == 200 {
        assert!(began.elapsed() < Duration::from_secs(10), "it is still ready");
        std::thread::sleep(Duration::from_millis(100));
    }
    let problem = ready().refused(503, "unavailable");
    assert_eq!(problem["detail"], "the store cannot be reached");
    assert!(!problem.to_string().contains(scene.folder.path().to_str().unwrap()), "{problem:#}");
    assert!(server.said().contains("the server is not ready: "), "{}", server.said());
}

/// Neither the file nor anything that is said, at any length, holds a secret.
#[test]
fn a_secret_is_told_once_and_written_nowhere() {
    let scene = Scene::new();
    let secret = scene.token("acme", "admin");
    assert!(!fs::read_to_string(&scene.tokens.path).unwrap().contains(&secret));
    let server = Served::start_with(&scene.host, &scene.tokens.path, &["-vvv"]);
    server.call(&format!("GET {}", super::ALICE), Some(&secret), None).expect(200);
    let body = json!({ "sha_prefix": "latest", "confirm": true });
    server.call(&format!("POST {}/rollback", super::ALICE), Some(&secret), Some(&body)).expect(200);
    server.call(&format!("GET {}", super::ALICE), Some("pstore_almost"), None).refused(401, "denied");
    std::thread::sleep(Duration::from_millis(100));
    let said = server.said();
    assert!(said.contains("DEBUG") && !said.contains(&secret) && !said.contains("pstore_almost"), "{said}");
}
