//! `Postgres` is a PostgreSQL server of one test.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::Process;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a socket of its own. It ends with the test.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    folder: TempDir,
}

impl Postgres {
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").unwrap();
        // The server's user must reach it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/start-postgres");
        let process = Process::spawn(&script, vec![folder.path().display().to_string()]);
        let server = Self { process, folder };
        let began = Instant::now();
        while server.ask("postgres", "SELECT 1").is_none() {
            assert!(
                server.process.runs(),
                "it does not start; is PostgreSQL installed? run scripts/setup test"
            );
            assert!(began.elapsed() < PATIENCE, "no answer");
            thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// How `pstore` is told of it.
    pub fn url(&self) -> String {
        format!("postgresql://postgres@/postgres?host={}", self.folder.path().display())
    }

    /// The folder of `psql` and its like.
    pub fn programs() -> PathBuf {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let newest = versions.filter_map(|entry| {
            let number: f64 = entry.file_name().to_str()?.parse().ok()?;
            Some((number as u64, entry.path().join("bin")))
        });
        newest.max().expect("PostgreSQL is installed: run scripts/setup test").1
    }

    fn ask(&self, database: &str, sql: &str) -> Option<String> {
        let asked = Command::new(Self::programs().join("psql"))
            .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-c", sql])
            .env("PGHOST", self.folder.path())
            .output()
            .unwrap();
        asked.status.success().then(|| String::from_utf8(asked.stdout).unwrap().trim_end().to_owned())
    }

    /// Runs a statement that must succeed, and tells its rows.
    #[track_caller]
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.ask(database, sql).unwrap_or_else(|| panic!("{sql} fails in {database}"))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::INT);
        }
        let began = Instant::now();
        while self.process.runs() && began.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
