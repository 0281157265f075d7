//! These tests run the image and `deploy/compose` on a Docker daemon: servers of one bucket, and a host agent whose
//! mounts appear in a container that has no rights.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tests::{binary, docker::Daemon, server::program};

use super::made::{package, root, run};

/// What the compose file has no need of elsewhere: the bucket, and curl for the agent, which the host lends it.
const BESIDE: &str = r#"
version: "3.8"
services:
  bucket:
    image: busybox:test
    command: ["/weed", "mini", "-ip=bucket", "-ip.bind=0.0.0.0", "-dir=/data", "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]
    environment: { AWS_ACCESS_KEY_ID: admin, AWS_SECRET_ACCESS_KEY: of-the-test, S3_BUCKET: profiles }
    volumes: ["WEED:/weed:ro"]
    tmpfs: ["/data", "/tmp"]
  agent:
    environment: { PATH: "/bin:/usr/bin" }
    volumes: ["/usr:/usr:ro", "/lib:/lib:ro", "/lib64:/lib64:ro"]
"#;

const STORE: &str = "PSTORE_STORE=s3://profiles/prod
PSTORE_S3_ENDPOINT=http://bucket:8333
AWS_ACCESS_KEY_ID=admin
AWS_SECRET_ACCESS_KEY=of-the-test
";

/// The compose file with directories of the test. A daemon that is in a container itself cannot give all rights away, so that the
/// host agent has those that it needs by name.
fn compose_file(folder: &Path) -> String {
    let text = fs::read_to_string(root().join("deploy/compose/compose.yml")).unwrap();
    let rights = r#"cap_add: [SYS_ADMIN]
    devices: ["/dev/fuse"]
    security_opt: ["apparmor:unconfined", "seccomp:unconfined"]"#;
    let changes = [
        ("/srv/mounts", folder.join("mounts").display().to_string()),
        ("source: /run/pstore", format!("source: {}", folder.join("run").display())),
        ("privileged: true", rights.to_owned()),
    ];
    changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "the compose file has no {from}");
        text.replace(from, to)
    })
}

/// A project of docker-compose.
struct Project {
    daemon: Daemon,
    folder: tempfile::TempDir,
    secret: String,
}

impl Project {
    fn new() -> Self {
        let daemon = Daemon::with_networks();
        let folder = tempfile::tempdir().unwrap();
        // By the name that the compose file has.
        daemon.docker(&["load", "--quiet", "-i", package("image", folder.path()).to_str().unwrap()]);
        // As the first lines of the compose file say.
        for name in ["mounts/acme", "run"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        // As the root of a host with systemd is: what is mounted below is seen in containers.
        let mounts = folder.path().join("mounts");
        run(Command::new("mount").arg("--bind").arg(&mounts).arg(&mounts));
        run(Command::new("mount").arg("--make-rshared").arg(&mounts));
        let token = run(Command::new(binary::program())
            .args(["token", "new", "--tenant", "acme", "--role", "run", "--json"])
            .env("HOME", folder.path()));
        let token: Value = serde_json::from_slice(&token.stdout).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("compose.yml", &compose_file(folder.path()));
        write(
            "beside.yml",
            &BESIDE.replace("WEED", program("weed").canonicalize().unwrap().to_str().unwrap()),
        );
        write("store.env", STORE);
        write("tokens.toml", token["entry"].as_str().unwrap());
        let secret = token["secret"].as_str().unwrap().to_owned();
        Self { daemon, folder, secret }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("docker-compose");
        command.args(["--project-name", "fleet", "-f", "compose.yml", "-f", "beside.yml"]).args(words);
        command.current_dir(self.folder.path());
        command.env("DOCKER_HOST", self.daemon.address()).env("DOCKER_CONFIG", self.folder.path());
        command.env_remove("PSTORE_IMAGE").env("AGENT_IMAGE", "busybox:test");
        command
    }

    #[track_caller]
    fn compose(&self, words: &[&str]) -> String {
        String::from_utf8(run(&mut self.command(words)).stdout).unwrap()
    }

    /// What a shell says in the container of the agent.
    #[track_caller]
    fn agent(&self, line: &str) -> String {
        self.compose(&["run", "--rm", "-T", "agent", "sh", "-ec", line])
    }

    /// What the host agent answers to the agent, whom the kernel names.
    #[track_caller]
    fn mounts(&self, line: &str) -> Value {
        let line = format!(
            "curl -sS --unix-socket /run/pstore/pstore.sock -H 'Content-Type: application/json' {line}"
        );
        serde_json::from_str(&self.agent(&line)).unwrap()
    }

    /// The snapshots of acme/alice, as a server tells them to the agent.
    #[track_caller]
    fn list(&self, server: &str) -> Value {
        let line = format!(
            "curl -sS --retry 30 --retry-connrefused -H 'Authorization: Bearer {}' http://{server}:7070/v1/profile-snapshots/acme/alice",
            self.secret
        );
        let told: Value = serde_json::from_str(&self.agent(&line)).unwrap();
        told["snapshots"].clone()
    }

    fn mounts_folder(&self) -> PathBuf {
        self.folder.path().join("mounts")
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // Both fail only if there is nothing to end.
        let _ = self.command(&["down", "--volumes", "--timeout", "20"]).output();
        let _ = Command::new("umount").arg("--recursive").arg(self.mounts_folder()).output();
    }
}

#[test]
fn servers_of_one_bucket_and_a_host_agent_run_on_docker() {
    let project = Project::new();
    project.compose(&["up", "-d", "bucket"]);
    project.compose(&["run", "--rm", "-T", "server", "init"]);
    project.compose(&["up", "-d", "server", "mounts"]);

    let body = json!({ "tenant_id": "acme", "profile_id": "alice", "chrome_major_version": 131 });
    let made = project.mounts(&format!("-d '{body}' --retry 30 --retry-all-errors http://node/v1/mounts"));
    let (id, path) = (made["mount_id"].as_str().unwrap(), made["mountpoint"].as_str().unwrap());
    // User 10001, without any capability, in a container of its own.
    project.agent(&format!("id -u; echo logged in > {path}/Preferences"));
    assert_eq!(project.agent(&format!("cat {path}/Preferences")), "logged in\n");
    let ended = project.mounts(&format!("-X DELETE 'http://node/v1/mounts/{id}?changes=commit'"));
    let stored = &ended["committed"]["active_sha256_prefix"];
    assert!(stored.is_string(), "{ended:#}");

    let servers = ["fleet_server_1", "fleet_server_2"];
    for server in servers {
        let told = project.list(server);
        assert_eq!(
            (told.as_array().unwrap().len(), &told[0]["sha256_prefix"]),
            (1, stored),
            "{server}: {told:#}"
        );
    }
    // One is enough.
    project.daemon.docker(&["kill", servers[0]]);
    assert_eq!(project.list(servers[1])[0]["sha256_prefix"], *stored);
    // They write nowhere but to their cache, and are no root.
    assert_eq!(
        project.daemon.docker(&[
            "inspect",
            "-f",
            "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}",
            servers[1]
        ]),
        "65532:65532 true"
    );
}
