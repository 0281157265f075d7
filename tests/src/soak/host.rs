//! `host` simulates a host: directories, a clock and mounts of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use store::bucket::S3Config;

use super::{
    content::SLOTS,
    ledger::{Crash, Found, Ledger},
};
use crate::{binary, mount_fixture};

const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// The retention of each profile.
const RULES: &str = "[defaults]\nretention.keep = 4\nretention.max_age_days = 30\n\
                      [tenants.acme.profiles.bob]\nretention.keep = \"one\"\n";

/// The outcome for a commit in whose midst the daemon was killed.
#[derive(Clone, Debug)]
pub enum Cut {
    /// The pointer had not moved by then.
    Unmoved,
    Moved {
        record: String,
    },
}

/// A mount, or the remnant of one.
#[derive(Debug)]
pub struct Session {
    pub id: String,
    pub profile: String,
    pub fork: bool,
    pub place: PathBuf,
    pub mounted: Value,
    /// The snapshot below.
    pub record: Option<String>,
    /// Its content when its present writer began.
    pub base: Found,
    pub log: PathBuf,
    writer: Option<Child>,
    pub cut: Option<Cut>,
    pub crash: Crash,
    /// Somebody has taken the lock, or its claim, away.
    pub lost: bool,
}

impl Session {
    pub fn new(profile: &str, fork: bool, place: &Path, mounted: Value, record: Option<String>) -> Self {
        Self {
            id: mounted["session"].as_str().unwrap().to_owned(),
            profile: profile.to_owned(),
            fork,
            place: place.to_owned(),
            mounted,
            record,
            base: Found::new(),
            log: PathBuf::new(),
            writer: None,
            cut: None,
            crash: Crash::None,
            lost: false,
        }
    }

    pub fn ledger(&self) -> Ledger {
        Ledger::read(&self.base, &self.log, SLOTS)
    }

    pub fn start_writer(&mut self, log: PathBuf, base: Found, seed: u64, generation: u64) {
        (self.log, self.base) = (log, base);
        let mut command = Command::new(binary::program().with_file_name("soak-writer"));
        command.arg(&self.place).arg(&self.log);
        command.args([seed, generation, SLOTS as u64].map(|number| number.to_string()));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.writer = Some(command.spawn().unwrap());
    }

    /// Lets the writer finish its present write.
    pub fn stop_writer(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            drop(writer.stdin.take());
            writer.wait().unwrap();
        }
    }

    /// Ends the daemon as nothing can be prepared for, and the writer with it.
    pub fn kill(&mut self, crash: Crash) {
        kill_process(Pid::from_raw(mount_fixture::pid(&self.mounted)).unwrap(), Signal::KILL).ok();
        mount_fixture::await_end(&self.mounted);
        self.stop_writer();
        self.crash = crash;
    }
}

#[derive(Debug)]
pub struct Host {
    pub name: String,
    pub home: PathBuf,
    plain: binary::Host,
    /// How far its clock is wrong.
    pub days: i64,
    pub mounts: Vec<Session>,
    pub left: Vec<Session>,
}

impl Host {
    pub fn new(folder: &Path, name: &str, config: &S3Config, retention: bool) -> Self {
        let home = folder.join(name);
        let plain = binary::Host::s3(&home, config)
            .with("PSTORE_SESSION_DIR", home.join("sessions").to_str().unwrap())
            .with("PSTORE_CONFIG", home.join("pstore.toml").to_str().unwrap())
            .with("PSTORE_HOST_NAME", name)
            .with("PSTORE_LOCK_TTL_SECONDS", "30")
            .with("PSTORE_LOCK_RENEW_SECONDS", "5");
        fs::write(home.join("pstore.toml"), if retention { RULES } else { "" }).unwrap();
        fs::create_dir_all(home.join("source/Default")).unwrap();
        Self { name: name.to_owned(), home, plain, days: 0, mounts: Vec::new(), left: Vec::new() }
    }

    /// Its commands, by its clock.
    pub fn commands(&self) -> binary::Host {
        if self.days == 0 {
            return self.plain.clone();
        }
        assert!(Path::new(FAKETIME).exists(), "scripts/setup test installs faketime");
        let variables =
            [("LD_PRELOAD", FAKETIME), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("NO_FAKE_STAT", "1")];
        let host = self.plain.clone().with("FAKETIME", &format!("{:+}d", self.days));
        variables.into_iter().fold(host, |host, (name, value)| host.with(name, value))
    }

    /// As a start of the machine leaves it: its daemons are gone, and were of another boot.
    pub fn restart(&mut self) {
        for mut session in self.mounts.drain(..) {
            session.kill(Crash::OfTheHost);
            self.left.push(session);
        }
        for session in &mut self.left {
            // Once for all: what a restart finds unwritten stays so.
            session.crash = Crash::OfTheHost;
            let folder = self.home.join("sessions").join(&session.id);
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(Value::Object(mut info)) =
                    serde_json::from_slice(&fs::read(entry.path()).unwrap_or_default())
                else {
                    continue;
                };
                if info.contains_key("boot_id") {
                    info.insert("boot_id".to_owned(), "11111111-2222-3333-4444-555555555555".into());
                    fs::write(entry.path(), serde_json::to_vec(&info).unwrap()).unwrap();
                }
            }
        }
    }
}
