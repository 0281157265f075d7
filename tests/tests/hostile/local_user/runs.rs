//! These tests look at runs as another user, and run commands as another user.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tests::{
    binary::{Ended, Host},
    chromium::{ARGUMENTS, Chromium},
    mount_fixture::{ALICE, MountFixture},
};

use crate::local_user::user::{NEIGHBOUR, NOBODY, User, until};

/// It ends when its input does, and that is when the test no longer holds the other end.
const SCRIPT: &str = "echo secret > $0/file && chmod 644 $0/file && chmod 755 $0 \
     && echo $$ > ready.new && mv ready.new ready && read line";

/// Whether the process still runs. One that nobody waits for has no words any more.
fn runs(process: &str) -> bool {
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|words| !words.is_empty())
}

/// A run whose command waits, with what others may see while it does and after it was killed.
#[test]
fn nothing_of_a_run_is_readable_while_it_is_at_work_nor_when_it_was_killed() {
    for how in [&[][..], &["--copy"]] {
        let user = User::new();
        fs::remove_file(user.path("ready")).unwrap();
        let arguments = ["run", "acme/alice", "--chrome-major", "131"];
        let running = user.start(&[&arguments, how, &["--", "sh", "-c", SCRIPT, "{profile}"]].concat());
        until(|| user.path("ready").exists());
        let command = fs::read_to_string(user.path("ready")).unwrap();
        assert!(runs(command.trim()), "{how:?}");
        assert_eq!(user.temporary("pstore-run-").len(), 1);
        user.is_closed(&format!("{how:?} is at work"));
        running.kill();
        until(|| !runs(command.trim()));
        assert_eq!(user.temporary("pstore-run-").len(), 1);
        user.is_closed(&format!("{how:?} was killed"));
        // What a copy holds may be nowhere else: it stays, whoever starts.
        user.pstore("list acme/alice");
        let left = user.temporary("pstore-run-");
        let kept = user.shell("cat tmp/pstore-run-*/profile/file");
        match how {
            [] => assert_eq!(user.succeed("sessions")["sessions"].as_array().unwrap().len(), 1),
            _ => assert_eq!((left.len(), kept.as_str()), (1, "secret")),
        }
        user.is_closed(&format!("{how:?} was killed, and another has run"));
    }
}

/// The same user could read our environment where it is: it must not be there for the command.
#[test]
fn a_command_gets_no_credentials_of_the_store_unless_they_are_asked_for() {
    let user = User::new();
    let environment = |options: &[&str]| {
        let mut command = user.command("env");
        command.args([
            "AWS_SECRET_ACCESS_KEY=sesame",
            "AWS_SESSION_TOKEN=open",
            "PSTORE_HOST_NAME=here",
            "LANG=C",
        ]);
        command.args(["./pstore", "-q", "run", "acme/alice", "--chrome-major", "131"]).args(options);
        let script = "env; echo ---; tr '\\0' '\\n' < /proc/$PPID/environ";
        command.args(["--", "sh", "-c", script, "{profile}"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let plain = environment(&[]);
    for absent in ["sesame", "open", "AWS_", "PSTORE_LOCK_TOKEN", "PSTORE_HOST_NAME"] {
        assert!(!plain.contains(absent), "{absent}: {plain}");
    }
    for present in ["LANG=C", "PSTORE_RUN_ID=", "PSTORE_PROFILE=/", "---"] {
        assert!(plain.contains(present), "{present}: {plain}");
    }
    let asked = environment(&["--pass-env", "AWS_SESSION_TOKEN", "--pass-env", "PSTORE_LOCK_TOKEN"]);
    assert!(asked.contains("AWS_SESSION_TOKEN=open") && asked.contains("PSTORE_LOCK_TOKEN="), "{asked}");
    assert!(!asked.contains("sesame"), "{asked}");
}

/// Root's fixture, where another user can reach what is given to it.
struct Given {
    fixture: MountFixture,
    host: Host,
}

impl Given {
    fn new() -> Self {
        let fixture = MountFixture::local();
        let tmp = fixture.place("tmp");
        for folder in [fixture.path(""), tmp.clone()] {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        }
        let home = fixture.place("theirs");
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        let host =
            fixture.host.clone().with("TMPDIR", tmp.to_str().unwrap()).with("XDG_RUNTIME_DIR", "/run/user/0");
        Self { fixture, host }
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Ended {
        let run = ["run", ALICE, "--chrome-major", "131"];
        self.host.run([&run, options, &["--"], command].concat())
    }

    #[track_caller]
    fn succeed(&self, options: &[&str], script: &str) -> Value {
        let ended = self.run(options, &["sh", "-ec", script, "{profile}"]);
        assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(0), &false.into()), "{ended:#?}");
        ended.document
    }

    fn restored(&self) -> PathBuf {
        let out = self.fixture.path("out");
        let _ = fs::remove_dir_all(&out);
        self.host.succeed(["restore", ALICE, out.to_str().unwrap(), "--same-owner"]);
        out
    }
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

#[test]
fn a_command_that_is_started_as_another_user_has_its_rights_its_groups_and_its_home() {
    let given = Given::new();
    let out = given.fixture.path("theirs/told");
    let script = format!(
        "(id -u; id -g; id -G; echo $HOME $USER $LOGNAME; env | grep -c XDG_ || true; cat /proc/self/status | grep CapEff) > {}",
        out.display()
    );
    for how in [&["--user", "nobody"][..], &["--user", "nobody", "--copy"]] {
        given.succeed(how, &script);
        let told = fs::read_to_string(&out).unwrap();
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[..3], ["65534"; 3], "{told}");
        assert_eq!(lines[3], "/nonexistent nobody nobody", "{told}");
        assert_eq!(lines[4], "0", "{told}");
        assert_eq!(lines[5].split_whitespace().nth(1), Some("0000000000000000"), "{told}");
    }
    given.succeed(&["--user", &format!("{NEIGHBOUR}:7")], "[ $(id -u):$(id -G) = 65533:7 ]");
    let missing = given.run(&["--user", "nobody"], &["/no/such/program"]);
    assert_eq!(missing.code, Some(6), "{missing:#?}");
    assert!(missing.stderr.contains("/no/such/program cannot be started"), "{missing:#?}");
    let unknown = given.run(&["--user", "no-such-user"], &["true"]);
    assert_eq!(unknown.code, Some(2), "{unknown:#?}");
}

#[test]
fn only_root_starts_commands_as_another_user() {
    let user = User::new();
    let refused = user.pstore("run acme/alice --chrome-major 131 --user root -- id");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stdout).contains("only root can start"), "{refused:?}");
}

/// The profile is that user's while it is used, and nobody else's; in snapshots it stays whose it was.
#[test]
fn a_mount_is_given_to_the_user_and_its_snapshots_keep_whose_the_files_are() {
    let given = Given::new();
    given.succeed(
        &[],
        "mkdir -m 755 $0/Default && echo one > $0/Default/file && chmod 600 $0/Default/file && chmod 755 $0",
    );
    let script = "[ $(stat -c %u:%g $0/Default/file) = 65534:65534 ] && [ $(stat -c %u:%a $0) = 65534:700 ] \\
        && echo two >> $0/Default/file && echo new > $0/Default/new && [ $(stat -c %u $0/Default/new) = 65534 ] \\
        && chown 65534 $0/Default/new && mkdir $0/Default/folder && ln -s new $0/Default/link && mv $0/Default/new $0/Default/newer";
    let ran = given.succeed(&["--user", "nobody"], script);
    assert_eq!(ran["mounted"], true, "{ran:#}");
    let out = given.restored();
    assert_eq!(fs::read_to_string(out.join("Default/file")).unwrap(), "one\ntwo\n");
    for name in ["", "Default", "Default/file", "Default/newer", "Default/folder", "Default/link"] {
        assert_eq!(owner(&out.join(name)), (0, 0), "{name}");
    }
    assert_eq!(fs::metadata(&out).unwrap().mode() & 0o777, 0o755, "as it was");
}

#[test]
fn nobody_but_the_user_reaches_what_was_given_to_it() {
    let given = Given::new();
    given.succeed(&[], "echo secret > $0/file && chmod 644 $0/file && chmod 755 $0");
    for how in [&["--user", "nobody"][..], &["--user", "nobody", "--copy"]] {
        let (at, go) = (given.fixture.path("theirs/at"), given.fixture.path("theirs/go"));
        for path in [&at, &go] {
            let _ = fs::remove_file(path);
        }
        let script = format!(
            // It ends without the test, too: what is below the fixture goes when the test fails.
            "echo $0 > {0}.new && mv {0}.new {0}; cat $0/file; while [ -e {0} -a ! -e {1} ]; do sleep 0.02; done",
            at.display(),
            go.display()
        );
        let arguments = ["run", ALICE, "--chrome-major", "131"];
        let mut running =
            given.host.start([&arguments, how, &["--", "sh", "-ec", &script, "{profile}"]].concat());
        until(|| at.exists() || !running.runs());
        let place = PathBuf::from(fs::read_to_string(&at).unwrap().trim());
        let read = |user: u32, group: u32| {
            let mut cat = Command::new("cat");
            cat.arg(place.join("file")).uid(user).gid(group).output().unwrap().status.success()
        };
        // Those of its group included.
        assert_eq!(
            [read(NOBODY, NOBODY), read(NEIGHBOUR, NEIGHBOUR), read(NEIGHBOUR, NOBODY)],
            [true, false, false],
            "{how:?}"
        );
        fs::write(&go, "").unwrap();
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert!(!place.exists());
    }
}

#[test]
fn a_browser_that_is_started_as_another_user_makes_and_keeps_its_profile() {
    let given = Given::new();
    let major = Chromium::major();
    let home = given.fixture.path("theirs");
    let host = given.host.clone().with("TMPDIR", given.fixture.path("tmp").to_str().unwrap());
    for how in [&[][..], &["--copy"]] {
        let profile = if how.is_empty() { "acme/mounted" } else { "acme/copied" };
        for round in 0..2 {
            let options = ["run", profile, "--chrome-major", &major, "--user", "nobody"];
            let home = format!("HOME={}", home.display());
            let temporary = format!("TMPDIR={}", given.fixture.path("theirs").display());
            let command = ["--", "env", &home, &temporary, "chromium", "--user-data-dir={profile}"];
            let rest = ["--virtual-time-budget=1000", "--dump-dom", "data:text/html,<p>hello</p>"];
            let ended = host.run([&options[..], how, &command, &ARGUMENTS, &rest].concat());
            assert_eq!(ended.code, Some(0), "{ended:#?}");
            assert!(ended.stderr.contains("<p>hello</p>"), "{ended:#?}");
            assert_eq!(ended.document["snapshot_failed"], false, "{ended:#?}");
            assert_eq!(ended.document["load"], if round == 0 { "no_prior_state" } else { "success" });
        }
        let out = given.fixture.path(profile);
        host.succeed(["restore", profile, out.to_str().unwrap()]);
        assert!(out.join("Default/Cookies").exists() || out.join("Default/Network/Cookies").exists());
    }
}
