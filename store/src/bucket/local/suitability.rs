//! Tells whether a file system can carry compare-and-swap at all.
//!
//! Tried out, not looked up by name: only the behaviour of this mount counts. One thing cannot
//! be seen from a single host: a network file system mounted so that locks stay local.

use std::{fs, io, path::Path};

use rustix::fs::{FlockOperation, flock};

use super::temp::Temp;

/// `Err` inside: the reason why it is unsuitable.
pub(super) fn examine(tmp: &Path) -> io::Result<Result<(), &'static str>> {
    let file = Temp::create(tmp)?;
    // A lock belongs to one opening of a file, so a second opening must be kept out.
    let second = fs::File::open(file.path())?;
    if flock(&second, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(Err("flock does not exclude on this file system"));
    }
    let lower = file.path().with_extension("case");
    let upper = file.path().with_extension("CASE");
    if file.link(&lower).is_err() {
        return Ok(Err("this file system has no hard links"));
    }
    let folds_case = upper.symlink_metadata().is_ok();
    let relinked = file.link(&lower);
    fs::remove_file(&lower)?;
    if folds_case {
        return Ok(Err("this file system does not tell upper from lower case"));
    }
    match relinked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Ok(())),
        _ => Ok(Err("link does not fail for an existing name on this file system")),
    }
}
