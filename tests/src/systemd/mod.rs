//! `Machine` boots systemd beside this host's own, so that units run as they do on a host.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use crate::{process::Process, unique_name};

const BOOT: &str = include_str!("boot.sh");
/// How long it may take to boot.
const PATIENCE: Duration = Duration::from_secs(60);

/// A systemd with processes, a network and a root of its own, which end with it. Its files are those of this host, and stay as they are there.
#[derive(Debug)]
pub struct Machine {
    process: Process,
    /// Below it are the groups of its processes.
    group: PathBuf,
    _folder: tempfile::TempDir,
}

impl Machine {
    /// Boots one that finds these files in `/srv`. Fails loudly where it cannot.
    #[track_caller]
    pub fn boot(files: &[&Path]) -> Self {
        let groups = Path::new("/sys/fs/cgroup");
        let is_unified = groups.join("cgroup.controllers").exists();
        let group = groups
            .join(if is_unified { "" } else { "systemd" })
            .join(format!("pstore-machine-{}", unique_name()));
        fs::create_dir(&group).unwrap();
        let folder = tempfile::tempdir().unwrap();
        // The group is the root of those that it sees.
        let line = r#"echo $$ >"$1/cgroup.procs"; shift; exec unshare --mount --pid --fork --kill-child --net --uts --ipc --cgroup sh -c "$@""#;
        let process = Process::spawn_with(Path::new("sh"), |command| {
            command.args(["-c", line, "sh"]).arg(&group).args([BOOT, "boot.sh"]);
            command.arg(folder.path()).args(files);
        });
        let machine = Self { process, group, _folder: folder };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let told = machine.init().map(|_| machine.try_sh("systemctl is-system-running"));
            match told {
                Some(told) if told.stdout.starts_with(b"running") => return machine,
                told => assert!(
                    machine.process.runs() && Instant::now() < deadline,
                    "systemd does not boot here: {told:?}"
                ),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The number of systemd on this host.
    fn init(&self) -> Option<u32> {
        let parent = self.process.id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
        let init = children.split_whitespace().next()?.parse().ok()?;
        let program = fs::read_link(format!("/proc/{init}/exe")).ok()?;
        program.ends_with("systemd").then_some(init)
    }

    /// Runs a shell in it, as root in `/srv`.
    pub fn try_sh(&self, script: &str) -> Output {
        let init = self.init().expect("systemd runs").to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &init, "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"]);
        command.args(["sh", "-ec", &format!("exec 2>&1; cd /srv\n{script}")]).env_clear();
        command
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .output()
            .unwrap()
    }

    /// What a shell in it prints, on both streams; it must succeed.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let ended = self.try_sh(script);
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(ended.status.success(), "{script}: {said}");
        said
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.process.kill();
        // The kernel ends all processes of a namespace with its first; their groups are empty then.
        let deadline = Instant::now() + PATIENCE;
        while remove(&self.group).is_err() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Removes a group and those below it.
fn remove(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}
