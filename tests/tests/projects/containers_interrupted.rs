//! These tests interrupt commands while containers are stopped, paused or set aside, and meddle with containers meanwhile.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tests::binary::{Running, assert_says};

use crate::containers_snapshot::Scene;

const PATIENCE: Duration = Duration::from_secs(120);
/// How long the daemon gives a container to end that is replaced.
const STOP: Duration = Duration::from_secs(10);

impl Scene {
    /// Starts to replace `web`, which ends at no signal, and returns while its daemon waits for its end.
    fn replace_until_it_is_told_to_end(&self) -> Running {
        let notes = self.folder.path().join("home/.local/state/pstore/sessions/docker-notes");
        let mut running = self.host.start(["container", "restore", "acme/web", "--replace"]);
        let is_told = || {
            let notes = fs::read_dir(&notes).into_iter().flatten().flatten();
            notes
                .filter_map(|note| fs::read_to_string(note.path()).ok())
                .any(|note| note.contains("put_back"))
        };
        let began = Instant::now();
        while !is_told() {
            assert!(running.runs() && began.elapsed() < PATIENCE, "{}", running.said());
            thread::sleep(Duration::from_millis(10));
        }
        thread::sleep(Duration::from_secs(1));
        assert_eq!(self.daemon.state("web"), "running", "it ends when its time is up");
        running
    }

    fn id(&self, name: &str) -> String {
        self.daemon.docker(&["inspect", "--format", "{{.Id}}", name])
    }

    fn restarts(&self, name: &str) -> String {
        self.daemon.docker(&["inspect", "--format", "{{.HostConfig.RestartPolicy.Name}}", name])
    }

    /// Puts as much into the volume of `web` as takes a while to copy.
    fn fill(&self, megabytes: u32) {
        let fill = format!("dd if=/dev/urandom of=/data/large bs=1M count={megabytes} 2> /dev/null");
        self.daemon.sh("web", &fill);
    }
}

fn terminate(running: &Running) {
    kill_process(Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn a_replacement_that_is_killed_while_the_old_container_ends_is_undone_at_any_command_about_containers() {
    let scene = Scene::new();
    scene.run("web", &["--restart", "always"]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let (old, volumes) = (scene.id("web"), scene.daemon.volumes());
    scene.replace_until_it_is_told_to_end().kill();
    scene.host.succeed(["container", "list", "acme"]);
    assert_eq!((scene.id("web"), scene.daemon.state("web").as_str()), (old.clone(), "running"));
    // Nor does the daemon finish what it was asked for before.
    thread::sleep(STOP);
    assert_eq!((scene.id("web"), scene.daemon.state("web").as_str()), (old, "running"));
    assert_eq!((scene.daemon.containers(), scene.daemon.volumes()), (vec!["web".to_owned()], volumes));
    assert_eq!(scene.restarts("web"), "always");
}

#[test]
fn a_replacement_that_is_interrupted_puts_the_old_container_back_before_it_ends() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let (old, volumes) = (scene.id("web"), scene.daemon.volumes());
    let running = scene.replace_until_it_is_told_to_end();
    terminate(&running);
    let ended = running.wait();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert!(ended.stderr.contains("is put back first"), "{}", ended.stderr);
    assert_eq!((scene.id("web"), scene.daemon.state("web").as_str()), (old, "running"));
    assert_eq!((scene.daemon.containers(), scene.daemon.volumes()), (vec!["web".to_owned()], volumes));
    assert_eq!(scene.daemon.images(), ["busybox:test"]);
}

#[test]
fn a_restore_that_is_told_twice_to_end_leaves_the_rest_to_the_next_command() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let old = scene.id("web");
    let mut running = scene.replace_until_it_is_told_to_end();
    // Who forwards a signal may send it twice.
    terminate(&running);
    terminate(&running);
    running.await_stderr("is put back first");
    terminate(&running);
    let ended = running.wait();
    assert_eq!(scene.daemon.state("web"), "running", "its time to end is not up");
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert!(ended.stderr.contains("pstore container"), "{}", ended.stderr);
    scene.host.succeed(["doctor"]);
    assert_eq!((scene.id("web"), scene.daemon.state("web").as_str()), (old, "running"));
    assert_eq!(scene.daemon.containers(), ["web"]);
}

#[test]
fn a_container_that_somebody_lets_go_on_while_it_is_copied_is_not_stored() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.fill(800);
    let snapshot = ["container", "snapshot", "web", "acme/web"];
    let running = scene.host.start(snapshot);
    scene.await_pause("web");
    scene.daemon.docker(&["unpause", "web"]);
    let ended = running.wait();
    assert_eq!(ended.code, Some(32), "{ended:#?}");
    assert_says(&ended.document["error"], "somebody has let the container web go on while it was copied");
    assert_eq!(scene.daemon.state("web"), "running");
    assert_eq!(
        (scene.daemon.containers(), scene.daemon.images()),
        (vec!["web".into()], vec!["busybox:test".into()])
    );
    let taken = scene.host.succeed(snapshot);
    // One that was found paused is left so, and must stay so, too.
    scene.daemon.docker(&["pause", "web"]);
    let again = scene.host.succeed(snapshot);
    assert_eq!(scene.daemon.state("web"), "paused");
    assert_ne!(again["record"], taken["record"]);
}

#[test]
fn a_container_that_somebody_renames_meanwhile_is_not_replaced() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.fill(200);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let mut running = scene.host.start(["container", "restore", "acme/web", "--replace"]);
    // It is stored once more before, and paused for that.
    scene.await_pause("web");
    while scene.daemon.state("web") == "paused" {
        assert!(running.runs(), "{}", running.said());
        thread::sleep(Duration::from_millis(5));
    }
    scene.daemon.docker(&["rename", "web", "mine"]);
    let ended = running.wait();
    assert_eq!(ended.code, Some(32), "{ended:#?}");
    assert_says(&ended.document["error"], "renamed");
    assert_eq!(
        (scene.daemon.state("mine").as_str(), scene.daemon.containers()),
        ("running", vec!["mine".to_owned()])
    );
    assert_eq!(scene.daemon.volumes(), ["data"]);
}

#[test]
fn a_container_that_was_set_aside_does_not_start_by_itself() {
    let scene = Scene::new();
    let health =
        ["--health-cmd", "test -e /data/healthy", "--health-interval", "1s", "--health-retries", "1"];
    scene.run("web", &[&health[..], &["--restart", "unless-stopped"]].concat());
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    // The one that takes its place is not healthy: it gets that back with its place.
    scene.host.fail(14, ["container", "restore", "acme/web", "--replace", "--health-wait", "3"]);
    assert_eq!(scene.restarts("web"), "unless-stopped");
    scene.daemon.sh("web", "touch /data/healthy");
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let replaced = scene.host.succeed(["container", "restore", "acme/web", "--replace"]);
    assert!(
        replaced["warnings"].to_string().contains("docker update --restart unless-stopped"),
        "{replaced:#}"
    );
    assert_eq!(scene.restarts(replaced["set_aside"].as_str().unwrap()), "no");
    assert_eq!(scene.restarts("web"), "unless-stopped");
}
