//! Finds out the commit that the program is built from, for `pstore --version`.
//!
//! `PSTORE_COMMIT` names it; without that variable git tells, in a release. Elsewhere, as in an unpacked archive of the sources, it is
//! not known. A debug build does not ask, so that a commit alone does not link it again.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=PSTORE_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let named = env::var("PSTORE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = named.or_else(|| is_release.then(told_by_git).flatten()).unwrap_or_default();
    println!("cargo:rustc-env=PSTORE_BUILT_FROM={commit}");
    println!("cargo:rustc-env=PSTORE_BUILT_FOR={}", env::var("TARGET").unwrap_or_default());
}

fn told_by_git() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    for path in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path]) {
            println!("cargo:rerun-if-changed=../{path}");
        }
    }
    let is_clean = git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if is_clean { commit } else { format!("{commit}-modified") })
}

fn git(words: &[&str]) -> Option<String> {
    let told = Command::new("git").args(words).current_dir("..").output().ok()?;
    told.status.success().then(|| String::from_utf8_lossy(&told.stdout).trim().to_owned())
}
