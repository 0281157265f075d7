//! `leftovers` removes files of a snapshot that are no part of a profile: the links of a Chrome that ran elsewhere,
//! and pstore's marker of another directory.
//!
//! pstore stores neither; other programs may. It removes them before any program can use the directory, so no link
//! belongs to a Chrome that runs on it.

use std::{fs, io, path::Path};

use parking_lot::Mutex;

use store::{Error, Result, ops::read::restore::Inspector, tree::remove::remove_all};

use crate::{
    chrome::singleton::{self, Lock},
    marker,
};

/// Removes them, and returns messages for a person.
pub fn remove(directory: &Path) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let lock = Lock::read(directory);
    let removed = singleton::remove_copied(directory)
        .map_err(|error| Error::io("cannot remove the links of a browser from", directory, error))?;
    if !removed.is_empty() {
        let of = lock.map_or_else(String::new, |lock| format!(" of process {} on {:?}", lock.pid, lock.host));
        let names = removed.join(", ");
        warnings.push(format!(
            "{names}{of} came with the snapshot and were left out: Chrome would not have started"
        ));
    }
    let path = directory.join(marker::NAME);
    match fs::symlink_metadata(&path) {
        Ok(_) => {
            remove_all(&path).map_err(|error| Error::io("cannot remove", &path, error))?;
            warnings.push(format!("{} came with the snapshot and was left out", marker::NAME));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io("cannot look at", &path, error)),
    }
    Ok(warnings)
}

/// For a directory that is written as it was captured, but for these.
#[derive(Debug, Default)]
pub struct WithoutLeftovers(Mutex<Vec<String>>);

impl WithoutLeftovers {
    /// The removed objects, for a person.
    pub fn warnings(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl Inspector for WithoutLeftovers {
    fn inspect(&self, directory: &Path) -> Result<()> {
        *self.0.lock() = remove(directory)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_marker_that_came_with_a_snapshot_goes_whatever_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (root, kept) = (dir.path().join("root"), dir.path().join("kept"));
        fs::create_dir(&root).unwrap();
        fs::write(&kept, "kept").unwrap();
        let marker = root.join(marker::NAME);
        let make: [&dyn Fn(); 3] =
            [&|| symlink(&kept, &marker).unwrap(), &|| fs::write(&marker, "{}").unwrap(), &|| {
                fs::create_dir_all(marker.join("a/b")).unwrap()
            }];
        for make in make {
            make();
            assert_eq!(remove(&root).unwrap().len(), 1);
            assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        }
        assert!(remove(&root).unwrap().is_empty());
        assert_eq!(fs::read(&kept).unwrap(), b"kept");
    }
}
