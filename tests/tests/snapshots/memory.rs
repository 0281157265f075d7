//! These tests bound how much memory the program needs, whatever the size of a profile.

use std::{fs, path::Path, thread, time::Duration};

use store::format::{
    layout,
    tree::{Entry, Kind},
};
use tests::{
    binary::{self, Ended, Host, Running},
    forge::{
        Forge,
        tree::{directory, file},
    },
    tree::noise,
};

const BOUND: u64 = 120 << 20;
const DAMAGED: i32 = 10;

/// About 400 MB: caches that do not compress, databases that do, and many small files.
fn fill(source: &Path) {
    for folder in 0..8_u64 {
        let place = source.join(format!("Default/{folder}"));
        fs::create_dir_all(&place).unwrap();
        for file in 0..15 {
            fs::write(place.join(format!("cache {file}")), noise(2_000_000, 100 * folder + file)).unwrap();
        }
        for file in 0..500_u64 {
            let len = 200 + 17 * file as usize;
            fs::write(place.join(format!("small {file}")), noise(len, 100_000 + 1000 * folder + file))
                .unwrap();
        }
    }
    for database in 0..4 {
        let lines = (0..600_000).map(|line| format!("{database} visited https://example.org/{line}\n"));
        fs::write(source.join(format!("Default/database {database}")), lines.collect::<String>()).unwrap();
    }
    fs::write(source.join("Default/one large file"), noise(60_000_000, 9)).unwrap();
}

/// The most memory that was ever resident, watched until the end.
fn peak(running: Running) -> u64 {
    watched(running).0
}

pub(super) fn watched(running: Running) -> (u64, Ended) {
    let (peak, ended) = watched_to_the_end(running);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    (peak, ended)
}

fn watched_to_the_end(mut running: Running) -> (u64, Ended) {
    let status = format!("/proc/{}/status", running.id());
    let mut peak = 0;
    while running.runs() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // Absent once it ends.
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak = peak.max(kibibytes.unwrap_or(0) << 10);
        thread::sleep(Duration::from_millis(2));
    }
    let ended = running.wait();
    assert!(peak > 0, "it ended unseen");
    (peak, ended)
}

#[test]
fn a_large_profile_needs_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    let host = Host::local(&dir.path().join("home"), &dir.path().join("store"));
    let out = dir.path().join("out").display().to_string();
    let snapshot = peak(host.start(binary::snapshot(&source, "acme/alice")));
    // Little has changed, and what is known is found in the index.
    fs::write(source.join("Default/new"), noise(5_000_000, 10)).unwrap();
    let next = peak(host.start(binary::snapshot(&source, "acme/alice")));
    let restore = peak(host.start(["restore", "acme/alice", &out]));
    let verify = peak(host.start(["verify", "acme/alice", "--read-data"]));
    let peaks = [
        ("snapshot", snapshot, BOUND),
        ("next snapshot", next, BOUND),
        ("restore", restore, BOUND),
        ("verify", verify, BOUND),
    ];
    println!("{:?}", peaks.map(|(command, peak, _)| format!("{command}: {} MiB", peak >> 20)));
    for (command, peak, bound) in peaks {
        assert!(peak <= bound, "{command} took {} MiB", peak >> 20);
    }
}

/// A store in which so many profiles share most of a snapshot that was deleted since.
fn shared(root: &Path, profiles: u64) -> Host {
    let host = Host::local(&root.join("home"), &root.join("store"));
    host.succeed(["init", "--chunk-kib", "1"]);
    let source = root.join("source");
    fs::create_dir_all(&source).unwrap();
    for file in 0..80 {
        fs::write(source.join(format!("{file:02}")), noise(100_000, file)).unwrap();
    }
    let deleted =
        host.succeed(binary::snapshot(&source, "acme/first"))["record"].as_str().unwrap().to_owned();
    for file in 60..80 {
        fs::remove_file(source.join(format!("{file:02}"))).unwrap();
    }
    for profile in 0..profiles {
        fs::write(source.join("own"), noise(1000, 1000 + profile)).unwrap();
        host.succeed(binary::snapshot(&source, &format!("acme/p{profile}")));
    }
    let last = root.join("last");
    fs::create_dir_all(&last).unwrap();
    fs::write(last.join("last"), "last").unwrap();
    host.succeed(binary::snapshot(&last, "acme/first"));
    host.succeed(["delete", &format!("acme/first@{deleted}")]);
    host
}

/// Each of them has six thousand chunks: held all together, those of twenty would take some twenty mebibytes more.
#[test]
fn packs_that_many_snapshots_share_are_emptied_in_the_memory_that_two_take() {
    let collect = |profiles: u64| {
        let dir = tempfile::tempdir().unwrap();
        let host = shared(dir.path(), profiles);
        let line = ["gc", "acme", "--grace", "0", "--wait", "--max-unused", "0", "--memory", "8"];
        let (taken, ended) = watched(host.start(line));
        println!("{profiles} profiles: {} MiB", taken >> 20);
        let repacked = &ended.document["tenants"][0]["repacked"];
        assert_eq!(
            (&repacked["records"], &repacked["failed"]),
            (&profiles.into(), &0.into()),
            "{repacked:#}"
        );
        taken
    };
    let (two, many) = (collect(2), collect(22));
    assert!(many <= two + (8 << 20), "{} MiB for 2, {} MiB for 22", two >> 20, many >> 20);
}

/// So many small files, whose content is in the tree itself.
fn small_files(count: u64) -> Vec<Entry> {
    let mut entries = vec![directory("")];
    for number in 0..count {
        let folder = format!("folder {:05}", number / 100);
        if number % 100 == 0 {
            entries.push(directory(folder.clone()));
        }
        entries.push(file(&format!("{folder}/a file with a long name {number:08}"), &noise(400, number)));
    }
    entries
}

/// How much memory each reader of a whole tree takes for one of so many files.
fn readers(files: u64) -> Vec<(&'static str, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let (source, store) = (dir.path().join("source"), dir.path().join("store"));
    let host = Host::local(&dir.path().join("home"), &store);
    fs::create_dir(&source).unwrap();
    // One that is in a pack of data.
    fs::write(source.join("y"), noise(100_000, 1)).unwrap();
    let mut entries = small_files(files);
    let first = host.snapshot(&source, "acme/alice");
    let mut forge = Forge::of(&store, "acme/alice/131");
    entries.extend(forge.entries.iter().filter(|entry| !entry.path.is_root()).cloned());
    forge.write_spanned(&entries);
    fs::write(source.join("x"), "x").unwrap();
    host.snapshot(&source, "acme/alice");
    let is_file = |at: &usize| matches!(entries[*at].kind, Kind::File { .. });
    let at = (entries.len() / 2..entries.len()).find(is_file).unwrap();
    entries[at] = file(&entries[at].path.to_string(), b"another");
    let mut forge = Forge::of(&store, "acme/alice/131");
    forge.write_spanned(&entries);
    drop(entries);
    let data = forge.path(layout::pack(&forge.lineage.name.tenant, forge.locations[0].pack).as_str());
    drop(forge);
    let reader = Host::local(&dir.path().join("another home"), &store);
    let (out, archives) = (dir.path().join("out"), dir.path().join("archives"));
    let before = format!("acme/alice@{}", first["record"].as_str().unwrap());
    let peak_of = |name: &'static str, command: &[&str]| {
        let (peak, ended) = watched_to_the_end(reader.start(command));
        // No index has what was put into the store like this.
        let expected: &[i32] = if name.starts_with("verify") { &[0, DAMAGED] } else { &[0] };
        assert!(ended.code.is_some_and(|code| expected.contains(&code)), "{name}: {ended:#?}");
        (name, peak)
    };
    let mut peaks = vec![
        peak_of("restore", &["restore", "acme/alice", out.to_str().unwrap()]),
        // Compressed anew, an archive takes what its compressor takes.
        peak_of("export", &["export", "acme/alice", "--splice", "-o", archives.to_str().unwrap()]),
        peak_of("verify", &["verify", "acme/alice"]),
        peak_of("diff", &["diff", &before]),
        peak_of("diff --profile", &["diff", &before, "--profile"]),
        peak_of("find", &["find", "acme/alice", "nothing like it"]),
        peak_of("ls", &["ls", "acme/alice", "-R"]),
    ];
    let mut archives = fs::read_dir(&archives).unwrap().map(|entry| entry.unwrap().path());
    let archive = archives.find(|path| path.extension().is_some_and(|end| end == "zst")).unwrap();
    peaks.push(peak_of("import", &["import", archive.to_str().unwrap(), "acme/alice"]));
    // There is no other copy of it: what needs it is found, and marked.
    fs::remove_file(&data).unwrap();
    peaks.push(peak_of("verify --repair", &["verify", "acme/alice", "--repair"]));
    let told: Vec<String> = peaks.iter().map(|(name, peak)| format!("{name}: {} MiB", peak >> 20)).collect();
    println!("{files} files: {told:?}");
    peaks
}

/// Their trees take thirty megabytes and, held as entries, twice that. A check reads a pack of metadata at once.
#[test]
fn a_tree_of_many_files_is_read_in_little_more_memory_than_a_small_one() {
    let (few, many) = (readers(1000), readers(60_000));
    for ((command, few), (_, many)) in few.into_iter().zip(many) {
        let more = match command {
            // It holds the segments of the new tree until they are stored, and looks at all of the base.
            "import" => 110,
            "verify --repair" => 64,
            _ => 40,
        };
        assert!(many <= few + (more << 20), "{command}: {} MiB, and {} MiB", few >> 20, many >> 20);
    }
}
