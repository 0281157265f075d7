//! These tests store containers through a server, as an agent's framework does.

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    time::{Duration, Instant},
};

use serde_json::json;
use tests::served::{Served, Tokens};

use crate::{
    containers_snapshot::Scene,
    shop::{ALL, Shop},
};

const PATH: &str = "/v1/container-snapshots/acme/web";

#[test]
fn what_happens_to_a_run_stores_the_containers_of_its_tenant_and_no_others() {
    let scene = Scene::new();
    let tokens = Tokens::new(scene.folder.path());
    let (run, other) = (tokens.add(&scene.host, "acme", "run"), tokens.add(&scene.host, "other", "run"));
    let address = scene.daemon.address();
    let served = Served::start_with(&scene.host, &tokens.path, &["--containers", &address]);
    let post = |path: &str, secret: &str, body: serde_json::Value| {
        served.call(&format!("POST {path}"), Some(secret), Some(&body))
    };
    // A server makes no store.
    scene.host.succeed(["init"]);
    scene.run("web", &["--label", "pstore.tenant=acme"]);
    scene.run("private", &[]);
    scene.daemon.sh("web", "echo hello > /data/file");
    let body = json!({ "container": "web", "trigger": "before_action", "run_id": "run-7", "labels": { "task": "checkout" } });
    let stored = post(PATH, &run, body).expect(200);
    assert_eq!((&stored["outcome"], &stored["trigger"]), (&"stored".into(), &"before_action".into()));
    assert_eq!(scene.daemon.state("web"), "running");
    let listed = served.call(&format!("GET {PATH}"), Some(&run), None).expect(200);
    assert_eq!(listed["snapshots"][0]["labels"]["run_id"], "run-7");
    assert_eq!(listed["snapshots"][0]["labels"]["task"], "checkout");

    // An image may come from anybody, and names no tenant.
    scene.daemon.docker(&["commit", "--change", "LABEL pstore.tenant=acme", "private", "labelled:test"]);
    scene.daemon.docker(&["create", "--name", "labelled", "labelled:test"]);
    post(PATH, &run, json!({ "container": "labelled" })).refused(404, "not_found");
    scene.daemon.docker(&["rm", "labelled"]);
    scene.daemon.docker(&["rmi", "labelled:test"]);
    // One that starts again and again is in no state to be stored, and nobody is told so of a container of others.
    scene.daemon.docker(&[
        "run",
        "--detach",
        "--name",
        "failing",
        "--restart",
        "always",
        "busybox:test",
        "false",
    ]);
    let began = Instant::now();
    while scene.daemon.state("failing") != "restarting" {
        assert!(began.elapsed() < Duration::from_secs(60), "it never starts again");
    }
    post(PATH, &run, json!({ "container": "failing" })).refused(404, "not_found");
    scene.daemon.docker(&["rm", "--force", "failing"]);
    // A container that is restored is the tenant's yet: its image does not say so, its maker does.
    scene.host.succeed(["container", "restore", "acme/web", "--name", "again"]);
    post("/v1/container-snapshots/acme/again", &run, json!({ "container": "again" })).expect(200);
    scene.daemon.docker(&["rm", "--force", "again"]);
    // Whose container it is, its label says: a token of another tenant does not reach it, whatever it calls the snapshots.
    for (path, secret, container) in [
        ("/v1/container-snapshots/other/web", &other, "web"),
        (PATH, &run, "private"),
        (PATH, &run, "nobody"),
    ] {
        post(path, secret, json!({ "container": container })).refused(404, "not_found");
    }
    post(PATH, &other, json!({ "container": "web" })).refused(403, "denied");
    // A run goes on without its snapshot if it says so.
    let failed = post(PATH, &run, json!({ "container": "nobody", "fail_open": true })).expect(200);
    assert_eq!(failed["outcome"], "failed");
    assert!(failed["problem"].as_str().unwrap().contains("nobody"), "{failed}");
    post(PATH, &run, json!({ "container": "web", "time_limit": 0 })).refused(400, "invalid_input");
    // Somebody else has the lock of the container's snapshots.
    scene.host.succeed(["lock", "acquire", "acme/web", "--chrome-major", "65533"]);
    post(PATH, &run, json!({ "container": "web" })).refused(409, "lock_held");
    assert_eq!(scene.daemon.state("web"), "running");
    assert_eq!(scene.daemon.containers(), ["private", "web"]);
    drop(served);
    // A server that was not told of a daemon stores none.
    let served = Served::start(&scene.host, &tokens.path);
    let reply = served.call(&format!("POST {PATH}"), Some(&run), Some(&json!({ "container": "web" })));
    assert!(reply.text().contains("--containers"), "{reply:#?}");
}

#[test]
fn a_container_goes_on_though_the_caller_has_left() {
    let scene = Scene::new();
    let tokens = Tokens::new(scene.folder.path());
    let run = tokens.add(&scene.host, "acme", "run");
    let address = scene.daemon.address();
    let served = Served::start_with(&scene.host, &tokens.path, &["--containers", &address]);
    // A server makes no store.
    scene.host.succeed(["init"]);
    scene.run("web", &["--label", "pstore.tenant=acme"]);
    scene.daemon.sh("web", "dd if=/dev/urandom of=/data/large bs=1M count=40 2>/dev/null");
    let body = json!({ "container": "web" }).to_string();
    let request = tests::served::request(&format!("POST {PATH}"), Some(&run), Some(&body));
    let mut stream = served.connect();
    stream.write_all(request.as_bytes()).unwrap();
    scene.await_pause("web");
    drop(stream);
    let listed = || served.call(&format!("GET {PATH}"), Some(&run), None);
    let began = Instant::now();
    while scene.daemon.state("web") != "running"
        || scene.daemon.containers() != ["web"]
        || listed().status != 200
    {
        assert!(began.elapsed() < Duration::from_secs(60), "web is {}", scene.daemon.state("web"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn nothing_is_paused_for_a_caller_that_has_left_while_it_waited() {
    let scene = Scene::new();
    let tokens = Tokens::new(scene.folder.path());
    let run = tokens.add(&scene.host, "acme", "run");
    let address = scene.daemon.address();
    let served = Served::start_with(&scene.host, &tokens.path, &["--containers", &address]);
    scene.host.succeed(["init"]);
    scene.run("web", &["--label", "pstore.tenant=acme"]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let of_lineage = ["acme/web", "--chrome-major", "65533"];
    let held = scene.host.succeed([&["lock", "acquire"], &of_lineage[..]].concat());
    let body = json!({ "container": "web", "wait": 60 }).to_string();
    let request = tests::served::request(&format!("POST {PATH}"), Some(&run), Some(&body));
    served.send_and_leave(&request, Duration::from_secs(3));
    // The server has noticed by now.
    std::thread::sleep(Duration::from_secs(3));
    let token = held["token"].as_str().unwrap();
    scene.host.succeed([&["lock", "release"], &of_lineage[..], &["--token", token]].concat());
    std::thread::sleep(Duration::from_secs(5));
    let listed = served.call(&format!("GET {PATH}"), Some(&run), None).expect(200);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1, "{listed:#}");
}

#[test]
fn a_caller_learns_neither_where_the_daemon_is_nor_the_ids_of_others() {
    let scene = Scene::new();
    let tokens = Tokens::new(scene.folder.path());
    let run = tokens.add(&scene.host, "acme", "run");
    let address = scene.daemon.address();
    let served = Served::start_with(&scene.host, &tokens.path, &["--containers", &address]);
    scene.host.succeed(["init"]);
    // There are sixteen digits: two of the ids begin with the same one.
    let mut begins = BTreeSet::new();
    let prefix = loop {
        let id = scene.daemon.docker(&["create", "busybox:test"]);
        let first = id[..1].to_owned();
        if !begins.insert(first.clone()) {
            break first;
        }
    };
    let body = json!({ "container": prefix });
    let problem = served.call(&format!("POST {PATH}"), Some(&run), Some(&body));
    let problem = problem.refused(404, "not_found").to_string();
    assert!(!problem.contains("multiple") && !problem.contains(&address), "{problem}");
    drop(served);
    let away = ["--containers", "unix:///nowhere/docker.sock"];
    let served = Served::start_with(&scene.host, &tokens.path, &away);
    for fail_open in [false, true] {
        let body = json!({ "container": "web", "fail_open": fail_open });
        let reply = served.call(&format!("POST {PATH}"), Some(&run), Some(&body));
        assert_eq!(reply.status, if fail_open { 200 } else { 503 }, "{reply:#?}");
        assert!(!reply.text().contains("nowhere"), "{reply:#?}");
    }
}

#[test]
fn a_server_that_stops_or_dies_leaves_no_container_paused() {
    let scene = Scene::new();
    let tokens = Tokens::new(scene.folder.path());
    let run = tokens.add(&scene.host, "acme", "run");
    let address = scene.daemon.address();
    let started =
        || Served::start_with(&scene.host, &tokens.path, &["--containers", &address, "--drain", "0"]);
    scene.host.succeed(["init"]);
    scene.run("web", &["--label", "pstore.tenant=acme"]);
    // So much that it takes a while to copy.
    scene.daemon.sh("web", "dd if=/dev/urandom of=/data/large bs=1M count=60 2>/dev/null");
    let body = json!({ "container": "web" }).to_string();
    let request = tests::served::request(&format!("POST {PATH}"), Some(&run), Some(&body));
    let paused = |served: &Served| {
        let mut stream = served.connect();
        stream.write_all(request.as_bytes()).unwrap();
        scene.await_pause("web");
        stream
    };
    // No time is left for what was begun.
    let served = started();
    let stream = paused(&served);
    let ended = served.stop();
    drop(stream);
    assert_eq!(scene.daemon.state("web"), "running", "{ended:#?}");
    // What was killed cannot clean up: the next server does, before anybody asks it for anything.
    let served = started();
    let stream = paused(&served);
    drop(served);
    drop(stream);
    assert_eq!(scene.daemon.state("web"), "paused", "it was killed too late to tell");
    drop(started());
    assert_eq!(scene.daemon.state("web"), "running");
}

#[test]
fn a_project_is_saved_for_callers_of_its_tenant() {
    let shop = Shop::new(ALL);
    let web = shop.web();
    let tokens = Tokens::new(&shop.path(""));
    let (run, other) = (tokens.add(&shop.host, "acme", "run"), tokens.add(&shop.host, "other", "run"));
    let projects = shop.path("projects");
    for tenant in ["acme", "other"] {
        fs::create_dir_all(projects.join(tenant)).unwrap();
    }
    // In the directory of its tenant it says where its state is from there.
    let text = fs::read_to_string(shop.file()).unwrap().replace("\"current\"", "\"../../current\"");
    fs::write(projects.join("acme/shop.toml"), &text).unwrap();
    // The file says another name than it has.
    fs::write(projects.join("other/shop.toml"), &text).unwrap();
    let more = ["--projects", projects.to_str().unwrap()];
    let served = Served::start_with(&shop.host, &tokens.path, &more);
    let path = "/v1/project-snapshots/acme/shop";
    let post = |path: &str, secret: &str, body: serde_json::Value| {
        served.call(&format!("POST {path}"), Some(secret), Some(&body))
    };
    shop.host.succeed(["init"]);
    served.call(&format!("GET {path}"), Some(&run), None).refused(404, "not_found");
    let body = json!({ "reason": "before-upgrade", "labels": { "ticket": "42" } });
    let saved = post(path, &run, body).expect(200);
    assert_eq!(saved["snapshot"]["reason"], "before-upgrade");
    assert_ne!(web.state(), 'T');
    let listed = served.call(&format!("GET {path}"), Some(&run), None).expect(200);
    assert_eq!(listed["snapshots"][0]["labels"]["ticket"], "42");
    assert_eq!(listed["snapshots"], json!(shop.states()));

    post("/v1/project-snapshots/other/shop", &other, json!({})).refused(404, "not_found");
    post("/v1/project-snapshots/acme/nothing", &run, json!({})).refused(404, "not_found");
    post("/v1/project-snapshots/acme/..%2fother%2fshop", &run, json!({})).refused(400, "invalid_input");
    post(path, &other, json!({})).refused(403, "denied");
    post(path, &run, json!({ "reason": "before-restore" })).refused(400, "invalid_input");
    post(path, &run, json!({ "wait": 61 })).refused(400, "invalid_input");
    post(path, &run, json!({ "file": "/etc/passwd" })).refused(400, "invalid_input");
    // Somebody else works on it.
    shop.host.succeed(["lock", "acquire", "acme/shop", "--chrome-major", "65534"]);
    post(path, &run, json!({})).refused(409, "lock_held");
    assert_eq!(shop.states().len(), 1);
}

/// An app of a tenant that owns a folder of the project must not choose what is read.
#[test]
fn a_project_whose_folders_could_be_replaced_by_links_is_not_saved_for_callers() {
    let shop = Shop::new(ALL);
    let _web = shop.web();
    let tokens = Tokens::new(&shop.path(""));
    let run = tokens.add(&shop.host, "acme", "run");
    let projects = shop.path("projects");
    fs::create_dir_all(projects.join("acme")).unwrap();
    let text = fs::read_to_string(shop.file()).unwrap().replace("\"current\"", "\"../../current\"");
    fs::write(projects.join("acme/shop.toml"), &text).unwrap();
    let served = Served::start_with(&shop.host, &tokens.path, &["--projects", projects.to_str().unwrap()]);
    shop.host.succeed(["init"]);
    let post =
        || served.call("POST /v1/project-snapshots/acme/shop", Some(&run), Some(&json!({ "labels": {} })));
    post().expect(200);
    // Above a volume, and at its place.
    for name in ["current/volumes", "current/volumes/uploads", "current/volumes/db", "current/files"] {
        let (place, aside) = (shop.path(name), shop.path("aside"));
        fs::rename(&place, &aside).unwrap();
        // What the link leads to is as good as what it has replaced.
        symlink(&aside, &place).unwrap();
        post().refused(400, "invalid_input");
        fs::remove_file(&place).unwrap();
        fs::rename(&aside, &place).unwrap();
    }
    // A link could come later where others may write.
    let volumes = shop.path("current/volumes");
    fs::set_permissions(&volumes, fs::Permissions::from_mode(0o777)).unwrap();
    post().refused(400, "invalid_input");
    fs::set_permissions(&volumes, fs::Permissions::from_mode(0o755)).unwrap();
    // So could one to a folder with a database.
    let inner = shop.path("current/volumes/db/inner");
    fs::create_dir(&inner).unwrap();
    fs::copy(shop.database_path(), inner.join("app.db")).unwrap();
    post().expect(200);
    fs::set_permissions(shop.path("current/volumes/db"), fs::Permissions::from_mode(0o777)).unwrap();
    post().refused(400, "invalid_input");
    assert_eq!(shop.states().len(), 2);
    // Who works on the host says what is saved.
    shop.save(&[]);
}
