//! What a Chrome user-data-dir says about itself. Whatever cannot be read is left open.

use std::{fs, io::Read, path::Path};

use store::name::ChromeMajor;

/// Made by a running Chrome for itself; of no use, or harmful, anywhere else.
pub(crate) const EXCLUSIONS: [&str; 4] =
    ["SingletonLock", "SingletonSocket", "SingletonCookie", "DevToolsActivePort"];

const MAX_PREFERENCES_BYTES: u64 = 16 << 20;
const MAX_VERSION_BYTES: u64 = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Of the Chrome that ran last.
    pub(crate) last_version: Option<String>,
    /// How it ended: `Normal`, `Crashed`, …
    pub(crate) exit_type: Option<String>,
}

impl Facts {
    pub(crate) fn read(directory: &Path) -> Self {
        Self { last_version: last_version(directory), exit_type: exit_type(directory) }
    }

    pub(crate) fn major(&self) -> Option<ChromeMajor> {
        self.last_version.as_deref()?.split('.').next()?.parse().ok()
    }
}

fn last_version(directory: &Path) -> Option<String> {
    let text = String::from_utf8(read(&directory.join("Last Version"), MAX_VERSION_BYTES)?).ok()?;
    let version = text.trim();
    let plausible = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    plausible.then(|| version.to_owned())
}

fn exit_type(directory: &Path) -> Option<String> {
    let bytes = read(&directory.join("Default/Preferences"), MAX_PREFERENCES_BYTES)?;
    let preferences: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    Some(preferences.get("profile")?.get("exit_type")?.as_str()?.to_owned())
}

/// A regular file of at most `max` bytes.
fn read(path: &Path, max: u64) -> Option<Vec<u8>> {
    // A FIFO must not be opened: that would wait for a writer.
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(max + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= max).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_where_they_are_and_left_open_where_not() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Facts::read(dir.path()), Facts::default());
        fs::write(dir.path().join("Last Version"), "131.0.6778.85\n").unwrap();
        fs::create_dir(dir.path().join("Default")).unwrap();
        let preferences = dir.path().join("Default/Preferences");
        fs::write(&preferences, r#"{"profile": {"exit_type": "Crashed"}}"#).unwrap();
        let facts = Facts::read(dir.path());
        assert_eq!(facts.major().map(u64::from), Some(131));
        assert_eq!(facts.exit_type.as_deref(), Some("Crashed"));
        fs::write(&preferences, "{").unwrap();
        fs::write(dir.path().join("Last Version"), "tomorrow").unwrap();
        assert_eq!(Facts::read(dir.path()), Facts::default());
    }
}
