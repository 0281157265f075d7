//! `Marker` marks a directory that differs from the snapshot it was loaded from: why it started empty, and which
//! changes the load made. No capture of a directory that started empty replaces that snapshot, unless somebody asks
//! for it.
//!
//! A session that had to start with an empty profile must not replace the good snapshot it could not load, and
//! another process may capture it. So the directory itself carries that fact. Only a directory that differs from its
//! snapshot carries a marker; it is never captured.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat},
    io::Errno,
};
use serde::{Deserialize, Serialize};

pub const NAME: &str = ".pstore-load";
const MAX_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Why it started with an empty profile, in the contract's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The changes that the load made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<String>,
}

impl Marker {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(self)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, directory, flags, Mode::empty())?;
        // A new file, whatever lay there: the directory's content is somebody else's, and a link in
        // it may lead anywhere.
        match unlinkat(&directory, NAME, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        File::from(openat(&directory, NAME, flags, Mode::from(0o644))?).write_all(&bytes)
    }

    /// The marker of a directory; empty if there is none. One that cannot be read is an
    /// error: nobody knows what it would forbid.
    pub fn read(directory: &Path) -> io::Result<Self> {
        // Opening a FIFO must not wait for who writes to it.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let strange = || io::Error::other("it is no marker of pstore's");
        let file = match openat(CWD, directory.join(NAME), flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(Self::default()),
            Err(Errno::LOOP | Errno::NXIO) => return Err(strange()),
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?;
        if !found.is_file() || found.len() > MAX_BYTES {
            return Err(strange());
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    pub fn remove(directory: &Path) -> io::Result<()> {
        match fs::remove_file(directory.join(NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_as_written_and_a_strange_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Marker::read(dir.path()).unwrap().is_empty());
        let marker =
            Marker { fallback: Some("sha_mismatch".into()), transforms: vec!["normalise-exit".into()] };
        marker.write(dir.path()).unwrap();
        assert_eq!(Marker::read(dir.path()).unwrap(), marker);
        fs::write(dir.path().join(NAME), "?").unwrap();
        Marker::read(dir.path()).unwrap_err();
        Marker::remove(dir.path()).unwrap();
        Marker::remove(dir.path()).unwrap();
        assert!(Marker::read(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn a_marker_is_written_and_read_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::write(&outside, "{}").unwrap();
        std::os::unix::fs::symlink(&outside, root.join(NAME)).unwrap();
        Marker::read(&root).unwrap_err();
        let marker = Marker { fallback: None, transforms: vec!["normalise-exit".into()] };
        marker.write(&root).unwrap();
        assert_eq!(Marker::read(&root).unwrap(), marker);
        assert_eq!(fs::read(&outside).unwrap(), b"{}", "a link was followed");
    }
}
