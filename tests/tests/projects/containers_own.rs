//! These tests run pstore in a container of the daemon whose containers it is to store.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tests::binary::{assert_says, program};

use crate::containers_snapshot::Scene;

/// How long a command may take. One that has paused itself never ends.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts a container that waits, in which pstore can run: on the scene's host, as far as pstore can tell.
fn start(scene: &Scene, name: &str, more: &[&str]) {
    let folder = scene.folder.path().to_str().unwrap();
    let (socket, program) = (scene.daemon.address(), program());
    let socket = socket.strip_prefix("unix://").unwrap();
    let mut words: Vec<String> = ["run", "--detach", "--name", name].map(str::to_owned).into();
    words.extend(more.iter().map(|&word| word.to_owned()));
    // The image has no libraries.
    let libraries = ["/lib", "/lib64", "/usr"].into_iter().filter(|path| Path::new(path).is_dir());
    let mut volumes: Vec<String> = libraries.map(|path| format!("{path}:{path}:ro")).collect();
    volumes.extend([folder, socket].map(|path| format!("{path}:{path}")));
    volumes.push(format!("{}:/bin/pstore:ro", program.display()));
    words.extend(volumes.into_iter().flat_map(|volume| ["--volume".to_owned(), volume]));
    let mut prepared = Command::new("true");
    scene.host.prepare(&mut prepared);
    let variables = prepared.get_envs().filter_map(|(name, value)| Some((name.to_str()?, value?.to_str()?)));
    words.extend(variables.flat_map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]));
    words.extend(["busybox:test", "sh", "-c", "while true; do sleep 1; done"].map(str::to_owned));
    scene.daemon.docker(&words.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Runs a command of pstore in such a container; its code, and the document that it prints.
#[track_caller]
fn run_in(scene: &Scene, container: &str, words: &[&str]) -> (Option<i32>, Value) {
    let words = [&["exec", container, "pstore", "--json"][..], words].concat();
    let mut command = scene.daemon.command(&words);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while running.try_wait().unwrap().is_none() {
        if began.elapsed() > LIMIT {
            running.kill().unwrap();
            running.wait().unwrap();
            panic!("{words:?} does not end, and {container} is {}", scene.daemon.state(container));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let ended = running.wait_with_output().unwrap();
    let document = serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| {
        panic!("{words:?}: no JSON on stdout: {error}\n{}", String::from_utf8_lossy(&ended.stderr))
    });
    (ended.status.code(), document)
}

/// How many notes say what is to be undone.
fn notes(scene: &Scene) -> usize {
    let notes = scene.folder.path().join("home/.local/state/pstore/sessions/docker-notes");
    fs::read_dir(notes).map_or(0, Iterator::count)
}

#[test]
fn pstore_in_a_container_stores_others_and_refuses_to_pause_its_own() {
    let scene = Scene::new();
    scene.run("web", &[]);
    // It sees the groups of the daemon, or none but its own.
    for groups in ["host", "private"] {
        start(&scene, "tool", &["--cgroupns", groups]);
        let id = scene.daemon.docker(&["inspect", "--format", "{{.Id}}", "tool"]);
        for name in ["tool", &id] {
            let snapshot = ["container", "snapshot", name, "acme/tool"];
            let (code, document) = run_in(&scene, "tool", &snapshot);
            assert_eq!(code, Some(2), "{document:#}");
            assert_says(&document["error"], "the container tool is the one in which pstore itself runs");
            assert_eq!(scene.daemon.state("tool"), "running");
            assert_eq!(notes(&scene), 0);
        }
        let (code, document) = run_in(&scene, "tool", &["container", "snapshot", "web", "acme/web"]);
        assert_eq!((code, &document["outcome"]), (Some(0), &"stored".into()), "{document:#}");
        // Somebody outside of it may store it.
        let outside = ["container", "snapshot", "tool", "acme/tool", "--wait", "60"];
        scene.host.succeed(outside);
        assert_eq!(scene.daemon.state("tool"), "running");
        scene.daemon.docker(&["rm", "--force", "tool"]);
    }
    assert_eq!((scene.daemon.containers(), notes(&scene)), (vec!["web".to_owned()], 0));
    assert_eq!(scene.daemon.images(), ["busybox:test"]);
}
