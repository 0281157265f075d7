//! `Xattrs` are the `user.` attributes of a file or directory, sorted.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::{
    fs::{fgetxattr, flistxattr, lgetxattr, llistxattr},
    io::{Errno, Result},
};

use crate::format::tree::MAX_XATTR_BYTES;

/// Extended attributes by name.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// The attributes of the entry `name` in a directory.
pub(super) fn of_name(dir: &OwnedFd, name: &[u8]) -> Result<Xattrs> {
    // Through the open directory, so that the path is short whatever the depth.
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    read(|list| llistxattr(&path[..], list), |name, value| lgetxattr(&path[..], name, value))
}

/// Those of an open file.
pub(super) fn of_file(file: impl AsFd) -> Result<Xattrs> {
    read(|list| flistxattr(&file, list), |name, value| fgetxattr(&file, name, value))
}

fn read(
    names: impl Fn(&mut [u8]) -> Result<usize>,
    value: impl Fn(&[u8], &mut [u8]) -> Result<usize>,
) -> Result<Xattrs> {
    let mut list = [0u8; 1024];
    let names = match names(&mut list) {
        Ok(len) => list[..len].to_vec(),
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            let mut list = vec![0; MAX_XATTR_BYTES];
            let len = names(&mut list)?;
            list.truncate(len);
            list
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for name in names.split(|b| *b == 0).filter(|name| name.starts_with(b"user.")) {
        let mut bytes = vec![0; MAX_XATTR_BYTES];
        match value(name, &mut bytes) {
            Ok(len) => {
                bytes.truncate(len);
                bytes.shrink_to_fit();
                found.push((name.to_vec(), bytes));
            }
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_unstable();
    Ok(found)
}
