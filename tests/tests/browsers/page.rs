//! This test uses the page of `pstore serve` in Chromium, driven by Playwright; `tests/page/drive.py` says what must
//! hold.

use std::{fs, path::Path, process::Command};

use serde_json::json;
use tests::{
    binary::Host,
    many_profiles::{self, Many},
    served::{Served, Tokens},
    server::program,
    tree::noise,
};

/// A check of it can be watched, and cancelled before its end.
const LARGE_BYTES: usize = 256 << 20;

/// The mounts of a host, which end with the test.
struct MountsOf(Host);

impl Drop for MountsOf {
    fn drop(&mut self) {
        let listed = self.0.run(["mounts"]).document;
        for mount in listed["mounts"].as_array().into_iter().flatten() {
            if let Some(path) = mount["mountpoint"].as_str() {
                self.0.run(["unmount", path, "--discard"]);
            }
        }
    }
}

/// Pictures of every view are left in `target/page`, to be looked at.
#[tokio::test(flavor = "multi_thread")]
async fn somebody_on_call_finds_and_mends_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (store, source) = (folder.path().join("store"), folder.path().join("source"));
    many_profiles::make(&store, Many { tenants: 6, profiles: 40, snapshots: 8 }).await;
    let host = Host::local(&folder.path().join("home"), &store);
    fs::create_dir_all(source.join("Default")).unwrap();
    let capture = |text: &str| {
        fs::write(source.join("Preferences"), text).unwrap();
        fs::write(source.join("Default/History"), text.repeat(9000)).unwrap();
        host.snapshot(&source, "acme/alice")["active_sha256_prefix"].as_str().unwrap().to_owned()
    };
    let shas = [capture("logged in"), capture("logged in, and more")];
    // The next capture lacks what is expected, and is held back.
    host.succeed(["expect", "acme/alice", "--cookie", ".example.com:sid"]);
    fs::write(source.join("Preferences"), "logged out").unwrap();
    host.run(["snapshot", source.to_str().unwrap(), "acme/alice", "--chrome-major", "131"]);
    // Something that takes a moment to verify.
    let large = folder.path().join("large");
    fs::create_dir_all(&large).unwrap();
    fs::write(large.join("Cache"), noise(LARGE_BYTES, 7)).unwrap();
    host.snapshot(&large, "acme/large");
    let tokens = Tokens::new(folder.path());
    let (operator, reader) = (tokens.add(&host, "*", "admin"), tokens.add(&host, "acme", "read"));
    let _mounts = MountsOf(host.clone());
    let directory = folder.path().canonicalize().unwrap().join("mounts");
    fs::create_dir(&directory).unwrap();
    let more = ["--mounts", directory.to_str().unwrap()];
    let server = Served::start_with(&host, &tokens.path, &more);
    let body = json!({ "tenant_id": "acme", "profile_id": "large" });
    let mounted = server.call("POST /v1/mounts", Some(&operator), Some(&body)).expect(200);
    let mountpoint = mounted["mountpoint"].as_str().unwrap();
    fs::write(Path::new(mountpoint).join("Preferences"), "nine here").unwrap();

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tools = program("python");
    let axe = tools.parent().and_then(Path::parent).unwrap().join("axe.min.js");
    let scene = folder.path().join("scene.json");
    let document = json!({
        "address": server.address, "operator": operator, "reader": reader, "shas": shas, "axe": axe,
        "shots": root.join("target/page"), "commands": folder.path().join("commands"), "mountpoint": mountpoint,
    });
    fs::write(&scene, document.to_string()).unwrap();
    let ended = Command::new(&tools).arg(root.join("tests/page/drive.py")).arg(&scene).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}\n{}", server.said());
    assert!(!server.said().contains("panic"), "{}", server.said());
    // Every command that a view tells is one that this program takes, and that succeeds.
    let commands = fs::read_to_string(folder.path().join("commands")).unwrap();
    assert!(commands.lines().count() > 8, "{commands}");
    for line in commands.lines() {
        let line = line.replace("TENANT", "acme");
        let words: Vec<&str> = line.split(' ').skip(1).collect();
        let ended = host.run(&words);
        assert_ne!(ended.code, Some(2), "{line}: {ended:?}");
    }
    // What the page has done is what the command line sees.
    let list = host.succeed(["list", "acme/alice"]);
    assert_eq!(list["active_sha256_prefix"], shas[0]);
    let log = host.succeed(["log", "acme/alice"]);
    let last = log["events"].as_array().unwrap().iter().rfind(|event| event["kind"] == "rollback").unwrap();
    assert_eq!(last["reason"], "by keyboard");
}
