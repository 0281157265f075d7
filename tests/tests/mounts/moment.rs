//! These tests commit beside writers that never pause: each file of a snapshot is one that its writer had finished,
//! and what was synced before the commit began is in it.
//!
//! `PSTORE_MOMENT_COMMITS` says how many commits are made.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use tests::mount_fixture::{ALICE, MountFixture};

/// Writes one file over and over in the manner it is told, each time in several steps, and notes
/// outside of the mount the last round that it has synced.
const WRITER: &str = r#"
import mmap, os, sys
manner, path, noted = sys.argv[1:]
PAGES = 6

def note(round):
    with open(noted + ".new", "w") as file:
        file.write(str(round))
    os.rename(noted + ".new", noted)

def parts(path, flags, round, count):
    fd = os.open(path, flags, 0o600)
    for part in range(count):
        os.write(fd, b"%d:%d\n" % (round, part) * 300)
    os.fsync(fd)
    os.close(fd)

def reopen(round):
    parts(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, round, 4)

def append(round):
    if round % 50 == 0:
        os.path.exists(path) and os.unlink(path)
    parts(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, round, 2)

def rename(round):
    parts(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, round, 4)
    os.rename(path + ".new", path)

def mapped(round):
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if os.fstat(fd).st_size == 0:
        os.ftruncate(fd, PAGES * 4096)
    shared = mmap.mmap(fd, PAGES * 4096)
    os.close(fd)
    # The mapping alone keeps it open now.
    for page in range(PAGES):
        shared[page * 4096:page * 4096 + 16] = b"%016d" % round
    if round % 2:
        shared.flush()
    shared.close()

round = 0
print("ready", flush=True)
while True:
    round += 1
    {"reopen": reopen, "append": append, "rename": rename, "mapped": mapped}[manner](round)
    if manner != "mapped" or round % 2:
        note(round)
"#;

const MANNERS: [&str; 4] = ["reopen", "append", "rename", "mapped"];

struct Writer {
    manner: &'static str,
    child: Child,
}

impl Writer {
    fn start(fixture: &MountFixture, manner: &'static str) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", WRITER, manner]).arg(fixture.mountpoint.join(manner)).arg(fixture.path(manner));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { manner, child }
    }

    /// The last round that it says is safe.
    fn synced(&self, fixture: &MountFixture) -> u64 {
        fs::read_to_string(fixture.path(self.manner)).map_or(0, |noted| noted.parse().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The round that each line was written in, which must be whole lines of `count` parts a round.
fn rounds(content: &str, count: usize) -> Vec<u64> {
    assert!(content.ends_with('\n'), "its last line is cut short");
    let lines: Vec<(u64, usize)> = content
        .lines()
        .map(|line| line.split_once(':').expect("a whole line"))
        .map(|(round, part)| (round.parse().unwrap(), part.parse().unwrap()))
        .collect();
    let rounds: Vec<_> = lines.chunks(300 * count).collect();
    for lines in &rounds {
        let whole = (0..300 * count).map(|line| (lines[0].0, line / 300));
        assert!(lines.iter().copied().eq(whole), "round {} is torn: {} lines", lines[0].0, lines.len());
    }
    rounds.iter().map(|lines| lines[0].0).collect()
}

/// The last round that is in the file; fails unless it is whole.
fn last_round(manner: &str, path: &Path) -> u64 {
    match manner {
        "mapped" => {
            let content = fs::read(path).unwrap();
            let pages: Vec<&[u8]> = content.chunks(4096).map(|page| &page[..16]).collect();
            assert!(
                pages.len() == 6 && pages.iter().all(|page| *page == pages[0]),
                "pages are torn: {pages:?}"
            );
            std::str::from_utf8(pages[0]).unwrap().parse().unwrap()
        }
        "append" => {
            let rounds = rounds(&fs::read_to_string(path).unwrap(), 2);
            assert!(rounds.windows(2).all(|two| two[0] + 1 == two[1]), "{rounds:?}");
            *rounds.last().unwrap()
        }
        _ => {
            let rounds = rounds(&fs::read_to_string(path).unwrap(), 4);
            assert_eq!(rounds.len(), 1);
            rounds[0]
        }
    }
}

#[test]
fn no_commit_tears_a_file_that_is_being_written() {
    let commits: u64 = env::var("PSTORE_MOMENT_COMMITS").map_or(25, |text| text.parse().unwrap());
    let fixture = MountFixture::local();
    fixture.mount();
    let writers: Vec<Writer> = MANNERS.into_iter().map(|manner| Writer::start(&fixture, manner)).collect();
    let out = fixture.path("out");
    for _ in 0..commits {
        let synced: Vec<u64> = writers.iter().map(|writer| writer.synced(&fixture)).collect();
        fixture.commit();
        fixture.host.restore(ALICE, &out);
        for (writer, synced) in writers.iter().zip(synced) {
            let path = out.join(writer.manner);
            if path.exists() {
                let found = last_round(writer.manner, &path);
                assert!(found >= synced, "{}: {found} is stored, {synced} was synced", writer.manner);
            } else {
                // It is removed before it is begun anew; all others are only ever replaced.
                assert!(synced == 0 || writer.manner == "append", "{} is lost", writer.manner);
            }
            if writer.manner == "rename" && out.join("rename.new").exists() {
                last_round("rename", &out.join("rename.new"));
            }
        }
        fs::remove_dir_all(&out).unwrap();
    }
    let rounds: Vec<u64> = writers.iter().map(|writer| writer.synced(&fixture)).collect();
    println!("{commits} commits beside {rounds:?} rounds");
    drop(writers);
    fixture.unmount(&["--commit"]);
}

/// Has a file open for nineteen twentieths of the time.
const BUSY: &str = r#"
import os, sys, time
print(flush=True)
while True:
    with open(sys.argv[1], "w") as file:
        file.write("one")
        time.sleep(0.19)
        file.write(" two")
    time.sleep(0.01)
"#;

#[test]
fn a_commit_finds_its_moment_though_somebody_always_has_a_file_open() {
    const WRITERS: usize = 6;
    let fixture = MountFixture::local();
    fixture.mount();
    let path = |writer: usize| fixture.mountpoint.join(writer.to_string());
    let writers: Vec<Child> = (0..WRITERS).map(|writer| started(BUSY, &path(writer)).0).collect();
    fixture.commit();
    for mut writer in writers {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    let out = fixture.path("out");
    fixture.host.restore(ALICE, &out);
    for writer in 0..WRITERS {
        if let Ok(stored) = fs::read_to_string(out.join(writer.to_string())) {
            assert_eq!(stored, "one two");
        }
    }
    fixture.unmount(&["--discard"]);
}

/// Starts a script that says when it is ready.
fn started(script: &str, path: &Path) -> (Child, ChildStdin) {
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    let told = child.stdin.take().unwrap();
    (child, told)
}

/// A process that has a shared mapping of a file, and no descriptor of it.
struct Mapping {
    child: Child,
    told: ChildStdin,
}

impl Mapping {
    fn of(path: &Path) -> Self {
        const SCRIPT: &str = "import mmap, os, sys\n\
            fd = os.open(sys.argv[1], os.O_RDWR); shared = mmap.mmap(fd, 8192); os.close(fd)\n\
            shared[:4] = b'more'; print(flush=True); sys.stdin.readline()\n\
            shared[4096:4100] = b'last'; shared.close()";
        let (child, told) = started(SCRIPT, path);
        Self { child, told }
    }

    fn end(mut self) {
        self.told.write_all(b"\n").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

#[test]
fn a_shared_mapping_is_waited_for_as_an_open_file_is_and_all_of_it_is_stored() {
    let fixture = MountFixture::local();
    fixture.mount();
    fs::write(fixture.mountpoint.join("mapped"), vec![0; 8192]).unwrap();
    let mapping = Mapping::of(&fixture.mountpoint.join("mapped"));
    let refused = fixture.ask("commit", &[]);
    assert_eq!(refused.code, Some(32), "{refused:#?}");
    mapping.end();
    fixture.commit();
    let out = fixture.path("out");
    fixture.host.restore(ALICE, &out);
    let stored = fs::read(out.join("mapped")).unwrap();
    assert_eq!((&stored[..4], &stored[4096..4100]), (&b"more"[..], &b"last"[..]));
    fixture.unmount(&[]);
}
