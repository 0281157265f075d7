//! `Chromium` runs a real Chromium on a directory of a test's own.

mod devtools;
mod site;

pub use devtools::{Devtools, Page};
pub use site::{Site, TURNS};

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::Process;

/// How long a Chromium may take to start or to end, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Without a screen, a keyring, or anything it would do on its own account.
pub const ARGUMENTS: [&str; 14] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--password-store=basic",
];

/// A running Chromium, killed when dropped.
#[derive(Debug)]
pub struct Chromium {
    process: Process,
    profile: PathBuf,
    /// Where it looks for a user's own settings.
    _home: TempDir,
}

impl Chromium {
    /// The major version of the one that is installed.
    pub fn major() -> String {
        let said = Command::new("chromium").arg("--version").output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        let version = said.split(' ').nth(1).and_then(|version| version.split('.').next());
        version.unwrap_or_else(|| panic!("no version in {said:?}")).to_owned()
    }

    /// One that can be spoken to.
    pub fn start(profile: &Path) -> Self {
        let chromium = Self::start_with(profile, &["--remote-debugging-port=0"]);
        let noted = || chromium.endpoint().is_some();
        chromium.wait_until("has noted its port", noted);
        chromium
    }

    /// One that cannot, and that has made its profile.
    pub fn start_unreachable(profile: &Path) -> Self {
        let chromium = Self::start_with(profile, &[]);
        // Its preferences it writes only after ten seconds.
        let made = || ["Cookies", "History"].iter().all(|name| profile.join("Default").join(name).exists());
        chromium.wait_until("has made its profile", made);
        chromium
    }

    /// One that has taken the lock of its profile.
    pub fn start_with(profile: &Path, arguments: &[&str]) -> Self {
        let place = format!("--user-data-dir={}", profile.display());
        Self::start_under(&["chromium"], profile, &[arguments, &[&place]].concat())
    }

    /// One that `command` starts, on `profile` by any name for it.
    pub fn start_under(command: &[&str], profile: &Path, arguments: &[&str]) -> Self {
        // Left by another run, these would be taken for this one's.
        for name in ["DevToolsActivePort", "SingletonLock"] {
            fs::remove_file(profile.join(name)).ok();
        }
        let home = tempfile::tempdir().unwrap();
        let (program, before) = command.split_first().unwrap();
        let process = Process::spawn_with(Path::new(program), |command| {
            command.args(before).args(ARGUMENTS).args(arguments).arg("about:blank").env("HOME", home.path());
            // The socket of one that is killed stays; here it goes with the rest.
            command.env("TMPDIR", home.path());
        });
        let chromium = Self { process, profile: profile.to_owned(), _home: home };
        let locked = || fs::symlink_metadata(profile.join("SingletonLock")).is_ok();
        chromium.wait_until("has its lock", locked);
        chromium
    }

    fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(self.process.runs(), "Chromium (Debian: chromium) ended before it {what}");
            assert!(began.elapsed() < PATIENCE, "Chromium never {what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its port, and the path on it, as it noted them.
    pub fn endpoint(&self) -> Option<(u16, String)> {
        let text = fs::read_to_string(self.profile.join("DevToolsActivePort")).ok()?;
        let (port, path) = text.split_once('\n')?;
        Some((port.parse().ok()?, path.to_owned())).filter(|(_, path)| path.len() > 20)
    }

    pub fn devtools(&self) -> Devtools {
        let (port, path) = self.endpoint().expect("it was started with a port");
        Devtools::connect(port, &path)
    }

    pub fn profile(&self) -> &Path {
        &self.profile
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn runs(&self) -> bool {
        self.process.runs()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid() as i32).unwrap(), signal).unwrap();
    }

    pub fn wait(&self) -> ExitStatus {
        self.process.wait()
    }

    /// Ends it the way that loses nothing.
    pub fn close(self) {
        self.devtools().close();
        self.wait();
    }

    /// Ends it as a host that dies does.
    pub fn kill(self) {
        self.signal(Signal::KILL);
        self.wait();
    }
}
