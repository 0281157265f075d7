//! These tests mount as users other than root, use mounts of others, and take the locks of mounts away.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Stdio},
};

use serde_json::Value;
use tests::{
    chromium::Chromium,
    mount_fixture::{ALICE, MountFixture, await_end},
};

use crate::local_user::user::{NOBODY, User, until};

#[test]
fn a_user_other_than_root_mounts_commits_and_unmounts() {
    let user = User::new();
    let mounted = user.succeed("mount acme/alice mounted --chrome-major 131");
    assert_eq!(mounted["mode"], "locked", "{mounted:#}");
    assert_eq!(user.shell("echo mine > mounted/file && stat -c %u mounted/file"), NOBODY.to_string());
    let committed = user.succeed("commit mounted");
    assert_eq!(committed["outcome"], "stored", "{committed:#}");
    user.shell("echo more >> mounted/file");
    user.succeed("unmount mounted --commit");
    await_end(&mounted);
    assert_eq!(user.shell("ls mounted"), "");
    user.succeed("restore acme/alice out");
    assert_eq!(user.shell("cat out/file"), "mine\nmore");
    let ran = user.succeed("run acme/alice -- sh -c true {profile}");
    assert_eq!(
        (&ran["mounted"], &ran["snapshot"]["outcome"]),
        (&true.into(), &"unchanged".into()),
        "{ran:#}"
    );
}

/// The owner of a file may not open it any more, and a program has it open.
#[test]
fn a_commit_beside_a_program_says_if_it_may_lack_what_the_kernel_keeps() {
    let user = User::new();
    let pstore = |line: &str| -> Value {
        let words = ["PSTORE_MODES=cold,hot", "./pstore", "--json"];
        let ended = user.command("env").args(words).args(line.split(' ')).output().unwrap();
        assert!(ended.status.success(), "{line}: {ended:?}");
        serde_json::from_slice(&ended.stdout).unwrap()
    };
    pstore("mount acme/alice mounted --chrome-major 131 --writeback");
    let script = "import os, sys\n\
        os.write(os.open('mounted/' + sys.argv[1], os.O_CREAT | os.O_WRONLY, int(sys.argv[2], 8)), b'kept')\n\
        print(flush=True); sys.stdin.read()";
    let open = |name: &str, mode: &str| {
        let mut command = user.command("python3");
        let child =
            command.args(["-c", script, name, mode]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        child
    };
    let commit = || pstore("commit mounted --mode hot")["warnings"].to_string();
    let mut open_to_all = open("open", "644");
    assert_eq!(commit(), "[]");
    let mut closed_to_all = open("closed", "0");
    assert!(commit().contains("the kernel keeps them"));
    // Nor has a checkpoint of a workspace that is such a mount, and it goes on saying so.
    pstore("workspace start mounted acme/agent-7 --no-watch");
    let taken = pstore("checkpoint mounted --name beside");
    assert!(taken["warning"].to_string().contains("the kernel keeps them"), "{taken:#}");
    let listed = pstore("workspace list mounted");
    assert_eq!(listed["checkpoints"][0]["warning"], taken["warning"], "{listed:#}");
    let shown = pstore("show acme/agent-7@beside --chrome-major 65535");
    assert!(shown["labels"]["may-lack-writes"].is_string(), "{shown:#}");
    for program in [&mut open_to_all, &mut closed_to_all] {
        drop(program.stdin.take());
        program.wait().unwrap();
    }
    assert_eq!(commit(), "[]");
    assert!(pstore("checkpoint mounted --name after")["warning"].is_null());
    pstore("unmount mounted");
}

#[test]
fn a_user_without_the_helper_is_told_what_to_install_and_can_copy() {
    let user = User::new();
    // Something that cannot be run lies over them.
    user.as_root("for helper in fusermount3 fusermount; do mount --bind ready /usr/bin/$helper; done");
    let refused = user.pstore("mount acme/alice mounted --chrome-major 131");
    let told = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert_eq!(refused.status.code(), Some(6), "{refused:?}");
    assert!(told.contains("fusermount3 is not installed") && told.contains("apt install fuse3"), "{told}");
    let ran = user.pstore("run acme/alice --chrome-major 131 -- /bin/sh -c true {profile}");
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), &document["mounted"]), (Some(0), &false.into()), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("the profile is copied"), "{ran:?}");
}

#[test]
fn other_users_see_a_mount_only_if_they_may() {
    for (more, is_seen) in [(&[][..], false), (&["--allow-other"][..], true)] {
        let fixture = MountFixture::local();
        fixture.mount_as(&fixture.host, more);
        fs::write(fixture.mountpoint.join("open"), "for all").unwrap();
        fs::write(fixture.mountpoint.join("closed"), "for root").unwrap();
        fs::set_permissions(fixture.mountpoint.join("closed"), Permissions::from_mode(0o600)).unwrap();
        // Everybody may pass through a test's own directory.
        for folder in [&fixture.path(""), &fixture.mountpoint] {
            fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        }
        let read = |name: &str| {
            let path = fixture.mountpoint.join(name);
            Command::new("cat").arg(path).uid(NOBODY).gid(NOBODY).output().unwrap().status.success()
        };
        assert_eq!((read("open"), read("closed")), (is_seen, false), "{more:?}");
        fixture.unmount(&["--discard"]);
    }
}

/// A mount whose lock an operator has just taken away, and that has noticed.
fn robbed(choice: &str) -> (MountFixture, Value) {
    let fixture = MountFixture::local();
    let host = fixture.host.clone().with("PSTORE_LOCK_RENEW_SECONDS", "1");
    let mounted = fixture.mount_as(&host, &["--on-lock-lost", choice]);
    fs::write(fixture.mountpoint.join("before"), "before").unwrap();
    fixture.host.succeed(["force-unlock", ALICE, "--chrome-major", "131", "--reason", "test", "--confirm"]);
    until(|| status(&fixture)["lock_lost"] == true);
    (fixture, mounted)
}

fn status(fixture: &MountFixture) -> Value {
    fixture.host.succeed(["mounts"])["mounts"][0].take()
}

/// What was changed is still there, cannot be committed to the profile, and can be to another.
fn can_be_saved_elsewhere(fixture: &MountFixture) {
    let refused = fixture.ask("commit", &[]);
    assert_eq!(refused.code, Some(25), "{refused:#?}");
    assert!(refused.stderr.contains("--as acme/alice-rescued"), "{refused:#?}");
    fixture.host.succeed(["commit", fixture.mountpoint.to_str().unwrap(), "--as", "acme/saved"]);
    fixture.unmount(&[]);
    let out = fixture.path("out");
    fixture.host.restore("acme/saved", &out);
    assert_eq!(fs::read_to_string(out.join("before")).unwrap(), "before");
}

#[test]
fn a_mount_whose_lock_was_taken_away_stays_usable() {
    let (fixture, _) = robbed("warn");
    fs::write(fixture.mountpoint.join("after"), "after").unwrap();
    can_be_saved_elsewhere(&fixture);
}

#[test]
fn a_mount_that_freezes_when_its_lock_is_taken_away_takes_no_more_changes() {
    let (fixture, _) = robbed("freeze");
    until(|| status(&fixture)["read_only"] == true);
    let error = fs::write(fixture.mountpoint.join("after"), "after").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{error}");
    assert_eq!(fs::read_to_string(fixture.mountpoint.join("before")).unwrap(), "before");
    can_be_saved_elsewhere(&fixture);
}

#[test]
fn a_browser_whose_lock_was_taken_away_is_ended_if_that_is_asked_for() {
    let fixture = MountFixture::local();
    let host = fixture.host.clone().with("PSTORE_LOCK_RENEW_SECONDS", "1");
    fixture.mount_as(&host, &["--on-lock-lost", "kill"]);
    fs::write(fixture.mountpoint.join("before"), "before").unwrap();
    let browser = Chromium::start(&fixture.mountpoint);
    fixture.host.succeed(["force-unlock", ALICE, "--chrome-major", "131", "--reason", "test", "--confirm"]);
    until(|| !browser.runs());
    until(|| status(&fixture)["open_for_writing"].as_array().unwrap().is_empty());
    can_be_saved_elsewhere(&fixture);
}
