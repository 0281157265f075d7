//! These tests run the POSIX test suite pjdfstest on a mount.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use tests::mount_fixture::MountFixture;

const SETTINGS: &str = include_str!("../../posix.toml");
const REASONS: &str = include_str!("../../../docs/posix.md");

/// `scripts/setup test` installs it. Its absence fails the test.
fn program() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tools =
        env::var_os("PSTORE_TEST_TOOLS").map_or_else(|| root.join("target/test-tools"), PathBuf::from);
    let places = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&places).chain([root.join(tools).join("bin")]);
    let found = places.map(|place| place.join("pjdfstest")).find(|path| path.exists());
    found.expect("pjdfstest is missing: run `scripts/setup test`")
}

/// The cases that are expected to fail.
fn expected() -> Vec<&'static str> {
    let list = SETTINGS.split_once("expected_failures = [").unwrap().1.split_once(']').unwrap().0;
    list.split('"').skip(1).step_by(2).collect()
}

/// Runs the cases whose name contains `pattern`, and returns how many passed and were skipped.
#[track_caller]
fn run(fixture: &MountFixture, settings: &str, pattern: &str) -> (u32, u32) {
    let path = fixture.path("posix.toml");
    fs::write(&path, settings).unwrap();
    let mut suite = Command::new(program());
    suite.arg("-c").arg(&path).arg("-p").arg(&fixture.mountpoint).arg("-s").arg(fixture.path(""));
    suite.arg(pattern).env("NO_COLOR", "1").env("RUST_BACKTRACE", "0");
    // Where the helper for FUSE is installed, remounting would start the daemon anew with it.
    let (bin, places) = (fixture.path("bin"), env::var("PATH").unwrap());
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("mount"), "#!/bin/sh\nexec /bin/mount --internal-only \"$@\"\n").unwrap();
    fs::set_permissions(bin.join("mount"), fs::Permissions::from_mode(0o755)).unwrap();
    let ended = suite.env("PATH", format!("{}:{places}", bin.display())).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    let wrong: Vec<&str> =
        said.lines().filter(|line| !line.ends_with(" ok") && !line.ends_with(" skipped")).collect();
    assert!(ended.status.success(), "{}\n{}", wrong.join("\n"), String::from_utf8_lossy(&ended.stderr));
    let count = |word: &str| said.lines().filter(|line| line.ends_with(word)).count() as u32;
    (count(" ok"), count(" skipped"))
}

#[test]
fn pjdfstest_passes_but_for_what_the_documentation_explains() {
    passes_on(&["--allow-other"]);
}

#[test]
fn so_it_does_where_the_kernel_keeps_writes() {
    passes_on(&["--allow-other", "--writeback"]);
}

fn passes_on(how: &[&str]) {
    for case in expected() {
        assert!(REASONS.contains(&format!("`{case}`")), "docs/posix.md says nothing about {case}");
    }
    let fixture = MountFixture::local();
    // The suite acts as other users, too.
    let everybody = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    everybody(&fixture.path(""));
    fixture.mount_as(&fixture.host, how);
    everybody(&fixture.mountpoint);

    // A time that the kernel sets is that of its last tick, some milliseconds ago.
    let settings = SETTINGS.replace("naptime = 0.002", "naptime = 0.02");
    let (passed, skipped) =
        run(&fixture, if how.contains(&"--writeback") { &settings } else { SETTINGS }, "");
    println!("{passed} passed, {skipped} skipped");
    assert!(passed >= 380, "only {passed} passed");
    // Those that want a file system that can be remounted read-only, which the suite itself is in
    // the way of when other cases ran before.
    let remountable = SETTINGS.replace("allow_remount = false", "allow_remount = true");
    let (on_read_only, left_out) = run(&fixture, &remountable, "erofs");
    assert_eq!((on_read_only, left_out), (13, 0));
    assert_eq!(skipped - on_read_only, 1, "more was skipped than docs/posix.md says");
    fixture.unmount(&["--commit"]);
}
