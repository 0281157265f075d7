//! `listing` answers the kernel when it lists directories.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use fuser::{FileHandle, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::{
    Adapter,
    answers::{FOREVER, GENERATION},
    translate::{errno, file_type},
};

impl Adapter {
    pub(super) fn list(&self, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listing = match self.fs.list(handle.0, offset) {
            Ok(listing) => listing,
            Err(error) => return reply.error(errno(error)),
        };
        for (at, listed) in listing.iter().enumerate().skip(offset as usize) {
            let name = OsStr::from_bytes(&listed.name);
            if reply.add(INodeNo(listed.ino.0), at as u64 + 1, file_type(listed.kind), name) {
                break;
            }
        }
        reply.ok();
    }

    pub(super) fn list_with_attributes(
        &self,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listing = match self.fs.list(handle.0, offset) {
            Ok(listing) => listing,
            Err(error) => return reply.error(errno(error)),
        };
        for (at, listed) in listing.iter().enumerate().skip(offset as usize) {
            // One that was removed since is not there any more.
            let Ok(found) = self.fs.attributes(listed.ino) else { continue };
            let name = OsStr::from_bytes(&listed.name);
            let number = INodeNo(listed.ino.0);
            if reply.add(number, at as u64 + 1, name, &FOREVER, &self.view.attr(&found), GENERATION) {
                break;
            }
            // The kernel does not count these two.
            if at > 1 {
                self.fs.know(listed.ino);
            }
        }
        reply.ok();
    }
}
