//! Steps of the store: snapshots of directories, and what operators and timers do.

use std::fs;

use serde_json::Value;

use super::{
    content,
    ledger::Found,
    world::{MAJOR, PROFILES, SLOTS, Step, World, expect, record_of},
};
use crate::binary::Running;

/// What goes on beside a step, on other hosts.
#[derive(Debug)]
pub struct Chores {
    running: Vec<Running>,
}

impl Chores {
    pub fn start(world: &mut World) -> Self {
        let mut start = |words: &[&str]| {
            let host = world.lot.below(world.hosts.len());
            world.hosts[host].commands().start(words)
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
pub fn snapshot(world: &mut World, host: usize) -> Step {
    let profile = *world.lot.pick(&PROFILES).unwrap();
    let source = world.hosts[host].home.join("source");
    for _ in 0..=world.lot.below(3) {
        let (slot, generation) = (world.lot.below(SLOTS), world.generations(1));
        fs::write(source.join(content::name(slot)), content::part(slot, generation)).unwrap();
    }
    let words = ["snapshot", source.to_str().unwrap(), profile, "--chrome-major", MAJOR];
    let ended = world.hosts[host].commands().run(words);
    expect(&ended, if world.may_be_locked(profile) { &[0, 24] } else { &[0] })?;
    if ended.code == Some(24) {
        return Ok(Some(format!("cannot snapshot {profile}: it is locked")));
    }
    let record = record_of(&ended.document);
    world.moved(profile, &record);
    let (found, expected) = (world.learn(profile, &record)?, content::look(&source, SLOTS));
    if found != expected {
        return Err(format!("{record} has {found:?}, and {expected:?} was stored"));
    }
    Ok(Some(format!("stores {profile} as {record}")))
}

/// A profile of which there is something.
fn any_profile(world: &mut World) -> Option<String> {
    let profiles: Vec<String> = world.pointers.keys().cloned().collect();
    world.lot.pick(&profiles).cloned()
}

/// One of its snapshots, perhaps the current one.
fn any_snapshot(world: &mut World, profile: &str) -> Result<Option<Value>, String> {
    let (snapshots, _) = world.list(profile)?;
    Ok(world.lot.pick(&snapshots).cloned())
}

fn sha_of(entry: &Value) -> String {
    entry["sha256_prefix"].as_str().unwrap().to_owned()
}

pub fn retention(world: &mut World, host: usize) -> Step {
    let ended = world.hosts[host].commands().run(["retention", "apply"]);
    expect(&ended, &[0, 28])?;
    Ok(Some(format!("applies retention: {} removed", ended.document["removed"])))
}

/// By two hosts at once, without grace: nobody reads meanwhile but mounts.
pub fn gc(world: &mut World, host: usize) -> Step {
    let other = world.lot.below(world.hosts.len());
    let words = ["gc", "--grace", "0", "--max-unused", "0"];
    let running = world.hosts[other].commands().start(words);
    let ended = world.hosts[host].commands().run(words);
    for ended in [ended, running.wait()] {
        expect(&ended, &[0, 28])?;
    }
    Ok(Some("collects garbage beside another".to_owned()))
}

/// Publishes a snapshot's archive, now and then while somebody deletes the snapshot.
pub fn publish(world: &mut World, host: usize) -> Step {
    let Some(profile) = any_profile(world) else { return Ok(None) };
    let Some(entry) = any_snapshot(world, &profile)? else { return Ok(None) };
    let (sha, other) = (sha_of(&entry), world.lot.below(world.hosts.len()));
    let publishing =
        world.hosts[host].commands().start(["export", &profile, "--sha", &sha, "--publish", "--splice"]);
    if world.lot.once_in(2) {
        let deleted = world.hosts[other].commands().run(["delete", &profile, "--sha", &sha]);
        expect(&deleted, &[0, 3, 27, 28])?;
    }
    let published = publishing.wait();
    expect(&published, &[0, 3, 27, 28])?;
    Ok(Some(format!("publishes {sha} of {profile}: {:?}", published.code)))
}

pub fn delete(world: &mut World, host: usize) -> Step {
    let Some(profile) = any_profile(world) else { return Ok(None) };
    let Some(entry) = any_snapshot(world, &profile)? else { return Ok(None) };
    let ended = world.hosts[host].commands().run(["delete", &profile, "--sha", &sha_of(&entry)]);
    // It may be current, mounted, or gone with a retention that runs beside.
    expect(&ended, &[0, 3, 27, 28])?;
    if ended.code == Some(0) && world.pointers.get(&profile) == Some(&record_of(&entry)) {
        return Err(format!("the current snapshot of {profile} was deleted"));
    }
    Ok(Some(format!("deletes {} of {profile}: {:?}", sha_of(&entry), ended.code)))
}

pub fn tag(world: &mut World, host: usize) -> Step {
    let Some(profile) = any_profile(world) else { return Ok(None) };
    let Some(entry) = any_snapshot(world, &profile)? else { return Ok(None) };
    let words =
        [if world.lot.once_in(2) { "tag" } else { "untag" }, &profile, "kept", "--sha", &sha_of(&entry)];
    let ended = world.hosts[host].commands().run(words);
    expect(&ended, &[0, 3, 28])?;
    Ok(Some(format!("{} {} of {profile}: {:?}", words[0], words[4], ended.code)))
}

pub fn rollback(world: &mut World, host: usize) -> Step {
    let Some(profile) = any_profile(world) else { return Ok(None) };
    let Some(entry) = any_snapshot(world, &profile)? else { return Ok(None) };
    let force = world.lot.once_in(3);
    let sha = sha_of(&entry);
    let mut words = vec!["rollback", &profile, "--sha", &sha, "--confirm"];
    words.extend(force.then_some("--force"));
    let ended = world.hosts[host].commands().run(words);
    expect(&ended, if world.may_be_locked(&profile) { &[0, 3, 24, 27, 28] } else { &[0, 3, 27, 28] })?;
    if ended.code == Some(0) {
        if world.is_held(&profile) && !force && ended.document["outcome"] != "unchanged" {
            return Err(format!("{profile} was rolled back under a holder of its lock"));
        }
        world.moved(&profile, &record_of(&ended.document));
        if ended.document["outcome"] == "rolled_back" {
            lose(world, &profile);
        }
    }
    Ok(Some(format!("rolls {profile} back to {sha}: {:?}", ended.code)))
}

/// Whoever holds the lock can no longer move the pointer.
fn lose(world: &mut World, profile: &str) {
    let mounts = world.hosts.iter_mut().flat_map(|host| &mut host.mounts);
    mounts.filter(|mount| mount.profile == profile).for_each(|mount| mount.lost = true);
}

pub fn force_unlock(world: &mut World, host: usize) -> Step {
    let profile = *world.lot.pick(&PROFILES).unwrap();
    if !world.pointers.contains_key(profile) {
        return Ok(None);
    }
    let words = ["force-unlock", profile, "--reason", "the soak says so", "--confirm"];
    let ended = world.hosts[host].commands().run(words);
    expect(&ended, &[0, 28])?;
    if ended.code == Some(0) {
        world.deaths.remove(profile);
        lose(world, profile);
    }
    Ok(Some(format!("takes the lock of {profile} away: {}", ended.document["outcome"])))
}

pub fn reap(world: &mut World, host: usize) -> Step {
    let ended = world.hosts[host].commands().run(["reap", "--grace", "0"]);
    expect(&ended, &[0])?;
    Ok(Some(format!("reaps {} locks", ended.document["evicted"].as_array().map_or(0, Vec::len))))
}

/// A snapshot as an archive, and back as a snapshot of another profile.
pub fn import(world: &mut World, host: usize) -> Step {
    let Some(profile) = any_profile(world) else { return Ok(None) };
    let Some(record) = world.pointers.get(&profile).cloned() else { return Ok(None) };
    let folder = world.path("archives");
    let words = ["export", &profile, "-o", folder.to_str().unwrap(), "--splice"];
    expect(&world.hosts[host].commands().run(words), &[0])?;
    let mut archives = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let archive = archives.find(|path| path.extension().is_some_and(|end| end == "zst"));
    let archive = archive.ok_or("there is no archive")?;
    let into = format!("{}/imports", profile.split('/').next().unwrap());
    let ended = world.hosts[host].commands().run(["import", archive.to_str().unwrap(), &into]);
    expect(&ended, &[0])?;
    fs::remove_dir_all(&folder).unwrap();
    let imported = record_of(&ended.document);
    world.moved(&into, &imported);
    let (found, expected): (Found, Found) = (world.learn(&into, &imported)?, world.learn(&profile, &record)?);
    if found != expected {
        return Err(format!("{imported} was imported with {found:?}, and exported with {expected:?}"));
    }
    Ok(Some(format!("takes {profile} into {into} as {imported}")))
}

/// Every byte of a profile, and one of its snapshots as it was.
pub fn verify(world: &mut World, host: usize) -> Step {
    let Some(profile) = any_profile(world) else { return Ok(None) };
    expect(&world.hosts[host].commands().run(["verify", &profile]), &[0])?;
    if let Some(entry) = any_snapshot(world, &profile)? {
        world.learn(&profile, &record_of(&entry))?;
    }
    Ok(Some(format!("verifies {profile}")))
}

pub fn clock(world: &mut World, host: usize) -> Step {
    let days = *world.lot.pick(&[-40, 0, 40]).unwrap();
    world.hosts[host].days = days;
    Ok(Some(format!("has its clock {days} days off")))
}
