//! These tests show that nobody keeps another user's commands from doing their work.

use std::fs;

use crate::local_user::user::{NEIGHBOUR, User, until};

/// Anybody can start what calls itself a browser on a directory that is not theirs.
#[test]
fn a_process_of_another_user_that_calls_itself_chrome_counts_for_nothing() {
    let user = User::new();
    user.fill(10);
    fs::copy("/bin/sh", user.path("chrome")).unwrap();
    let place = format!("--user-data-dir={}", user.path("udd").display());
    let chrome = user.path("chrome");
    let mut impostor =
        user.neighbours(chrome.to_str().unwrap(), &["-c", "echo > tmp/there; read line", &place]);
    until(|| user.path("tmp/there").exists());
    let stored = user.succeed("snapshot udd acme/alice --chrome-major 131");
    assert_eq!(stored["ended"], "not_running", "{stored:#}");
    assert!(impostor.runs(), "nobody has touched it");
    // Nor does one that pretends to be a child of a browser.
    let child = user.neighbours(
        chrome.to_str().unwrap(),
        &["-c", "echo > tmp/child; read line", "--type=renderer", &place],
    );
    until(|| user.path("tmp/child").exists());
    user.succeed("snapshot udd acme/alice --chrome-major 131");
    drop(child);
}

/// Whatever another user may do in a directory that is for all.
#[test]
fn names_links_and_locks_in_the_shared_temporary_directory_block_nothing() {
    let user = User::new();
    user.fill(10);
    fs::write(user.path("precious"), "x").unwrap();
    let nonce = "07".repeat(16);
    let litter = format!(
        "cd tmp && for kind in check look import publish run; do \\
           mkdir -m 777 pstore-$kind-{nonce} && echo theirs > pstore-$kind-{nonce}/file; \\
           ln -s $HOME pstore-$kind-{}; ln -s $HOME/precious pstore-$kind; done; mkdir -m 777 .pstore-new-{nonce}",
        "08".repeat(16)
    );
    user.neighbour(&litter);
    let count = user.temporary("").len();
    assert_eq!(count, 16);
    let flock =
        "for place in . pstore-*; do flock -x $place sleep 600 & done; flock -x . true & echo > there; wait";
    let holding = user.neighbours("sh", &["-c", &format!("cd tmp && {flock}")]);
    until(|| user.path("tmp/there").exists());

    user.succeed("snapshot udd acme/alice --chrome-major 131 --check full");
    user.succeed("mount acme/alice mounted");
    user.shell("echo changed > mounted/file");
    user.succeed("commit mounted");
    user.succeed("unmount mounted");
    user.succeed("run acme/alice -- sh -c true {profile}");
    user.succeed("run acme/alice --copy -- sh -c true {profile}");
    user.succeed("export acme/alice -o out");
    user.succeed("restore acme/alice back");
    drop(holding);
    assert_eq!(
        user.temporary("").len(),
        count + 1,
        "what is theirs stays, and nothing of ours: {:?}",
        user.temporary("")
    );
    assert_eq!(fs::read_to_string(user.path("precious")).unwrap(), "x");
    assert_eq!(user.neighbour(&format!("find tmp -name file -user {NEIGHBOUR} | wc -l")), "5");
}

#[test]
fn a_store_that_this_user_may_not_reach_is_denied_and_not_missing() {
    let user = User::new();
    user.as_root("mkdir -m 700 closed && mkdir closed/store");
    let output = user.pstore(&format!("list --store file://{}", user.path("closed/store").display()));
    assert_eq!(output.status.code(), Some(13), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("may not reach") && said.contains("owner and mode"), "{said}");
}
