//! `user` makes users of one host.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;
use tests::binary::program;

/// A user that owns nothing but what is given to it here.
pub const NOBODY: u32 = 65534;
/// Another, who owns nothing at all.
pub const NEIGHBOUR: u32 = 65533;

/// A user's own home, with the program and a store in it, on a machine whose `/dev/fuse` is for
/// everybody, as it mostly is. What is mounted there is seen nowhere else. The home is open to
/// all, as homes often are, and so is the directory for temporary files.
pub struct User {
    home: TempDir,
    /// Keeps the namespace of those mounts.
    keeper: Child,
}

impl User {
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        // Where the tests were built others may not look.
        fs::copy(program(), at("pstore")).unwrap();
        fs::create_dir(at("mounted")).unwrap();
        for place in [".", "pstore", "mounted"] {
            chown(at(place), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(at("tmp")).unwrap();
        fs::set_permissions(at("tmp"), Permissions::from_mode(0o1777)).unwrap();
        let prepare = "mknod -m 666 fuse c 10 229 && mount --bind fuse /dev/fuse && touch ready && exec cat";
        let mut keeper = Command::new("unshare");
        keeper.args(["--mount", "--propagation", "private", "sh", "-c", prepare]).current_dir(home.path());
        // It ends when nobody holds the other end of its input any more.
        let keeper = keeper.stdin(Stdio::piped()).spawn().unwrap();
        until(|| at("ready").exists());
        Self { home, keeper }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.home.path().join(below)
    }

    /// A profile of Chrome 131 in `udd` that is closed to others, with cookies that take a while
    /// to check.
    pub fn fill(&self, cookies: u32) {
        let profile = self.path("udd");
        fs::create_dir_all(profile.join("Default")).unwrap();
        fs::write(profile.join("Last Version"), "131.0.6778.85").unwrap();
        fs::write(profile.join("Local State"), "{}").unwrap();
        let mut database = Connection::open(profile.join("Default/Cookies")).unwrap();
        let table = "CREATE TABLE cookies(host_key TEXT, name TEXT, value TEXT, encrypted_value BLOB);
            CREATE INDEX a ON cookies(name); CREATE INDEX b ON cookies(value); CREATE INDEX c ON cookies(host_key)";
        database.execute_batch(table).unwrap();
        let transaction = database.transaction().unwrap();
        for number in 0..cookies {
            let row = "INSERT INTO cookies VALUES (?1, ?2, ?3, x'')";
            let host = format!("{}.example.com", number.wrapping_mul(2_654_435_761));
            transaction.execute(row, [host, format!("name-{number}"), format!("{number}-secret")]).unwrap();
        }
        transaction.commit().unwrap();
        drop(database);
        let given = Command::new("chown").args(["-R", &NOBODY.to_string()]).arg(&profile).status().unwrap();
        assert!(given.success());
        fs::set_permissions(&profile, Permissions::from_mode(0o700)).unwrap();
    }

    fn command_of(&self, user: u32, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.keeper.id());
        let home = self.home.path().to_str().unwrap();
        command.args([&namespace, "setpriv"]);
        command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
        command.args(["env", "-i", "-C", home, &format!("HOME={home}"), &format!("TMPDIR={home}/tmp")]);
        command.args(["PATH=/usr/bin:/bin", program]);
        command
    }

    pub fn command(&self, program: &str) -> Command {
        self.command_of(NOBODY, program)
    }

    pub fn pstore(&self, line: &str) -> Output {
        self.command("./pstore").arg("--json").args(line.split(' ')).output().unwrap()
    }

    /// Starts the program, as the leader of a group of processes. What it starts in another group
    /// can tell by the end of its input that nobody waits for it any more.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command("./pstore");
        command.arg("--json").args(arguments).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.process_group(0).spawn().unwrap())
    }

    #[track_caller]
    pub fn succeed(&self, line: &str) -> Value {
        let output = self.pstore(line);
        assert!(output.status.success(), "{line}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Changes the machine as the user sees it.
    pub fn as_root(&self, script: &str) {
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.keeper.id());
        let script = format!("cd {} && {script}", self.home.path().display());
        assert!(Command::new("nsenter").args([&namespace, "sh", "-ec", &script]).status().unwrap().success());
    }

    /// What a shell prints, run as that user.
    pub fn shell(&self, script: &str) -> String {
        printed(self.command("sh").args(["-c", script]))
    }

    /// What a shell prints that another user runs.
    pub fn neighbour(&self, script: &str) -> String {
        printed(self.command_of(NEIGHBOUR, "sh").args(["-c", script]))
    }

    /// A program of another user's, until it is dropped.
    pub fn neighbours(&self, program: &str, arguments: &[&str]) -> Running {
        let mut command = self.command_of(NEIGHBOUR, program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.process_group(0).spawn().unwrap())
    }

    /// Fails if another user can read a file below the home that holds anything of a profile. The
    /// program itself is for all.
    #[track_caller]
    pub fn is_closed(&self, when: &str) {
        let readable =
            self.neighbour("find . -type f -readable ! -path ./pstore ! -path ./ready 2>/dev/null");
        assert_eq!(readable, "", "{when}");
        let open = self.neighbour("find ./tmp -mindepth 1 -readable ! -user 65533 2>/dev/null");
        assert_eq!(open, "", "{when}");
    }

    /// Directories for temporary files whose names begin so.
    pub fn temporary(&self, start: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("tmp")).unwrap().map(|entry| entry.unwrap());
        let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
        ours.map(|entry| entry.path()).collect()
    }
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl Drop for User {
    fn drop(&mut self) {
        self.shell(
            "for place in mounted tmp/pstore-run-*/profile; do fusermount3 -uz $place 2>/dev/null; done",
        );
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// A program and whatever it has started, killed when dropped.
pub struct Running(Child);

impl Running {
    pub fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process_group(Pid::from_raw(self.0.id().try_into().unwrap()).unwrap(), signal).unwrap();
    }

    /// Ends it as nothing can be prepared for.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.runs() {
            self.signal(Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

#[track_caller]
pub fn until(mut met: impl FnMut() -> bool) {
    let began = Instant::now();
    while !met() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not happen");
        thread::sleep(Duration::from_millis(2));
    }
}
