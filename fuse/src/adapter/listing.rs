//! `listing` answers the kernel when it lists directories.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, sync::Arc};

use fuser::{FileHandle, INodeNo, ReplyDirectory, ReplyDirectoryPlus};

use super::{
    Adapter,
    answers::{FOREVER, GENERATION},
    translate::{errno, file_type},
};
use crate::{
    Result,
    attributes::Attributes,
    fs::{Answer, Fs, Unanswered, handles::Listed},
};

/// So many entries are answered with their attributes at once, at most: more than fit into an answer.
const AT_ONCE: usize = 512;

impl Adapter {
    pub(super) fn list(&self, asker: u32, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let answer = move |listing: Result<Arc<Vec<Listed>>>| {
            let listing = match listing {
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
        };
        self.ask(asker, move |fs| fs.list(handle.0, offset), answer);
    }

    pub(super) fn list_with_attributes(
        &self,
        asker: u32,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (fs, view) = (Arc::clone(&self.fs), self.view);
        let answer = move |listed: Result<Vec<(usize, Listed, Attributes)>>| {
            let listed = match listed {
                Ok(listed) => listed,
                Err(error) => return reply.error(errno(error)),
            };
            for (at, listed, found) in listed {
                let (name, number) = (OsStr::from_bytes(&listed.name), INodeNo(listed.ino.0));
                if reply.add(number, at as u64 + 1, name, &FOREVER, &view.attr(&found), GENERATION) {
                    break;
                }
                // The kernel does not count these two.
                if at > 1 {
                    fs.know(listed.ino);
                }
            }
            reply.ok();
        };
        self.ask(asker, move |fs| attributed(fs, handle.0, offset), answer);
    }
}

/// The next entries of an open directory with their attributes, as many as are here: whoever reads on gets the others.
/// One that was removed since is not there any more.
fn attributed(fs: &Fs, handle: u64, offset: u64) -> Answer<Vec<(usize, Listed, Attributes)>> {
    let listing = fs.list(handle, offset)?;
    let mut found = Vec::new();
    for (at, listed) in listing.iter().enumerate().skip(offset as usize).take(AT_ONCE) {
        match fs.attributes(listed.ino) {
            Ok(attributes) => found.push((at, listed.clone(), attributes)),
            Err(Unanswered::Missing(missing)) if found.is_empty() => return Err(missing.into()),
            Err(Unanswered::Missing(_)) => break,
            Err(Unanswered::Refused(_)) => {}
        }
    }
    Ok(found)
}
