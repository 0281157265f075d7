//! `Lock` reads the link by which a Chrome keeps others from its directory.

use std::{fs, path::Path};

/// Whom a `SingletonLock` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    pub host: String,
    pub pid: u32,
}

impl Lock {
    pub fn read(directory: &Path) -> Option<Self> {
        let target = fs::read_link(directory.join("SingletonLock")).ok()?;
        // A host's name may have dashes, a number has none.
        let (host, pid) = target.to_str()?.rsplit_once('-')?;
        Some(Self { host: host.to_owned(), pid: pid.parse().ok().filter(|pid| *pid != 0)? })
    }

    pub fn is_of_this_host(&self) -> bool {
        rustix::system::uname().nodename().to_bytes() == self.host.as_bytes()
    }
}
