//! These tests examine databases that somebody has made to harm whoever reads them, in processes that do not do as
//! they are told. What such a process can reach is tested beside its sandbox, in `capture/src/cell/`.

use std::{fs, path::Path, time::Duration};

use capture::{
    cell::{Cell, Confinement, VERB},
    db_state::{DbState, Deadline},
    examination::{self, Examination, Isolation, Options, Scope},
    sqlite::Depth,
};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tests::{
    binary::{self, program},
    profile_fixture::ProfileFixture,
};

/// As the program examines, but for the program: this one is the test.
fn cell() -> Cell {
    Cell { program: program(), ..Cell::own() }
}

/// A process that does what the script says, whatever it is asked.
fn impostor(script: &str) -> Cell {
    let script = format!("echo '{{\"ready\":{{\"seccomp\":true,\"landlock\":true}}}}'\n{script}");
    Cell { program: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()], ..Cell::own() }
}

fn options(isolation: Isolation, scratch: &TempDir) -> Options {
    let scratch = scratch.path().to_owned();
    Options { depth: Depth::Full, isolation, threads: 2, deadline: Deadline::NEVER, scratch }
}

fn examine(profile: &Path, cell: Cell) -> Examination {
    let scratch = tempfile::tempdir().unwrap();
    let found = examination::examine(profile, Scope::All, &options(Isolation::Cell(cell), &scratch)).unwrap();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left of what died");
    found
}

fn open(folder: &Path, name: &str) -> Connection {
    Connection::open(folder.join(name)).unwrap()
}

/// Whole, and small.
fn good(folder: &Path, count: usize) {
    for number in 0..count {
        open(folder, &format!("good-{number}"))
            .execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1)")
            .unwrap();
    }
}

/// Whole, too. Whoever compares its index with its table needs 40 MiB and more.
fn glutton(folder: &Path) {
    let large = "CREATE TABLE t(a); CREATE INDEX i ON t(a); INSERT INTO t VALUES (zeroblob(40 << 20));";
    open(folder, "evil").execute_batch(large).unwrap();
}

/// Whoever compares its index with its table compares a text of millions of characters with a
/// pattern of ten thousands, at each of its places: for minutes, without a look at the clock.
fn endless(folder: &Path, name: &str) {
    let database = open(folder, name);
    let slow = "CREATE TABLE t(a); CREATE INDEX i ON t(a LIKE 'x');
         INSERT INTO t VALUES (printf('%.*c', 8000000, 'a'));
         PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, '''x''', '''%' || printf('%.*c', 40000, 'a') || 'b''')
         WHERE name = 'i';";
    database.execute_batch(slow).unwrap();
}

fn verdicts(examination: &Examination) -> Vec<(String, String)> {
    let told = |(path, problems): (&Path, &[String])| (path.display().to_string(), problems.join("; "));
    examination.damaged().map(told).collect()
}

/// The one database that could not be examined, and why.
#[track_caller]
fn why(examination: &Examination) -> String {
    let [(path, problem)] = &verdicts(examination)[..] else { panic!("{examination:#?}") };
    assert_eq!(path, "evil");
    problem.strip_prefix("it could not be examined: ").expect(problem).to_owned()
}

#[test]
fn what_is_found_apart_is_what_is_found_here() {
    let (profile, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    good(profile.path(), 3);
    let folder = profile.path().join(std::ffi::OsStr::new("Ünï\u{7f} \"x\""));
    fs::create_dir_all(folder.join("leveldb")).unwrap();
    fs::write(folder.join("leveldb/CURRENT"), "MANIFEST-000001\n").unwrap();
    fs::write(folder.join("leveldb/LOCK"), "").unwrap();
    let cookies = open(&folder, "Cookies");
    let table = "CREATE TABLE cookies(host_key TEXT, value TEXT, encrypted_value BLOB);
        INSERT INTO cookies VALUES ('a', 'a', ''), ('a', '', 'v10');";
    cookies.execute_batch(&format!("PRAGMA journal_mode = WAL; {table}")).unwrap();
    fs::write(folder.join("torn"), b"SQLite format 3\0 and no more").unwrap();
    let seen = |isolation| {
        let found = examination::examine(profile.path(), Scope::All, &options(isolation, &scratch)).unwrap();
        Examination { elapsed: Duration::ZERO, ..found }
    };
    let (here, apart) = (seen(Isolation::InProcess), seen(Isolation::Cell(cell())));
    assert_eq!(here, apart);
    assert_eq!((apart.sqlite.len(), apart.leveldb.len(), apart.damaged().count()), (5, 1, 2));
    assert_eq!(apart.cookies.unwrap().total().rows, 2);
}

#[test]
fn a_database_that_takes_too_much_memory_could_not_be_examined_and_the_others_are() {
    let profile = tempfile::tempdir().unwrap();
    good(profile.path(), 10);
    glutton(profile.path());
    assert_eq!(
        examine(profile.path(), cell()).damaged().count(),
        0,
        "it is whole, for those who have the memory"
    );
    let found = examine(profile.path(), Cell { memory_bytes: 16 << 20, ..cell() });
    assert_eq!(why(&found), "its check takes more than 32 MiB of memory");
    assert_eq!(found.sqlite.iter().filter(|checked| checked.state == DbState::Ok).count(), 10);
}

#[test]
fn a_database_that_takes_too_much_time_could_not_be_examined_and_the_others_are() {
    let profile = tempfile::tempdir().unwrap();
    good(profile.path(), 10);
    endless(profile.path(), "evil");
    let found = examine(profile.path(), Cell { cpu_seconds: 1, ..cell() });
    assert_eq!(why(&found), "its check takes more than 1 seconds of processor time");
    assert_eq!(found.sqlite.iter().filter(|checked| checked.state == DbState::Ok).count(), 10);
}

#[test]
fn a_check_that_does_not_look_at_the_clock_is_ended() {
    let (profile, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    endless(profile.path(), "evil");
    let cell = Cell { grace: Duration::from_millis(100), ..cell() };
    let deadline = Deadline::after(Duration::from_secs(2));
    let options = Options { deadline, ..options(Isolation::Cell(cell), &scratch) };
    let found = examination::examine(profile.path(), Scope::All, &options).unwrap();
    assert_eq!(why(&found), "its check did not end when its time was over");
}

#[test]
fn a_process_that_dies_has_a_successor_and_what_kills_both_could_not_be_examined() {
    let profile = tempfile::tempdir().unwrap();
    open(profile.path(), "evil").execute_batch("CREATE TABLE t(a)").unwrap();
    let starts = tempfile::NamedTempFile::new().unwrap();
    let count = || fs::read_to_string(starts.path()).unwrap().lines().count();
    for (script, expected) in [
        ("echo '{\"began\":0}'; kill -9 $$", "the process of its check ended with signal: 9 (SIGKILL)"),
        ("echo '{\"began\":0}'; kill -11 $$", "the process of its check ended with signal: 11 (SIGSEGV)"),
        ("echo '{\"began\":0}'; kill -25 $$", "its check wrote more than all of it and its journal together"),
        ("echo '{\"began\":0}'; exit 7", "the process of its check ended with exit status: 7"),
        ("echo '{\"began\":0}'", "what its check answered makes no sense"),
        ("echo '{\"began\":0}'; echo rubbish", "what its check answered makes no sense"),
        (
            "echo '{\"began\":0}'; while :; do echo '{\"began\":1}'; done",
            "what its check answered makes no sense",
        ),
        ("echo '{\"began\":0}'; while :; do printf rubbish; done", "what its check answered makes no sense"),
    ] {
        fs::write(starts.path(), "").unwrap();
        let script = format!("echo start >> {}\n{script}", starts.path().display());
        assert_eq!(why(&examine(profile.path(), impostor(&script))), expected, "{script}");
        assert_eq!(count(), 2, "{script}");
    }
    // A child of old age, so to speak: the next one answers.
    fs::write(starts.path(), "").unwrap();
    let ok =
        r#"{"sqlite":[0,{"state":{"state":"ok"},"hot_journal":false,"wal":false,"bytes":1,"cookies":null}]}"#;
    let path = starts.path().display();
    let script = format!(
        "echo '{{\"began\":0}}'; if [ -s {path} ]; then echo '{ok}'; else echo x > {path}; kill -9 $$; fi"
    );
    assert_eq!(examine(profile.path(), impostor(&script)).damaged().count(), 0);
}

#[test]
fn nothing_of_the_environment_reaches_it() {
    let profile = tempfile::tempdir().unwrap();
    good(profile.path(), 1);
    let told = tempfile::NamedTempFile::new().unwrap();
    let script = "IFS= read -r all < /proc/$$/environ; echo \"<$all> in $(pwd)\" >";
    let _ = examine(profile.path(), impostor(&format!("{script} {}", told.path().display())));
    assert_eq!(fs::read_to_string(told.path()).unwrap(), "<> in /\n");
}

#[test]
fn a_process_that_stands_still_is_ended() {
    let (profile, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open(profile.path(), "evil").execute_batch("CREATE TABLE t(a)").unwrap();
    good(profile.path(), 2);
    let cell = Cell { grace: Duration::from_millis(50), ..impostor("echo '{\"began\":0}'; kill -STOP $$") };
    let deadline = Deadline::after(Duration::from_secs(2));
    let options = Options { deadline, ..options(Isolation::Cell(cell), &scratch) };
    let found = examination::examine(profile.path(), Scope::All, &options).unwrap();
    assert_eq!(why(&found), "its check did not end when its time was over");
    // None of those that were not begun counts as whole.
    assert_eq!(found.unchecked().count(), 2);
}

#[test]
fn a_profile_of_nothing_but_deadly_databases_uses_up_eight_processes() {
    let profile = tempfile::tempdir().unwrap();
    good(profile.path(), 40);
    let starts = tempfile::NamedTempFile::new().unwrap();
    let script = format!("echo start >> {}; echo '{{\"began\":0}}'; kill -9 $$", starts.path().display());
    let found = examine(profile.path(), impostor(&script));
    assert_eq!(fs::read_to_string(starts.path()).unwrap().lines().count(), 8);
    assert_eq!(verdicts(&found).len(), 40, "{found:#?}");
}

#[test]
fn without_a_process_nothing_is_examined_and_that_is_an_error() {
    let (profile, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    good(profile.path(), 1);
    let fails = |cell| {
        let options = options(Isolation::Cell(cell), &scratch);
        examination::examine(profile.path(), Scope::All, &options).unwrap_err().to_string()
    };
    let none = fails(Cell { program: "/nowhere/pstore".into(), ..cell() });
    assert!(none.contains("no process can be started"), "{none}");
    let dies = Cell { program: "/bin/false".into(), ..cell() };
    assert!(fails(dies).contains("ended before it began"));
}

#[test]
fn this_kernel_keeps_it_from_files_and_calls() {
    assert_eq!(cell().confinement().unwrap(), Confinement { seccomp: true, landlock: true });
}

/// Of the process `parent`: that in which it examines databases, once it has used so much time
/// that it does nothing else.
fn busy_child(parent: u32) -> Pid {
    loop {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let words: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
            let is_child = words[1] == parent.to_string();
            let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            if is_child && line.contains(VERB) && words[11].parse::<u64>().unwrap() > 50 {
                return Pid::from_raw(pid).unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn state(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

#[test]
fn a_snapshot_whose_database_kills_who_examines_it_is_held_back() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep("acme/alice", &[]);
    endless(&fixture.profile, "evil");
    let running = fixture.host.start(binary::snapshot(&fixture.profile, "acme/alice"));
    for _ in 0..2 {
        let child = busy_child(running.id());
        kill_process(child, Signal::KILL).unwrap();
        // It is waited for at once: the number is not given to another.
        while state(child).is_some_and(|state| state != 'Z') {
            std::thread::yield_now();
        }
    }
    let ended = running.wait();
    assert_eq!((ended.code, &ended.document["held_back"]), (Some(29), &"damaged".into()), "{ended:#?}");
    assert!(ended.stderr.contains("evil is damaged: it could not be examined: "), "{}", ended.stderr);
    assert_eq!(ended.document["pointer"], "unchanged");
}

#[test]
fn whoever_examines_databases_dies_with_who_has_asked() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    endless(&fixture.profile, "evil");
    let running = fixture.host.start(binary::snapshot(&fixture.profile, "acme/alice"));
    let child = busy_child(running.id());
    running.kill();
    while state(child).is_some_and(|state| state != 'Z') {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_process_examines_all_databases_of_a_capture() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    good(&fixture.profile, 40);
    let started = |more: &[&str]| {
        let ended = fixture.snapshot("acme/alice", &[&["-vvv"], more].concat());
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        let lines = ended.stderr.lines().filter(|line| line.contains("in a process of their own"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let lines = started(&[]);
    assert!(matches!(&lines[..], [line] if line.contains("databases=41")), "{lines:#?}");
    assert_eq!(started(&[]).len(), 0, "nothing has changed");
    good(&fixture.profile.join("Default"), 1);
    assert_eq!(started(&["--check", "none"]).len(), 0);
}

/// As an upgrade does it in the middle of a long session.
#[test]
fn a_program_that_was_replaced_examines_with_itself() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep("acme/alice", &[]);
    let copy = fixture.path("pstore");
    fs::copy(program(), &copy).unwrap();
    let upgrade = format!("rm {0} && echo 'exit 1' > {0} && chmod +x {0}", copy.display());
    let session = format!("{upgrade} && cp \"$1/Default/Cookies\" \"$1/Default/New\"");
    let words = [
        "run",
        "acme/alice",
        "--copy",
        "--chrome-major",
        "131",
        "--",
        "sh",
        "-c",
        &session,
        "sh",
        "{profile}",
    ];
    let ended = fixture.host.start_as(&copy, words).wait();
    let snapshot = &ended.document["snapshot"];
    assert_eq!((ended.code, &snapshot["databases_checked"]), (Some(0), &1.into()), "{ended:#?}");
    assert_eq!(snapshot["databases_damaged"], 0);
}
