//! These tests take more snapshots of containers than are kept.

use std::fs;

use tests::binary::assert_says;

use crate::containers_snapshot::Scene;

#[test]
fn a_container_keeps_ten_snapshots_and_the_oldest_go_first() {
    let scene = Scene::new();
    scene.daemon.docker(&["create", "--name", "web", "busybox:test"]);
    let mut taken = Vec::new();
    for number in 1..=12 {
        let outcome = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
        taken.push(outcome["sha256_prefix"].as_str().unwrap().to_owned());
        let removed: Vec<String> = match number {
            11 | 12 => vec![format!("acme/web@{}", taken[number - 11])],
            _ => Vec::new(),
        };
        assert_eq!(outcome["removed"], serde_json::json!(removed), "{number}");
    }
    let listed = scene.host.succeed(["container", "list", "acme/web"]);
    let left: Vec<&str> = listed["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["sha256_prefix"].as_str().unwrap())
        .collect();
    assert_eq!(left, taken[2..].iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(listed["snapshots"][9]["latest"], true);
    let stats = scene.host.succeed(["container", "stats", "acme"]);
    assert_eq!((&stats["snapshots"], &stats["limits"]["max_count"]), (&10.into(), &10.into()));
    // The oldest is not removed for the snapshot that is taken before it is restored.
    let oldest = format!("acme/web@{}", taken[2]);
    scene.host.succeed(["container", "restore", &oldest, "--replace"]);
    let listed = scene.host.succeed(["container", "list", "acme/web"]);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 11);
    assert_eq!(listed["snapshots"][0]["sha256_prefix"], *taken[2]);
    // What goes with a deletion is no other's.
    scene.host.succeed(["container", "delete", &format!("acme/web@{}", taken[5])]);
    scene.host.verify("acme/web", &[]);
}

#[test]
fn all_containers_of_a_tenant_have_a_limit_together_and_each_keeps_its_current_snapshot() {
    let scene = Scene::new();
    let config = scene.folder.path().join("pstore.toml");
    fs::write(&config, "[tenants.acme]\nretention.tenant_max_count = 3\n").unwrap();
    let host = scene.host.clone().with("PSTORE_CONFIG", config.to_str().unwrap());
    for name in ["one", "two"] {
        scene.daemon.docker(&["create", "--name", name, "busybox:test"]);
    }
    host.succeed(["container", "snapshot", "one", "acme/one"]);
    for _ in 0..3 {
        host.succeed(["container", "snapshot", "two", "acme/two"]);
    }
    assert_eq!(host.succeed(["container", "stats", "acme"])["limits"]["tenant_max_count"], 3);
    let listed = host.succeed(["container", "list", "acme"]);
    let names: Vec<&str> =
        listed["snapshots"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    // The oldest of all is a current one, and stays.
    assert_eq!(names, ["acme/one", "acme/two", "acme/two"]);
}

#[test]
fn the_oldest_snapshots_go_until_the_rest_takes_no_more_than_the_limit_of_bytes() {
    let scene = Scene::new();
    let config = scene.folder.path().join("pstore.toml");
    fs::write(&config, "[tenants.acme]\nretention.tenant_max_bytes = \"8MiB\"\n").unwrap();
    let host = scene.host.clone().with("PSTORE_CONFIG", config.to_str().unwrap());
    scene.run("web", &[]);
    let (mut taken, mut removed) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        // Of each snapshot 3 MiB are its own.
        scene.daemon.sh("web", "dd if=/dev/urandom of=/data/large bs=1M count=3 2>/dev/null");
        let outcome = host.succeed(["container", "snapshot", "web", "acme/web"]);
        taken.push(outcome["sha256_prefix"].as_str().unwrap().to_owned());
        removed.extend(
            outcome["removed"].as_array().unwrap().iter().map(|gone| gone.as_str().unwrap().to_owned()),
        );
    }
    assert_eq!(removed, [format!("acme/web@{}", taken[0]), format!("acme/web@{}", taken[1])]);
    // The current one stays, even if it is too large by itself.
    fs::write(&config, "[tenants.acme]\nretention.tenant_max_bytes = 1000\n").unwrap();
    let outcome = host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert_eq!(outcome["removed"].as_array().unwrap().len(), 2, "{outcome}");
    let listed = host.succeed(["container", "list", "acme/web"]);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1);
    assert_eq!(listed["snapshots"][0]["sha256_prefix"], outcome["sha256_prefix"]);
    host.verify("acme/web", &["--read-data"]);
}

#[test]
fn a_tenant_has_no_more_names_of_containers_than_it_may_have_snapshots() {
    let scene = Scene::new();
    let config = scene.folder.path().join("pstore.toml");
    fs::write(&config, "[tenants.acme]\nretention.tenant_max_count = 2\n").unwrap();
    let host = scene.host.clone().with("PSTORE_CONFIG", config.to_str().unwrap());
    scene.daemon.docker(&["create", "--name", "web", "busybox:test"]);
    for name in ["acme/one", "acme/two"] {
        host.succeed(["container", "snapshot", "web", name]);
    }
    // Nothing would ever remove the current snapshot of a third name.
    assert_says(&host.fail(35, ["container", "snapshot", "web", "acme/three"]), "acme/three");
    host.succeed(["container", "snapshot", "web", "acme/two"]);
    // Other tenants have names of their own.
    host.succeed(["container", "snapshot", "web", "globex/three"]);
    let listed = host.succeed(["container", "list", "acme"]);
    let names: Vec<&str> =
        listed["snapshots"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(!names.contains(&"acme/three") && names.contains(&"acme/one"), "{names:?}");
}

#[test]
fn a_volume_that_is_too_large_is_not_copied_to_the_end() {
    let scene = Scene::new();
    let config = scene.folder.path().join("pstore.toml");
    fs::write(&config, "[tenants.acme]\nmax_profile_bytes = \"32MiB\"\n").unwrap();
    let host = scene.host.clone().with("PSTORE_CONFIG", config.to_str().unwrap());
    scene.run("web", &[]);
    // A hole takes no room in the volume, and all of it in what the daemon sends.
    scene.daemon.sh("web", "dd if=/dev/zero of=/data/large bs=1M count=1 seek=2047 2>/dev/null");
    let error = host.fail(31, ["container", "snapshot", "web", "acme/web"]);
    assert_says(&error, "the volume data is too large");
    assert_eq!(scene.daemon.state("web"), "running");
    assert_eq!(scene.daemon.containers(), ["web"]);
    scene.daemon.sh("web", "rm /data/large");
    host.succeed(["container", "snapshot", "web", "acme/web"]);
}
