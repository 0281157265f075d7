//! `singleton` finds and removes the three links by which a Chrome keeps others from its directory.
//!
//! `SingletonLock` points to `<host>-<pid>`; the others to a socket in a temporary directory and a number. A Chrome
//! that exits removes them, and a killed one leaves them. The next Chrome takes over a lock with this host's name; a
//! lock with another host's name makes it refuse to start.

pub use super::singleton_lock::Lock;

use std::{fs, io, path::Path};

use super::processes::{self, Users};

pub const LINKS: [&str; 3] = ["SingletonLock", "SingletonSocket", "SingletonCookie"];

/// The outcome of [`remove_stale`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    pub removed: Vec<&'static str>,
    /// Left alone: whether that process still runs cannot be told from here.
    pub of_another_host: Option<Lock>,
}

/// The links that are there.
pub fn present(directory: &Path) -> Vec<&'static str> {
    LINKS.into_iter().filter(|name| is_link(&directory.join(name))).collect()
}

/// Removes the links of a Chrome of this host that runs no more. Does nothing while one runs.
pub fn remove_stale(directory: &Path) -> io::Result<Removal> {
    if present(directory).is_empty() {
        return Ok(Removal::default());
    }
    remove_unused(directory, &processes::users(directory)?)
}

pub(super) fn remove_unused(directory: &Path, users: &Users) -> io::Result<Removal> {
    let mut removal = Removal::default();
    if users.runs() {
        return Ok(removal);
    }
    let lock = Lock::read(directory);
    if let Some(foreign) = lock.as_ref().filter(|lock| !lock.is_of_this_host()) {
        removal.of_another_host = Some(foreign.clone());
        return Ok(removal);
    }
    // The lock last: what a Chrome that starts meanwhile finds is a lock it takes over whole.
    for name in LINKS.into_iter().rev() {
        // A Chrome that has just started made a lock of its own.
        if Lock::read(directory) != lock {
            break;
        }
        let path = directory.join(name);
        if is_link(&path) {
            match fs::remove_file(&path) {
                Ok(()) => removal.removed.push(name),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(removal)
}

/// Removes the links, whichever program made them, from a directory that nobody can use yet: they came
/// with a copy, and would keep a Chrome from starting on it.
pub fn remove_copied(directory: &Path) -> io::Result<Vec<&'static str>> {
    let found = present(directory);
    for name in &found {
        fs::remove_file(directory.join(name))?;
    }
    Ok(found)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn locked(target: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        symlink(target, dir.path().join("SingletonLock")).unwrap();
        symlink("/nowhere/SingletonSocket", dir.path().join("SingletonSocket")).unwrap();
        symlink("4711", dir.path().join("SingletonCookie")).unwrap();
        dir
    }

    fn host() -> String {
        rustix::system::uname().nodename().to_str().unwrap().to_owned()
    }

    #[test]
    fn what_a_dead_chrome_left_is_removed_and_nothing_is_followed() {
        let dir = locked(&format!("{}-{}", host(), u32::MAX));
        let elsewhere = tempfile::NamedTempFile::new().unwrap();
        fs::remove_file(dir.path().join("SingletonCookie")).unwrap();
        symlink(elsewhere.path(), dir.path().join("SingletonCookie")).unwrap();
        assert_eq!(remove_stale(dir.path()).unwrap().removed.len(), 3);
        assert!(elsewhere.path().exists());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(remove_stale(dir.path()).unwrap(), Removal::default());
    }

    #[test]
    fn a_number_that_is_used_by_something_else_is_no_chrome() {
        let dir = locked(&format!("{}-{}", host(), std::os::unix::process::parent_id()));
        assert_eq!(remove_stale(dir.path()).unwrap().removed.len(), 3);
    }

    #[test]
    fn another_hosts_lock_is_left_and_told() {
        let dir = locked("some-other-host-17");
        let removal = remove_stale(dir.path()).unwrap();
        assert_eq!(removal.of_another_host, Some(Lock { host: "some-other-host".into(), pid: 17 }));
        assert_eq!(present(dir.path()), LINKS);
    }

    #[test]
    fn from_a_copy_all_links_go_and_nothing_else() {
        let dir = locked("some-other-host-17");
        fs::remove_file(dir.path().join("SingletonCookie")).unwrap();
        fs::write(dir.path().join("SingletonCookie"), "a file").unwrap();
        assert_eq!(remove_copied(dir.path()).unwrap(), ["SingletonLock", "SingletonSocket"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(remove_copied(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn files_with_these_names_are_not_chromes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("SingletonLock"), "x").unwrap();
        assert_eq!(remove_stale(dir.path()).unwrap(), Removal::default());
        assert!(dir.path().join("SingletonLock").exists());
    }
}
