//! `Desk` is a workspace with a store and a home of its own.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tests::binary::{Host, program};

/// The query by which programs that do not know pstore count events per checkpoint.
pub const COUNTS: &str = "
SELECT s.slot,
  (SELECT COUNT(*) FROM fs_events WHERE id > s.start_fs_event_id AND id <= s.stop_fs_event_id AND action = 'created') as created,
  (SELECT COUNT(*) FROM fs_events WHERE id > s.start_fs_event_id AND id <= s.stop_fs_event_id AND action = 'modified') as modified,
  (SELECT COUNT(*) FROM fs_events WHERE id > s.start_fs_event_id AND id <= s.stop_fs_event_id AND action = 'deleted') as deleted,
  (SELECT COUNT(*) FROM fs_events WHERE id > s.start_fs_event_id AND id <= s.stop_fs_event_id AND action = 'restored') as restored
FROM snapshot_events s
WHERE s.id IN (SELECT MAX(id) FROM snapshot_events GROUP BY slot)";

/// A path of a tree: its mode, when a file was changed, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory(u32),
    File(u32, i64, Vec<u8>),
    Link(PathBuf),
}

pub struct Desk {
    pub host: Host,
    pub folder: tempfile::TempDir,
    pub project: PathBuf,
    mounts: RefCell<Vec<(PathBuf, Pid)>>,
}

impl Desk {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::local(&folder.path().join("home"), &folder.path().join("store"));
        let project = folder.path().join("project");
        fs::create_dir(&project).unwrap();
        Self { host, folder, project, mounts: RefCell::default() }
    }

    /// One that is a mount of a profile of this Chrome, or of a workspace.
    pub fn mounted(profile: &str, chrome_major: u32) -> Self {
        let desk = Self::new();
        desk.mount(profile, chrome_major);
        desk
    }

    /// Mounts the project.
    #[track_caller]
    pub fn mount(&self, profile: &str, chrome_major: u32) {
        let project = self.project.to_str().unwrap().to_owned();
        self.mount_words(&[profile, &project, "--chrome-major", &chrome_major.to_string()]);
    }

    /// Mounts something on a place, the second of these words.
    #[track_caller]
    pub fn mount_words(&self, words: &[&str]) {
        let mounted = self.host.succeed([&["mount"], words].concat());
        let pid = Pid::from_raw(mounted["pid"].as_i64().unwrap() as i32).unwrap();
        self.mounts.borrow_mut().push((words[1].into(), pid));
    }

    /// Ends the daemon of the project's mount as nothing can be prepared for.
    pub fn kill_mount(&self) {
        let (_, pid) = self.mounts.borrow_mut().pop().unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        until(|| rustix::process::test_kill_process(pid).is_err());
    }

    /// Starts it without a watcher.
    #[track_caller]
    pub fn start(&self, more: &[&str]) -> Value {
        self.run("workspace start", &[&["acme/agent-7", "--no-watch"], more].concat())
    }

    /// Starts it with a watcher.
    #[track_caller]
    pub fn watch(&self, more: &[&str]) -> Value {
        self.run("workspace start", &[&["acme/agent-7"], more].concat())
    }

    /// Runs a command on the project that must succeed.
    #[track_caller]
    pub fn run(&self, verb: &str, more: &[&str]) -> Value {
        self.host.succeed(self.line(verb, more))
    }

    /// Runs a command on the project that must fail.
    #[track_caller]
    pub fn fail(&self, code: i32, verb: &str, more: &[&str]) -> Value {
        self.host.fail(code, self.line(verb, more))
    }

    /// What a person sees.
    pub fn text(&self, verb: &str, more: &[&str]) -> String {
        let mut command = Command::new(program());
        self.host.prepare(&mut command);
        let ended = command.args(self.line(verb, more)).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    }

    fn line<'a>(&'a self, verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let project = self.project.to_str().unwrap();
        verb.split(' ').chain([project]).chain(more.iter().copied()).collect()
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.project.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.project.join(path)).unwrap()
    }

    /// The process that watches, if one does.
    pub fn watcher(&self) -> Option<Pid> {
        let status = self.host.run(self.line("workspace status", &[])).document;
        status["watcher_pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32))
    }

    /// Ends the watcher as nothing can be prepared for, and checks the database that it wrote to.
    pub fn kill_watcher(&self) {
        let Some(pid) = self.watcher() else { return };
        kill_process(pid, Signal::KILL).unwrap();
        until(|| self.watcher().is_none());
        self.check_db();
    }

    /// Where the host keeps the slots and the events.
    pub fn state(&self) -> PathBuf {
        let status = self.run("workspace status", &[]);
        Path::new(status["session_db"].as_str().unwrap()).parent().unwrap().to_owned()
    }

    pub fn db(&self) -> Connection {
        Connection::open(self.state().join("session.db")).unwrap()
    }

    pub fn check_db(&self) {
        let found: String = self.db().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
    }

    /// The actions and paths of all events.
    pub fn events(&self) -> Vec<(String, String)> {
        let events = self.run("workspace events", &[]);
        let events = events["events"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        events.map(|event| (text(&event["action"]), text(&event["path"]))).collect()
    }

    /// Takes an automatic checkpoint as soon as it is due.
    #[track_caller]
    pub fn automatic(&self) -> Value {
        let began = Instant::now();
        loop {
            let taken = self.run("checkpoint", &["--trigger", "after_action"]);
            if taken["outcome"] != "too_soon" {
                return taken;
            }
            assert!(began.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(pid) = self.watcher() {
            let _ = kill_process(pid, Signal::KILL);
        }
        for (place, pid) in self.mounts.borrow().iter() {
            let _ = kill_process(*pid, Signal::KILL);
            let _ = rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it did not become so");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A tree as it is; no link is followed, and FIFOs are left out.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Node> {
    let (mut found, mut open) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            let full = root.join(&path);
            let meta = fs::symlink_metadata(&full).unwrap();
            let mode = meta.permissions().mode() & 0o7777;
            let node = if meta.is_dir() {
                open.push(path.clone());
                Node::Directory(mode)
            } else if meta.is_symlink() {
                Node::Link(fs::read_link(&full).unwrap())
            } else if meta.is_file() {
                let nanos = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
                Node::File(mode, nanos, fs::read(&full).unwrap())
            } else {
                continue;
            };
            found.insert(path, node);
        }
    }
    found
}
