//! `MountFixture` mounts profiles, by the program and the real kernel.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    mount::{UnmountFlags, unmount},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;
use store::bucket::S3Config;
use tempfile::TempDir;

use crate::binary::{Ended, Host};

const PATIENCE: Duration = Duration::from_secs(30);
pub const ALICE: &str = "acme/alice";

/// A store, and hosts that mount from it. Leaves no daemon and no mount behind.
#[derive(Debug)]
pub struct MountFixture {
    folder: TempDir,
    store: Where,
    pub host: Host,
    pub mountpoint: PathBuf,
}

#[derive(Debug)]
enum Where {
    Directory,
    S3(Box<S3Config>),
}

impl MountFixture {
    /// With a store in a directory.
    pub fn local() -> Self {
        Self::new(Where::Directory)
    }

    /// The same, of a tenant that may load snapshots of running browsers.
    pub fn hot() -> Self {
        let mut fixture = Self::local();
        fixture.host = fixture.host.clone().with("PSTORE_MODES", "cold,hot");
        fixture
    }

    pub fn s3(config: &S3Config) -> Self {
        Self::new(Where::S3(Box::new(config.clone())))
    }

    fn new(store: Where) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mountpoint = folder.path().join("mounted");
        fs::create_dir(&mountpoint).unwrap();
        let host = host(&folder, &store, "one");
        Self { folder, store, host, mountpoint }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// An empty directory to mount on.
    pub fn place(&self, name: &str) -> PathBuf {
        let place = self.path(name);
        fs::create_dir(&place).unwrap();
        place
    }

    /// A host with the same store and nothing else.
    pub fn another(&self, name: &str) -> Host {
        host(&self.folder, &self.store, name)
    }

    /// Mounts Alice's profile of Chrome 131 on the fixture's own mountpoint.
    #[track_caller]
    pub fn mount(&self) -> Value {
        self.mount_as(&self.host, &[])
    }

    #[track_caller]
    pub fn mount_as(&self, host: &Host, more: &[&str]) -> Value {
        let place = self.mountpoint.to_str().unwrap();
        host.succeed([&["mount", ALICE, place, "--chrome-major", "131"], more].concat())
    }

    #[track_caller]
    pub fn commit(&self) -> Value {
        let ended = self.ask("commit", &[]);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.document
    }

    /// Commits while somebody has files open.
    #[track_caller]
    pub fn commit_hot(&self) -> Value {
        let ended = self.ask("commit", &["--mode", "hot"]);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.document
    }

    #[track_caller]
    pub fn unmount(&self, more: &[&str]) -> Value {
        let ended = self.ask("unmount", more);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.document
    }

    /// Runs a command on the fixture's own mountpoint.
    pub fn ask(&self, verb: &str, more: &[&str]) -> Ended {
        self.host.run([&[verb, self.mountpoint.to_str().unwrap()], more].concat())
    }

    /// Ends the daemon of a mount as nothing can be prepared for, and waits until it is gone.
    pub fn kill(&self, mounted: &Value) {
        self.signal(mounted, Signal::KILL);
    }

    pub fn signal(&self, mounted: &Value, signal: Signal) {
        kill_process(Pid::from_raw(pid(mounted)).unwrap(), signal).unwrap();
        await_end(mounted);
    }

    pub fn is_mounted(&self, place: &Path) -> bool {
        mounts().iter().any(|mounted| mounted == place)
    }

    /// The content of the file `Local State` in a profile's current snapshot.
    #[track_caller]
    pub fn local_state(&self, profile: &str) -> String {
        let target = self.path(&crate::unique_name());
        self.host.restore(profile, &target);
        fs::read_to_string(target.join("Local State")).unwrap()
    }

    /// The unfinished sessions.
    pub fn sessions(&self) -> Vec<Value> {
        self.host.succeed(["sessions"])["sessions"].as_array().unwrap().clone()
    }

    /// The ids of the directories there are, of sessions of any kind.
    pub fn session_directories(&self) -> usize {
        fs::read_dir(self.path("one/sessions")).map_or(0, Iterator::count)
    }
}

impl Drop for MountFixture {
    fn drop(&mut self) {
        clear_away(self.folder.path());
    }
}

/// The daemons that serve a mountpoint below `folder`, and the mounts there, the last first.
pub fn left_behind(folder: &Path) -> (Vec<Pid>, Vec<PathBuf>) {
    // A daemon has the path of its mountpoint among its arguments.
    let ours = folder.as_os_str().as_bytes();
    let daemon = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let serves = words.ends_with(b"\0--daemon\0") && words.windows(ours.len()).any(|part| part == ours);
        serves.then_some(pid)
    };
    let daemons = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(daemon).collect();
    let places = mounts().into_iter().rev().filter(|place| place.starts_with(folder)).collect();
    (daemons, places)
}

/// Ends those daemons and takes their mounts away.
pub fn clear_away(folder: &Path) {
    let (daemons, places) = left_behind(folder);
    for pid in daemons {
        let _ = kill_process(pid, Signal::KILL);
    }
    for place in places {
        // By force: whoever waits for a daemon that is gone waits no longer.
        let _ = unmount(&place, UnmountFlags::FORCE);
        let _ = unmount(&place, UnmountFlags::DETACH);
    }
}

fn host(folder: &TempDir, store: &Where, name: &str) -> Host {
    let home = folder.path().join(name);
    let host = match store {
        Where::Directory => Host::local(&home, &folder.path().join("store")),
        Where::S3(config) => Host::s3(&home, config),
    };
    host.with("PSTORE_SESSION_DIR", home.join("sessions").to_str().unwrap())
}

/// The process that answers for a mount.
pub fn pid(mounted: &Value) -> i32 {
    mounted["pid"].as_i64().unwrap().try_into().unwrap()
}

/// Waits until the daemon of a mount is gone.
#[track_caller]
pub fn await_end(mounted: &Value) {
    let (pid, began) = (pid(mounted), Instant::now());
    while lives(pid) {
        assert!(began.elapsed() < PATIENCE, "process {pid} does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process does anything still: one whose end nobody has asked about does not.
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

/// Where something is mounted, in the order it was.
fn mounts() -> Vec<PathBuf> {
    let table = fs::read("/proc/self/mounts").unwrap();
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(1)).map(unescaped).collect()
}

/// The table writes a blank, and other separators, as `\040`.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, more)) = rest.split_first() {
        let number =
            more.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match (first, number) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = &more[3..];
            }
            _ => {
                out.push(*first);
                rest = more;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}
