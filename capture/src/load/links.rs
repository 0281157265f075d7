//! The links of a Chrome that ran elsewhere, which came with the snapshot.
//!
//! pstore stores none; other programs may. They are taken out before anybody can use the
//! directory, so none of them is that of a Chrome that runs on it.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use store::{Error, Result, ops::restore::Inspector};

use crate::chrome::singleton::{self, Lock};

/// Removes them, and says what a person should know; `None` if there were none.
pub fn remove(directory: &Path) -> Result<Option<String>> {
    let lock = Lock::read(directory);
    let removed = singleton::remove_copied(directory)
        .map_err(|error| Error::io("cannot remove the links of a browser from", directory, error))?;
    if removed.is_empty() {
        return Ok(None);
    }
    let of = lock.map_or_else(String::new, |lock| format!(" of process {} on {:?}", lock.pid, lock.host));
    let names = removed.join(", ");
    Ok(Some(format!("{names}{of} came with the snapshot and were left out: Chrome would not have started")))
}

/// For a directory that is written as it was captured, but for these.
#[derive(Debug, Default)]
pub struct WithoutLinks(Mutex<Option<String>>);

impl WithoutLinks {
    /// What was removed, for a person.
    pub fn warning(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Inspector for WithoutLinks {
    fn inspect(&self, directory: &Path) -> Result<()> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = remove(directory)?;
        Ok(())
    }
}
