//! `ProfileFixture` is a profile, and a host with the program and a store to keep the profile in.

use std::{
    fs,
    path::{Path, PathBuf},
};

use capture::chrome::profile::Facts;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use store::bucket::S3Config;
use tempfile::TempDir;

use crate::binary::{Ended, Host};

#[derive(Debug)]
pub struct ProfileFixture {
    folder: TempDir,
    pub host: Host,
    pub profile: PathBuf,
}

impl ProfileFixture {
    /// With a store in a directory.
    pub fn local() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::local(&folder.path().join("home"), &folder.path().join("store"));
        Self::with(folder, host)
    }

    pub fn s3(config: &S3Config) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::s3(&folder.path().join("home"), config);
        Self::with(folder, host)
    }

    fn with(folder: TempDir, host: Host) -> Self {
        let profile = folder.path().join("profile");
        Self { folder, host, profile }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// The store of [`ProfileFixture::local`], seen from a host that has not seen it yet.
    pub fn elsewhere(&self) -> Host {
        Host::local(&self.path("elsewhere"), &self.path("store"))
    }

    /// A profile as small as one can be, without a browser: so many cookies of Chrome 131.
    pub fn fill(&self, cookies: usize) {
        fs::create_dir_all(self.profile.join("Default")).unwrap();
        fs::write(self.profile.join("Last Version"), "131.0.6778.85").unwrap();
        fs::write(self.profile.join("Local State"), "{}").unwrap();
        let database = Connection::open(self.profile.join("Default/Cookies")).unwrap();
        let table = "CREATE TABLE cookies(host_key TEXT, name TEXT, value TEXT, encrypted_value BLOB)";
        database.execute(table, []).unwrap();
        for number in 0..cookies {
            let row = "INSERT INTO cookies VALUES ('.example.com', ?1, ?2, x'')";
            database.execute(row, [format!("name-{number}"), "value".repeat(100)]).unwrap();
        }
    }

    /// Of the Chrome that last ran on the profile.
    pub fn major(&self) -> String {
        Facts::read(&self.profile).major().expect("a Chrome has run").to_string()
    }

    pub fn snapshot(&self, name: &str, more: &[&str]) -> Ended {
        let (profile, major) = (self.profile.display().to_string(), self.major());
        self.host.run([&["snapshot", &profile, name, "--chrome-major", &major], more].concat())
    }

    /// A snapshot that becomes the current one.
    #[track_caller]
    pub fn keep(&self, name: &str, more: &[&str]) -> Value {
        let ended = self.snapshot(name, more);
        assert_eq!((ended.code, &ended.document["pointer"]), (Some(0), &"flipped".into()), "{ended:#?}");
        ended.document
    }

    /// Loads the profile to where it was, for the same Chrome; the present files go.
    #[track_caller]
    pub fn load(&self, name: &str) -> Value {
        let major = self.major();
        fs::remove_dir_all(&self.profile).unwrap();
        self.host.succeed(["restore", name, self.profile.to_str().unwrap(), "--chrome-major", &major])
    }

    /// The cookies in the database, whether or not a browser would use them.
    pub fn cookies(profile: &Path) -> Vec<String> {
        let path = profile.join("Default/Cookies");
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        let mut statement = database.prepare("SELECT name FROM cookies").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

/// The command in a hint, in backquotes, without the program's name.
#[track_caller]
pub fn advised(ended: &Ended) -> Vec<String> {
    let hint = ended.stderr.lines().find_map(|line| line.strip_prefix("hint: `pstore "));
    let command = hint.and_then(|hint| hint.split('`').next());
    let command = command.unwrap_or_else(|| panic!("no hint: {ended:#?}"));
    command.split_whitespace().map(ToOwned::to_owned).collect()
}
