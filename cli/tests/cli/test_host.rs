//! `TestHost` is a user with an empty home directory and a profile to store.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::schema::Schema;

pub struct TestHost {
    home: TempDir,
    /// Where nothing of other tests is found.
    temporary: TempDir,
}

impl TestHost {
    pub fn new() -> Self {
        let host = Self { home: tempfile::tempdir().unwrap(), temporary: tempfile::tempdir().unwrap() };
        fs::create_dir_all(host.path("udd/Default")).unwrap();
        fs::write(host.path("udd/Default/History"), noise(300_000)).unwrap();
        fs::write(host.path("udd/Default/Preferences"), r#"{"profile":{"exit_type":"Normal"}}"#).unwrap();
        fs::write(host.path("udd/Last Version"), "131.0.6778.85").unwrap();
        host
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.home.path().join(below)
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pstore"));
        command.env_clear().env("HOME", self.home.path()).env("PATH", "/usr/bin:/bin");
        command.env("TMPDIR", self.temporary.path());
        command.args(line.split_whitespace()).current_dir(self.home.path());
        command
    }

    /// Runs a line whose arguments hold no spaces.
    pub fn run(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap())
    }

    /// Runs a line with variables set.
    pub fn run_with(&self, line: &str, variables: &[(&str, &str)]) -> Ran {
        Ran::of(line, self.command(line).envs(variables.iter().copied()).output().unwrap())
    }

    /// Runs arguments that may hold anything, after a line that holds no spaces.
    pub fn run_args(&self, line: &str, args: &[&str]) -> Ran {
        Ran::of(line, self.command(line).args(args).output().unwrap())
    }

    /// Starts a line; what it prints is kept.
    pub fn start(&self, line: &str) -> Child {
        self.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Changes the profile, so that a snapshot of it differs.
    pub fn change(&self, to: &str) {
        fs::write(self.path("udd/changed"), to).unwrap();
    }

    /// The prefix of a snapshot of the profile as it is after a change.
    pub fn capture(&self, change: &str) -> String {
        self.change(change);
        let document = self.json("snapshot udd acme/alice");
        document["active_sha256_prefix"].as_str().unwrap_or_else(|| panic!("{document}")).to_owned()
    }

    /// Takes the lock of acme/alice as a run of this name; its token.
    pub fn acquire(&self, run: &str, more: &str) -> String {
        self.ok(&format!("lock acquire acme/alice -q --run-id {run} {more}")).trim().to_owned()
    }

    /// As [`Self::acquire`], and nobody has renewed it for longer than it holds.
    pub fn forget(&self, run: &str, more: &str) -> String {
        let token = self.acquire(run, &format!("--ttl 5 {more}"));
        self.age_lock();
        token
    }

    /// Makes a lock of five seconds one that has just expired: its file tells how old it is.
    pub fn age_lock(&self) {
        let lock = fs::File::options().write(true).open(self.object("lock.json")).unwrap();
        lock.set_modified(SystemTime::now() - Duration::from_millis(6300)).unwrap();
    }

    /// An object of acme/alice for Chrome 131, as it lies in the store.
    pub fn object(&self, name: &str) -> PathBuf {
        self.path(".local/share/pstore/store/objects/snapshots/acme/alice/131").join(name)
    }

    pub fn events(&self) -> Vec<Value> {
        self.json("log acme/alice --last 0")["events"].as_array().unwrap().clone()
    }

    /// The last event of a kind, which there must be.
    pub fn event(&self, kind: &str) -> Value {
        let events = self.events();
        let found = events.iter().rfind(|event| event["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {events:#?}")).clone()
    }

    pub fn lock_state(&self) -> String {
        self.json("lock show acme/alice")["state"].as_str().unwrap().to_owned()
    }

    /// Runs a line that must succeed; what it printed.
    pub fn ok(&self, line: &str) -> String {
        let ran = self.run(line);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    }

    /// The one document a line prints with `--json`, which fits its schema.
    pub fn json(&self, line: &str) -> Value {
        let document = self.run(&format!("{line} --json")).json();
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = match words[..] {
            _ if document
                .as_object()
                .is_some_and(|fields| fields.len() == 1 && fields.contains_key("error")) =>
            {
                "error".to_owned()
            }
            ["lock" | "config" | "retention" | "token", verb, ..] => format!("{}-{verb}", words[0]),
            ["untag", ..] => "tag".to_owned(),
            _ => words[0].to_owned(),
        };
        assert_eq!(Schema::of(&name).misfits(&document), Vec::<String>::new(), "{line}: {document}");
        document
    }
}

#[derive(Debug)]
pub struct Ran {
    #[expect(dead_code, reason = "for the Debug output of a failed test")]
    line: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(line: &str, output: Output) -> Self {
        Self {
            line: line.to_owned(),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It ended so, and said these things on stderr.
    pub fn refused(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for text in said {
            assert!(self.stderr.contains(text), "{text:?} is not said: {self:?}");
        }
    }
}

/// Sends a signal by its name.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

pub fn ended(child: Child) -> Ran {
    Ran::of("started", child.wait_with_output().unwrap())
}

/// Waits until something is so, which it must be some time.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes that do not compress, the same every time.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Every file below a directory, with its content.
pub fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
