//! `catalog` has the steps of the store: snapshots of directories, and the work of operators and timers.

use std::fs;

use serde_json::Value;

use super::{
    content::{self, SLOTS},
    fleet::{Fleet, MAJOR, PROFILES, Step, expect, record_of},
    ledger::Found,
};
use crate::binary::Running;

/// The work that goes on beside a step, on other hosts.
#[derive(Debug)]
pub struct Chores {
    running: Vec<Running>,
}

impl Chores {
    pub fn start(fleet: &mut Fleet) -> Self {
        let mut start = |words: &[&str]| {
            let host = fleet.lot.below(fleet.hosts.len());
            fleet.hosts[host].commands().start(words)
        };
        // Long enough for whoever reads without a pin.
        Self { running: vec![start(&["gc", "--grace", "600"]), start(&["retention", "apply"])] }
    }

    pub fn end(self) -> Result<(), String> {
        let ended: Vec<_> = self.running.into_iter().map(Running::wait).collect();
        ended.iter().try_for_each(|ended| expect(ended, &[0, 28]))
    }
}

/// Changes some files of the host's own directory and stores it.
pub fn snapshot(fleet: &mut Fleet, host: usize) -> Step {
    let profile = *fleet.lot.pick(&PROFILES).unwrap();
    let source = fleet.hosts[host].home.join("source");
    for _ in 0..=fleet.lot.below(3) {
        let (slot, generation) = (fleet.lot.below(SLOTS), fleet.generations(1));
        fs::write(source.join(content::name(slot)), content::part(slot, generation)).unwrap();
    }
    let words = ["snapshot", source.to_str().unwrap(), profile, "--chrome-major", MAJOR];
    let ended = fleet.hosts[host].commands().run(words);
    expect(&ended, if fleet.may_be_locked(profile) { &[0, 24] } else { &[0] })?;
    if ended.code == Some(24) {
        return Ok(Some(format!("cannot snapshot {profile}: it is locked")));
    }
    let record = record_of(&ended.document);
    fleet.moved(profile, &record);
    let (found, expected) = (fleet.learn(profile, &record)?, content::look(&source, SLOTS));
    if found != expected {
        return Err(format!("{record} has {found:?}, and {expected:?} was stored"));
    }
    Ok(Some(format!("stores {profile} as {record}")))
}

/// A profile of which there is something.
fn any_profile(fleet: &mut Fleet) -> Option<String> {
    let profiles: Vec<String> = fleet.pointers.keys().cloned().collect();
    fleet.lot.pick(&profiles).cloned()
}

/// One of its snapshots, perhaps the current one.
fn any_snapshot(fleet: &mut Fleet, profile: &str) -> Result<Option<Value>, String> {
    let (snapshots, _) = fleet.list(profile)?;
    Ok(fleet.lot.pick(&snapshots).cloned())
}

fn sha_of(entry: &Value) -> String {
    entry["sha256_prefix"].as_str().unwrap().to_owned()
}

pub fn retention(fleet: &mut Fleet, host: usize) -> Step {
    let ended = fleet.hosts[host].commands().run(["retention", "apply"]);
    expect(&ended, &[0, 28])?;
    Ok(Some(format!("applies retention: {} removed", ended.document["removed"])))
}

/// By two hosts at once, without grace: nobody reads meanwhile but mounts.
pub fn gc(fleet: &mut Fleet, host: usize) -> Step {
    let other = fleet.lot.below(fleet.hosts.len());
    let words = ["gc", "--grace", "0", "--max-unused", "0"];
    let running = fleet.hosts[other].commands().start(words);
    let ended = fleet.hosts[host].commands().run(words);
    for ended in [ended, running.wait()] {
        expect(&ended, &[0, 28])?;
    }
    Ok(Some("collects garbage beside another".to_owned()))
}

/// Publishes a snapshot's archive, now and then while somebody deletes the snapshot.
pub fn publish(fleet: &mut Fleet, host: usize) -> Step {
    let Some(profile) = any_profile(fleet) else { return Ok(None) };
    let Some(entry) = any_snapshot(fleet, &profile)? else { return Ok(None) };
    let (sha, other) = (sha_of(&entry), fleet.lot.below(fleet.hosts.len()));
    let publishing =
        fleet.hosts[host].commands().start(["export", &profile, "--sha", &sha, "--publish", "--splice"]);
    if fleet.lot.once_in(2) {
        let deleted = fleet.hosts[other].commands().run(["delete", &profile, "--sha", &sha]);
        expect(&deleted, &[0, 3, 27, 28])?;
    }
    let published = publishing.wait();
    expect(&published, &[0, 3, 27, 28])?;
    Ok(Some(format!("publishes {sha} of {profile}: {:?}", published.code)))
}

pub fn delete(fleet: &mut Fleet, host: usize) -> Step {
    let Some(profile) = any_profile(fleet) else { return Ok(None) };
    let Some(entry) = any_snapshot(fleet, &profile)? else { return Ok(None) };
    let ended = fleet.hosts[host].commands().run(["delete", &profile, "--sha", &sha_of(&entry)]);
    // It may be current, mounted, or gone with a retention that runs beside.
    expect(&ended, &[0, 3, 27, 28])?;
    if ended.code == Some(0) && fleet.pointers.get(&profile) == Some(&record_of(&entry)) {
        return Err(format!("the current snapshot of {profile} was deleted"));
    }
    Ok(Some(format!("deletes {} of {profile}: {:?}", sha_of(&entry), ended.code)))
}

pub fn tag(fleet: &mut Fleet, host: usize) -> Step {
    let Some(profile) = any_profile(fleet) else { return Ok(None) };
    let Some(entry) = any_snapshot(fleet, &profile)? else { return Ok(None) };
    let words =
        [if fleet.lot.once_in(2) { "tag" } else { "untag" }, &profile, "kept", "--sha", &sha_of(&entry)];
    let ended = fleet.hosts[host].commands().run(words);
    expect(&ended, &[0, 3, 28])?;
    Ok(Some(format!("{} {} of {profile}: {:?}", words[0], words[4], ended.code)))
}

pub fn rollback(fleet: &mut Fleet, host: usize) -> Step {
    let Some(profile) = any_profile(fleet) else { return Ok(None) };
    let Some(entry) = any_snapshot(fleet, &profile)? else { return Ok(None) };
    let force = fleet.lot.once_in(3);
    let sha = sha_of(&entry);
    let mut words = vec!["rollback", &profile, "--sha", &sha, "--confirm"];
    words.extend(force.then_some("--force"));
    let ended = fleet.hosts[host].commands().run(words);
    expect(&ended, if fleet.may_be_locked(&profile) { &[0, 3, 24, 27, 28] } else { &[0, 3, 27, 28] })?;
    if ended.code == Some(0) {
        if fleet.is_held(&profile) && !force && ended.document["outcome"] != "unchanged" {
            return Err(format!("{profile} was rolled back under a holder of its lock"));
        }
        fleet.moved(&profile, &record_of(&ended.document));
        if ended.document["outcome"] == "rolled_back" {
            lose(fleet, &profile);
        }
    }
    Ok(Some(format!("rolls {profile} back to {sha}: {:?}", ended.code)))
}

/// The holder of the lock can no longer move the pointer.
fn lose(fleet: &mut Fleet, profile: &str) {
    let mounts = fleet.hosts.iter_mut().flat_map(|host| &mut host.mounts);
    mounts.filter(|mount| mount.profile == profile).for_each(|mount| mount.lost = true);
}

pub fn force_unlock(fleet: &mut Fleet, host: usize) -> Step {
    let profile = *fleet.lot.pick(&PROFILES).unwrap();
    if !fleet.pointers.contains_key(profile) {
        return Ok(None);
    }
    let words = ["force-unlock", profile, "--reason", "the soak says so", "--confirm"];
    let ended = fleet.hosts[host].commands().run(words);
    expect(&ended, &[0, 28])?;
    if ended.code == Some(0) {
        fleet.deaths.remove(profile);
        lose(fleet, profile);
    }
    Ok(Some(format!("takes the lock of {profile} away: {}", ended.document["outcome"])))
}

pub fn reap(fleet: &mut Fleet, host: usize) -> Step {
    let ended = fleet.hosts[host].commands().run(["reap", "--grace", "0"]);
    expect(&ended, &[0])?;
    Ok(Some(format!("reaps {} locks", ended.document["evicted"].as_array().map_or(0, Vec::len))))
}

/// A snapshot as an archive, and back as a snapshot of another profile.
pub fn import(fleet: &mut Fleet, host: usize) -> Step {
    let Some(profile) = any_profile(fleet) else { return Ok(None) };
    let Some(record) = fleet.pointers.get(&profile).cloned() else { return Ok(None) };
    let folder = fleet.path("archives");
    let words = ["export", &profile, "-o", folder.to_str().unwrap(), "--splice"];
    expect(&fleet.hosts[host].commands().run(words), &[0])?;
    let mut archives = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let archive = archives.find(|path| path.extension().is_some_and(|end| end == "zst"));
    let archive = archive.ok_or("there is no archive")?;
    let into = format!("{}/imports", profile.split('/').next().unwrap());
    let ended = fleet.hosts[host].commands().run(["import", archive.to_str().unwrap(), &into]);
    expect(&ended, &[0])?;
    fs::remove_dir_all(&folder).unwrap();
    let imported = record_of(&ended.document);
    fleet.moved(&into, &imported);
    let (found, expected): (Found, Found) = (fleet.learn(&into, &imported)?, fleet.learn(&profile, &record)?);
    if found != expected {
        return Err(format!("{imported} was imported with {found:?}, and exported with {expected:?}"));
    }
    Ok(Some(format!("takes {profile} into {into} as {imported}")))
}

/// Every byte of a profile, and one of its snapshots as it was.
pub fn verify(fleet: &mut Fleet, host: usize) -> Step {
    let Some(profile) = any_profile(fleet) else { return Ok(None) };
    expect(&fleet.hosts[host].commands().run(["verify", &profile]), &[0])?;
    if let Some(entry) = any_snapshot(fleet, &profile)? {
        fleet.learn(&profile, &record_of(&entry))?;
    }
    Ok(Some(format!("verifies {profile}")))
}

pub fn clock(fleet: &mut Fleet, host: usize) -> Step {
    let days = *fleet.lot.pick(&[-40, 0, 40]).unwrap();
    fleet.hosts[host].days = days;
    Ok(Some(format!("has its clock {days} days off")))
}
