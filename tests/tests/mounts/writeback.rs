//! These tests mount with `--writeback`: the kernel keeps what is written for a while. What is synced or closed is
//! safe all the same, commits have everything, and times are those that programs see.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use rustix::{fs::SeekFrom, process::Signal};
use serde_json::Value;
use tests::{
    mount_fixture::{ALICE, MountFixture, await_end},
    tree::noise,
};

use super::{
    files::small_disk,
    hot::Script,
    sqlite::{Writer, assert_whole, make},
};

fn mounted() -> (MountFixture, Value) {
    let fixture = MountFixture::hot();
    let mounted = fixture.mount_as(&fixture.host, &["--writeback"]);
    assert_eq!(mounted["writeback"], true, "{mounted:#}");
    (fixture, mounted)
}

/// How many bytes have reached the session.
fn written(fixture: &MountFixture) -> u64 {
    fixture.host.succeed(["mounts"])["mounts"][0]["written_bytes"].as_u64().unwrap()
}

#[track_caller]
fn restored(fixture: &MountFixture) -> std::path::PathBuf {
    let target = fixture.path(&tests::unique_name());
    fixture.host.restore(ALICE, &target);
    target
}

#[test]
fn what_was_synced_or_closed_survives_the_kill_of_the_daemon_and_the_rest_may_be_lost() {
    let (fixture, mounted) = mounted();
    let path = |name: &str| fixture.mountpoint.join(name);
    let (synced, kept) = (File::create(path("synced")).unwrap(), File::create(path("kept")).unwrap());
    synced.write_all_at(&noise(300_000, 1), 0).unwrap();
    synced.sync_data().unwrap();
    fs::write(path("closed"), noise(300_000, 2)).unwrap();
    kept.write_all_at(&noise(300_000, 3), 0).unwrap();
    synced.write_all_at(&noise(100_000, 4), 300_000).unwrap();

    fixture.kill(&mounted);
    drop((synced, kept));
    let again = fixture.mount_as(&fixture.host, &["--writeback"]);
    assert_eq!(again["resumed"], true, "{again:#}");
    assert!(fs::read(path("synced")).unwrap()[..300_000] == noise(300_000, 1));
    assert!(fs::read(path("closed")).unwrap() == noise(300_000, 2));
    // The name is there; of the bytes, as many as the kernel had handed over.
    let left = fs::read(path("kept")).unwrap();
    let as_written = |(found, written): (&u8, &u8)| found == written || *found == 0;
    assert!(left.iter().zip(&noise(300_000, 3)).all(as_written), "something that was never written");
    fixture.unmount(&["--commit"]);
    let target = restored(&fixture);
    assert!(fs::read(target.join("closed")).unwrap() == noise(300_000, 2));
}

/// What is written again and again reaches the session a few times, and not each time.
#[test]
fn the_kernel_puts_writes_together() {
    const TIMES: u64 = 2000;
    let (fixture, _) = mounted();
    let file = File::create(fixture.mountpoint.join("file")).unwrap();
    let before = written(&fixture);
    for time in 0..TIMES {
        file.write_all_at(&noise(4096, time), 0).unwrap();
    }
    let reached = written(&fixture) - before;
    assert!(reached < TIMES * 4096 / 2, "{reached} bytes of {}", TIMES * 4096);
    drop(file);
    assert!(fs::read(fixture.mountpoint.join("file")).unwrap() == noise(4096, TIMES - 1));
    fixture.unmount(&["--discard"]);
}

/// The same database, with a writer whose rows are synced before they are acknowledged.
#[test]
fn no_synced_row_of_a_database_is_lost_with_the_daemon() {
    let (fixture, mut mounted) = mounted();
    let database = fixture.mountpoint.join("database");
    make(&database);
    for round in 0..3 {
        let writer = Writer::start(&database, "DELETE", &format!("writer{round}"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        fixture.kill(&mounted);
        await_end(&mounted);
        let last = writer.last(false);
        mounted = fixture.mount_as(&fixture.host, &["--writeback"]);
        assert_whole(&database, &[last]);
    }
    fixture.unmount(&["--discard"]);
}

#[test]
fn commits_have_what_the_kernel_keeps_of_open_files() {
    let (fixture, _) = mounted();
    let mut open = Script::start(
        "file = open(sys.argv[1], 'w', buffering=1)\nfor word in ['one', 'two', 'three']:\n    print(word, file=file); step()",
        &fixture.mountpoint.join("open"),
    );
    fixture.commit_hot();
    assert_eq!(fs::read_to_string(restored(&fixture).join("open")).unwrap(), "one\n");
    open.go_on();
    fixture.commit_hot();
    assert_eq!(fs::read_to_string(restored(&fixture).join("open")).unwrap(), "one\ntwo\n");
    open.go_on();
    // One that waits for writers finds it written when it is closed.
    drop(open);
    fixture.commit();
    assert_eq!(fs::read_to_string(restored(&fixture).join("open")).unwrap(), "one\ntwo\nthree\n");
    fixture.unmount(&[]);
}

/// Renames a file as often as it can until it is dropped.
struct Renaming(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Renaming {
    fn start(folder: &Path) -> Self {
        let (is_over, names) = (Arc::new(AtomicBool::new(false)), [folder.join("one"), folder.join("other")]);
        let told = Arc::clone(&is_over);
        let renaming = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                fs::rename(&names[0], &names[1]).unwrap();
                fs::rename(&names[1], &names[0]).unwrap();
            }
        });
        Self(is_over, Some(renaming))
    }
}

impl Drop for Renaming {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(renaming) = self.1.take() {
            let _ = renaming.join();
        }
    }
}

#[test]
fn a_file_that_gets_other_names_all_the_time_is_in_a_commit_or_the_commit_warns() {
    const ROUNDS: u64 = 12;
    let (fixture, _) = mounted();
    let file = File::create(fixture.mountpoint.join("one")).unwrap();
    let _renaming = Renaming::start(&fixture.mountpoint);
    for round in 0..ROUNDS {
        file.write_all_at(&noise(30_000, round), 0).unwrap();
        let committed = fixture.commit_hot();
        let target = restored(&fixture);
        let stored = ["one", "other"].iter().find_map(|name| fs::read(target.join(name)).ok()).unwrap();
        let is_warned = committed["warnings"].to_string().contains("the kernel keeps them");
        assert!(is_warned || stored == noise(30_000, round), "round {round}");
    }
}

#[test]
fn a_daemon_that_is_asked_to_end_takes_what_the_kernel_keeps_with_it() {
    let (fixture, mounted) = mounted();
    let file = File::create(fixture.mountpoint.join("open")).unwrap();
    file.write_all_at(&noise(300_000, 1), 0).unwrap();
    fixture.signal(&mounted, Signal::TERM);
    drop(file);
    fixture.mount();
    assert!(fs::read(fixture.mountpoint.join("open")).unwrap() == noise(300_000, 1));
    fixture.unmount(&["--discard"]);
}

/// Each changes the file in a way after which its time is told by the kernel, or by whoever set it.
const CHANGES: [(&str, &str); 6] = [
    ("written", "open(path, 'w').write('text')"),
    (
        "appended",
        "open(path, 'w').close(); os.utime(path, ns=(5, 10 ** 18 + 7)); open(path, 'a').write('more')",
    ),
    ("set", "open(path, 'w').write('text'); os.utime(path, ns=(5, 10 ** 18 + 7))"),
    (
        "set_while_open",
        "file = open(path, 'w'); file.write('text'); file.flush(); os.utime(path, ns=(5, 10 ** 18 + 7))",
    ),
    (
        "mapped",
        "fd = os.open(path, os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 4096); os.utime(path, ns=(5, 10 ** 18 + 7)); \
         mmap.mmap(fd, 4096)[0:4] = b'page'",
    ),
    (
        "truncated",
        "open(path, 'w').write('text'); os.utime(path, ns=(5, 10 ** 18 + 7)); os.truncate(path, 2)",
    ),
];

fn times(folder: &Path) -> Vec<(&'static str, u64, i64, i64)> {
    let time = |name| {
        let found = fs::metadata(folder.join(name)).unwrap();
        (name, found.len(), found.mtime(), found.mtime_nsec())
    };
    CHANGES.iter().map(|(name, _)| time(*name)).collect()
}

#[test]
fn times_and_sizes_that_programs_see_are_those_that_are_stored() {
    let (fixture, mounted) = mounted();
    for (name, change) in CHANGES {
        let script = format!("import mmap, os, sys\npath = sys.argv[1]\n{change}");
        let done = Command::new("python3").args(["-c", &script]).arg(fixture.mountpoint.join(name)).status();
        assert!(done.unwrap().success(), "{name}");
    }
    let seen = times(&fixture.mountpoint);
    let set: Vec<_> =
        seen.iter().filter(|(_, _, seconds, nanos)| (*seconds, *nanos) == (1_000_000_000, 7)).collect();
    assert_eq!(set.len(), 2, "{seen:?}");
    fixture.commit();
    assert_eq!(times(&restored(&fixture)), seen);
    assert_eq!(times(&fixture.mountpoint), seen, "a commit changes no time");
    assert_eq!(fixture.host.succeed(["mounts"])["mounts"][0]["dirty"], false, "nothing is written after it");
    fs::write(fixture.mountpoint.join("more"), "text").unwrap();
    let (seen, more) = (times(&fixture.mountpoint), fs::metadata(fixture.mountpoint.join("more")).unwrap());
    fixture.kill(&mounted);
    fixture.mount();
    assert_eq!(times(&fixture.mountpoint), seen);
    assert_eq!(
        fs::metadata(fixture.mountpoint.join("more")).unwrap().modified().unwrap(),
        more.modified().unwrap()
    );
    fixture.unmount(&["--discard"]);
}

#[test]
fn data_that_the_kernel_keeps_is_no_hole() {
    let (fixture, _) = mounted();
    let file = File::create(fixture.mountpoint.join("file")).unwrap();
    file.set_len(4 << 20).unwrap();
    file.write_all_at(b"kept", 1 << 20).unwrap();
    file.write_all_at(b"beyond", 8 << 20).unwrap();
    for at in [1 << 20, 8 << 20] {
        let data = rustix::fs::seek(&file, SeekFrom::Data(at)).unwrap();
        assert!(data <= at, "{data} of {at}");
    }
    let copy = fixture.mountpoint.join("copy");
    let done =
        Command::new("cp").arg("--sparse=auto").arg(fixture.mountpoint.join("file")).arg(&copy).status();
    assert!(done.unwrap().success());
    assert_eq!(fs::read(&copy).unwrap()[8 << 20..], *b"beyond");
    drop(file);
    fixture.unmount(&["--discard"]);
}

#[test]
fn a_full_disk_is_told_to_whoever_closes_or_syncs() {
    let fixture = MountFixture::local();
    let disk = small_disk(&fixture, "disk", 24);
    let host = fixture.host.clone().with("PSTORE_SESSION_DIR", disk.to_str().unwrap());
    fixture.mount_as(&host, &["--writeback"]);
    let file = File::create(fixture.mountpoint.join("full")).unwrap();
    let refused = (0..32).any(|at| file.write_all_at(&noise(1 << 20, at), at << 20).is_err());
    assert!(refused || file.sync_all().is_err(), "what was dropped was acknowledged");
    drop(file);
    fs::remove_file(fixture.mountpoint.join("full")).unwrap();
    host.succeed(["unmount", fixture.mountpoint.to_str().unwrap(), "--discard"]);
}

#[test]
fn a_setting_or_a_run_asks_for_it_and_a_read_only_mount_is_never_so() {
    let fixture = MountFixture::local();
    assert_eq!(fixture.mount()["writeback"], false);
    fs::write(fixture.mountpoint.join("file"), "text").unwrap();
    fixture.unmount(&["--commit"]);
    let host = fixture.host.clone().with("PSTORE_WRITEBACK", "true");
    assert_eq!(fixture.mount_as(&host, &[])["writeback"], true);
    fixture.unmount(&[]);
    assert_eq!(fixture.mount_as(&host, &["--read-only"])["writeback"], false);
    fixture.unmount(&[]);
    let place = fixture.mountpoint.to_str().unwrap();
    fixture.host.fail(2, ["mount", ALICE, place, "--read-only", "--writeback"]);

    let script = "cd {profile} && echo more >> file && head -c 300000 /dev/zero > large";
    let words = ["run", ALICE, "--writeback", "--chrome-major", "131", "--", "sh", "-c", script];
    assert_eq!(fixture.host.run(words).code, Some(0));
    let target = restored(&fixture);
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "textmore\n");
    assert_eq!(fs::metadata(target.join("large")).unwrap().len(), 300_000);
}
