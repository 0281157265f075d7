//! These tests save projects whose services are containers, and whose volumes are Docker's.

use std::{
    fs, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::process::{Pid, Signal, kill_process};
use tests::{binary::assert_says, docker::Daemon};

use crate::shop::{Shop, text};

/// A project with a container of its own daemon.
struct Scene {
    daemon: Daemon,
    shop: Shop,
}

/// A volume of Docker's that the service writes to.
const TABLES: &str = r#"
[volumes.data]
consistency = "generic"
docker_volume = "data"
services = ["web"]

[services.web]
container = "web"
"#;

const STOP: &str = "during_save = \"stop\"\nstop_limit = \"2s\"\n";

impl Scene {
    fn new(more: &str) -> Self {
        let daemon = Daemon::start();
        let shop = Shop::new(&format!("docker_host = \"{}\"\n{TABLES}{more}", daemon.address()));
        Self { daemon, shop }
    }

    /// Starts the service: it counts up in two files, one after the other.
    fn run(&self, more: &[&str]) {
        let head = ["run", "--detach", "--name", "web", "--volume", "data:/data"];
        let count = "n=0; while true; do n=$((n+1)); echo $n > /data/new; mv /data/new /data/first; echo $n > /data/new; mv /data/new /data/second; done";
        self.daemon.docker(&[&head[..], more, &["busybox:test", "sh", "-c", count]].concat());
    }

    fn await_state(&self, state: &str) {
        let began = Instant::now();
        while self.daemon.state("web") != state {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "web is {} and not {state}",
                self.daemon.state("web")
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A scene in which a save has `web` at rest for seconds: it waits for the end of another service, which comes late.
    fn slow() -> Self {
        let scene = Self::new("");
        let tables = TABLES.replace("[\"web\"]", "[\"web\", \"worker\"]");
        let worker =
            "[services.worker]\ncontainer = \"worker\"\nduring_save = \"stop\"\nstop_limit = \"6s\"\n";
        scene.shop.say(&format!("docker_host = \"{}\"\n{tables}{worker}", scene.daemon.address()));
        // The first process of a container ends at no signal that it does not expect.
        let waits = ["busybox:test", "sh", "-c", "while true; do sleep 1; done"];
        let id = |name| scene.daemon.docker(&["inspect", "--format", "{{.Id}}", name]);
        loop {
            scene.run(&[]);
            scene.daemon.docker(&[&["run", "--detach", "--name", "worker"][..], &waits].concat());
            // Containers come to rest in the order of their ids.
            if id("web") < id("worker") {
                return scene;
            }
            scene.daemon.docker(&["rm", "--force", "web", "worker"]);
        }
    }

    fn states(&self) -> [String; 2] {
        ["web", "worker"].map(|name| self.daemon.state(name))
    }
}

#[test]
fn a_container_rests_while_its_volume_is_copied_and_is_then_as_it_was_found() {
    for more in ["", STOP] {
        let scene = Scene::new(more);
        scene.run(&[]);
        scene
            .daemon
            .sh("web", "mkdir -p /data/folder; ln -s /etc/passwd /data/link; echo hello > /data/folder/file");
        let started = || scene.daemon.docker(&["inspect", "--format", "{{.State.StartedAt}}", "web"]);
        let before = started();
        let saved = scene.shop.save(&[]);
        assert!(saved["rested_ms"].as_u64().unwrap() > 0, "{saved:#}");
        assert_eq!(scene.daemon.state("web"), "running");
        assert_eq!(started() == before, more.is_empty(), "it is started again only where the file says stop");
        let out = scene.shop.restore_to("", "out").join("volumes/data");
        assert_eq!(text(out.join("folder/file")), "hello\n");
        assert_eq!(fs::read_link(out.join("link")).unwrap().to_str().unwrap(), "/etc/passwd");
        // Of one moment: nobody wrote between the two.
        let number = |name: &str| text(out.join(name)).trim().parse::<i64>().unwrap_or(0);
        assert!((0..=1).contains(&(number("first") - number("second"))), "{}", text(out.join("first")));

        scene.daemon.docker(&["pause", "web"]);
        scene.shop.save(&[]);
        assert_eq!(scene.daemon.state("web"), "paused", "one that was paused stays so");
        scene.daemon.docker(&["unpause", "web"]);
        scene.daemon.docker(&["kill", "web"]);
        scene.shop.save(&[]);
        assert_eq!(scene.daemon.state("web"), "exited", "one that was stopped stays so");
        scene.shop.assert_tidy();
    }
}

#[test]
fn a_save_that_is_killed_after_any_step_leaves_the_container_running() {
    for more in ["", STOP] {
        let scene = Scene::new(more);
        scene.run(&[]);
        scene.shop.save(&[]);
        for step in 1..=10 {
            let mut save = scene.shop.start_save();
            save.await_stderr(&format!("step {step} of 10"));
            save.kill();
            let states = scene.shop.states().len();
            assert_eq!(scene.daemon.state("web"), "running", "killed in step {step}");
            assert!(states > 0);
            scene.shop.assert_tidy();
        }
    }
}

#[test]
fn a_container_that_a_killed_save_had_at_rest_goes_on_at_any_command_about_projects_or_containers() {
    let scene = Scene::slow();
    let host = scene.daemon.of(&scene.shop.host);
    let words = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let commands = [
        scene.shop.words("list", "", &[]),
        words("container snapshot web acme/web"),
        words("container list acme"),
        words("reap"),
        words("doctor"),
    ];
    for words in commands {
        let save = scene.shop.start_save();
        scene.await_state("paused");
        save.kill();
        assert_eq!(scene.daemon.state("web"), "paused");
        host.succeed(words);
        assert_eq!(scene.states(), ["running", "running"]);
    }
    // One that somebody had paused before stays so.
    scene.daemon.docker(&["pause", "web"]);
    let mut save = scene.shop.start_save();
    save.await_stderr("step 5 of 10");
    save.kill();
    scene.shop.states();
    assert_eq!(scene.states(), ["paused", "running"]);
}

#[test]
fn a_save_that_is_interrupted_starts_a_service_again_that_takes_its_time_to_end() {
    let scene = Scene::slow();
    let save = scene.shop.start_save();
    scene.await_state("paused");
    let pid = Pid::from_raw(i32::try_from(save.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = save.wait();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_eq!(scene.states(), ["running", "running"]);
    // Nor does the daemon stop it later.
    thread::sleep(Duration::from_secs(7));
    assert_eq!(scene.states(), ["running", "running"]);
    scene.shop.assert_tidy();
}

#[test]
fn two_commands_do_not_take_each_others_rest_for_the_state_of_the_container() {
    let scene = Scene::slow();
    let host = scene.daemon.of(&scene.shop.host);
    let save = scene.shop.start_save();
    scene.await_state("paused");
    let process = Pid::from_raw(i32::try_from(save.id()).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    // It would find the container paused, and would be stored while that goes on.
    let error = host.fail(24, ["container", "snapshot", "web", "acme/web"]);
    assert_says(&error, "another command of pstore has the container web at rest");
    let waiting = host.start(["container", "snapshot", "web", "acme/web", "--wait", "120"]);
    thread::sleep(Duration::from_millis(200));
    kill_process(process, Signal::CONT).unwrap();
    assert_eq!(save.wait().code, Some(0));
    assert_eq!(waiting.wait().code, Some(0));
    assert_eq!(scene.states(), ["running", "running"]);
    assert_eq!(host.succeed(["container", "show", "acme/web"])["container"]["status"], "running");
}

#[test]
fn a_rest_that_a_killed_command_has_left_is_not_taken_for_the_state_of_the_container() {
    let scene = Scene::slow();
    let host = scene.daemon.of(&scene.shop.host);
    let save = scene.shop.start_save();
    scene.await_state("paused");
    let process = Pid::from_raw(i32::try_from(save.id()).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let waiting = host.start(["container", "snapshot", "web", "acme/web", "--wait", "120"]);
    thread::sleep(Duration::from_secs(2));
    save.kill();
    assert_eq!(waiting.wait().code, Some(0));
    assert_eq!(host.succeed(["container", "show", "acme/web"])["container"]["status"], "running");
    assert_eq!(scene.states(), ["running", "running"]);
}

#[test]
fn a_daemon_that_is_reached_by_two_addresses_is_one() {
    let scene = Scene::slow();
    let host = scene.shop.host.clone().with("DOCKER_HOST", &scene.daemon.second_address());
    let save = scene.shop.start_save();
    scene.await_state("paused");
    let process = Pid::from_raw(i32::try_from(save.id()).unwrap()).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    let error = host.fail(24, ["container", "snapshot", "web", "acme/web"]);
    assert_says(&error, "another command of pstore has the container web at rest");
    // What it has left is not taken for the state of the container either.
    save.kill();
    host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert_eq!(host.succeed(["container", "show", "acme/web"])["container"]["status"], "running");
    scene.shop.states();
    assert_eq!(scene.states(), ["running", "running"]);
}

#[test]
fn containers_come_to_rest_in_one_order_whatever_projects_call_them() {
    let daemon = Daemon::start();
    let host = format!("docker_host = \"{}\"\n", daemon.address());
    for name in ["one", "two"] {
        daemon.docker(&["run", "--detach", "--name", name, "busybox:test", "sleep", "600"]);
    }
    let tables = |services: [(&str, &str); 2]| {
        let tables =
            services.map(|(name, container)| format!("[services.{name}]\ncontainer = \"{container}\"\n"));
        let volume = "[volumes.uploads]\nconsistency = \"generic\"\nservices = [\"a\", \"b\"]\n";
        format!("{host}{volume}{}", tables.concat())
    };
    let shop = Shop::new("");
    // Else two projects, each with the first of its containers at rest, would wait for each other.
    for services in [[("a", "one"), ("b", "two")], [("a", "two"), ("b", "one")]] {
        shop.say(&tables(services));
        shop.save(&[]);
    }
    let form = ["--filter", "event=pause", "--format", "{{.Actor.Attributes.name}}"];
    // Docker tells of whole seconds that are over.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let until = (now + 2).to_string();
    let events = daemon.docker(&[&["events", "--since", "10m", "--until", &until], &form[..]].concat());
    let paused: Vec<&str> = events.lines().collect();
    assert_eq!(paused.len(), 4, "{events}");
    assert_eq!(paused[..2], paused[2..]);
    // One container that is two services rests once.
    let id = daemon.docker(&["inspect", "--format", "{{.Id}}", "one"]);
    shop.say(&tables([("a", "one"), ("b", &id)]));
    shop.save(&[]);
    assert_eq!((daemon.state("one").as_str(), daemon.state("two").as_str()), ("running", "running"));
    shop.assert_tidy();
}

#[test]
fn a_container_runs_after_each_of_many_saves_without_a_pause_between_them() {
    let scene = Scene::new("");
    scene.run(&[]);
    let host = scene.daemon.of(&scene.shop.host);
    for round in 0..15 {
        scene.shop.save(&[]);
        host.succeed(["container", "snapshot", "web", "acme/web"]);
        assert_eq!(
            host.succeed(["container", "show", "acme/web"])["container"]["status"],
            "running",
            "{round}"
        );
    }
    // Not only said to run: it counts on.
    let count = || scene.daemon.sh("web", "cat /data/first");
    let before = count();
    let began = Instant::now();
    while count() == before {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not run");
    }
}

#[test]
fn a_state_goes_back_into_a_volume_of_docker_below_a_container_that_has_ended() {
    let scene = Scene::new("");
    scene.run(&[]);
    scene.daemon.sh("web", "echo first > /data/file; chown 12:34 /data/file");
    scene.shop.save(&[]);
    scene.daemon.sh("web", "echo later > /data/file");
    assert_says(&scene.shop.host.fail(32, scene.shop.words("restore", "", &[])), "service \"web\" runs");
    scene.daemon.docker(&["kill", "web"]);
    scene.shop.host.succeed(scene.shop.words("restore", "", &[]));
    scene.daemon.docker(&["start", "web"]);
    assert_eq!(scene.daemon.sh("web", "cat /data/file; stat -c %u:%g /data/file"), "first\n12:34");
    scene.shop.assert_tidy();
}

#[test]
fn what_a_hostile_volume_holds_does_not_lead_a_save_or_a_restore_out_of_it() {
    let scene = Scene::new("");
    scene.run(&[]);
    let outside = scene.shop.path("outside");
    fs::write(&outside, "mine").unwrap();
    let script = format!(
        "ln -s {} /data/link; ln -s / /data/root; ln -s ../../../../../../../.. /data/up; mkfifo /data/pipe; \
         mknod /data/device c 1 3; mknod /data/disk b 8 0; cp /bin/busybox /data/suid; chmod 6755 /data/suid; \
         mkdir /data/...; echo x > '/data/.../a b'",
        outside.display()
    );
    scene.daemon.sh("web", &script);
    scene.shop.save(&[]);
    let out = scene.shop.restore_to("", "out").join("volumes/data");
    assert_eq!(fs::read_link(out.join("link")).unwrap(), outside);
    for absent in ["pipe", "device", "disk"] {
        assert!(fs::symlink_metadata(out.join(absent)).is_err(), "{absent}");
    }
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(out.join("suid")).unwrap().mode() & 0o7777, 0o755, "nobody is lent rights");
    assert_eq!(text(out.join(".../a b")), "x\n");
    // In place, too: links are put back, and nothing is written through them.
    scene.daemon.sh("web", "rm /data/link; echo mine > /data/file");
    scene.daemon.docker(&["kill", "web"]);
    scene.shop.host.succeed(scene.shop.words("restore", "", &[]));
    scene.daemon.docker(&["start", "web"]);
    assert_eq!(
        scene.daemon.sh("web", "readlink /data/up; ls /data/file 2>&1 | wc -l"),
        "../../../../../../../..\n1"
    );
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
}

#[test]
fn a_mistake_about_a_container_is_told_and_leaves_it_alone() {
    let scene = Scene::new("");
    let error = scene.shop.host.fail(3, scene.shop.words("save", "", &[]));
    assert_says(&error, "there is no volume \"data\"");
    scene.run(&[]);
    scene.daemon.docker(&["rename", "web", "other"]);
    let error = scene.shop.host.fail(3, scene.shop.words("save", "", &[]));
    assert_says(&error, "service \"web\" cannot be brought to rest: there is no container \"web\"");
    scene.daemon.docker(&["rm", "--force", "other"]);
    // Its daemon would remove it with all that it has.
    scene.shop.say(&format!("docker_host = \"{}\"\n{TABLES}{STOP}", scene.daemon.address()));
    scene.run(&["--rm"]);
    assert_says(&scene.shop.host.fail(2, scene.shop.words("save", "", &[])), "was started with --rm");
    assert_eq!(scene.daemon.state("web"), "running");
    // A daemon of another address than the file's.
    let words = scene.shop.words("save", "", &["--docker-host", "unix:///nowhere/docker.sock"]);
    assert_says(&scene.shop.host.fail(14, words), "cannot reach Docker at unix:///nowhere/docker.sock");
    scene.shop.assert_tidy();
}
