//! `Fleet` has the hosts, knows what the store must contain, and judges it.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::Value;
use store::bucket::S3Config;
use tempfile::TempDir;

use super::{content, host::Host, ledger::Found, lot::Lot};
use crate::{
    binary::Ended,
    mount_fixture::{clear_away, left_behind},
};

pub const MAJOR: &str = "131";
const HOSTS: [&str; 3] = ["one", "two", "three"];

/// Those that hosts mount and snapshot.
pub const PROFILES: [&str; 3] = ["acme/alice", "acme/bob", "globex/carol"];
/// Those that nobody holds the lock of for longer than a command.
pub const ASIDE: [&str; 6] =
    ["acme/forks", "acme/rescued", "acme/imports", "globex/forks", "globex/rescued", "globex/imports"];

/// A text about a step; `None` if it could not be taken.
pub type Step = Result<Option<String>, String>;

#[derive(Debug)]
pub struct Fleet {
    folder: TempDir,
    seed: u64,
    pub lot: Lot,
    pub hosts: Vec<Host>,
    observer: Host,
    /// Where each pointer must be.
    pub pointers: BTreeMap<String, String>,
    /// The content of each snapshot when it was first looked at.
    pub known: BTreeMap<String, Found>,
    generation: u64,
    numbers: u64,
    steps: u64,
    /// When a holder of the profile's lock last died: others may take it for alive until it expires.
    pub deaths: BTreeMap<String, Instant>,
}

impl Fleet {
    /// With rules of retention, snapshots go by themselves.
    pub fn new(seed: u64, config: &S3Config, retention: bool) -> Self {
        let folder = tempfile::Builder::new().prefix("pstore-soak-").tempdir().unwrap();
        let host = |name: &str| Host::new(folder.path(), name, config, retention);
        let (hosts, observer) = (HOSTS.into_iter().map(host).collect(), host("observer"));
        Self {
            folder,
            seed,
            lot: Lot::new(seed),
            hosts,
            observer,
            pointers: BTreeMap::new(),
            known: BTreeMap::new(),
            generation: 0,
            numbers: 0,
            steps: 0,
            deaths: BTreeMap::new(),
        }
    }

    /// A path that was not used before.
    pub fn path(&mut self, what: &str) -> PathBuf {
        self.numbers += 1;
        self.folder.path().join(format!("{what}-{}", self.numbers))
    }

    /// One that no other file has, and room for so many after it.
    pub fn generations(&mut self, count: u64) -> u64 {
        self.generation += count;
        self.generation - count + 1
    }

    pub fn tell(&mut self, host: &str, words: &str) {
        self.steps += 1;
        println!("{:4}  {host:8}  {words}", self.steps);
    }

    /// Keeps the directories and ends the test.
    pub fn fail(&mut self, reason: &str) -> ! {
        self.folder.disable_cleanup(true);
        let place = self.folder.path().display();
        panic!("{reason}\nPSTORE_SOAK_SEED={}; see {place}", self.seed);
    }

    /// The snapshots of a profile as a host without mounts lists them, and which one is current.
    pub fn list(&self, profile: &str) -> Result<(Vec<Value>, Option<String>), String> {
        let listed = self.observer.commands().run(["list", profile, "--chrome-major", MAJOR]);
        match listed.code {
            Some(3) => return Ok((Vec::new(), None)),
            Some(0) => {}
            _ => return Err(format!("{profile} cannot be listed: {listed:#?}")),
        }
        let snapshots = listed.document["snapshots"].as_array().unwrap().clone();
        let active = listed.document["active_sha256_prefix"].as_str().unwrap_or_default();
        let current = snapshots.iter().find(|entry| entry["latest"] == true).map(record_of);
        if current.is_none() && !active.is_empty() {
            return Err(format!("{profile} points at {active}, which is not listed: {:#}", listed.document));
        }
        Ok((snapshots, current))
    }

    /// The present content of a snapshot, restored on a host that has seen nothing of it.
    pub fn restored(&mut self, profile: &str, entry: &Value) -> Result<Found, String> {
        let target = self.path("restored");
        let sha = entry["sha256_prefix"].as_str().unwrap();
        let words = ["restore", profile, target.to_str().unwrap(), "--sha", sha, "--no-cache"];
        let ended = self.observer.commands().run(words);
        if ended.code != Some(0) {
            return Err(format!("{sha} of {profile} is listed and cannot be restored: {ended:#?}"));
        }
        let found = content::look(&target, content::SLOTS);
        fs::remove_dir_all(&target).unwrap();
        Ok(found)
    }

    /// Looks at a snapshot for the first time, or sees that it is unchanged.
    pub fn learn(&mut self, profile: &str, record: &str) -> Result<Found, String> {
        let (snapshots, _) = self.list(profile)?;
        let entry = snapshots.iter().find(|entry| record_of(entry) == record);
        let entry = entry.ok_or_else(|| format!("{record} of {profile} is not listed"))?;
        let found = self.restored(profile, entry)?;
        match self.known.get(record) {
            Some(known) if *known != found => {
                Err(format!("{record} of {profile} was {known:?} and is {found:?}"))
            }
            _ => {
                self.known.insert(record.to_owned(), found.clone());
                Ok(found)
            }
        }
    }

    /// The pointer is at this snapshot by the step's own doing.
    pub fn moved(&mut self, profile: &str, record: &str) {
        self.pointers.insert(profile.to_owned(), record.to_owned());
    }

    /// Whether somebody holds the lock, or may be taken for its holder still.
    pub fn may_be_locked(&self, profile: &str) -> bool {
        self.is_held(profile)
            || self.deaths.get(profile).is_some_and(|died| died.elapsed() < Duration::from_secs(90))
    }

    pub fn is_held(&self, profile: &str) -> bool {
        self.hosts.iter().flat_map(|host| &host.mounts).any(|mount| mount.profile == profile && !mount.fork)
    }

    /// The invariants after every step.
    pub fn judge(&self) -> Result<(), String> {
        for profile in PROFILES.iter().chain(&ASIDE) {
            let (_, current) = self.list(profile)?;
            let expected = self.pointers.get(*profile).cloned();
            if current != expected {
                return Err(format!(
                    "{profile} points at {current:?}, and nobody moved it from {expected:?}"
                ));
            }
        }
        Ok(())
    }

    /// Looks at everything once more when all sessions have ended, and sees that nothing is left behind.
    pub fn end(&mut self) -> Result<(), String> {
        for profile in PROFILES.iter().chain(&ASIDE) {
            let (snapshots, _) = self.list(profile)?;
            for entry in &snapshots {
                self.learn(profile, &record_of(entry))?;
            }
            if !snapshots.is_empty() {
                let verified = self.observer.commands().run(["verify", profile]);
                expect(&verified, &[0])?;
            }
        }
        self.judge()?;
        match left_behind(self.folder.path()) {
            (daemons, places) if daemons.is_empty() && places.is_empty() => Ok(()),
            left => Err(format!("these are left behind: {left:?}")),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for session in self.hosts.iter_mut().flat_map(|host| &mut host.mounts) {
            session.kill(super::ledger::Crash::OfTheDaemon);
        }
        clear_away(self.folder.path());
    }
}

pub fn record_of(document: &Value) -> String {
    document["record"].as_str().unwrap_or_default().to_owned()
}

/// Fails unless the command ended with one of these codes.
pub fn expect(ended: &Ended, codes: &[i32]) -> Result<(), String> {
    match ended.code {
        Some(code) if codes.contains(&code) => Ok(()),
        _ => Err(format!("it ended with {:?} and not with one of {codes:?}: {ended:#?}", ended.code)),
    }
}
