//! These tests look into snapshots, name them, and ask for their events.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tests::{
    served::{Served, request},
    tree::noise,
};

use super::{ALICE, Scene};

fn get(server: &Served, secret: &str, below: &str) -> Value {
    server.call(&format!("GET {ALICE}{below}"), Some(secret), None).expect(200)
}

/// The documents are those of the commands.
#[test]
fn a_server_tells_of_snapshots_what_the_commands_tell() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    let [first, second] = &scene.shas;
    let host = &scene.host;
    let pairs = [
        (format!("/{first}/history"), vec!["history".to_owned(), format!("acme/alice@{first}")]),
        (
            format!("/{first}/tree?recursive=true"),
            vec!["ls".into(), format!("acme/alice@{first}"), "-R".into()],
        ),
        (
            format!("/{first}/diff/{second}"),
            vec!["diff".into(), format!("acme/alice@{first}"), second.clone()],
        ),
        ("/events?last=3".to_owned(), ["log", "acme/alice", "--last", "3"].map(str::to_owned).to_vec()),
        ("/leases".to_owned(), ["lock", "show", "acme/alice"].map(str::to_owned).to_vec()),
    ];
    for (below, line) in pairs {
        assert_eq!(get(&server, &secret, &below), host.succeed(&line), "{below}");
    }
    let totals = get(&server, &secret, &format!("/{first}/diff/{second}?stat=true"));
    assert!(totals["changes"].is_null(), "{totals:#}");
    let stats = server.call("GET /v1/tenants/acme/stats", Some(&secret), None).expect(200);
    assert_eq!(stats, host.succeed(["stats", "acme"])["tenants"][0]);
    server.call(&format!("GET {ALICE}/events?last=0"), Some(&secret), None).refused(400, "invalid_input");
}

#[test]
fn a_file_comes_whole_and_as_it_was() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let source = scene.folder.path().join("source");
    let large = noise(9_000_000, 7);
    fs::create_dir_all(source.join("Default/a b")).unwrap();
    fs::write(source.join("Default/a b/large"), &large).unwrap();
    fs::write(source.join("empty"), "").unwrap();
    scene.capture("acme/alice", "fourth");
    let server = scene.serve();
    let file = |path: &str| server.call(&format!("GET {ALICE}/latest/files/{path}"), Some(&secret), None);
    let reply = file("Default/a%20b/large");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/octet-stream")));
    assert!(reply.body == large, "{} bytes of {}", reply.body.len(), large.len());
    assert_eq!(reply.header("content-length"), Some("9000000"));
    assert_eq!((file("empty").status, file("empty").body.len()), (200, 0));
    assert_eq!(file("empty").header("content-length"), Some("0"));
    file("nowhere").refused(404, "not_found");
    file("Default").refused(400, "invalid_input");
    for trick in ["../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "Default/../empty"] {
        let reply = file(trick);
        assert!(matches!(reply.status, 400 | 404), "{trick}: {reply:?}");
    }
    // One who leaves in the middle is no trouble.
    for _ in 0..3 {
        let line = format!("GET {ALICE}/latest/files/Default/a%20b/large");
        let request = request(&line, Some(&secret), None);
        server.send_and_leave(&request, std::time::Duration::from_millis(30));
    }
    assert!(file("Default/a%20b/large").body == large);
    assert_eq!(server.stop().document["drained"], true);
}

/// The end of a connection ends an answer in HTTP/1.0: only its length tells that something is missing.
#[test]
fn a_file_that_breaks_off_is_not_taken_for_whole() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let (file, content) = (scene.folder.path().join("source/large"), noise(12_000_000, 7));
    let packs = || -> BTreeSet<PathBuf> {
        let packs = scene.folder.path().join("store/objects/content/acme/packs");
        fs::read_dir(packs).unwrap().map(|pack| pack.unwrap().path()).collect()
    };
    // The end of the file is in a pack of its own: of one pack nobody knows what lies where.
    fs::write(&file, &content[..10_000_000]).unwrap();
    scene.capture("acme/alice", "fourth");
    let before = packs();
    fs::write(&file, content).unwrap();
    scene.capture("acme/alice", "fifth");
    let added = packs();
    let added = added.difference(&before);
    let largest = added.max_by_key(|pack| fs::metadata(pack).unwrap().len()).unwrap();
    let mut bytes = fs::read(largest).unwrap();
    let damaged = bytes.len() / 2;
    bytes[damaged..damaged + 1000].fill(0);
    fs::write(largest, bytes).unwrap();
    let server = scene.serve();
    let request = request(&format!("GET {ALICE}/latest/files/large"), Some(&secret), None);
    let reply = server.send(&request.replace("HTTP/1.1", "HTTP/1.0"));
    assert_eq!((reply.status, reply.header("content-length")), (200, Some("12000000")));
    assert!(!reply.body.is_empty() && reply.body.len() < 12_000_000, "{} bytes", reply.body.len());
    assert!(server.said().contains("a file broke off"), "{}", server.said());
}

#[test]
fn a_snapshot_with_a_name_is_kept() {
    let scene = Scene::new();
    let (operate, admin) = (scene.token("acme", "operate"), scene.token("acme", "admin"));
    let server = scene.serve();
    let first = &scene.shas[0];
    let call = |line: String, secret: &str| server.call(&line, Some(secret), None);
    let tagged = call(format!("PUT {ALICE}/{first}/tags/before-migration"), &operate).expect(200);
    assert_eq!((&tagged["outcome"], &tagged["tags"]), (&"tagged".into(), &json!(["before-migration"])));
    let shown = call(format!("GET {ALICE}/before-migration"), &operate).expect(200);
    assert_eq!(shown["record"], tagged["record"]);
    call(format!("DELETE {ALICE}/{first}"), &admin).refused(409, "snapshot_needed");
    let untagged = call(format!("DELETE {ALICE}/{first}/tags/before-migration"), &operate).expect(200);
    assert_eq!((&untagged["outcome"], &untagged["tags"]), (&"untagged".into(), &json!([])));
    for wrong in ["a%20b", "events", "leases", "loads", "uploads", "rollback", "force-unlock"] {
        call(format!("PUT {ALICE}/{first}/tags/{wrong}"), &operate).refused(400, "invalid_input");
    }
    call(format!("DELETE {ALICE}/{first}"), &admin).expect(200);
}

/// A record that has been there for a while is read once, and again as soon as it is listed otherwise.
#[test]
fn a_server_reads_a_record_again_only_when_it_has_changed() {
    let scene = Scene::new();
    let secret = scene.token("acme", "operate");
    let folder = scene.folder.path().join("store/objects/snapshots/acme/alice/131");
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let records: Vec<_> =
        files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("snap-")).collect();
    assert_eq!(records.len(), 2);
    let ago = |seconds| SystemTime::now() - Duration::from_secs(seconds);
    let date = |path: &Path, time| fs::File::open(path).unwrap().set_modified(time).unwrap();
    let (written, later) = (ago(600), ago(300));
    records.iter().for_each(|path| date(path, written));
    let server = scene.serve();
    let listed = get(&server, &secret, "");
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 2);
    // Nobody could read these.
    let whole: Vec<_> = records.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, whole) in records.iter().zip(&whole) {
        fs::write(path, vec![b'x'; whole.len()]).unwrap();
        date(path, written);
    }
    assert_eq!(get(&server, &secret, ""), listed);
    // A file that is as long and of another time is looked at.
    records.iter().for_each(|path| date(path, later));
    assert_eq!(get(&server, &secret, "")["snapshots"], json!([]));
    for (path, whole) in records.iter().zip(&whole) {
        fs::write(path, whole).unwrap();
    }
    assert_eq!(get(&server, &secret, ""), listed);
    let [first, _] = &scene.shas;
    scene.host.succeed(["tag", &format!("acme/alice@{first}"), "golden"]);
    assert_eq!(get(&server, &secret, "")["snapshots"][0]["tags"], json!(["golden"]));
}
