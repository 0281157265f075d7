//! These tests store a container while it writes, and restore it at a second daemon.

use tests::docker::Daemon;

use crate::{containers_snapshot::Scene, load::rounds};

/// Counts up, first in the volume and then in the container's own file system.
const COUNT: &str = "n=0; while true; do n=$((n+1)); echo $n > /data/new; mv /data/new /data/first; \
                     echo $n > /new; mv /new /second; done";

#[test]
fn what_a_writer_has_written_is_restored_at_a_second_daemon_as_it_was_at_one_moment() {
    let (scene, other) = (Scene::new(), Daemon::start());
    let run =
        ["run", "--detach", "--name", "web", "--volume", "data:/data", "busybox:test", "sh", "-c", COUNT];
    scene.daemon.docker(&run);
    let read = |text: &str| -> (u64, u64) {
        let mut numbers = text.lines().map(|line| line.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    };
    while scene.daemon.try_docker(&["exec", "web", "cat", "/data/first", "/second"]).1.lines().count() != 2 {}
    let mut last = 0;
    for _ in 0..rounds(3) {
        let (told, _) = read(&scene.daemon.sh("web", "cat /data/first /second"));
        scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
        let (then, _) = read(&scene.daemon.sh("web", "cat /data/first /second"));
        let restored = ["container", "restore", "acme/web", "--name", "web", "--no-start"];
        let restored = other.of(&scene.host).succeed(restored);
        let volume = restored["volumes"][0]["volume"].as_str().unwrap();
        let mount = format!("{volume}:/data");
        let image = restored["image"].as_str().unwrap();
        let text = ["run", "--rm", "--volume", &mount, image, "cat", "/data/first", "/second"];
        let (first, second) = read(&other.docker(&text));
        // The volume is written to first; nothing else may lie between the two.
        assert!(first == second || first == second + 1, "{first} and {second}");
        assert!(first >= told.max(last) && first <= then, "{first} of {told} to {then}");
        last = first;
        other.docker(&["rm", "web"]);
        other.docker(&["volume", "rm", volume]);
    }
}
