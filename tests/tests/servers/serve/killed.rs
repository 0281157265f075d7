//! These tests kill a server within every kind of request: nothing is lost, and nothing is left half done.

use std::{
    env, fs,
    io::Write,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::served::{Reply, Served, answer, request};

use super::{ALICE, Scene};

/// A request, and what it is about: a snapshot, or the token of a lock.
struct Asked {
    head: String,
    body: Vec<u8>,
    about: String,
}

impl Asked {
    fn new(line: &str, secret: &str, body: &str, about: &str) -> Self {
        let head = request(line, Some(secret), Some(body));
        Self { head, body: Vec::new(), about: about.to_owned() }
    }

    fn bytes(&self) -> Vec<u8> {
        let length = format!("Content-Length: {}", self.body.len());
        let head = match self.body.is_empty() {
            true => self.head.clone(),
            false => self.head.replacen("Content-Length: 0", &length, 1),
        };
        [head.as_bytes(), &self.body].concat()
    }
}

/// Sends a request and kills the server after this time, or once it has answered. What it has answered.
fn killed(server: Served, asked: &Asked, after: Option<Duration>) -> Option<Reply> {
    let mut stream = server.connect();
    stream.write_all(&asked.bytes()).unwrap();
    let answered = match after {
        Some(after) => {
            thread::sleep(after);
            None
        }
        None => Some(answer(&mut stream)),
    };
    drop(server);
    answered
}

/// In how many moments of each request a server is killed, besides that of its answer.
fn rounds() -> u32 {
    env::var("PSTORE_KILL_ROUNDS").map_or(2, |rounds| rounds.parse().unwrap())
}

struct Fall {
    scene: Scene,
    secret: String,
}

impl Fall {
    fn new() -> Self {
        let scene = Scene::new();
        let scene = Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene };
        let secret = scene.token("acme", "admin");
        Self { scene, secret }
    }

    fn ask(&self, line: &str, body: &Value, about: &str) -> Asked {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Asked::new(line, &self.secret, &body, about)
    }

    /// Kills a server in many moments of a request. Whatever the moment was, the store is whole; what was answered
    /// is so; and whoever sends the request again has what it wanted.
    #[track_caller]
    fn fall(&self, prepare: impl Fn() -> Asked, is_done: impl Fn(&str) -> bool) {
        let began = Instant::now();
        self.once(None, &prepare, &is_done);
        // Among other things, a server is started: the requests themselves take a part of it.
        let usual = began.elapsed() / 4;
        for round in 0..rounds() {
            self.once(Some(usual * round / rounds()), &prepare, &is_done);
        }
    }

    #[track_caller]
    fn once(&self, after: Option<Duration>, prepare: &impl Fn() -> Asked, is_done: &impl Fn(&str) -> bool) {
        let asked = prepare();
        let line = asked.head.lines().next().unwrap();
        let answered = killed(self.scene.serve(), &asked, after);
        self.scene.host.verify("acme/alice", &[]);
        let lock = self.lock();
        assert!(lock["state"] == "free" || lock["holder_run_id"] == "killed", "{line}: {lock:#}");
        if let Some(reply) = answered {
            assert_eq!(reply.status, 200, "{line}: {reply:#?}");
            assert!(is_done(&asked.about), "{line}: it was answered");
        }
        let server = self.scene.serve();
        let mut stream = server.connect();
        stream.write_all(&asked.bytes()).unwrap();
        // It may have been done already.
        let again = answer(&mut stream);
        assert!(matches!(again.status, 200 | 404 | 409), "{line}: {again:#?}");
        assert!(is_done(&asked.about), "{line}: {again:#?}");
        self.scene.host.verify("acme/alice", &[]);
    }

    fn lock(&self) -> Value {
        self.scene.host.succeed(["lock", "show", "acme/alice"])
    }

    /// The digits of the current snapshot, and those of all.
    fn listed(&self) -> (String, Vec<String>) {
        let list = self.scene.host.succeed(["list", "acme/alice"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = list["snapshots"].as_array().unwrap().iter();
        (text(&list["active_sha256_prefix"]), rows.map(|row| text(&row["sha256_prefix"])).collect())
    }

    /// Nobody holds the lock any more.
    fn unlock(&self) {
        self.scene.host.succeed(["force-unlock", "acme/alice", "--reason", "a test", "--confirm"]);
    }

    /// The token of a lock that was taken anew.
    fn locked(&self) -> String {
        self.unlock();
        let taken = self.scene.host.succeed(["lock", "acquire", "acme/alice", "--run-id", "killed"]);
        taken["token"].as_str().unwrap().to_owned()
    }

    /// A snapshot that is not the current one.
    fn older(&self) -> String {
        let sha = self.scene.capture("acme/alice", &self.unique());
        self.scene.capture("acme/alice", &self.unique());
        sha
    }

    /// A text that no snapshot has.
    fn unique(&self) -> String {
        format!("{:?}", Instant::now())
    }

    /// The text of the current snapshot.
    fn current_text(&self) -> String {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("restored");
        self.scene.host.restore("acme/alice", &target);
        fs::read_to_string(target.join("Preferences")).unwrap()
    }
}

#[test]
fn a_server_may_be_killed_while_it_is_read_from() {
    let fall = Fall::new();
    let large: Vec<u8> = tests::tree::noise(8 << 20, 7);
    fs::write(fall.scene.folder.path().join("source/large"), large).unwrap();
    let sha = fall.scene.capture("acme/alice", "third");
    for below in
        ["", "/latest", "/latest/tree", "/latest/files/large", "/latest/archive", "/events", "/leases"]
    {
        fall.fall(|| fall.ask(&format!("GET {ALICE}{below}"), &Value::Null, ""), |_| fall.listed().0 == sha);
    }
    let body = json!({ "chrome_major_version": 131 });
    fall.fall(|| fall.ask(&format!("POST {ALICE}/loads"), &body, ""), |_| fall.listed().0 == sha);
}

#[test]
fn a_server_may_be_killed_while_it_moves_a_pointer_or_a_name() {
    let fall = Fall::new();
    let [first, second] = fall.scene.shas.clone();
    let rollback = || {
        let wanted = if fall.listed().0 == first { &second } else { &first };
        let body = json!({ "sha_prefix": wanted, "confirm": true });
        fall.ask(&format!("POST {ALICE}/rollback"), &body, wanted)
    };
    fall.fall(rollback, |wanted| fall.listed().0 == wanted);
    let has_tag = || fall.scene.host.run(["show", "acme/alice@kept"]).code == Some(0);
    let tag = |method: &str| fall.ask(&format!("{method} {ALICE}/{first}/tags/kept"), &Value::Null, "");
    let untagged = || {
        fall.scene.host.run(["untag", &format!("acme/alice@{first}"), "kept"]);
    };
    fall.fall(|| (untagged(), tag("PUT")).1, |_| has_tag());
    let tagged = || {
        fall.scene.host.run(["tag", &format!("acme/alice@{first}"), "kept"]);
    };
    fall.fall(|| (tagged(), tag("DELETE")).1, |_| !has_tag());
}

#[test]
fn a_server_may_be_killed_while_it_takes_or_gives_back_a_lock() {
    let fall = Fall::new();
    let leases = format!("{ALICE}/leases");
    let holder = json!({ "holder_run_id": "killed", "ttl_seconds": 600 });
    let is_held = || fall.lock()["holder_run_id"] == "killed";
    let take = || {
        fall.unlock();
        fall.ask(&format!("POST {leases}"), &holder, "")
    };
    fall.fall(take, |_| is_held());
    let held = |method: &str| {
        let token = fall.locked();
        fall.ask(&format!("{method} {leases}"), &json!({ "token": token }), "")
    };
    fall.fall(|| held("PUT"), |_| is_held());
    fall.fall(|| held("DELETE"), |_| fall.lock()["state"] == "free");
    let force = || {
        fall.locked();
        fall.ask(&format!("POST {ALICE}/force-unlock"), &json!({ "reason": "a test", "confirm": true }), "")
    };
    fall.fall(force, |_| fall.lock()["state"] == "free");
}

#[test]
fn a_server_may_be_killed_while_it_stores_or_deletes() {
    let fall = Fall::new();
    let delete = || {
        let sha = fall.older();
        fall.ask(&format!("DELETE {ALICE}/{sha}"), &Value::Null, &sha)
    };
    fall.fall(delete, |sha| !fall.listed().1.iter().any(|listed| listed == sha));
    let upload = || {
        // An archive of a snapshot that is not there any more.
        let text = fall.unique();
        let sha = fall.scene.capture("acme/alice", &text);
        fall.scene.capture("acme/alice", &format!("after {text}"));
        let (folder, name) = (fall.scene.folder.path().join(&sha), format!("acme/alice@{sha}"));
        let exported = fall.scene.host.succeed(["export", &name, "-o", folder.to_str().unwrap()]);
        fall.scene.host.succeed(["delete", &name]);
        let body = fs::read(exported["archive"].as_str().unwrap()).unwrap();
        let digest: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("POST {ALICE}/uploads?chrome_major_version=131&sha256={digest}");
        Asked { body, ..fall.ask(&line, &Value::Null, &text) }
    };
    fall.fall(upload, |text| fall.current_text() == text);
}

#[test]
fn a_server_may_be_killed_while_it_does_a_job() {
    let fall = Fall::new();
    for kind in ["reap", "retention", "gc", "verify"] {
        let job = || {
            let sha = fall.older();
            fall.scene.host.succeed(["delete", &format!("acme/alice@{sha}")]);
            fall.ask(&format!("POST /v1/jobs/{kind}"), &json!({ "tenant_id": "acme" }), "")
        };
        fall.fall(job, |_| true);
    }
    // Every one of them is named, and none is in progress for ever.
    let server = fall.scene.serve();
    let listed = server.call("GET /v1/jobs?limit=200", Some(&fall.secret), None).expect(200);
    assert_eq!(listed["unreadable"], 0, "{listed:#}");
    let jobs = listed["jobs"].as_array().unwrap();
    assert!(jobs.len() >= 8, "{listed:#}");
    let states = ["running", "done", "failed", "lost"];
    assert!(jobs.iter().all(|job| states.iter().any(|state| job["state"] == *state)), "{listed:#}");
}
