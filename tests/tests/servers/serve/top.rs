//! These tests use `pstore top` at a terminal: on a host with a mount, and through a server.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{
    binary::Host,
    certificates::Authority,
    mount_fixture::MountFixture,
    served::{Served, Tokens},
    terminal::Terminal,
};

use super::Scene;

/// A host that sees no copies of other tests.
fn fixture() -> MountFixture {
    let mut fixture = MountFixture::local();
    let temporary = fixture.place("tmp");
    fixture.host = fixture.host.clone().with("TMPDIR", temporary.to_str().unwrap());
    fixture
}

/// A host with a profile that is mounted and was changed, so that its lock is held.
fn mounting() -> (MountFixture, Value) {
    let fixture = fixture();
    let source = fixture.place("source");
    fs::write(source.join("Preferences"), "first").unwrap();
    fixture.host.snapshot(&source, "acme/alice");
    fixture.host.snapshot(&source, "acme/bob");
    let mounted = fixture.mount();
    fs::write(fixture.mountpoint.join("Preferences"), "changed").unwrap();
    (fixture, mounted)
}

#[test]
fn a_terminal_shows_what_goes_on_and_takes_keys() {
    let (fixture, mounted) = mounting();
    let mut terminal = Terminal::start(&fixture.host, (80, 24), &["top", "--every", "1s"]);
    let shown = terminal.await_text("Runs and locks: 1");
    assert!(shown.contains("Mounts: 1") && shown.contains("acme/alice"), "{shown}");
    terminal.await_text("$ pstore force-unlock acme/alice --chrome-major 131 --reason WHY");
    terminal.press("\t");
    terminal.await_text(&format!("$ pstore commit {}", fixture.mountpoint.display()));
    // Somebody takes a lock, and nobody types anything.
    fixture.host.succeed(["lock", "acquire", "acme/bob", "--run-id", "run-7", "--ttl", "600"]);
    let shown = terminal.await_text("Runs and locks: 2");
    assert!(shown.contains("run-7") && shown.contains("9 m "), "{shown}");
    terminal.press("/run-7\r");
    terminal.await_text("Runs and locks: 1 of 2");
    terminal.press("\x1b");
    terminal.await_text("Runs and locks: 2");
    terminal.press("?");
    terminal.await_text("another pane; another row");
    terminal.press(" ");
    terminal.await_screen("no help", |shown| !shown.contains("another pane"));
    // With little room, the pane that was chosen has all of it.
    terminal.resize(40, 9);
    terminal
        .await_screen("one pane", |shown| shown.contains("Mounts: 1") && !shown.contains("Runs and locks"));
    terminal.resize(120, 40);
    terminal.await_text("Runs and locks: 2");
    // The daemon dies, and leaves a session.
    fixture.signal(&mounted, Signal::KILL);
    terminal.await_text("Mounts: 0");
    terminal.press("\x1b[C");
    let shown = terminal.await_text("$ pstore sessions rescue ");
    assert!(shown.contains("Sessions: 1") && shown.contains("unfinished"), "{shown}");
    terminal.press("q");
    assert_eq!(terminal.await_end(), Some(0));
}

#[test]
fn a_terminal_is_given_back_when_the_host_ends_the_program() {
    let (fixture, _) = mounting();
    let mut terminal = Terminal::start(&fixture.host, (80, 24), &["top"]);
    terminal.await_text("Runs and locks: 1");
    terminal.terminate();
    assert_eq!(terminal.await_end(), Some(0));
    let mut terminal = Terminal::start(&fixture.host, (80, 24), &["top"]);
    terminal.await_text("Runs and locks: 1");
    terminal.press("\x03");
    assert_eq!(terminal.await_end(), Some(0));
}

/// A store that is away keeps nobody from seeing the mounts, and from leaving.
#[test]
fn what_cannot_be_read_is_a_problem_of_its_pane() {
    let (fixture, _) = mounting();
    let away = [
        ("PSTORE_STORE", "s3://nowhere/at-all"),
        ("PSTORE_S3_ENDPOINT", "http://127.0.0.1:9"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let away = away.iter().fold(fixture.host.clone(), |host, (name, value)| host.with(name, value));
    let mut terminal = Terminal::start(&away, (100, 30), &["top", "--every", "1s"]);
    let shown = terminal.await_text("has not answered for");
    assert!(shown.contains("Mounts: 1") && shown.contains("acme/alice"), "{shown}");
    terminal.press("q");
    assert_eq!(terminal.await_end(), Some(0));
    let seen = away.impatient().succeed(["top"]);
    assert_eq!(seen["mounts"].as_array().unwrap().len(), 1);
    let problems = seen["problems"].as_array().unwrap();
    let locks = problems.iter().find(|problem| problem["part"] == "locks").unwrap();
    assert_eq!(locks["kind"], "unavailable", "{seen:#}");
}

/// A server with a mount, a lock that somebody took through it, and tokens.
struct Watched {
    fixture: MountFixture,
    tokens: Tokens,
    server: Served,
    admin: String,
}

impl Watched {
    fn new() -> Self {
        let fixture = fixture();
        let source = fixture.place("source");
        fs::write(source.join("Preferences"), "first").unwrap();
        fixture.host.snapshot(&source, "acme/alice");
        fixture.host.snapshot(&source, "other/bob");
        let directory = fixture.place("mounts").canonicalize().unwrap();
        let tokens = Tokens::new(directory.parent().unwrap());
        let admin = tokens.add(&fixture.host, "*", "admin");
        let more = ["--mounts", directory.to_str().unwrap()];
        let server = Served::start_with(&fixture.host, &tokens.path, &more);
        let body = json!({ "tenant_id": "acme", "profile_id": "alice", "chrome_major_version": 131 });
        server.call("POST /v1/mounts", Some(&admin), Some(&body)).expect(200);
        let lease = json!({ "holder_run_id": "run-9", "chrome_major_version": 131, "ttl_seconds": 600 });
        let path = "POST /v1/profile-snapshots/other/bob/leases";
        server.call(path, Some(&admin), Some(&lease)).expect(200);
        Self { fixture, tokens, server, admin }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// A host that knows neither the store nor the mounts.
    fn elsewhere(&self, secret: &str) -> Host {
        Host::local(&self.fixture.path("elsewhere"), &self.fixture.path("nothing"))
            .with("PSTORE_SERVER_TOKEN", secret)
    }
}

#[test]
fn a_terminal_shows_what_goes_on_at_a_server() {
    let watched = Watched::new();
    let url = watched.url();
    let line = ["top", "--server", &url, "--every", "1s"];
    let mut terminal = Terminal::start(&watched.elsewhere(&watched.admin), (100, 40), &line);
    let shown = terminal.await_text("Runs and locks: 2");
    for part in [url.as_str(), "run-9", "other/bob", "Mounts: 1", "Sessions: 1", "locks taken"] {
        assert!(shown.contains(part), "no {part} in\n{shown}");
    }
    // Rates need two looks.
    terminal.await_text("/min");
    let Watched { fixture, server, .. } = watched;
    assert_eq!(server.stop().code, Some(0));
    terminal.await_text("cannot be reached");
    terminal.press("q");
    assert_eq!(terminal.await_end(), Some(0));
    drop(fixture);
}

#[test]
fn one_frame_of_a_server_tells_what_the_token_may_see() {
    let watched = Watched::new();
    let url = watched.url();
    let seen = watched.elsewhere(&watched.admin).succeed(["top", "--server", &url]);
    assert_eq!(
        (&seen["source"], &seen["total_locks"], &seen["problems"]),
        (&json!(url), &json!(2), &json!([]))
    );
    let runs: Vec<&str> = seen["locks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| lock["holder_run_id"].as_str().unwrap())
        .collect();
    assert!(runs.contains(&"run-9"), "{runs:?}");
    let taken = seen["rates"].as_array().unwrap().iter().find(|rate| rate["name"] == "locks taken").unwrap();
    assert!(taken["total"].as_f64().unwrap() >= 1.0 && taken["per_second"].is_null(), "{taken}");
    let one = watched.elsewhere(&watched.admin).succeed(["top", "acme", "--server", &url]);
    assert_eq!((&one["total_locks"], one["mounts"].as_array().unwrap().len()), (&json!(1), 1));

    // A token for one tenant sees its own, and not the metrics of all.
    let reader = watched.tokens.add(&watched.fixture.host, "other", "read");
    let file = watched.fixture.path("secret");
    fs::write(&file, format!("{reader}\n")).unwrap();
    let line = ["top", "--server", &url, "--token-file", file.to_str().unwrap()];
    let seen = watched.elsewhere("pstore_wrong").succeed(line);
    assert_eq!((&seen["total_locks"], &seen["mounts"]), (&json!(1), &json!([])));
    assert_eq!(
        (&seen["problems"][0]["part"], &seen["problems"][0]["kind"]),
        (&json!("rates"), &json!("denied"))
    );

    // Nobody knows this one, so that nothing can be seen.
    let failed = watched.elsewhere("pstore_wrong").run(["top", "--server", &url]);
    assert_eq!((failed.code, &failed.document["error"]["kind"]), (Some(13), &json!("denied")), "{failed:?}");
    assert!(failed.stderr.contains("PSTORE_SERVER_TOKEN"), "{failed:?}");
    assert_eq!(failed.document["problems"].as_array().unwrap().len(), 4);
    let nobody = watched.elsewhere(&watched.admin).run(["top", "--server", "http://127.0.0.1:9"]);
    assert_eq!(nobody.code, Some(14), "{nobody:?}");
}

#[test]
fn a_server_is_watched_over_tls_and_through_a_socket() {
    let scene = Scene::new();
    let secret = scene.token("*", "read");
    let authority = Authority::new(scene.folder.path(), "authority");
    let own = authority.issue("server", "IP:127.0.0.1");
    let files = [&own.path, &own.key].map(|path| path.to_str().unwrap());
    let more = ["--tls-cert", files[0], "--tls-key", files[1]];
    let server = Served::start_with(&scene.host, &scene.tokens.path, &more);
    let host = scene.host.clone().with("PSTORE_SERVER_TOKEN", &secret);
    let url = format!("https://{}", server.address);
    // This host does not trust the certificate, and then it does.
    let refused = host.run(["top", "--server", &url]);
    assert_eq!(refused.code, Some(14), "{refused:?}");
    let ca = authority.path();
    let trusting = host.clone().with("SSL_CERT_FILE", ca.to_str().unwrap());
    assert_eq!(trusting.succeed(["top", "--server", &url])["problems"], json!([]));

    let socket = scene.folder.path().join("pstore.sock");
    let listen = format!("unix:{}", socket.display());
    let line = ["serve", "--listen", &listen, "--tokens", scene.tokens.path.to_str().unwrap()];
    let mut running = scene.host.start(line);
    running.await_stderr("listening on");
    let seen = host.succeed(["top", "--server", &listen]);
    running.kill();
    assert_eq!((&seen["source"], &seen["problems"]), (&json!(listen), &json!([])));
}
