//! What a directory was loaded from, written into it when that matters later.
//!
//! A session that had to start afresh must not replace the good snapshot it could not
//! load, and whoever captures it may be another process. So the directory itself says it.
//! Only a directory that differs from its snapshot carries a marker; it is never captured.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

pub const NAME: &str = ".pstore-load";
const MAX_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Why it started afresh, in the contract's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// What was changed on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transforms: Vec<String>,
}

impl Marker {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::write(directory.join(NAME), serde_json::to_vec_pretty(self)?)
    }

    /// The marker of a directory; empty if there is none. One that cannot be read is an
    /// error: what it would forbid is not known.
    pub fn read(directory: &Path) -> io::Result<Self> {
        let path = directory.join(NAME);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() && found.len() <= MAX_BYTES => {
                Ok(serde_json::from_slice(&fs::read(path)?)?)
            }
            Ok(_) => Err(io::Error::other("it is no marker of pstore's")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
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
}
