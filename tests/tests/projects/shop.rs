//! `Shop` is a project on a host of its own, with files, uploads, a database and a service.

use std::{
    ffi::OsStr,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::Duration,
};

use rusqlite::{Connection, config::DbConfig};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;
use tests::binary::{Host, Running};

/// A project and its host.
pub struct Shop {
    folder: TempDir,
    pub host: Host,
}

/// What the project file says beside its name.
pub const ALL: &str = r#"
app_version = "2.4.1"

[volumes.db]
consistency = "sqlite"

[volumes.uploads]
consistency = "generic"
services = ["web"]

[services.web]
pid_file = "../web.pid"
"#;

impl Shop {
    /// With this text in the project file.
    pub fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["temporary", "current/files", "current/volumes/db", "current/volumes/uploads"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("current/files/readme"), "one").unwrap();
        fs::write(path("current/volumes/uploads/photo"), tests::tree::noise(300_000, 1)).unwrap();
        let host = Host::local(&path("home"), &path("store"))
            .with("TMPDIR", path("temporary").to_str().unwrap())
            .with("AWS_SECRET_ACCESS_KEY", "a secret");
        let shop = Self { folder, host };
        shop.say(text);
        shop.database("wal").execute_batch("CREATE TABLE a(n); CREATE TABLE b(n);").unwrap();
        shop
    }

    /// Writes the project file anew.
    pub fn say(&self, text: &str) {
        fs::write(self.file(), format!("name = \"acme/shop\"\nstate = \"current\"\n{text}")).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn file(&self) -> PathBuf {
        self.path("shop.toml")
    }

    pub fn database_path(&self) -> PathBuf {
        self.path("current/volumes/db/app.db")
    }

    pub fn database(&self, mode: &str) -> Connection {
        let database = Connection::open(self.database_path()).unwrap();
        database.busy_timeout(Duration::from_secs(60)).unwrap();
        database.pragma_update(None, "journal_mode", mode).unwrap();
        database
    }

    /// Closes a database as a process does that is killed: its log stays beside it.
    pub fn leave(&self, database: Connection) {
        database.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        drop(database);
        assert!(self.path("current/volumes/db/app.db-wal").exists());
    }

    /// The arguments of `pstore project VERB FILE[@REF]`.
    pub fn words(&self, verb: &str, reference: &str, more: &[&str]) -> Vec<String> {
        let file = format!("{}{reference}", self.file().display());
        let words = ["project", verb, &file].into_iter().chain(more.iter().copied());
        words.map(ToOwned::to_owned).collect()
    }

    #[track_caller]
    pub fn save(&self, more: &[&str]) -> Value {
        self.host.succeed(self.words("save", "", more))
    }

    pub fn start_save(&self) -> Running {
        self.host.start(self.words("save", "", &[]))
    }

    #[track_caller]
    pub fn states(&self) -> Vec<Value> {
        self.host.succeed(self.words("list", "", &[]))["snapshots"].as_array().unwrap().clone()
    }

    #[track_caller]
    pub fn restore_to(&self, reference: &str, name: &str) -> PathBuf {
        let target = self.path(name);
        self.host.succeed(self.words("restore", reference, &["--to", target.to_str().unwrap()]));
        target
    }

    /// Fails if a save has left anything but its states.
    #[track_caller]
    pub fn assert_tidy(&self) {
        let left: Vec<_> = fs::read_dir(self.path("temporary")).unwrap().flatten().collect();
        let left: Vec<_> = left
            .into_iter()
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.starts_with("pstore-save-"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        let beside: Vec<_> = ["", "current", "current/volumes", "current/volumes/db"]
            .into_iter()
            .flat_map(|folder| fs::read_dir(self.path(folder)).unwrap().flatten())
            .filter(|entry| entry.file_name().to_str().unwrap().contains(".pstore"))
            .collect();
        assert!(beside.is_empty(), "{beside:?}");
        self.host.verify("acme/shop", &[]);
    }

    /// A program that has a file of the project open.
    pub fn opener(&self, name: &str) -> Web {
        let script = format!("exec 9<>{}; exec sleep 600", self.path(name).display());
        let child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let opened = format!("/proc/{}/fd/9", child.id());
        while fs::symlink_metadata(&opened).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        Web(child)
    }

    /// Starts the service as a shell whose child counts in two files of the volume, in one after the other. Between these
    /// lie so many others that a copy meets many counts, if there are any meanwhile.
    pub fn counting(&self) -> Counting {
        let uploads = self.path("current/volumes/uploads");
        for number in 0..3000 {
            fs::write(uploads.join(format!("m-{number}")), "upload").unwrap();
        }
        let script = "sleep 600 & echo $! > ../../../idle.pid; \
            (n=0; while :; do n=$((n+1)); \
             echo $n > new; mv new a-first; echo $n > new; mv new z-second; done) & \
            echo $! > ../../../worker.pid; wait";
        let shell = Command::new("sh").args(["-c", script]).current_dir(&uploads).process_group(0).spawn();
        let shell = shell.unwrap();
        fs::write(self.path("web.pid"), format!("{}\n", shell.id())).unwrap();
        let counting = Counting { shell, folder: self.path("") };
        counting.await_count(0);
        counting
    }

    /// Starts the service.
    pub fn web(&self) -> Web {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(self.path("web.pid"), format!("{}\n", child.id())).unwrap();
        Web(child)
    }
}

/// A process that is a service of the project.
pub struct Web(Child);

impl Web {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// What the kernel says of it: `T` if it is stopped.
    pub fn state(&self) -> char {
        state_of(i32::try_from(self.0.id()).unwrap())
    }

    /// Waits until it is in this state, which it must come to.
    #[track_caller]
    pub fn await_state(&self, state: char) {
        for _ in 0..60_000 {
            if self.state() == state {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("it is in state {} and not {state}", self.state());
    }

    pub fn pause(&self) {
        kill_process(Pid::from_child(&self.0), Signal::STOP).unwrap();
        self.await_state('T');
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A service whose work is done by a child.
pub struct Counting {
    shell: Child,
    folder: PathBuf,
}

impl Counting {
    /// How far it has counted.
    pub fn count(&self) -> i64 {
        let text = fs::read_to_string(self.folder.join("current/volumes/uploads/z-second"));
        text.unwrap_or_default().trim().parse().unwrap_or(0)
    }

    /// Waits until it has counted further than this, which it must.
    #[track_caller]
    pub fn await_count(&self, before: i64) {
        for _ in 0..60_000 {
            if self.count() > before {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("it does not count");
    }

    /// The process that counts, or `idle`, which does nothing.
    pub fn process(&self, name: &str) -> i32 {
        text(self.folder.join(format!("{name}.pid"))).trim().parse().unwrap()
    }

    pub fn state(&self, name: &str) -> char {
        state_of(self.process(name))
    }

    pub fn pause(&self, name: &str) {
        kill_process(Pid::from_raw(self.process(name)).unwrap(), Signal::STOP).unwrap();
        self.await_state(name, 'T');
    }

    #[track_caller]
    pub fn await_state(&self, name: &str, state: char) {
        for _ in 0..60_000 {
            if self.state(name) == state {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("{name} is in state {} and not {state}", self.state(name));
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.shell), Signal::KILL);
        let _ = self.shell.wait();
    }
}

/// What the kernel says of a process: `T` if it is stopped.
fn state_of(pid: i32) -> char {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text[text.rfind(')').unwrap() + 2..].chars().next().unwrap()
}

/// How many rows a table of a restored database has.
pub fn rows(database: &Path, table: &str) -> i64 {
    let database = Connection::open(database).unwrap();
    database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// The text of a file.
pub fn text(path: impl AsRef<OsStr>) -> String {
    fs::read_to_string(Path::new(path.as_ref())).unwrap()
}
