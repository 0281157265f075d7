//! `made` runs `scripts/package` on the program that was built with these tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tests::binary;

/// The sources.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The program without the symbols of a debug build.
pub(super) fn stripped(folder: &Path) -> PathBuf {
    let program = folder.join("stripped");
    run(Command::new("strip").arg("-o").arg(&program).arg(binary::program()));
    program
}

/// Makes a package of this kind in a directory of its own, and returns its path.
#[track_caller]
pub(super) fn package(kind: &str, folder: &Path) -> PathBuf {
    let program = stripped(folder);
    let make = |directory: &str| {
        let made = run(script()
            .arg(kind)
            .arg(&program)
            .arg(folder.join(directory))
            .env("SOURCE_DATE_EPOCH", "1700000000"));
        PathBuf::from(String::from_utf8(made.stdout).unwrap().trim())
    };
    let made = make("made");
    let again = make("again");
    assert_eq!(made.file_name(), again.file_name());
    assert!(fs::read(&made).unwrap() == fs::read(again).unwrap(), "the same program gives other bytes");
    made
}

/// Whether a text has the licences of all that is in the program, and of nothing that only builds or tests it.
#[track_caller]
pub(super) fn has_all_licences(text: &str) {
    let names = |name: &str| text.contains(&format!("\n{name} "));
    for name in ["tokio", "aws-sdk-s3", "rusqlite", "fuser", "zstd-sys", "tikv-jemalloc-sys", "aws-lc-sys"] {
        assert!(names(name), "{name} is missing");
    }
    for name in ["proptest", "cc", "pstore", "pstore-store"] {
        assert!(!names(name), "{name} is not of others, or not in the program");
    }
    // Texts of crates, and of libraries in them.
    for words in ["Permission is hereby granted", "Apache License", "jemalloc", "Zstandard", "Meta Platforms"]
    {
        assert!(text.contains(words), "no {words}");
    }
}

/// `scripts/package`.
pub(super) fn script() -> Command {
    let mut command = Command::new("python3");
    command.arg(root().join("scripts/package")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a program of another root as this user, with `/proc` and no variable but these, and returns what it prints.
#[track_caller]
pub(super) fn in_root(root: &Path, user: &str, variables: &[(&str, &str)], words: &[&str]) -> String {
    // Its mounts go with it.
    const LINE: &str = r#"mkdir -p "$1/proc" && mount -t proc proc "$1/proc" && root=$1 user=$2 && shift 2 && exec chroot --userspec="$user" "$root" "$@""#;
    let mut command = Command::new("/usr/bin/unshare");
    command.args(["--mount", "sh", "-ec", LINE, "sh"]).arg(root).arg(user).args(words).env_clear();
    command.envs(variables.iter().copied()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    String::from_utf8(run(&mut command).stdout).unwrap()
}

/// Runs a command that must succeed.
#[track_caller]
pub(super) fn run(command: &mut Command) -> Output {
    let ended = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {said}");
    ended
}

#[test]
fn what_is_no_pstore_is_not_packed() {
    let folder = tempfile::tempdir().unwrap();
    for (program, why) in
        [("/usr/bin/env", "is no pstore"), ("/etc/passwd", "is no program"), ("/none", "build it first")]
    {
        let refused = script().args(["wheel", program]).arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(why), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
