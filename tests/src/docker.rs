//! `Daemon` is a Docker daemon that is a test's own, as scripts/start-docker runs it.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::binary::Host;

/// A daemon, which ends with it.
#[derive(Debug)]
pub struct Daemon {
    /// Short: sockets are below it.
    folder: tempfile::TempDir,
    /// As scripts/start-docker takes it.
    network: &'static str,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn tools() -> PathBuf {
    env::var_os("PSTORE_TEST_TOOLS").map_or_else(|| workspace().join("target/test-tools"), PathBuf::from)
}

impl Daemon {
    /// Starts one, with the image busybox:test. Fails loudly where no daemon can run.
    pub fn start() -> Self {
        Self::start_with("none")
    }

    /// One whose containers can have networks among themselves.
    pub fn with_networks() -> Self {
        Self::start_with("bridge")
    }

    fn start_with(network: &'static str) -> Self {
        let folder = tempfile::Builder::new().prefix("dk").tempdir_in("/tmp").unwrap();
        let daemon = Self { folder, network };
        daemon.script(&[]);
        daemon
    }

    fn script(&self, more: &[&str]) {
        let ended = Command::new(workspace().join("scripts/start-docker"))
            .arg(self.folder.path())
            .args(more)
            .env("PSTORE_TEST_TOOLS", tools())
            .env("DOCKER_NETWORK", self.network)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(ended.status.success(), "start-docker: {}", String::from_utf8_lossy(&ended.stderr));
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("unix://{}/docker.sock", self.folder.path().display())
    }

    /// The same daemon by another address.
    pub fn second_address(&self) -> String {
        let link = self.folder.path().join("second.sock");
        if !link.is_symlink() {
            std::os::unix::fs::symlink("docker.sock", &link).unwrap();
        }
        format!("unix://{}", link.display())
    }

    /// A host whose commands mean this daemon.
    pub fn of(&self, host: &Host) -> Host {
        host.clone().with("DOCKER_HOST", &self.address())
    }

    /// Runs `docker` with these arguments, which must succeed; returns its output.
    #[track_caller]
    pub fn docker(&self, arguments: &[&str]) -> String {
        let (ok, text) = self.try_docker(arguments);
        assert!(ok, "docker {arguments:?}: {text}");
        text
    }

    /// Starts a PostgreSQL in a container of this name, and waits until it answers.
    pub fn postgres(&self, name: &str) {
        let (_, found) = self.try_docker(&["images", "--quiet", "postgres:test"]);
        if found.is_empty() {
            let image = Command::new(workspace().join("scripts/postgres-image"))
                .arg(tools().join("docker/bin/busybox"))
                .stdout(Stdio::piped())
                .spawn();
            let mut image = image.unwrap();
            let loaded = self.command(&["load"]).stdin(image.stdout.take().unwrap()).status().unwrap();
            assert!(loaded.success() && image.wait().unwrap().success());
        }
        self.docker(&["run", "--detach", "--name", name, "postgres:test"]);
        let began = Instant::now();
        while !self.try_docker(&["exec", name, "psql", "-XAtqU", "postgres", "-c", "SELECT 1"]).0 {
            assert!(began.elapsed() < Duration::from_secs(120), "{}", self.docker(&["logs", name]));
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a statement in such a container; what it answers.
    #[track_caller]
    pub fn sql(&self, container: &str, database: &str, sql: &str) -> String {
        self.docker(&[
            "exec",
            container,
            "psql",
            "-XAtqU",
            "postgres",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            database,
            "-c",
            sql,
        ])
    }

    /// `docker` with these arguments, and this daemon.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(tools().join("docker/usr/bin/docker"));
        command.args(arguments).env("DOCKER_HOST", self.address()).env("DOCKER_CONFIG", self.folder.path());
        command
    }

    /// Whether `docker` succeeds, and its output.
    pub fn try_docker(&self, arguments: &[&str]) -> (bool, String) {
        let ended = self.command(arguments).output().unwrap();
        let said = [ended.stdout, if ended.status.success() { Vec::new() } else { ended.stderr }].concat();
        (ended.status.success(), String::from_utf8_lossy(&said).trim_end().to_owned())
    }

    /// Runs a shell in a container; returns its output.
    #[track_caller]
    pub fn sh(&self, container: &str, script: &str) -> String {
        self.docker(&["exec", container, "sh", "-c", script])
    }

    /// The state of a container: `running`, `paused`, `exited` and so on.
    #[track_caller]
    pub fn state(&self, container: &str) -> String {
        self.docker(&["inspect", "--format", "{{.State.Status}}", container])
    }

    /// The names of all containers, in order.
    pub fn containers(&self) -> Vec<String> {
        sorted(&self.docker(&["ps", "--all", "--format", "{{.Names}}"]))
    }

    /// All images, by names and tags, in order.
    pub fn images(&self) -> Vec<String> {
        sorted(&self.docker(&["images", "--all", "--format", "{{.Repository}}:{{.Tag}}"]))
    }

    /// The names of all volumes, in order.
    pub fn volumes(&self) -> Vec<String> {
        sorted(&self.docker(&["volume", "ls", "--quiet"]))
    }
}

fn sorted(lines: &str) -> Vec<String> {
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.script(&["stop"]);
    }
}
