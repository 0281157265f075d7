//! These tests make containers of snapshots, on the daemon they came from and on others.

use std::{
    thread,
    time::{Duration, Instant},
};

use tests::{binary::assert_says, docker::Daemon};

use crate::containers_snapshot::Scene;

/// What there is in a volume, with owners, modes and content.
const TELL: &str = "cd /data && find . | sort | xargs ls -ldn | sed 's/  */ /g' | cut -d' ' -f1,3,4,9- && \
                    find . -type f | sort | xargs cat | md5sum";

#[test]
fn a_container_is_restored_beside_the_old_one_with_all_that_it_had() {
    let scene = Scene::new();
    scene.run("web", &["--env", "COLOUR=red", "--label", "team=a", "--workdir", "/data"]);
    scene.daemon.sh(
        "web",
        "echo hello > /data/file; mkdir /data/folder; ln -s ../file /data/folder/link; ln /data/file /data/hard; \
         chown 12:34 /data/folder; chmod 640 /data/file; : > /data/empty; echo kept > /kept; echo gone > /tmp/gone",
    );
    let told = scene.daemon.sh("web", TELL);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    scene.daemon.sh("web", "echo later > /data/file; echo later > /kept");
    let planned = scene.host.succeed(["container", "restore", "acme/web", "--dry-run", "--name", "again"]);
    assert_eq!((&planned["outcome"], &planned["container"]), (&"planned".into(), &"again".into()));
    assert_eq!(scene.daemon.containers(), ["web"]);

    let made = scene.host.succeed(["container", "restore", "acme/web", "--name", "again"]);
    assert_eq!((&made["outcome"], &made["started"]), (&"created".into(), &true.into()));
    assert_eq!(made["volumes"][0]["verified"], true);
    assert_eq!(scene.daemon.sh("again", TELL), told);
    assert_eq!(scene.daemon.sh("again", "cat /kept; ls /tmp; echo $COLOUR; pwd"), "kept\nred\n/data");
    assert_eq!(scene.daemon.docker(&["inspect", "--format", "{{.Config.Labels.team}}", "again"]), "a");
    // The old one has what it had since, and a volume of its own.
    assert_eq!(scene.daemon.sh("web", "cat /data/file /kept"), "later\nlater");
    // A name that nobody has given is not taken twice.
    let other = scene.host.succeed(["container", "restore", "acme/web", "--no-start"]);
    let name = other["container"].as_str().unwrap();
    assert!(name.starts_with("web-2"), "{name}");
    assert_eq!(scene.daemon.state(name), "created");
    assert_says(&scene.host.fail(5, ["container", "restore", "acme/web", "--name", "again"]), "already");
    // No helper is left.
    assert_eq!(scene.daemon.containers().len(), 3);
}

#[test]
fn a_container_is_restored_on_another_daemon() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.daemon.sh("web", "echo hello > /data/file; echo kept > /kept");
    let told = scene.daemon.sh("web", TELL);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let other = Daemon::start();
    // It does not even have the image.
    other.docker(&["rmi", "busybox:test"]);
    let made = other.of(&scene.host).succeed(["container", "restore", "acme/web", "--name", "web"]);
    assert_eq!(made["volumes"][0]["volume"], "data");
    assert_eq!(other.sh("web", TELL), told);
    assert_eq!(other.sh("web", "cat /kept"), "kept");
    assert_eq!(other.containers(), ["web"]);
}

#[test]
fn a_replaced_container_is_stored_first_and_stands_aside() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.daemon.sh("web", "echo first > /data/file");
    let first = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    scene.daemon.sh("web", "echo second > /data/file");
    let replaced = scene.host.succeed(["container", "restore", "acme/web", "--replace"]);
    assert_eq!((&replaced["outcome"], &replaced["container"]), (&"replaced".into(), &"web".into()));
    assert_eq!(replaced["sha256_prefix"], first["sha256_prefix"]);
    assert_eq!(scene.daemon.sh("web", "cat /data/file"), "first");
    let aside = replaced["set_aside"].as_str().unwrap();
    assert_eq!(scene.daemon.state(aside), "exited");
    // What was replaced is the current snapshot, taken before.
    let before = replaced["before"].as_str().unwrap();
    let back = scene.host.succeed(["container", "restore", &format!("acme/web@{before}"), "--name", "back"]);
    assert_eq!(back["volumes"][0]["verified"], true);
    assert_eq!(scene.daemon.sh("back", "cat /data/file"), "second");
}

#[test]
fn a_container_that_is_not_healthy_gives_its_place_back() {
    let scene = Scene::new();
    let check = "test -e /data/healthy";
    let health = ["--health-cmd", check, "--health-interval", "1s", "--health-retries", "1"];
    scene.run("web", &health);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    scene.daemon.sh("web", "touch /data/healthy");
    let (id, volumes) =
        (scene.daemon.docker(&["inspect", "--format", "{{.Id}}", "web"]), scene.daemon.volumes());
    // In the snapshot it is not healthy.
    let restore = ["container", "restore", "acme/web", "--replace", "--health-wait", "3"];
    let error = scene.host.fail(14, restore);
    assert_says(&error, "web is as it was before");
    assert_eq!(scene.daemon.docker(&["inspect", "--format", "{{.Id}}", "web"]), id);
    assert_eq!(scene.daemon.state("web"), "running");
    assert_eq!(scene.daemon.sh("web", "ls /data"), "healthy");
    assert_eq!((scene.daemon.containers(), scene.daemon.volumes()), (vec!["web".to_owned()], volumes));
}

#[test]
fn what_a_hostile_volume_holds_stays_in_the_volume() {
    let scene = Scene::new();
    let outside = scene.folder.path().join("outside");
    std::fs::write(&outside, "mine").unwrap();
    scene.run("web", &[]);
    let script = format!(
        "ln -s {} /data/link; ln -s / /data/root; ln -s ../../../../.. /data/up; mkfifo /data/pipe; \
         mknod /data/device c 1 3; cp /bin/busybox /data/suid; chmod 6755 /data/suid; mkdir /data/...; \
         echo x > '/data/.../a b'",
        outside.display()
    );
    scene.daemon.sh("web", &script);
    let taken = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert_eq!(taken["volumes"][0]["left_out"], 2);
    scene.host.succeed(["container", "restore", "acme/web", "--name", "again"]);
    // Links lead where they led, within the container; devices are not made; nobody is lent rights.
    assert_eq!(
        scene.daemon.sh("again", "readlink /data/link; readlink /data/up"),
        format!("{}\n../../../../..", outside.display())
    );
    assert_eq!(
        scene.daemon.sh("again", "ls /data; cat '/data/.../a b'; stat -c %a /data/suid"),
        "link\nroot\nsuid\nup\nx\n755"
    );
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
}

#[test]
fn a_killed_replacement_is_undone_by_the_next_command() {
    let scene = Scene::new();
    scene.run("web", &["--health-cmd", "test -e /data/healthy", "--health-interval", "1s"]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    scene.daemon.sh("web", "touch /data/healthy");
    let id = || scene.daemon.docker(&["inspect", "--format", "{{.Id}}", "web"]);
    let (old, volumes) = (id(), scene.daemon.volumes());
    let restore = ["container", "restore", "acme/web", "--replace", "--health-wait", "600"];
    let mut running = scene.host.start(restore);
    // The new one waits for its health, which will not come.
    let began = Instant::now();
    while scene.daemon.containers().len() < 2
        || !scene.daemon.try_docker(&["exec", "web", "true"]).1.is_empty()
        || id() == old
    {
        assert!(running.runs() && began.elapsed() < Duration::from_secs(120), "{}", running.said());
        thread::sleep(Duration::from_millis(50));
    }
    running.kill();
    scene.host.succeed(["container", "snapshot", "web", "acme/web", "--wait", "60"]);
    assert_eq!((id(), scene.daemon.state("web").as_str()), (old, "running"));
    assert_eq!(scene.daemon.sh("web", "ls /data"), "healthy");
    assert_eq!((scene.daemon.containers(), scene.daemon.volumes()), (vec!["web".to_owned()], volumes));
    assert_eq!(scene.daemon.images(), ["busybox:test"]);
}

#[test]
fn what_somebody_has_made_meanwhile_is_not_removed_for_what_a_killed_restore_had_made() {
    let scene = Scene::new();
    scene.run("web", &["--health-cmd", "test -e /data/healthy", "--health-interval", "1s"]);
    scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    let id = |name: &str| scene.daemon.docker(&["inspect", "--format", "{{.Id}}", name]);
    let old = id("web");
    let mut running =
        scene.host.start(["container", "restore", "acme/web", "--replace", "--health-wait", "600"]);
    let began = Instant::now();
    while scene.daemon.containers().len() < 2
        || !scene.daemon.try_docker(&["exec", "web", "true"]).1.is_empty()
        || id("web") == old
    {
        assert!(running.runs() && began.elapsed() < Duration::from_secs(120), "{}", running.said());
        thread::sleep(Duration::from_millis(50));
    }
    running.kill();
    // Somebody helps themselves.
    scene.daemon.docker(&["rm", "--force", "web"]);
    scene.daemon.docker(&["run", "--detach", "--name", "web", "busybox:test", "sleep", "600"]);
    scene.daemon.sh("web", "echo mine > /mine");
    let own = id("web");
    let ended = scene.host.run(["container", "snapshot", "web", "acme/own"]);
    assert!(ended.stderr.contains("somebody has made another web"), "{}", ended.stderr);
    assert_eq!((id("web"), scene.daemon.sh("web", "cat /mine")), (own.clone(), "mine".to_owned()));
    // Where there is room again, the old one is put back.
    scene.daemon.docker(&["rename", "web", "mine"]);
    scene.host.succeed(["container", "snapshot", "mine", "acme/own", "--wait", "60"]);
    assert_eq!((id("web"), id("mine")), (old, own));
}

#[test]
fn a_note_of_a_dead_command_names_nothing_that_others_have_made() {
    let scene = Scene::new();
    scene.run("web", &[]);
    scene.daemon.docker(&["volume", "create", "spare"]);
    // As one leaves them that dies before it has made what it was about to.
    let notes = scene.folder.path().join("home/.local/state/pstore/sessions/docker-notes");
    std::fs::create_dir_all(&notes).unwrap();
    for (number, (kind, name)) in [("container", "web"), ("volume", "spare")].into_iter().enumerate() {
        for mark in ["", r#", "mark": "7f3d""#] {
            let undo = format!(r#"{{ "{kind}": {{ "name": "{name}"{mark} }} }}"#);
            let note = format!(r#"{{ "host": "{}", "undo": {undo} }}"#, scene.daemon.address());
            std::fs::write(notes.join(format!("{number}{}.json", mark.len())), note).unwrap();
        }
    }
    scene.daemon.docker(&["create", "--name", "other", "busybox:test"]);
    scene.host.succeed(["container", "snapshot", "other"]);
    assert_eq!(scene.daemon.containers(), ["other", "web"]);
    assert_eq!(scene.daemon.volumes(), ["data", "spare"]);
}

#[test]
fn networks_ports_and_limits_are_as_they_were_where_the_daemon_has_them() {
    let scene = Scene::new();
    for network in ["inner", "outer"] {
        scene.daemon.docker(&["network", "create", network]);
    }
    let more = ["--network", "inner", "--network-alias", "shop", "--publish", "8080:80", "--memory", "64m"];
    let memory = ["--tmpfs", "/fast", "--mount", "type=tmpfs,destination=/quick,tmpfs-size=1048576"];
    scene.run("web", &[&more[..], &["--restart", "on-failure:3"], &memory].concat());
    scene.daemon.docker(&["network", "connect", "--alias", "till", "outer", "web"]);
    let taken = scene.host.succeed(["container", "snapshot", "web", "acme/web"]);
    assert!(taken["warnings"].to_string().contains("/fast"), "{taken}");
    scene.host.succeed(["container", "restore", "acme/web", "--name", "again", "--no-start"]);
    let told = |name: &str| {
        let form = "{{json .HostConfig.PortBindings}} {{.HostConfig.Memory}} {{json .HostConfig.RestartPolicy}} \
                    {{json .HostConfig.Tmpfs}} {{.HostConfig.NetworkMode}} \
                    {{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{index .Aliases 0}} {{end}}\
                    {{range .HostConfig.Mounts}}{{if eq .Type \"tmpfs\"}}{{.Target}} {{.TmpfsOptions.SizeBytes}}{{end}}{{end}}";
        scene.daemon.docker(&["inspect", "--format", form, name])
    };
    assert_eq!(told("again"), told("web"));
    assert!(told("web").contains("till") && told("web").contains("/quick 1048576"), "{}", told("web"));
    // A volume that was empty stays so, whatever the image has at its place.
    let copies =
        "{{range .HostConfig.Mounts}}{{if eq .Type \"volume\"}}{{.VolumeOptions.NoCopy}}{{end}}{{end}}";
    assert_eq!(scene.daemon.docker(&["inspect", "--format", copies, "again"]), "true");
    // The name of a network that is not there is told, and the container is made without it.
    scene.daemon.docker(&["rm", "--force", "web", "again"]);
    scene.daemon.docker(&["network", "rm", "inner", "outer"]);
    // What a restore makes is called by the second, and what the one before has made may be there still.
    let made = scene.host.succeed(["container", "restore", "acme/web", "--name", "alone"]);
    assert!(made["warnings"].to_string().contains("there is no network inner here"), "{made}");
    assert_eq!(scene.daemon.docker(&["inspect", "--format", "{{.HostConfig.NetworkMode}}", "alone"]), "none");
}
