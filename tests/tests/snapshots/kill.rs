//! These tests kill the program at any moment: nothing that was stored is lost, nothing half done is ever seen, and
//! the next command succeeds.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tests::{
    binary::{self, Host, Running},
    kill_at::{self, Moment, moments, timed},
    server::SeaweedFs,
    tree::{Seen, assert_seen, look_at, noise},
};

const PROFILE: &str = "acme/alice";
const FILES: u64 = 40;

/// About 30 MB, of which most changes from one generation to the next.
fn fill(source: &Path, generation: u64) {
    fs::create_dir_all(source.join("Default/Cache")).unwrap();
    for file in 0..FILES {
        let seed = if file % 4 == 0 { file } else { 1000 * (generation + 1) + file };
        let path = source.join(format!("Default/Cache/f_{file:06}"));
        if file % 4 != 0 || generation == 0 {
            fs::write(path, noise(700_000, seed)).unwrap();
        }
    }
    let text = format!("https://example.org/{generation}/").repeat(40_000);
    fs::write(source.join("Default/History"), text).unwrap();
    fs::write(source.join("Local State"), format!("{{\"generation\":{generation}}}")).unwrap();
    fs::write(source.join(format!("only in {generation}")), "").unwrap();
    if generation > 0 {
        fs::remove_file(source.join(format!("only in {}", generation - 1))).ok();
    }
}

/// Kills the command at that moment. Returns whether it was still running.
fn kill_at(start: impl FnOnce() -> Running, moment: Moment) -> bool {
    let ended = kill_at::kill_at(start, moment);
    assert!(matches!(ended.code, None | Some(0)), "{ended:#?}");
    ended.code.is_none()
}

/// What was found after a series of kills.
#[derive(Debug, Default)]
struct Tally {
    struck: usize,
    old: usize,
    new: usize,
}

/// Kills a snapshot at each moment; `host` goes on with what the killed one left in its
/// cache, while `other` sees only the store.
fn snapshots_survive(
    host: &Host,
    other: &Host,
    dir: &Path,
    moments: impl FnOnce(Duration) -> Vec<Moment<'static>>,
    more: &[Moment],
) -> Tally {
    let (source, out) = (dir.join("source"), dir.join("out"));
    let mut generation = 0;
    fill(&source, generation);
    host.snapshot(&source, PROFILE);
    generation += 1;
    fill(&source, generation);
    let usual = timed(|| drop(host.snapshot(&source, PROFILE)));
    let mut current = look_at(&source);
    let mut tally = Tally::default();
    for moment in moments(usual).iter().chain(more) {
        generation += 1;
        fill(&source, generation);
        let next = look_at(&source);
        tally.struck += usize::from(kill_at(|| host.start(binary::snapshot(&source, PROFILE)), *moment));

        other.verify(PROFILE, &[]);
        other.restore(PROFILE, &out);
        if look_at(&out) == next {
            tally.new += 1;
        } else {
            assert_seen(&current, &out);
            tally.old += 1;
        }
        fs::remove_dir_all(&out).unwrap();

        host.snapshot(&source, PROFILE);
        other.restore(PROFILE, &out);
        assert_seen(&next, &out);
        fs::remove_dir_all(&out).unwrap();
        current = next;
    }
    other.verify(PROFILE, &["--read-data"]);
    assert_eq!(host.snapshot(&source, PROFILE)["outcome"], "unchanged");
    println!("{tally:?}, usually {usual:?}");
    tally
}

#[test]
fn a_killed_snapshot_leaves_the_store_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let host = Host::local(&dir.path().join("home"), &store);
    let other = Host::local(&dir.path().join("other"), &store);
    let objects = store.join("objects");
    let [packs, indexes] = ["content/acme/packs", "content/acme/index"].map(|name| objects.join(name));
    let records = objects.join("snapshots/acme/alice/131");
    let (pointer, unfinished) = (records.join("latest.json"), store.join("tmp"));
    let log = records.join("events");
    let events = [
        Moment::Entry(&unfinished),
        Moment::Entry(&packs),
        Moment::Entry(&indexes),
        Moment::Entry(&records),
        // Its first change is the claim; an event is stored right after the flip.
        Moment::Change(&pointer),
        Moment::Entry(&log),
    ];
    let tally = snapshots_survive(&host, &other, dir.path(), |usual| moments(20, usual, 1), &events);
    assert!(tally.struck >= 10, "too few were hit: {tally:?}");
    assert!(tally.old >= 5 && tally.new >= 1, "not both sides of the flip were seen: {tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_snapshot_leaves_a_bucket_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let host = Host::s3(&dir.path().join("home"), &config);
    let other = Host::s3(&dir.path().join("other"), &config);
    let tally = snapshots_survive(&host, &other, dir.path(), |usual| moments(5, usual, 2), &[]);
    assert!(tally.struck >= 3 && tally.old >= 2, "too few were hit: {tally:?}");
}

/// Everything beside the target that a killed restore has left.
fn leftovers(target: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(target.parent().unwrap()).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path != target).collect()
}

#[test]
fn a_killed_restore_leaves_its_target_absent_or_complete() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::local(&dir.path().join("home"), &dir.path().join("store"));
    let source = dir.path().join("source");
    fill(&source, 0);
    let old = look_at(&source);
    let first = host.snapshot(&source, PROFILE);
    fill(&source, 1);
    let new = look_at(&source);
    host.snapshot(&source, PROFILE);

    let target = dir.path().join("targets/out");
    let at = target.to_str().unwrap();
    let usual = timed(|| drop(host.restore(PROFILE, &target)));
    fs::remove_dir_all(&target).unwrap();
    let beside = target.parent().unwrap();
    let mut struck = 0;
    let mut left = 0;
    let mut all = moments(24, usual, 3);
    all.push(Moment::Entry(beside));
    all.push(Moment::Entry(beside));
    for (round, moment) in all.into_iter().enumerate() {
        // Every other one replaces what is there.
        let before: Option<&BTreeMap<PathBuf, Seen>> = (round % 2 == 1).then_some(&old);
        if before.is_some() {
            host.succeed(["restore", PROFILE, at, "--sha", first["snapshot_id"].as_str().unwrap()]);
        }
        struck += usize::from(kill_at(|| host.start(["restore", PROFILE, at, "--force"]), moment));
        if target.exists() {
            match before {
                Some(old) if look_at(&target) != new => assert_seen(old, &target),
                _ => assert_seen(&new, &target),
            }
        } else {
            assert!(before.is_none(), "what was to be replaced is gone");
        }
        // Killed, it could not clean up; what is left is hidden and tells whose it is.
        for path in leftovers(&target) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(name.starts_with(".out.pstore-"), "{name}");
            left += 1;
            fs::remove_dir_all(path).unwrap();
        }
        host.succeed(["restore", PROFILE, at, "--force"]);
        assert_seen(&new, &target);
        assert!(leftovers(&target).is_empty());
        fs::remove_dir_all(&target).unwrap();
    }
    println!("{struck} were hit and left {left} directories; usually {usual:?}");
    assert!(struck >= 10, "too few were hit: {struck}");
    host.verify(PROFILE, &[]);
}
