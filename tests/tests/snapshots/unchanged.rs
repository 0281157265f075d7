//! These tests snapshot again: unchanged files cost a stat, and only files that are certainly unchanged count as
//! such.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    os::unix::fs::FileExt,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, mpsc},
    thread::{sleep, spawn},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use store::{
    bucket::{Bucket, MemoryBucket, Recorder, Verb},
    format::tree::TreePath,
    ops::write::snapshot::{self, Outcome, SecondLook},
    tree::{
        root_dir::RootDir,
        stat_trust,
        walk::{FileState, walk},
    },
};
use tests::{
    disk::SmallDisk,
    mount_fixture::MountFixture,
    store_fixture::{StoreFixture, request},
    tree::{assert_same, noise, set_mtime},
};

/// A little more than the time a file needs to settle.
const SETTLE: Duration = Duration::from_millis(2200);

/// How long nobody has to wait.
const PATIENCE: Duration = Duration::from_secs(30);

fn fill(source: &Path) {
    fs::create_dir_all(source.join("Default")).unwrap();
    fs::write(source.join("Default/History"), noise(500_000, 1)).unwrap();
    fs::write(source.join("Default/Cookies"), noise(50_000, 2)).unwrap();
    fs::write(source.join("tiny"), "tiny").unwrap();
}

async fn with_cache(dir: &Path) -> (StoreFixture, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::new())));
    let store_fixture =
        StoreFixture::open(recorder.clone() as Arc<dyn Bucket>, Some(dir.join("cache"))).await;
    (store_fixture, recorder)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_directory_is_not_read_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    sleep(SETTLE);
    let (store_fixture, recorder) = with_cache(dir.path()).await;
    let first = store_fixture.snapshot(&source).await.unwrap();
    assert_eq!((first.read_files, first.reused_files), (3, 0));
    recorder.take();
    let second = store_fixture.snapshot(&source).await.unwrap();
    assert_eq!(second.outcome, Outcome::Unchanged);
    assert_eq!((second.read_files, second.reused_files), (0, 3));
    let calls: Vec<Verb> = recorder.take().into_iter().map(|call| call.verb).collect();
    assert_eq!(calls, [Verb::Get, Verb::Get, Verb::Get], "the lock, the pointer and the record");
    assert_eq!(store_fixture.rescan(&source).await.unwrap().read_files, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_changed_file_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    sleep(SETTLE);
    let (store_fixture, _) = with_cache(dir.path()).await;
    store_fixture.snapshot(&source).await.unwrap();
    // Same size, and its old mtime put back: the ctime still tells.
    let path = source.join("Default/Cookies");
    let mtime = fs::metadata(&path).unwrap().modified().unwrap();
    fs::File::options().write(true).open(&path).unwrap().write_all_at(b"changed", 100).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(mtime).unwrap();
    let report = store_fixture.snapshot(&source).await.unwrap();
    assert_eq!((report.outcome, report.read_files, report.reused_files), (Outcome::Stored, 1, 2));
    store_fixture.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_has_not_settled_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    let (store_fixture, _) = with_cache(dir.path()).await;
    store_fixture.snapshot(&source).await.unwrap();
    let second = store_fixture.snapshot(&source).await.unwrap();
    assert_eq!((second.outcome, second.read_files), (Outcome::Unchanged, 3));
}

/// What may have changed without a trace is read again by everybody but the second of two that follow one another.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_look_reads_what_it_is_for_and_what_has_changed() {
    let (dir, disk) = (tempfile::tempdir().unwrap(), SmallDisk::new(64 << 20));
    // There no state tells whether content has changed.
    let source = disk.path().join("source");
    fill(&source);
    let (store_fixture, _) = with_cache(dir.path()).await;
    let first = store_fixture.snapshot(&source).await.unwrap();
    let look = |after, path: &str| {
        let paths = [TreePath::new(path).unwrap()].into();
        let second_look = Some(SecondLook { after, paths });
        snapshot::Request { second_look, ..request(&store_fixture.lineage, &source) }
    };
    let second = store_fixture.capture(&look(first.snapshot_id, "tiny")).await.unwrap();
    assert_eq!((second.outcome, second.read_files, second.reused_files), (Outcome::Unchanged, 1, 2));
    fs::write(source.join("Default/Cookies"), noise(60_000, 3)).unwrap();
    let third = store_fixture.capture(&look(first.snapshot_id, "tiny")).await.unwrap();
    assert_eq!((third.outcome, third.read_files, third.reused_files), (Outcome::Stored, 2, 1));
    store_fixture.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
    // What was remembered by another capture is not what was found just before.
    let fourth = store_fixture.capture(&look(first.snapshot_id, "tiny")).await.unwrap();
    assert_eq!((fourth.outcome, fourth.read_files), (Outcome::Unchanged, 3));
    assert_eq!(store_fixture.snapshot(&source).await.unwrap().read_files, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_open_for_writing_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    sleep(SETTLE);
    let (store_fixture, _) = with_cache(dir.path()).await;
    let open = fs::File::options().append(true).open(source.join("Default/History")).unwrap();
    store_fixture.snapshot(&source).await.unwrap();
    drop(open);
    let second = store_fixture.snapshot(&source).await.unwrap();
    assert_eq!((second.read_files, second.reused_files), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_directory_with_the_same_names_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (source, other) = (dir.path().join("source"), dir.path().join("other"));
    fill(&source);
    fill(&other);
    sleep(SETTLE);
    let (store_fixture, _) = with_cache(dir.path()).await;
    store_fixture.snapshot(&source).await.unwrap();
    assert_eq!(store_fixture.snapshot(&other).await.unwrap().read_files, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_that_are_gone_from_the_store_are_stored_again() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    sleep(SETTLE);
    let (store_fixture, _) = with_cache(dir.path()).await;
    store_fixture.snapshot(&source).await.unwrap();
    // The same host, the same cache, another profile, and no index: the states are known,
    // the chunks cannot be found.
    for key in store_fixture
        .root
        .list(&store::bucket::Prefix::new("content/acme/index/").unwrap(), store::bucket::Depth::All, None)
        .await
        .unwrap()
        .entries
    {
        store_fixture.root.delete(&key.key).await.unwrap();
    }
    let bob = StoreFixture { lineage: tests::store_fixture::lineage("acme/bob"), ..store_fixture };
    let report = bob.snapshot(&source).await.unwrap();
    assert_eq!(report.outcome, Outcome::Stored);
    bob.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
}

/// A process that holds a file mapped and writes to it when told.
struct Mapper {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Mapper {
    fn start(path: &Path) -> Self {
        let script = "import mmap, sys\n\
            f = open(sys.argv[1], 'r+b')\n\
            m = mmap.mmap(f.fileno(), 0)\n\
            f.close()\n\
            for line in sys.stdin:\n\
            \x20   m[0:1] = line[0:1].encode()\n\
            \x20   print('written', flush=True)\n";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn write(&mut self, byte: char) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{byte}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line, "written\n");
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Why files are flushed before their state is taken: without it, a second write to a page
/// that is dirty already leaves no trace.
#[test]
fn only_a_flush_makes_the_next_write_through_a_mapping_visible() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mapped");
    fs::write(&path, [b'0'; 4096]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let root = RootDir::open(dir.path()).unwrap();
    let state =
        || FileState::of(&rustix::fs::statat(root.fd(), "mapped", rustix::fs::AtFlags::empty()).unwrap());
    let mut mapper = Mapper::start(&path);
    // The kernel may write the page back at any moment, and then the next write is seen.
    let hidden = (0..20).any(|_| {
        mapper.write('1');
        let unflushed = state();
        sleep(Duration::from_millis(50));
        mapper.write('2');
        state() == unflushed
    });
    assert!(hidden, "this file system shows every write; the flush is not needed here");
    let mut paths = Vec::new();
    walk(&root, &|_| false, 2, &mut |found| {
        paths.extend(found.file.map(|_| found.entry.path));
        Ok(())
    })
    .unwrap();
    stat_trust::flush(&root, &paths).unwrap();
    let flushed = state();
    sleep(Duration::from_millis(50));
    mapper.write('3');
    assert_ne!(state(), flushed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_through_a_mapping_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    let path = source.join("Default/History");
    let mut mapper = Mapper::start(&path);
    mapper.write('1');
    sleep(SETTLE);
    let (store_fixture, _) = with_cache(dir.path()).await;
    store_fixture.snapshot(&source).await.unwrap();
    mapper.write('2');
    set_mtime(&source, 1_000_000_000, 0);
    store_fixture.snapshot(&source).await.unwrap();
    store_fixture.restore(&dir.path().join("out")).await.unwrap();
    drop(mapper);
    assert_same(&source, &dir.path().join("out"));
}

/// Every open file of the host is looked at, and some are where nobody answers any more.
#[test]
fn a_mount_that_does_not_answer_keeps_no_snapshot_waiting() {
    let fixture = MountFixture::local();
    let mounted = fixture.mount();
    let mut open = fs::File::create(fixture.mountpoint.join("open")).unwrap();
    // From now on the kernel no longer knows its size.
    open.write_all(b"written").unwrap();
    // Another's: whoever starts a program closes its own files, and would wait for that.
    let mut holder = Command::new("sleep").arg("600").stdout(open).spawn().unwrap();
    let source = fixture.path("source");
    fill(&source);
    let daemon = Pid::from_raw(mounted["pid"].as_i64().unwrap().try_into().unwrap()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let (over, is_over) = mpsc::channel::<()>();
    let waker = spawn(move || {
        let waited = is_over.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
        kill_process(daemon, Signal::CONT).unwrap();
        waited
    });
    let stored =
        fixture.host.run(["snapshot", source.to_str().unwrap(), "acme/bob", "--chrome-major", "131"]);
    drop(over);
    let waited = waker.join().unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!((stored.code, waited), (Some(0), false), "{stored:#?}");
}
