//! These tests read trees that say in few bytes that they are large: they are refused before memory or time is
//! taken for them.

use std::{fs, path::PathBuf};

use store::format::{
    tree::Entry,
    tree_limits::{MAX_CONTENT_BYTES, MAX_DEPTH},
};
use tests::{
    binary::{Host, Limits},
    forge::{
        Forge, Segment,
        tree::{self, directory, file, hole},
    },
    mount_fixture::{ALICE, MountFixture},
};

/// As much as a reader of any small snapshot needs, several times over. Threads count with their
/// whole stacks.
const LIMITS: Limits = Limits { data_bytes: 512 << 20, cpu_seconds: 20 };
const DAMAGED: i32 = 10;
const TOO_LARGE: i32 = 31;

struct LimitScenario {
    fixture: MountFixture,
    host: Host,
    forge: Forge,
}

impl LimitScenario {
    fn new() -> Self {
        let fixture = MountFixture::local();
        let source = fixture.path("source");
        super::fill(&source);
        fixture.host.snapshot(&source, ALICE);
        let forge = Forge::of(&fixture.path("store"), "acme/alice/131");
        let host = fixture.another("reader").within(LIMITS);
        Self { fixture, host, forge }
    }

    fn at(&self, name: &str) -> (PathBuf, String) {
        let path = self.fixture.path(name);
        (path.clone(), path.to_str().unwrap().to_owned())
    }

    /// Every reader refuses it, in words that say why, and leaves nothing.
    #[track_caller]
    fn assert_refused(&self, why: &str) {
        let ((out, out_at), (archives, archives_at)) = (self.at("out"), self.at("archives"));
        let mountpoint = self.fixture.mountpoint.to_str().unwrap();
        for command in [
            &["restore", ALICE, &out_at][..],
            &["export", ALICE, "-o", &archives_at],
            &["mount", ALICE, mountpoint, "--chrome-major", "131", "--read-only"],
        ] {
            let error = self.host.fail(DAMAGED, command);
            assert!(error["message"].as_str().unwrap().contains(why), "{command:?}: {error:#}");
        }
        let loaded = self.host.succeed(["restore", ALICE, &out_at, "--chrome-major", "131"]);
        // Or what its record says is more than may be loaded.
        assert!(["sha_mismatch", "too_large"].contains(&loaded["outcome"].as_str().unwrap()), "{loaded:#}");
        fs::remove_dir_all(&out).unwrap();
        assert!(fs::read_dir(&archives).map_or(0, |found| found.count()) == 0, "something was exported");
        let verified = self.host.run(["verify", ALICE]);
        assert_eq!(verified.code, Some(DAMAGED), "{verified:#?}");
        assert!(verified.document["damage"].to_string().contains(why), "{:#}", verified.document);
        let left = fs::read_dir(self.fixture.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = left.filter(|name| name.to_str().unwrap().contains(".pstore-")).collect();
        assert!(left.is_empty(), "{left:?}");
        // The tenant harms itself alone: a collection goes on.
        let collected = self.host.run(["gc", "acme", "--grace", "0", "--dry-run"]);
        assert!(matches!(collected.code, Some(0 | DAMAGED)), "{collected:#?}");
    }
}

#[test]
fn a_root_that_names_one_segment_often_is_refused() {
    let mut scenario = LimitScenario::new();
    let mut segments = tree::segments(&scenario.forge.entries, &scenario.forge.locations);
    // As long as a segment can be: it takes two kilobytes in a pack.
    let mut long = b"pstore/tree/1\n".to_vec();
    long.resize(16 << 20, 0);
    let empty = tree::segments(&[], &[]).remove(0).table;
    segments.push(Segment { tree: long, table: empty, chunks: 0 });
    scenario.forge.write_bent(&segments, |root| {
        let long = root.segments[root.segments.len() - 1].clone();
        root.segments.extend(vec![long; 4000]);
    });
    scenario.assert_refused("bytes of metadata");
}

#[test]
fn many_long_paths_that_share_their_beginning_are_refused() {
    let mut scenario = LimitScenario::new();
    let mut entries = vec![directory("")];
    let mut path = Vec::new();
    for _ in 0..120 {
        path.extend_from_slice(&[b'd'; 255]);
        entries.push(directory(path.clone()));
        path.push(b'/');
    }
    let mut segments = tree::segments(&entries, &[]);
    // Each path of 30 KB takes 21 bytes after the one before, and most of these compress away.
    let mut more = b"pstore/tree/1\n".to_vec();
    for number in 0..5_000 {
        let name = format!("{number:06}");
        let full = [&path[..], name.as_bytes()].concat();
        let entry = file(std::str::from_utf8(&full).unwrap(), b"");
        tree::append(&mut more, &mut entries, entry);
    }
    segments.push(Segment { tree: more, table: segments[0].table.clone(), chunks: 0 });
    scenario.forge.record.uncompressed_size_bytes = 0;
    scenario.forge.write_segments(&segments);
    scenario.assert_refused("bytes of paths");
}

/// A chain of directories, one in the other.
fn chain(depth: usize) -> Vec<Entry> {
    let mut path = Vec::new();
    let mut entries = vec![directory("")];
    for _ in 0..depth {
        path.push(b'd');
        entries.push(directory(path.clone()));
        path.push(b'/');
    }
    entries
}

#[test]
fn a_tree_that_is_too_deep_is_refused() {
    let mut scenario = LimitScenario::new();
    scenario.forge.write(&chain(MAX_DEPTH + 1));
    scenario.assert_refused("names; 2048 are the most");
    scenario.forge.write(&chain(5000));
    scenario.assert_refused("names; 2048 are the most");
}

#[test]
fn the_deepest_tree_is_restored_replaced_and_captured_again() {
    let mut scenario = LimitScenario::new();
    let mut entries = chain(MAX_DEPTH - 1);
    let deepest = entries.last().unwrap().path.join(b"file").unwrap();
    entries.push(Entry { path: deepest, ..file("x", b"found") });
    scenario.forge.write(&entries);
    let (out, at) = scenario.at("out");
    scenario.host.succeed(["restore", ALICE, &at]);
    // What is there is taken away, as deep as it is.
    scenario.host.succeed(["restore", ALICE, &at, "--force"]);
    let stored = scenario.host.snapshot(&out, "acme/deep");
    assert_eq!(stored["uncompressed_size_bytes"], 5, "{stored:#}");
    scenario.host.verify("acme/deep", &[]);
    // A level more can be made, and not be stored.
    let above = scenario.fixture.path("above");
    fs::create_dir(&above).unwrap();
    fs::rename(&out, above.join("out")).unwrap();
    let error = scenario.host.fail(2, tests::binary::snapshot(&above, "acme/deeper"));
    assert!(error["message"].as_str().unwrap().contains("2048 are the most"), "{error:#}");
    store::tree::remove::remove_all(&above).unwrap();
}

#[test]
fn files_larger_than_any_disk_are_refused() {
    let mut scenario = LimitScenario::new();
    scenario.forge.write(&[directory(""), hole("a", (1 << 62) - 1)]);
    scenario.assert_refused("bytes of files");
    scenario.forge.write(&[directory(""), hole("a", MAX_CONTENT_BYTES), hole("b", 1)]);
    scenario.assert_refused("bytes of files");
}

#[test]
fn a_hole_that_is_larger_than_a_profile_may_be_is_not_exported() {
    let mut scenario = LimitScenario::new();
    scenario.forge.write(&[directory(""), hole("a", MAX_CONTENT_BYTES)]);
    let (_, archives) = scenario.at("archives");
    let error = scenario.host.fail(TOO_LARGE, ["export", ALICE, "-o", &archives]);
    assert_eq!(error["kind"], "profile_too_large");
    assert_eq!(fs::read_dir(&archives).unwrap().count(), 0, "something was exported");
}

#[test]
fn a_record_that_says_less_than_its_files_have_is_refused() {
    let mut scenario = LimitScenario::new();
    scenario.host = scenario.host.clone().with("PSTORE_MAX_PROFILE_BYTES", "1MiB");
    scenario.forge.change_record(|record| record["uncompressed_size_bytes"] = 1.into());
    scenario.assert_refused("bytes, and 1 in it");
    // One that is honest about it is not loaded either.
    scenario.forge.write(&[directory(""), hole("a", 300 << 20)]);
    let (out, at) = scenario.at("out");
    let loaded = scenario.host.succeed(["restore", ALICE, &at, "--chrome-major", "131"]);
    assert_eq!(loaded["outcome"], "too_large");
    assert!(!out.join("a").exists());
    let mountpoint = scenario.fixture.mountpoint.to_str().unwrap();
    let mount = ["mount", ALICE, mountpoint, "--chrome-major", "131", "--read-only", "--require"];
    assert_eq!(scenario.host.fail(TOO_LARGE, mount)["kind"], "profile_too_large");
}

#[test]
fn a_collection_takes_no_more_for_a_tree_than_it_may() {
    let mut scenario = LimitScenario::new();
    // Two snapshots, so that something of the packs of the first is not needed any more.
    let source = scenario.fixture.path("source");
    fs::write(source.join("Default/History"), tests::tree::noise(4_000_000, 77)).unwrap();
    let first =
        scenario.host.succeed(["list", ALICE])["snapshots"][0]["sha256_prefix"].as_str().unwrap().to_owned();
    scenario.host.snapshot(&source, ALICE);
    scenario.host.succeed(["delete", ALICE, "--sha", &first]);
    scenario.forge = Forge::of(&scenario.fixture.path("store"), "acme/alice/131");
    // 25 MB of attributes.
    let mut entries = scenario.forge.entries.clone();
    entries.extend((0..100_000).map(|number| {
        let mut entry = file(&format!("z{number:06}"), b"");
        entry.meta.xattrs = vec![(b"user.x".to_vec(), vec![b'x'; 220])];
        entry
    }));
    scenario.forge.write(&entries);
    let collect = ["gc", "acme", "--grace", "0", "--memory", "16", "--dry-run", "--max-unused", "0"];
    let collected = scenario.host.run(collect);
    assert_eq!(collected.code, Some(0), "{collected:#?}");
    assert!(collected.stderr.contains("bytes of metadata"), "{}", collected.stderr);
    // Where the root says what each segment needs, no more than some of them are held, and the snapshot is moved.
    scenario.forge.write_spanned(&entries);
    let collected = scenario.host.run(collect);
    assert_eq!(collected.code, Some(0), "{collected:#?}");
    assert!(!collected.stderr.contains("bytes of metadata"), "{}", collected.stderr);
    let repacked = &collected.document["tenants"][0]["repacked"];
    assert_eq!(repacked["failed"], 0, "{repacked:#}");
    assert!(repacked["records"].as_u64().unwrap() > 0, "{repacked:#}");
}

#[test]
fn a_segment_that_is_named_many_times_is_held_and_kept_once() {
    let mut scenario = LimitScenario::new();
    let mut segments = tree::segments(&scenario.forge.entries, &scenario.forge.locations);
    let mut long = segments[0].tree.clone();
    long.resize(8 << 20, 0);
    let empty = tree::segments(&[], &[]).remove(0).table;
    segments.push(Segment { tree: long, table: empty, chunks: 0 });
    scenario.forge.write_bent(&segments, |root| {
        let long = root.segments[root.segments.len() - 1].clone();
        root.segments.extend(vec![long; 100]);
    });
    let (_, out) = scenario.at("out");
    // Twice: from the bucket, and from what this host has kept of it.
    for _ in 0..2 {
        scenario.host.fail(DAMAGED, ["restore", ALICE, &out]);
    }
}
