//! `Facts` reads facts from the files of a user-data-dir. A fact that cannot be read stays unknown.

use std::{
    fs,
    io::Read,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::Deserialize;
use store::name::ChromeMajor;

/// Made by a running Chrome for itself; of no use, or harmful, anywhere else. Only at the top:
/// files of these names that a site or an extension makes are theirs.
pub const EXCLUSIONS: [&str; 4] =
    ["SingletonLock", "SingletonSocket", "SingletonCookie", "DevToolsActivePort"];

pub(crate) const LOCAL_STATE: &str = "Local State";

/// The longest path on which a Chrome keeps all that it is given.
///
/// SQLite on Unix opens no database whose path and `-journal` are over 512 bytes together, so
/// 504 remain. Chrome goes on without a database it cannot open, and says nothing: on a path of
/// 470 bytes `Default/declarative_performance_observer.db`, the longest of today's names, is
/// missing, from 489 on the cookies are. Taken from 504: such a name, and a few more for the
/// next. The socket whose address is limited to 108 bytes is not below this directory, but in
/// the temporary one: there, 62 bytes are the most that Chrome starts with.
pub const MAX_PATH_BYTES: usize = 440;

const MAX_PREFERENCES_BYTES: u64 = 64 << 20;
const MAX_VERSION_BYTES: u64 = 256;
/// More profiles than anyone has in one directory.
const MAX_PROFILES: usize = 1000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Of the Chrome that ran last.
    pub last_version: Option<String>,
    /// How it ended: `Normal`, `SessionEnded`, `Crashed`; the worst of all profiles.
    pub exit_type: Option<String>,
    /// The older form of the exit type, which some tools still write; `false` if any profile says so.
    pub exited_cleanly: Option<bool>,
    /// Directories of profiles that have preferences.
    pub profiles: Vec<String>,
    /// Without it, no profile is complete: it has the keys of encrypted values.
    pub has_local_state: bool,
    /// Of the directory's own path, links resolved.
    pub path_bytes: usize,
    /// Whether any profile says that it crashed. While a Chrome runs this is so as well: it comes to say
    /// otherwise when it ends.
    pub says_crashed: bool,
}

impl Facts {
    pub fn read(directory: &Path) -> Self {
        let mut facts = Self {
            last_version: last_version(directory),
            has_local_state: is_file(&directory.join(LOCAL_STATE)),
            path_bytes: directory.canonicalize().map_or(0, |path| path.as_os_str().as_bytes().len()),
            ..Self::default()
        };
        for preferences in preferences(directory) {
            let exit = Exit::read(&preferences).unwrap_or_default();
            facts.says_crashed |= exit.says_crashed();
            facts.exit_type = worse(facts.exit_type.take(), exit.exit_type);
            facts.exited_cleanly = match (facts.exited_cleanly, exit.exited_cleanly) {
                (Some(one), Some(other)) => Some(one && other),
                (one, other) => one.or(other),
            };
            let name = preferences.parent().and_then(Path::file_name).unwrap_or_default();
            facts.profiles.push(name.to_string_lossy().into_owned());
        }
        facts
    }

    pub fn major(&self) -> Option<ChromeMajor> {
        self.last_version.as_deref()?.split('.').next()?.parse().ok()
    }

    pub fn path_is_too_long(&self) -> bool {
        self.path_bytes > MAX_PATH_BYTES
    }
}

/// The facts in `Preferences` about the last exit; the rest is skipped unread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Exit {
    pub(super) exit_type: Option<String>,
    pub(super) exited_cleanly: Option<bool>,
}

impl Exit {
    pub(super) fn read(preferences: &Path) -> Option<Self> {
        Self::parse(&read_bounded(preferences, MAX_PREFERENCES_BYTES)?)
    }

    /// The older word counts only where the newer one is missing: nothing keeps it up to date.
    fn says_crashed(&self) -> bool {
        self.exit_type.as_deref().map_or(self.exited_cleanly == Some(false), |word| word == "Crashed")
    }

    pub(super) fn parse(preferences: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Preferences {
            profile: Option<Exit>,
        }
        serde_json::from_slice::<Preferences>(preferences).ok()?.profile
    }
}

/// The files `Preferences` of all profiles, in order of their names.
pub(super) fn preferences(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        // A link's target may be anyone's.
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| {
            let name = entry.file_name();
            name == "Default" || name.as_bytes().starts_with(b"Profile ")
        })
        .map(|entry| entry.path().join("Preferences"))
        .filter(|path| is_file(path))
        .take(MAX_PROFILES)
        .collect();
    found.sort();
    found
}

fn worse(one: Option<String>, other: Option<String>) -> Option<String> {
    let badness = |exit: &Option<String>| match exit.as_deref() {
        None => 0,
        Some("Normal") => 1,
        Some("SessionEnded") => 2,
        // A word of a later Chrome's.
        Some(word) if word != "Crashed" => 3,
        Some(_) => 4,
    };
    if badness(&other) > badness(&one) { other } else { one }
}

fn last_version(directory: &Path) -> Option<String> {
    let bytes = read_bounded(&directory.join("Last Version"), MAX_VERSION_BYTES)?;
    let text = String::from_utf8(bytes).ok()?;
    let version = text.trim();
    let plausible = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plausible.then(|| version.to_owned())
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

/// A regular file of at most `max` bytes; a link is not followed.
pub(super) fn read_bounded(path: &Path, max: u64) -> Option<Vec<u8>> {
    read_bounded_at(CWD, path, max)
}

/// The same, of a path that begins in `dir`.
pub(super) fn read_bounded_at(dir: impl AsFd, path: &Path, max: u64) -> Option<Vec<u8>> {
    // Opening a FIFO must not wait for who writes to it.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(openat(dir, path, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > max {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= max).then_some(bytes)
}

#[cfg(test)]
mod tests;
