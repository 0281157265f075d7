//! These tests import trees of all kinds that GNU tar has archived, and find them as they were.

use std::{fs, os::unix::fs::FileExt, path::Path, process::Command};

use proptest::prelude::*;
use tests::{
    profile_fixture::ProfileFixture,
    random::{entries, make},
    tree::{assert_same, make_odd, noise, set_mtime},
};

/// Through a program that writes tar, an import and a restore.
fn round_trip(fixture: &ProfileFixture, source: &Path, tar: &str) {
    let (archive, out) = (fixture.path("archive.tar.zst"), fixture.path("out"));
    let line = format!("{tar} -C \"$0\" -c . | zstd -q > \"$1\"");
    let made = Command::new("sh").args(["-c", &line]).args([source, &archive]).status().unwrap();
    assert!(made.success());
    fixture.host.succeed(["import", archive.to_str().unwrap(), "acme/alice", "--chrome-major", "131"]);
    if out.exists() {
        fs::remove_dir_all(&out).unwrap();
    }
    fixture.host.restore("acme/alice", &out);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_gnu_tar_writes_comes_back(entries in entries(), sorted in any::<bool>()) {
        let fixture = ProfileFixture::local();
        let source = fixture.path("source");
        fs::create_dir(&source).unwrap();
        make(&source, &entries);
        let order = if sorted { "--sort=name" } else { "--sort=none" };
        round_trip(&fixture, &source, &format!("tar --format=posix --sparse --xattrs {order}"));
        assert_same(&source, &fixture.path("out"));
    }
}

#[test]
fn everything_a_file_system_can_hold_comes_back_in_every_format() {
    let fixture = ProfileFixture::local();
    let source = fixture.path("source");
    fs::create_dir(&source).unwrap();
    make_odd(&source);
    round_trip(&fixture, &source, "tar --format=posix --sparse --xattrs");
    assert_same(&source, &fixture.path("out"));
    // And the tree is the one that a capture finds.
    let captured = fixture.host.snapshot(&source, "acme/alice");
    assert_eq!(captured["outcome"], "unchanged", "{captured}");
    // GNU tar's own format has no attributes and no parts of seconds.
    round_trip(&fixture, &source, "tar --format=gnu");
    let (before, after) = (source.join("a/large"), fixture.path("out/a/large"));
    assert_eq!(fs::read(before).unwrap(), fs::read(after).unwrap());
    let deep = (0..30).fold(fixture.path("out/deep"), |path, _| path.join("d".repeat(100)));
    assert_eq!(fs::read(deep.join("bottom")).unwrap(), b"found");
}

/// A file of which so many parts are there, each as long and as far from the next.
fn sparse(path: &Path, parts: u64, len: u64, step: u64) {
    let file = fs::File::create(path).unwrap();
    file.set_len((parts + 1) * step).unwrap();
    for part in 0..parts {
        file.write_all_at(&noise(len as usize, part), part * step + step / 2).unwrap();
    }
}

/// What is not in the stream are holes again, in each of the forms there are. bsdtar asks nobody
/// whether it may leave them out.
#[test]
fn holes_that_are_left_out_come_back() {
    let fixture = ProfileFixture::local();
    let source = fixture.path("source");
    fs::create_dir_all(source.join("below")).unwrap();
    fs::write(source.join("full"), noise(100_000, 7)).unwrap();
    sparse(&source.join("only a hole"), 0, 0, 1 << 20);
    // As many as a header has room for, one more, and more than a block behind it has.
    for parts in [1, 3, 4, 5, 30, 400] {
        sparse(&source.join(format!("below/{parts}")), parts, 4096, 64 << 10);
    }
    sparse(&source.join("n".repeat(150)), 2, 200_000, 1 << 20);
    let end = fs::File::create(source.join("ends in data")).unwrap();
    end.write_all_at(&noise(5000, 3), 10 << 20).unwrap();
    drop(end);
    for entry in ["", "below"].map(|folder| fs::read_dir(source.join(folder)).unwrap()).into_iter().flatten()
    {
        set_mtime(&entry.unwrap().path(), 1_700_000_000, 0);
    }
    set_mtime(&source, 1_700_000_000, 0);
    for tar in [
        "tar --format=gnu --sparse",
        "tar --format=posix --sparse --sparse-version=0.0",
        "tar --format=posix --sparse --sparse-version=0.1",
        "tar --format=posix --sparse --sparse-version=1.0",
        "bsdtar --format=pax",
    ] {
        round_trip(&fixture, &source, tar);
        assert_same(&source, &fixture.path("out"));
        let captured = fixture.host.snapshot(&source, "acme/alice");
        assert_eq!(captured["outcome"], "unchanged", "{tar}: {captured}");
    }
}

#[test]
fn what_was_exported_is_the_same_snapshot_again() {
    let fixture = ProfileFixture::local();
    let source = fixture.path("source");
    fs::create_dir(&source).unwrap();
    make_odd(&source);
    let captured = fixture.host.snapshot(&source, "acme/alice");
    let archives = fixture.path("archives");
    for more in [&[][..], &["--splice"]] {
        let line = ["export", "acme/alice", "-o", archives.to_str().unwrap(), "--chrome-major", "131"];
        let exported = fixture.host.succeed([&line[..], more].concat());
        let name = format!("profile-{}.tar.zst", &exported["archive_sha256"].as_str().unwrap()[..12]);
        // The manifest lies beside it, and says which Chrome it is.
        let imported = fixture.host.succeed(["import", archives.join(name).to_str().unwrap(), "acme/bob"]);
        fixture.host.verify("acme/bob", &["--chrome-major", "131"]);
        assert_eq!(imported["snapshot_id"], captured["snapshot_id"], "{more:?}");
        assert_eq!(imported["archive_sha256"], exported["archive_sha256"]);
        assert_eq!(imported["new_chunks"], 0, "{imported}");
    }
}
