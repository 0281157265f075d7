//! These tests look at captures, exports and stores as another user.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Command,
};

use rustix::process::Signal;

use crate::local_user::user::{NOBODY, User, until};

/// So many cookies take seconds to check in full, and the check is held up in between.
const COOKIES: u32 = 200_000;

fn copies(folder: &Path) -> usize {
    let below = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    below(folder).flat_map(|entry| below(&entry.path())).count()
}

#[test]
fn nothing_is_readable_while_databases_are_checked_nor_when_that_was_killed() {
    let user = User::new();
    user.fill(COOKIES);
    let mut running =
        user.start(&["snapshot", "udd", "acme/alice", "--chrome-major", "131", "--check", "full"]);
    let is_checking = || user.temporary("pstore-check-").iter().any(|folder| copies(folder) > 0);
    until(|| is_checking() || !running.runs());
    assert!(running.runs(), "the check was over before anybody could look");
    running.signal(Signal::STOP);
    assert!(is_checking(), "the check was over before it could be held up");
    user.is_closed("a check is at work");
    running.kill();
    assert!(is_checking(), "what is killed cleans nothing up");
    user.is_closed("a check was killed");

    // Neither another user nor root takes away what is not theirs; its own user does.
    user.neighbour("./pstore list acme/alice --store file://$HOME/theirs; rm -rf tmp/pstore-check-*");
    assert!(is_checking());
    user.pstore("list acme/alice");
    assert_eq!(user.temporary("pstore-check-").len(), 0);
    user.succeed("snapshot udd acme/alice --chrome-major 131");
    assert_eq!(user.temporary("").len(), 0, "{:?}", user.temporary(""));
    user.is_closed("there is a snapshot");
}

#[test]
fn an_export_is_closed_to_others_when_it_is_done_and_when_it_was_killed() {
    let user = User::new();
    user.fill(20_000);
    user.succeed("snapshot udd acme/alice --chrome-major 131");
    // The kernel ends it in the middle of what it writes.
    let killed = user
        .command("prlimit")
        .args(["--fsize=65536", "--core=0", "./pstore"])
        .args("export acme/alice -o out".split(' '))
        .output()
        .unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    assert!(fs::read_dir(user.path("out")).unwrap().count() > 0, "it was killed too early");
    user.is_closed("an export was killed");
    user.succeed("export acme/alice -o out");
    user.is_closed("an export is done");
}

/// What somebody made for a store may be open to all; what is stored there is not.
#[test]
fn a_store_in_an_open_directory_is_closed_to_others_and_a_shared_one_to_all_but_its_group() {
    let user = User::new();
    user.fill(10);
    for (mode, file_mode) in [(0o755, 0o600), (0o777, 0o660), (0o770, 0o660), (0o750, 0o640)] {
        let place = user.path(&format!("store-{mode:o}"));
        fs::create_dir(&place).unwrap();
        chown(&place, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
        let store = format!("--store file://{}", place.display());
        user.succeed(&format!("{store} snapshot udd acme/alice --chrome-major 131"));
        user.is_closed(&format!("a store in a directory of mode {mode:o}"));
        let files =
            Command::new("find").arg(&place).args(["-type", "f", "-printf", "%m\\n"]).output().unwrap();
        let modes = String::from_utf8(files.stdout).unwrap();
        assert!(
            modes.lines().count() > 3 && modes.lines().all(|found| found == format!("{file_mode:o}")),
            "{mode:o}: {modes}"
        );
        let told = String::from_utf8(user.pstore(&format!("{store} doctor")).stdout).unwrap();
        assert_eq!(told.contains("other users of this host may look into"), mode & 7 != 0, "{told}");
    }
}

/// Whoever else can write there would decide what is loaded.
#[test]
fn caches_and_sessions_that_others_can_change_are_refused() {
    let user = User::new();
    user.fill(10);
    let (theirs, open) = (user.path("theirs"), user.path("open"));
    for place in [&theirs, &open] {
        fs::create_dir(place).unwrap();
    }
    chown(&open, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let refused = |arguments: &[&str], told: &str, typed: &str| {
        let mut command = user.command("env");
        let output = command.args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said.contains(told) && said.contains(typed), "{said}");
    };
    let (theirs, open) = (theirs.to_str().unwrap(), open.to_str().unwrap());
    refused(
        &["./pstore", "list", "acme/alice", "--cache-dir", theirs],
        "belongs to user 0",
        &format!("chown {NOBODY} {theirs}"),
    );
    refused(
        &["./pstore", "list", "acme/alice", "--cache-dir", open],
        "can be changed by other users (mode 0777)",
        &format!("chmod go-w {open}"),
    );
    let [theirs, open] = [theirs, open].map(|place| format!("PSTORE_SESSION_DIR={place}"));
    let mount = ["./pstore", "mount", "acme/alice", "mounted", "--chrome-major", "131"];
    refused(
        &[&[theirs.as_str()][..], &mount].concat(),
        "the directory for sessions",
        "PSTORE_SESSION_DIR names another",
    );
    refused(&[open.as_str(), "./pstore", "sessions"], "can be changed by other users", "chmod go-w");
    let mounted = user.path("mounted");
    assert_eq!(user.shell(&format!("grep -cF {} /proc/self/mounts", mounted.display())), "0");
    assert_eq!(fs::metadata(user.path("open")).unwrap().mode() & 0o777, 0o777, "nothing was changed");
}
