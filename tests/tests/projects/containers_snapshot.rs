//! These tests store containers of a real Docker daemon.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tests::{
    binary::{Host, assert_says},
    docker::Daemon,
};

/// A daemon, and a host with a store.
pub struct Scene {
    pub daemon: Daemon,
    pub host: Host,
    pub folder: tempfile::TempDir,
}

impl Scene {
    pub fn new() -> Self {
        Self::at(Daemon::start())
    }

    pub fn at(daemon: Daemon) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = daemon.of(&Host::local(&folder.path().join("home"), &folder.path().join("store")));
        Self { daemon, host, folder }
    }

    /// Starts a container that waits, with the volume `data` at /data.
    pub fn run(&self, name: &str, more: &[&str]) {
        let head = ["run", "--detach", "--name", name, "--volume", "data:/data"];
        let tail = ["busybox:test", "sh", "-c", "while true; do sleep 1; done"];
        self.daemon.docker(&[&head[..], more, &tail[..]].concat());
    }

    /// Waits until a command of pstore has this container paused.
    pub fn await_pause(&self, container: &str) {
        let began = Instant::now();
        while self.daemon.state(container) != "paused" {
            assert!(began.elapsed() < Duration::from_secs(60), "{container} was never paused");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_snapshot_says_what_the_container_is_and_leaves_it_as_it_was_found() {
    let scene = Scene::new();
    let more = ["--env", "COLOUR=red", "--label", "team=a", "--workdir", "/data", "--volume", "/nameless"];
    scene.run("web", &[&more[..], &["--volume", "/etc:/host:ro", "--user", "0:0"]].concat());
    scene.daemon.sh("web", "echo hello > /data/file; echo kept > /kept; echo gone > /tmp/gone");
    let images = scene.daemon.images();
    let volumes = scene.daemon.volumes();
    let snapshot = ["container", "snapshot", "web", "acme/web", "-d", "before the agent logs in"];
    let more = ["--trigger", "run_start", "--run-id", "run-7", "--label", "task=checkout"];
    let taken = scene.host.succeed([&snapshot[..], &more[..]].concat());
    assert_eq!(taken["outcome"], "stored");
    let warnings = taken["warnings"].to_string();
    assert!(warnings.contains("anonymous volume at /nameless"), "{warnings}");
    assert!(warnings.contains("/etc at /host"), "{warnings}");
    // Nothing of ours is left, and it runs.
    assert_eq!(scene.daemon.state("web"), "running");
    assert_eq!(scene.daemon.containers(), ["web"]);
    assert_eq!((scene.daemon.images(), scene.daemon.volumes()), (images, volumes));

    let shown = scene.host.succeed(["container", "show", "acme/web"]);
    let container = &shown["container"];
    assert_eq!(container["trigger"], "run_start");
    assert_eq!(container["description"], "before the agent logs in");
    assert_eq!(container["run_id"], "run-7");
    assert_eq!(container["image"]["reference"], "busybox:test");
    assert_eq!(container["config"]["Labels"]["team"], "a");
    assert_eq!(container["config"]["WorkingDir"], "/data");
    assert!(container["config"]["Env"].to_string().contains("COLOUR=red"));
    let kinds: Vec<&str> =
        container["mounts"].as_array().unwrap().iter().map(|mount| mount["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["volume", "bind", "anonymous_volume"]);

    let listed = scene.host.succeed(["container", "list", "acme"]);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(listed["snapshots"][0]["labels"]["task"], "checkout");
    // It is an ordinary snapshot: others read it, and it is whole.
    let files = scene.host.succeed(["ls", "acme/web", "volumes/data", "--recursive"]).to_string();
    assert!(files.contains("volumes/data/file"), "{files}");
    scene.host.verify("acme/web", &["--read-data"]);
    // A second snapshot of nearly the same stores nearly nothing.
    scene.daemon.sh("web", "echo more >> /data/file");
    let again = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let (new, all) =
        (again["new_bytes"].as_u64().unwrap(), again["uncompressed_size_bytes"].as_u64().unwrap());
    assert!(new < all / 20, "{new} of {all}");
}

#[test]
fn what_was_paused_or_stopped_stays_so() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.daemon.docker(&["pause", "web"]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert_eq!(scene.daemon.state("web"), "paused");
    scene.daemon.docker(&["unpause", "web"]);
    scene.daemon.docker(&["kill", "web"]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert_eq!(scene.daemon.state("web"), "exited");
    scene.daemon.docker(&["create", "--name", "new", "busybox:test"]);
    scene.host.succeed(["container", "snapshot", "new"]);
    assert_eq!(scene.daemon.state("new"), "created");
    let listed = scene.host.succeed(["container", "list"]);
    assert_eq!(listed["snapshots"][0]["name"], "containers/new");
}

#[test]
fn a_container_that_is_started_again_and_again_is_refused() {
    let scene = Scene::new();
    scene.daemon.docker(&[
        "run",
        "--detach",
        "--name",
        "web",
        "--restart",
        "always",
        "busybox:test",
        "false",
    ]);
    // The daemon waits twice as long each time, at last for seconds.
    let began = Instant::now();
    let restarts = || scene.daemon.docker(&["inspect", "--format", "{{.RestartCount}}", "web"]);
    while restarts().parse::<u32>().unwrap() < 7 || scene.daemon.state("web") != "restarting" {
        assert!(began.elapsed() < Duration::from_secs(120), "{}", restarts());
        thread::sleep(Duration::from_millis(50));
    }
    assert_says(&scene.host.fail(32, ["container", "snapshot", "web", "acme/web"]), "is restarting");
    assert_eq!(scene.host.fail(3, ["container", "show", "acme/web"])["kind"], "not_found");
}

#[test]
fn a_mistake_is_told_with_the_next_command_and_changes_nothing() {
    let scene = Scene::new();
    scene.run("web", &[]);
    assert_says(&scene.host.fail(3, ["container", "snapshot", "nobody"]), "there is no container \"nobody\"");
    let away = scene.host.clone().with("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let error = away.fail(14, ["container", "snapshot", "web", "acme/web"]);
    assert_says(&error, "cannot reach Docker at unix:///nowhere/docker.sock");
    assert!(error["hint"].as_str().unwrap().contains("DOCKER_HOST"), "{error}");
    // Whoever runs an agent does not want it to end for that.
    let ended = away.run(["container", "snapshot", "web", "acme/web", "--fail-open"]);
    assert_eq!((ended.code, &ended.document["outcome"]), (Some(0), &"failed".into()));
    assert!(ended.stderr.contains("there is no snapshot of web"), "{}", ended.stderr);
    // Too little time.
    assert_says(
        &scene.host.fail(14, ["container", "snapshot", "web", "acme/web", "--timeout", "0"]),
        "within 0 s",
    );
    assert_eq!(scene.daemon.state("web"), "running");
    assert_eq!(scene.daemon.containers(), ["web"]);
    assert_eq!(scene.daemon.images(), ["busybox:test"]);
    // Somebody else has the lock.
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let lock = ["lock", "acquire", "acme/web", "--chrome-major", "65533"];
    scene.host.succeed(lock);
    scene.host.fail(24, ["container", "snapshot", "web", "acme/web"]);
    assert_eq!(scene.daemon.state("web"), "running");
    // What is no container's.
    assert_says(&scene.host.fail(3, ["container", "restore", "acme/nobody"]), "acme/nobody");
    scene.host.fail(2, ["container", "delete", "acme/web"]);
}

#[test]
fn a_killed_snapshot_leaves_nothing_paused_and_nothing_behind() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.daemon.sh("web", "dd if=/dev/urandom of=/data/large bs=1M count=40 2>/dev/null");
    let running = scene.host.start(["container", "snapshot", "web", "acme/web"]);
    scene.await_pause("web");
    running.kill();
    assert_eq!(scene.daemon.state("web"), "paused");
    // Any next command about containers at that daemon puts it right.
    scene.daemon.docker(&["create", "--name", "other", "busybox:test"]);
    scene.host.succeed(["container", "snapshot", "other"]);
    assert_eq!(scene.daemon.state("web"), "running");
    assert_eq!(scene.daemon.containers(), ["other", "web"]);
    assert_eq!(scene.daemon.images(), ["busybox:test"]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web", "--wait", "60"]);
    scene.host.verify("acme/web", &["--read-data"]);
}

#[test]
fn an_interrupted_snapshot_resumes_the_container_before_it_ends() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.daemon.sh("web", "dd if=/dev/urandom of=/data/large bs=1M count=40 2>/dev/null");
    let running = scene.host.start(["container", "snapshot", "web", "acme/web"]);
    scene.await_pause("web");
    let told = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert_eq!(running.wait().code, Some(130));
    assert_eq!(scene.daemon.state("web"), "running");
}
