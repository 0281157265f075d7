//! These tests use mounts that a server makes for callers that may not mount.

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};
use serde_json::{Value, json};
use tests::{
    binary::Host,
    served::{Served, answer, request, with_header},
};

use super::Scene;

/// A host whose mounts end with the test.
struct Mounting {
    scene: Scene,
    directory: PathBuf,
}

impl Mounting {
    fn new() -> Self {
        let scene = Scene::new();
        let scene = Scene { host: scene.host.with("PSTORE_SCHEDULES_REAP_SECONDS", "0"), ..scene };
        let directory = scene.folder.path().canonicalize().unwrap().join("mounts");
        fs::create_dir(&directory).unwrap();
        Self { scene, directory }
    }

    fn serve(&self) -> Served {
        let directory = self.directory.to_str().unwrap();
        Served::start_with(&self.scene.host, &self.scene.tokens.path, &["--mounts", directory])
    }
}

impl Drop for Mounting {
    fn drop(&mut self) {
        let listed = self.scene.host.run(["mounts", "--json"]).document;
        for mount in listed["mounts"].as_array().into_iter().flatten() {
            if let Some(path) = mount["mountpoint"].as_str() {
                let _ = self.scene.host.run(["unmount", path, "--discard"]);
            }
        }
    }
}

fn mounted(host: &Host) -> Vec<Value> {
    host.succeed(["mounts"])["mounts"].as_array().unwrap().clone()
}

#[track_caller]
fn made(server: &Served, secret: &str, body: &Value) -> (String, PathBuf) {
    let made = server.call("POST /v1/mounts", Some(secret), Some(body)).expect(200);
    let id = made["mount_id"].as_str().unwrap().to_owned();
    (id, PathBuf::from(made["mountpoint"].as_str().unwrap()))
}

fn ids(server: &Served, secret: &str) -> Vec<String> {
    let listed = server.call("GET /v1/mounts", Some(secret), None).expect(200);
    let mounts = listed["mounts"].as_array().unwrap();
    mounts.iter().map(|mount| mount["mount_id"].as_str().unwrap().to_owned()).collect()
}

/// The server is killed in between: its mounts go on, and the next one knows them.
#[test]
fn a_mount_outlives_the_server_that_made_it() {
    let mounting = Mounting::new();
    let host = &mounting.scene.host;
    let [acme, other] = ["acme", "other"].map(|tenant| mounting.scene.token(tenant, "run"));
    let server = mounting.serve();
    let body = json!({ "tenant_id": "acme", "profile_id": "alice" });
    let (id, path) = made(&server, &acme, &body);
    assert_eq!(path, mounting.directory.join("acme").join(&id));
    assert_eq!(fs::read_to_string(path.join("Preferences")).unwrap(), "second");
    // The holder of its lock is named after the token.
    server.call("POST /v1/mounts", Some(&acme), Some(&body)).refused(409, "lock_held");
    let own = mounting.directory.join("acme");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 1, "what was refused leaves nothing");
    fs::write(path.join("Bookmarks"), "one").unwrap();
    let commit = format!("POST /v1/mounts/{id}/commit");
    let first = server.call(&commit, Some(&acme), None).expect(200)["active_sha256_prefix"].clone();
    fs::write(path.join("Bookmarks"), "two").unwrap();
    drop(server);
    assert_eq!(fs::read_to_string(path.join("Bookmarks")).unwrap(), "two");
    let server = mounting.serve();
    assert_eq!(ids(&server, &acme), std::slice::from_ref(&id));
    assert_eq!(mounted(host).len(), 1);
    // Others neither see nor end it.
    assert!(ids(&server, &other).is_empty());
    server.call(&commit, Some(&other), None).refused(404, "not_found");
    let end = format!("DELETE /v1/mounts/{id}");
    server.call(&end, Some(&other), None).refused(404, "not_found");
    // Changes that are not committed are not lost by accident.
    server.call(&end, Some(&acme), None).refused(409, "uncommitted_changes");
    let ended = server.call(&format!("{end}?changes=commit"), Some(&acme), None).expect(200);
    assert_ne!(ended["committed"]["active_sha256_prefix"], first, "{ended:#}");
    assert!(ids(&server, &acme).is_empty() && mounted(host).is_empty() && !path.exists());
    let target = mounting.scene.folder.path().join("restored");
    host.restore("acme/alice", &target);
    assert_eq!(fs::read_to_string(target.join("Bookmarks")).unwrap(), "two");
}

#[test]
fn a_commit_is_hot_if_that_is_asked_for_and_allowed() {
    let mut mounting = Mounting::new();
    let secret = mounting.scene.token("acme", "run");
    let cold = mounting.serve();
    let body = json!({ "tenant_id": "acme", "profile_id": "alice" });
    let (id, _) = made(&cold, &secret, &body);
    let (hot, end) = (format!("POST /v1/mounts/{id}/commit?mode=hot"), format!("DELETE /v1/mounts/{id}"));
    cold.call(&hot, Some(&secret), None).refused(501, "not_implemented");
    cold.call(&end, Some(&secret), None).expect(200);
    drop(cold);

    mounting.scene.host = mounting.scene.host.clone().with("PSTORE_MODES", "cold,hot");
    let server = mounting.serve();
    let (id, path) = made(&server, &secret, &body);
    let mut open = fs::File::create(path.join("Bookmarks")).unwrap();
    open.write_all(b"one").unwrap();
    let commit = format!("POST /v1/mounts/{id}/commit");
    server.call(&format!("{commit}?mode=warm"), Some(&secret), None).refused(400, "invalid_input");
    let committed = server.call(&format!("{commit}?mode=hot"), Some(&secret), None).expect(200);
    assert_eq!((&committed["pointer"], &committed["ended"]), (&"flipped".into(), &"not_running".into()));
    assert_eq!(mounting.scene.host.succeed(["show", "acme/alice"])["mode"], "hot");
}

#[test]
fn a_mount_is_a_fork_or_read_only_if_it_is_wanted() {
    let mounting = Mounting::new();
    let secret = mounting.scene.token("acme", "run");
    let server = mounting.serve();
    let body = |more: Value| {
        let mut body = json!({ "tenant_id": "acme", "profile_id": "alice" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let (old, at_old) = made(&server, &secret, &body(json!({ "sha_prefix": "latest~1", "read_only": true })));
    assert_eq!(fs::read_to_string(at_old.join("Preferences")).unwrap(), "first");
    fs::write(at_old.join("new"), "x").unwrap_err();
    let (fork, at_fork) = made(&server, &secret, &body(json!({ "fork": true })));
    fs::write(at_fork.join("new"), "x").unwrap();
    assert_eq!(ids(&server, &secret).len(), 2);
    server.call(&format!("DELETE /v1/mounts/{old}"), Some(&secret), None).expect(200);
    let line = format!("DELETE /v1/mounts/{fork}?changes=discard");
    assert_eq!(server.call(&line, Some(&secret), None).expect(200)["discarded"], true);
    let refused = |body: Value| server.call("POST /v1/mounts", Some(&secret), Some(&body));
    refused(body(json!({ "fork": true, "read_only": true }))).refused(400, "invalid_input");
    refused(body(json!({ "sha_prefix": "latest~1" }))).refused(400, "invalid_input");
    refused(body(json!({ "mountpoint": "/tmp" }))).refused(400, "invalid_input");
    // Other users of the host are let in only if whoever runs the server wants that.
    refused(body(json!({ "read_only": true, "allow_other": true }))).refused(403, "denied");
    refused(json!({ "tenant_id": "other", "profile_id": "bob" })).refused(403, "denied");
    refused(json!({ "tenant_id": "acme", "profile_id": "../other" })).refused(400, "invalid_input");
    for name in ["..", "..%2f..%2fetc", "x", "%2fetc"] {
        let line = format!("DELETE /v1/mounts/{name}");
        assert!(matches!(server.call(&line, Some(&secret), None).status, 400 | 404), "{name}");
    }
    assert_eq!(fs::read_dir(mounting.directory.join("acme")).unwrap().count(), 0);
}

#[test]
fn a_directory_that_others_could_replace_is_no_place_for_mounts() {
    let mounting = Mounting::new();
    let link = mounting.directory.with_file_name("link");
    symlink(&mounting.directory, &link).unwrap();
    let fail = |directory: &Path| {
        let tokens = mounting.scene.tokens.path.to_str().unwrap();
        let directory = directory.to_str().unwrap();
        let line = ["serve", "--listen", "127.0.0.1:0", "--tokens", tokens, "--mounts", directory];
        mounting.scene.host.fail(2, line)
    };
    fail(&link);
    fail(&mounting.directory.join("../mounts"));
}

/// A server that is killed while it makes, commits or ends a mount: what was written is in the mount or in the
/// store, and the next server knows every mount there is.
#[test]
fn no_change_is_lost_when_a_server_is_killed_at_a_mount() {
    let mounting = Mounting::new();
    let host = &mounting.scene.host;
    let secret = mounting.scene.token("acme", "run");
    let kill = |server: Served, line: &str, body: Option<&str>, after: u64| {
        let mut stream = server.connect();
        stream.write_all(request(line, Some(&secret), body).as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(after));
        drop(server);
    };
    let body = json!({ "tenant_id": "acme", "profile_id": "alice" });
    let text = body.to_string();
    for after in [0, 30, 100, 300] {
        kill(mounting.serve(), "POST /v1/mounts", Some(&text), after);
        // A mount that was made is one that can be ended; one that was begun comes to an end by itself.
        let server = mounting.serve();
        let (id, path) = loop {
            if let [id] = &ids(&server, &secret)[..] {
                break (id.clone(), mounting.directory.join("acme").join(id));
            }
            let tried = server.call("POST /v1/mounts", Some(&secret), Some(&body));
            if tried.status == 200 {
                let made = tried.json();
                break (
                    made["mount_id"].as_str().unwrap().to_owned(),
                    PathBuf::from(made["mountpoint"].as_str().unwrap()),
                );
            }
            tried.refused(409, "lock_held");
            thread::sleep(Duration::from_millis(50));
        };
        let number = after.to_string();
        fs::write(path.join("Bookmarks"), &number).unwrap();
        kill(server, &format!("POST /v1/mounts/{id}/commit"), None, after);
        assert_eq!(fs::read_to_string(path.join("Bookmarks")).unwrap(), number);
        fs::write(path.join("Cookies"), &number).unwrap();
        kill(mounting.serve(), &format!("DELETE /v1/mounts/{id}?changes=commit"), None, after);
        // Whether it has ended or not, whoever ends it again loses nothing.
        let server = mounting.serve();
        let end = || server.call(&format!("DELETE /v1/mounts/{id}?changes=commit"), Some(&secret), None);
        while end().status != 404 {
            thread::sleep(Duration::from_millis(50));
        }
        assert!(mounted(host).is_empty(), "{after}");
        let target = mounting.scene.folder.path().join(format!("restored-{after}"));
        host.restore("acme/alice", &target);
        for name in ["Bookmarks", "Cookies"] {
            assert_eq!(fs::read_to_string(target.join(name)).unwrap(), number, "{name}");
        }
        host.verify("acme/alice", &[]);
    }
}

/// Who has made, committed and ended a mount is told with the events of its tenant. A request that is sent again
/// gets the mount that there is, and not one that has ended.
#[test]
fn what_becomes_of_mounts_is_told() {
    let mounting = Mounting::new();
    let secret = mounting.scene.token("acme", "run");
    let server = mounting.serve();
    let body = json!({ "tenant_id": "acme", "profile_id": "alice" }).to_string();
    let asked = with_header(&request("POST /v1/mounts", Some(&secret), Some(&body)), "Idempotency-Key: one");
    let mount = || {
        let made = server.send(&asked).expect(200);
        let id = made["mount_id"].as_str().unwrap().to_owned();
        (id, PathBuf::from(made["mountpoint"].as_str().unwrap()))
    };
    let (id, path) = mount();
    assert_eq!(mount().0, id);
    fs::write(path.join("Bookmarks"), "one").unwrap();
    server.call(&format!("POST /v1/mounts/{id}/commit"), Some(&secret), None).expect(200);
    fs::write(path.join("Bookmarks"), "two").unwrap();
    let end = |id: &str| server.call(&format!("DELETE /v1/mounts/{id}?changes=discard"), Some(&secret), None);
    end(&id).expect(200);
    let (next, _) = mount();
    assert_ne!(next, id);
    end(&next).expect(200);
    let wanted = [
        "POST /v1/mounts".to_owned(),
        format!("POST /v1/mounts/{id}/commit"),
        format!("DELETE /v1/mounts/{id}"),
        "POST /v1/mounts".to_owned(),
        format!("DELETE /v1/mounts/{next}"),
    ];
    let began = Instant::now();
    loop {
        // An event is told when it is about two seconds old.
        let page = server.call("GET /v1/events?limit=1000", Some(&secret), None).expect(200);
        let events = page["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "request");
        let events: Vec<&Value> = events.collect();
        if events.len() < wanted.len() {
            assert!(began.elapsed() < Duration::from_secs(60), "{page:#}");
            thread::sleep(Duration::from_millis(100));
            continue;
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let told = events.iter().map(|event| {
            assert_eq!(
                (&event["tenant_id"], &event["request"]["peer"]),
                (&"acme".into(), &"127.0.0.1".into())
            );
            assert!(event["by"]["run_id"].as_str().unwrap().starts_with("token run-"), "{event:#}");
            format!("{} {}", text(&event["request"]["method"]), text(&event["request"]["path"]))
        });
        assert_eq!(told.collect::<Vec<_>>(), wanted);
        return;
    }
}

/// What each role is answered about a mount, with a token for its tenant, for another one, and for all.
#[test]
fn every_role_is_answered_about_mounts_as_the_table_says() {
    const OTHER: &str = "01KA8Y6ZZZ0000000000000000";
    let mounting = Mounting::new();
    let roles = ["read", "run", "operate", "admin"];
    let [acme, other, all] =
        ["acme", "other", "*"].map(|tenant| roles.map(|role| mounting.scene.token(tenant, role)));
    let server = mounting.serve();
    let body = json!({ "tenant_id": "acme", "profile_id": "alice" });
    let (id, _) = made(&server, &acme[1], &body);
    for (line, body, own, foreign) in [
        ("GET /v1/mounts".to_owned(), None, [200; 4], [200; 4]),
        // Somebody holds the lock.
        ("POST /v1/mounts".to_owned(), Some(&body), [403, 409, 409, 409], [403; 4]),
        (format!("POST /v1/mounts/{id}/commit"), None, [403, 200, 200, 200], [403, 404, 404, 404]),
        (format!("POST /v1/mounts/{OTHER}/commit"), None, [403, 404, 404, 404], [403, 404, 404, 404]),
        (format!("DELETE /v1/mounts/{OTHER}"), None, [403, 404, 404, 404], [403, 404, 404, 404]),
    ] {
        for (secrets, wanted) in [(&acme, own), (&all, own), (&other, foreign)] {
            let answered: Vec<u16> =
                secrets.iter().map(|secret| server.call(&line, Some(secret), body).status).collect();
            assert_eq!(answered, wanted, "{line}");
        }
        server.call(&line, None, body).refused(401, "denied");
    }
    assert_eq!((ids(&server, &acme[0]).len(), ids(&server, &other[3]).len()), (1, 0));
    let end = format!("DELETE /v1/mounts/{id}");
    for (secret, status) in [(&other[3], 404), (&acme[0], 403), (&acme[1], 200), (&acme[1], 404)] {
        assert_eq!(server.call(&end, Some(secret), None).status, status);
    }
}

/// The kernel tells who connects to a socket, so that a user needs no secret.
#[test]
fn a_user_of_the_host_needs_no_token_at_a_socket() {
    let mounting = Mounting::new();
    let Mounting { scene, directory } = &mounting;
    let path = scene.folder.path().join("socket");
    let listen = format!("unix:{}", path.display());
    let user = format!("{}=acme:run", rustix::process::geteuid().as_raw());
    let tokens = scene.tokens.path.to_str().unwrap();
    let line = ["serve", "--listen", &listen, "--tokens", tokens, "--mounts", directory.to_str().unwrap()];
    let ask = |line: &str, body: Option<&str>| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(request(line, None, body).as_bytes()).unwrap();
        answer(&mut stream)
    };
    let mut running = scene.host.start(line.iter().chain(&["--socket-user", &user]));
    running.await_stderr("listening on unix:");
    let body = r#"{ "tenant_id": "acme", "profile_id": "alice", "read_only": true }"#;
    let id = ask("POST /v1/mounts", Some(body)).expect(200)["mount_id"].as_str().unwrap().to_owned();
    ask(&format!("DELETE /v1/mounts/{id}"), None).expect(200);
    // It is this user's tenant and role, and no more.
    ask("GET /v1/profile-snapshots/other/bob", None).refused(403, "denied");
    ask(&format!("DELETE /v1/profile-snapshots/acme/alice/{}", scene.shas[0]), None).refused(403, "denied");
    running.kill();
    // A user that is not named needs a token.
    let mut running = scene.host.start(line.iter().chain(&["--socket-user", "54321=acme:run"]));
    running.await_stderr("listening on unix:");
    ask("GET /v1/mounts", None).refused(401, "denied");
    running.kill();
}

/// What comes of this if a user of the host does it. Only the thread is that user's: the test goes on as before.
fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
    let acting = || {
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(gid, gid, gid).unwrap();
        set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(acting).join().unwrap())
}

/// Two users, each with a tenant of its own: the stored modes let everybody in, and the mounts do not.
#[test]
fn a_mount_is_for_the_user_who_asked_for_it_and_for_nobody_else() {
    let mounting = Mounting::new();
    let Mounting { scene, directory } = &mounting;
    fs::set_permissions(scene.folder.path(), Permissions::from_mode(0o755)).unwrap();
    let path = scene.folder.path().join("socket");
    let listen = format!("unix:{}", path.display());
    let (tokens, mounts) = (scene.tokens.path.to_str().unwrap(), directory.to_str().unwrap());
    let users = ["--socket-user", "65534=acme:run", "--socket-user", "65533=other:run"];
    let line = ["serve", "--listen", &listen, "--tokens", tokens, "--mounts", mounts];
    let mut running = scene.host.start(line.iter().chain(&users));
    running.await_stderr("listening on unix:");
    let made = [(65534, "acme", "alice"), (65533, "other", "bob")].map(|(uid, tenant, profile)| {
        let body = json!({ "tenant_id": tenant, "profile_id": profile }).to_string();
        let mut stream = as_user(uid, || UnixStream::connect(&path).unwrap());
        stream.write_all(request("POST /v1/mounts", None, Some(&body)).as_bytes()).unwrap();
        let made = answer(&mut stream).expect(200);
        (uid, PathBuf::from(made["mountpoint"].as_str().unwrap()))
    });
    for (uid, own) in &made {
        for (_, mountpoint) in &made {
            let read = as_user(*uid, || fs::read(mountpoint.join("Preferences")));
            assert_eq!(read.is_ok(), mountpoint == own, "{uid} at {}: {read:?}", mountpoint.display());
        }
        as_user(*uid, || fs::write(own.join("new"), "x")).unwrap();
        as_user(*uid, || fs::read_dir(own.parent().unwrap()).map(|_| ())).unwrap_err();
    }
    running.kill();
}
