//! These tests go through the steps of a release, on a copy of the sources.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::made::{root, run, stripped};

fn release(sources: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.arg(sources.join("scripts/release")).args(words).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("SOURCE_DATE_EPOCH", "1700000000").output().unwrap()
}

/// The sources that the first steps of a release read, in a folder of their own.
fn copied(folder: &Path) -> PathBuf {
    let copy = folder.join("sources");
    fs::create_dir(&copy).unwrap();
    for path in ["Cargo.toml", "Cargo.lock", "CHANGELOG.md", "clients", "scripts"] {
        run(Command::new("cp").arg("-r").arg(root().join(path)).arg(&copy));
    }
    copy
}

#[test]
fn a_bump_changes_the_version_everywhere_and_dates_the_changes() {
    let folder = tempfile::tempdir().unwrap();
    let copy = copied(folder.path());
    let read = |path: &str| fs::read_to_string(copy.join(path)).unwrap();
    let log =
        read("CHANGELOG.md").replacen("## Unreleased\n", "## Unreleased\n\n### Added\n\n- Something.\n", 1);
    fs::write(copy.join("CHANGELOG.md"), log).unwrap();
    let own = |lock: &str| lock.matches("name = \"pstore").count();
    let bumped = release(&copy, &["bump", "99.1.0"]);
    assert!(bumped.status.success(), "{bumped:?}");
    assert!(read("Cargo.toml").contains("version = \"99.1.0\"\n"));
    assert!(read("clients/python/pstore/version.py").contains("VERSION = \"99.1.0\"\n"));
    assert_eq!(read("Cargo.lock").matches("version = \"99.1.0\"").count(), own(&read("Cargo.lock")));
    let log = read("CHANGELOG.md");
    let versions: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert!(versions[0] == "Unreleased" && versions[1].starts_with("99.1.0 - 2"), "{versions:?}");
    // There is nothing to release now, and no way back.
    for (version, why) in [("99.2.0", "no changes"), ("99.1.0", "not after"), ("1", "no version")] {
        let refused = release(&copy, &["bump", version]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(why), "{said}");
    }
}

#[test]
fn a_clean_commit_is_tagged_if_the_changelog_has_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let copy = copied(folder.path());
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        // Nothing of this host's configuration.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        String::from_utf8(run(command.arg("-C").arg(&copy).args(words)).stdout).unwrap()
    };
    git(&["init", "--quiet"]);
    git(&["config", "user.name", "a"]);
    git(&["config", "user.email", "a@example.invalid"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "first"]);
    let refused = |why: &str| {
        let tagged = release(&copy, &["tag"]);
        let said = String::from_utf8_lossy(&tagged.stderr).into_owned();
        assert!(!tagged.status.success() && said.contains(why), "{said}");
        assert_eq!(git(&["tag"]), "");
    };
    let number = env!("CARGO_PKG_VERSION");
    let log = fs::read_to_string(copy.join("CHANGELOG.md")).unwrap();
    // Another version, whose number has ours in it.
    fs::write(copy.join("CHANGELOG.md"), log.replace(&format!("## {number} "), &format!("## 1{number} ")))
        .unwrap();
    refused("not committed");
    git(&["commit", "--quiet", "--all", "--message", "second"]);
    refused("has no version");
    git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let tagged = release(&copy, &["tag"]);
    assert!(tagged.status.success(), "{tagged:?}");
    assert_eq!(git(&["tag", "--points-at", "HEAD"]), format!("v{number}\n"));
}

#[test]
fn what_is_not_fit_for_a_release_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (program, packages) = (stripped(folder.path()), folder.path().join("packages"));
    let packages = packages.to_str().unwrap();
    let packed = release(root(), &["pack", program.to_str().unwrap(), packages]);
    assert!(packed.status.success(), "{packed:?}");
    assert_eq!(fs::read_to_string(format!("{packages}/SHA256SUMS")).unwrap().lines().count(), 4);
    let said = |packages: &str| {
        let checked = release(root(), &["check", packages]);
        assert!(!checked.status.success());
        String::from_utf8(checked.stderr).unwrap()
    };
    // A debug build is large, for hosts like this one, and not of a commit that it knows; but it is packed as it is.
    let first = said(packages);
    for wrong in ["bytes, more than", "needs glibc", "clean commit"] {
        assert!(first.contains(wrong), "{first}");
    }
    assert!(!first.contains("packed otherwise") && !first.contains("SHA256SUMS"), "{first}");
    let wheel = fs::read_dir(packages).unwrap().map(|entry| entry.unwrap().path());
    let wheel = wheel.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "whl")).unwrap();
    fs::write(&wheel, "another").unwrap();
    let second = said(packages);
    assert!(
        second.contains("is not what SHA256SUMS says") && second.contains("packed otherwise"),
        "{second}"
    );
}
