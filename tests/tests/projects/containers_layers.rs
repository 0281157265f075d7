//! These tests look at how the layers of a container are stored: read from the daemon's folder, or taken over from the snapshot
//! before.

use std::fs;

use tests::docker::Daemon;

use crate::containers_snapshot::Scene;

/// What there is below the root, with owners, modes, times and content.
const TELL: &str = "find /app /kept -xdev | sort | \
                    while read -r path; do stat -c '%n %F %a %u:%g %Y %t,%T' \"$path\"; \
                    [ -L \"$path\" ] && readlink \"$path\"; done; find /app -xdev -type f | sort | tr '\\n' '\\0' | xargs -0 md5sum";

/// All that a container can do to the layers below.
const CHANGE: &str = "rm /app/gone; rm -r /app/folder; mkdir /app/folder; echo new > /app/folder/new; \
                      chmod 4711 /app/program; echo more >> /app/grown; ln /app/grown /app/also; ln -s /nowhere /app/link; \
                      mknod /app/device c 1 3; mkfifo /app/pipe; touch -d '2001-02-03 04:05:06' /app/old; chown 12:34 /app/old; \
                      : > '/app/odd name'; mkdir /app/empty; echo kept > /kept; echo gone > /tmp/gone";

/// A container of an image with a layer of its own, with large content below and changes above.
fn changed(scene: &Scene) {
    let make = "mkdir -p /app/folder; echo a > /app/gone; echo a > /app/folder/hidden; echo a > /app/program; echo a > /app/old; \
                echo a > /app/grown; dd if=/dev/urandom of=/app/large bs=1M count=12 2>/dev/null";
    scene.daemon.docker(&["run", "--name", "maker", "busybox:test", "sh", "-c", make]);
    scene.daemon.docker(&["commit", "maker", "app:test"]);
    scene.daemon.docker(&["rm", "maker"]);
    let wait = ["sh", "-c", "while true; do sleep 1; done"];
    scene.daemon.docker(&[&["run", "--detach", "--name", "web", "app:test"][..], &wait[..]].concat());
    scene.daemon.sh("web", CHANGE);
}

#[test]
fn changes_of_every_kind_are_restored_on_another_daemon_though_most_layers_were_taken_over() {
    let scene = Scene::new();
    changed(&scene);
    let told = scene.daemon.sh("web", TELL);
    let images = scene.daemon.images();
    let first = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert_eq!(first["layers"], 3);
    let second = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    // Nothing of the layers below was read, and nothing of them was stored.
    assert!(second["new_bytes"].as_u64().unwrap() < 100_000, "{second}");
    assert!(second["uncompressed_size_bytes"].as_u64().unwrap() > 12_000_000, "{second}");
    assert_eq!(scene.daemon.images(), images);
    scene.host.verify("acme/web", &["--read-data"]);
    // The second stands by itself.
    let sha = first["sha256_prefix"].as_str().unwrap();
    scene.host.succeed(["container", "delete", &format!("acme/web@{sha}")]);
    for _ in 0..2 {
        scene.host.succeed(["gc", "acme", "--grace", "0"]);
    }
    scene.host.verify("acme/web", &["--read-data"]);
    let other = Daemon::start();
    other.of(&scene.host).succeed(["container", "restore", "acme/web", "--name", "web"]);
    assert_eq!(other.sh("web", TELL), told);
    assert_eq!(other.sh("web", "ls /tmp; ls /app/folder"), "new");
}

#[test]
fn layers_that_the_snapshot_before_has_lost_are_read_again() {
    let scene = Scene::new();
    changed(&scene);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    // The content of the largest layer is gone, and a check has seen that.
    let mut packs: Vec<_> = files(&scene.folder.path().join("store"));
    packs.retain(|path| path.to_string_lossy().contains("/packs/"));
    packs.sort_by_key(|path| fs::metadata(path).unwrap().len());
    fs::remove_file(packs.last().unwrap()).unwrap();
    let checked = scene.host.run(["verify", "acme/web", "--read-data", "--repair"]);
    assert_ne!(checked.code, Some(0), "{checked:#?}");
    let again = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert!(again["new_bytes"].as_u64().unwrap() > 12_000_000, "{again}");
    let told = scene.daemon.sh("web", TELL);
    scene.host.succeed(["container", "restore", "acme/web", "--name", "again"]);
    assert_eq!(scene.daemon.sh("again", TELL), told);
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
