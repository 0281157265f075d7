//! These tests fill the disk, or forbid writing to it, under each of the places where the program writes: the right
//! error, nothing torn, and all is well when there is room again.

use std::{
    fs,
    io::Write,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use store::bucket::{Access, LocalBucket};
use tests::{
    binary::{self, Host, assert_says},
    checker,
    disk::SmallDisk,
    mount_fixture::{ALICE, MountFixture},
    tree::{assert_same, assert_seen, look_at, noise},
};

const MIB: u64 = 1 << 20;

fn fill(source: &Path, generation: u64) {
    fs::create_dir_all(source.join("Default")).unwrap();
    fs::write(source.join("Default/History"), noise(3 * MIB as usize, generation)).unwrap();
    fs::write(source.join("Default/Cookies"), noise(300_000, 99)).unwrap();
    fs::write(source.join("generation"), generation.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_room_takes_nothing_in_and_loses_nothing() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), SmallDisk::new(24 * MIB));
    let (source, out, store) = (dir.path().join("source"), dir.path().join("out"), disk.path().join("store"));
    let host = Host::local(&dir.path().join("home"), &store);
    fill(&source, 0);
    host.snapshot(&source, ALICE);
    let kept = look_at(&source);
    // From no room at all to room for all but the end.
    for left in [0, 8 << 10, 64 << 10, MIB, 3 * MIB] {
        fill(&source, 1 + left);
        disk.fill_but(left);
        let error = host.fail(6, binary::snapshot(&source, ALICE));
        assert_says(&error, "No space left on device");
        host.verify(ALICE, &["--read-data", "--no-cache"]);
        host.restore(ALICE, &out);
        assert_seen(&kept, &out);
        fs::remove_dir_all(&out).unwrap();
        disk.relieve();
        checker::look(&LocalBucket::open(&store, Access::ReadWrite).unwrap()).await.must_be_whole();
    }
    host.snapshot(&source, ALICE);
    host.succeed(["gc", "acme", "--grace", "0"]);
    host.verify(ALICE, &["--read-data", "--no-cache"]);
    host.restore(ALICE, &out);
    assert_same(&source, &out);
}

#[test]
fn a_store_that_may_not_be_written_to_can_be_read() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), SmallDisk::new(24 * MIB));
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    let host = Host::local(&dir.path().join("home"), &disk.path().join("store"));
    fill(&source, 0);
    host.snapshot(&source, ALICE);
    disk.make_read_only(true);
    host.succeed(["list", ALICE]);
    host.verify(ALICE, &["--read-data", "--no-cache"]);
    host.restore(ALICE, &out);
    assert_same(&source, &out);
    fill(&source, 1);
    let refused = host.fail(13, binary::snapshot(&source, ALICE));
    assert_says(&refused, "Read-only file system");
    let hint = refused["hint"].as_str().unwrap();
    assert!(hint.contains("mounted read-only"), "{hint}");
    assert_says(&host.fail(13, ["lock", "acquire", ALICE, "--chrome-major", "131"]), "Read-only file system");
    disk.make_read_only(false);
    host.snapshot(&source, ALICE);
    host.verify(ALICE, &["--read-data"]);
}

#[test]
fn a_cache_without_room_only_takes_time() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), SmallDisk::new(MIB));
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    let cache = disk.path().join("cache");
    let host = Host::local(&dir.path().join("home"), &dir.path().join("store"))
        .with("PSTORE_CACHE_DIR", cache.to_str().unwrap());
    for generation in 0..4 {
        fill(&source, generation);
        match generation {
            0 => disk.fill_but(0),
            1 => disk.fill_but(8 << 10),
            2 => disk.make_read_only(true),
            _ => {
                disk.make_read_only(false);
                disk.relieve();
            }
        }
        assert_eq!(host.snapshot(&source, ALICE)["pointer"], "flipped");
        host.restore(ALICE, &out);
        assert_same(&source, &out);
        fs::remove_dir_all(&out).unwrap();
        host.verify(ALICE, &["--read-data"]);
    }
}

#[test]
fn a_target_without_room_is_left_as_it_was() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), SmallDisk::new(10 * MIB));
    let source = dir.path().join("source");
    let host = Host::local(&dir.path().join("home"), &dir.path().join("store"));
    fill(&source, 0);
    host.snapshot(&source, ALICE);
    let target = disk.path().join("profile");
    let at = target.to_str().unwrap();
    disk.fill_but(2 * MIB);
    assert_says(&host.fail(6, ["restore", ALICE, at]), "No space left on device");
    disk.relieve();
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0, "nothing is left of it");
    host.restore(ALICE, &target);
    let before = look_at(&target);
    fill(&source, 1);
    host.snapshot(&source, ALICE);
    disk.fill_but(MIB);
    host.fail(6, ["restore", ALICE, at, "--force"]);
    assert_seen(&before, &target);
    disk.relieve();
    host.succeed(["restore", ALICE, at, "--force"]);
    assert_same(&source, &target);
}

/// Writes until there is no room. Returns how much of it was taken in.
fn write_until_full(path: &Path) -> u64 {
    let mut file = fs::File::create(path).unwrap();
    let mut taken = 0;
    loop {
        match file.write(&noise(64 << 10, taken)) {
            Ok(written) => taken += written as u64,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(28), "{error}");
                return taken;
            }
        }
        assert!(taken < 64 * MIB, "there is no end to it");
    }
}

#[test]
fn a_mount_whose_session_has_no_room_says_so_and_keeps_what_it_took_in() {
    let (fixture, disk) = (MountFixture::local(), SmallDisk::new(12 * MIB));
    let host =
        fixture.host.clone().with("PSTORE_SESSION_DIR", disk.path().join("sessions").to_str().unwrap());
    let place = fixture.mountpoint.to_str().unwrap();
    host.succeed(["mount", ALICE, place, "--chrome-major", "131"]);
    fill(&fixture.mountpoint, 0);
    host.succeed(["commit", place]);
    fs::write(fixture.mountpoint.join("before"), noise(500_000, 5)).unwrap();
    let taken = write_until_full(&fixture.mountpoint.join("too large"));
    assert!(taken > MIB, "{taken}");
    assert_eq!(fs::read(fixture.mountpoint.join("before")).unwrap(), noise(500_000, 5));
    assert!(fs::metadata(fixture.mountpoint.join("too large")).unwrap().len() >= taken);
    // It is committed as it is: only what the session keeps of it has no room.
    disk.fill_but(0);
    let full = look_at(&fixture.mountpoint);
    let committed = sha_of(&behind(&host, place));
    assert_eq!(count(&host, &committed), 2);
    let out = fixture.path("full");
    host.restore(ALICE, &out);
    assert_seen(&full, &out);
    // However often that is tried, there is one snapshot of it.
    assert_eq!(host.fail(39, ["commit", place])["kind"], "session_behind");
    assert_eq!(count(&host, &committed), 2);
    disk.relieve();
    fs::remove_file(fixture.mountpoint.join("too large")).unwrap();
    // What is removed makes room as soon as the kernel has let go of it.
    let began = Instant::now();
    while fs::write(fixture.mountpoint.join("after"), noise(400_000, 6)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(30), "there is no room though a file was removed");
        thread::sleep(Duration::from_millis(20));
    }
    let seen = look_at(&fixture.mountpoint);
    let last = sha_of(&host.succeed(["unmount", place, "--commit"])["committed"]);
    let out = fixture.path("out");
    host.restore(ALICE, &out);
    assert_seen(&seen, &out);
    host.verify(ALICE, &["--read-data", "--no-cache"]);
    assert_eq!(count(&host, &last), 3);
}

fn sha_of(document: &Value) -> String {
    document["sha256_prefix"].as_str().unwrap().to_owned()
}

/// How many snapshots Alice has. The current one is this.
#[track_caller]
fn count(host: &Host, current: &str) -> usize {
    let listed = host.succeed(["list", ALICE]);
    assert_eq!(listed["active_sha256_prefix"], current, "{listed:#}");
    listed["snapshots"].as_array().unwrap().len()
}

/// Commits, while the session's disk has no room for the journal that says so.
#[track_caller]
fn behind(host: &Host, place: &str) -> Value {
    let ended = host.run(["commit", place]);
    assert_eq!(ended.code, Some(39), "{ended:#?}");
    let document = ended.document;
    assert_eq!(document["error"]["kind"], "session_behind");
    assert_eq!((&document["outcome"], &document["pointer"]), (&"stored".into(), &"flipped".into()));
    document
}

/// A mount whose daemon was killed after its commit had moved the pointer, and before the session
/// had left behind what was committed.
struct CutShort {
    fixture: MountFixture,
    _disk: SmallDisk,
    host: Host,
    first: Value,
    second: Value,
}

impl CutShort {
    /// Something is changed `after` the commit.
    fn new(after: impl FnOnce(&Path)) -> Self {
        let (fixture, disk) = (MountFixture::local(), SmallDisk::new(12 * MIB));
        let sessions = disk.path().join("sessions");
        let host = fixture.host.clone().with("PSTORE_SESSION_DIR", sessions.to_str().unwrap());
        let place = fixture.mountpoint.to_str().unwrap();
        let mounted = host.succeed(["mount", ALICE, place, "--chrome-major", "131"]);
        fs::write(fixture.mountpoint.join("state"), "first").unwrap();
        let first = host.succeed(["commit", place]);
        fs::write(fixture.mountpoint.join("state"), "second").unwrap();
        disk.fill_but(0);
        let second = behind(&host, place);
        after(&fixture.mountpoint);
        fixture.kill(&mounted);
        disk.relieve();
        Self { fixture, _disk: disk, host, first, second }
    }

    fn mount(&self) -> [&str; 5] {
        ["mount", ALICE, self.fixture.mountpoint.to_str().unwrap(), "--chrome-major", "131"]
    }

    fn roll_back(&self) {
        self.host.succeed(["force-unlock", ALICE, "--reason", "the daemon is dead", "--confirm"]);
        self.host.succeed(["rollback", ALICE, "--sha", &sha_of(&self.first), "--confirm"]);
    }

    #[track_caller]
    fn is_current(&self, committed: &Value) {
        assert_eq!(count(&self.host, &sha_of(committed)), 2);
    }

    fn state(&self) -> String {
        fs::read_to_string(self.fixture.mountpoint.join("state")).unwrap()
    }
}

#[test]
fn a_commit_that_moved_the_pointer_before_its_daemon_was_killed_is_finished() {
    let cut = CutShort::new(|place| fs::create_dir(place.join("later")).unwrap());
    assert_eq!(cut.host.succeed(cut.mount())["resumed"], true);
    assert_eq!(cut.state(), "second");
    assert!(cut.fixture.mountpoint.join("later").is_dir());
    cut.is_current(&cut.second);
    cut.host.succeed(["unmount", cut.fixture.mountpoint.to_str().unwrap(), "--discard"]);
}

#[test]
fn a_rollback_is_not_undone_by_the_session_of_what_it_rolled_back() {
    let cut = CutShort::new(|_| {});
    cut.roll_back();
    let mounted = cut.host.succeed(cut.mount());
    assert_eq!((cut.state().as_str(), &mounted["resumed"]), ("first", &false.into()));
    let warned = mounted["warnings"].to_string();
    assert!(
        warned.contains(cut.second["record"].as_str().unwrap()) && warned.contains("moved the pointer"),
        "{warned}"
    );
    cut.is_current(&cut.first);
    cut.host.succeed(["unmount", cut.fixture.mountpoint.to_str().unwrap()]);
    assert!(cut.host.succeed(["sessions"])["sessions"].as_array().unwrap().is_empty());
}

#[test]
fn a_session_that_was_rolled_back_keeps_what_came_after_its_commit() {
    let cut = CutShort::new(|place| fs::create_dir(place.join("later")).unwrap());
    cut.roll_back();
    for _ in 0..2 {
        let refused = cut.host.fail(26, cut.mount());
        assert!(refused["hint"].as_str().unwrap().contains("sessions rescue"), "{refused:#}");
        cut.is_current(&cut.first);
    }
    let id = cut.host.succeed(["sessions"])["sessions"][0]["session"].as_str().unwrap().to_owned();
    cut.host.fail(26, ["sessions", "rescue", &id]);
    cut.host.succeed(["sessions", "rescue", &id, "--as", "acme/rescued"]);
    let out = cut.fixture.path("rescued");
    cut.host.restore("acme/rescued", &out);
    assert_eq!(fs::read_to_string(out.join("state")).unwrap(), "second");
    assert!(out.join("later").is_dir());
    cut.is_current(&cut.first);
}

#[test]
fn a_mount_that_cannot_keep_a_session_is_refused() {
    let (fixture, disk) = (MountFixture::local(), SmallDisk::new(MIB));
    let host =
        fixture.host.clone().with("PSTORE_SESSION_DIR", disk.path().join("sessions").to_str().unwrap());
    let mount = ["mount", ALICE, fixture.mountpoint.to_str().unwrap(), "--chrome-major", "131"];
    disk.make_read_only(true);
    assert_says(&host.fail(6, mount), "Read-only file system");
    assert!(!fixture.is_mounted(&fixture.mountpoint));
    disk.make_read_only(false);
    disk.fill_but(0);
    host.fail(6, mount);
    assert!(!fixture.is_mounted(&fixture.mountpoint));
    disk.relieve();
    host.succeed(mount);
    host.succeed(["unmount", fixture.mountpoint.to_str().unwrap()]);
}
