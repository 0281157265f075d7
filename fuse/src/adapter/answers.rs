//! `answers` has what the FUSE handlers share: inode numbers, callers, names and common replies.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, time::Duration};

use fuser::{Generation, INodeNo, ReplyEmpty, ReplyEntry, Request};

use super::{translate::errno, view::View};
use crate::{Result, attributes::Attributes, fs::Caller, overlay::node::Ino};

/// The kernel may keep what it knows for as long as it likes: nothing changes behind it.
pub(super) const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
pub(super) const GENERATION: Generation = Generation(0);

pub(super) fn ino(number: INodeNo) -> Ino {
    Ino(number.0)
}

pub(super) fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid() }
}

/// Whether somebody may leave a file, whose bytes they change, the rights that it lends. The kernel says it of writes;
/// of a truncation `fuser` does not pass it on.
pub(super) fn may_give_rights(request: &Request) -> bool {
    request.uid() == 0
}

pub(super) fn owned(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

pub(super) fn answer_entry(reply: ReplyEntry, view: View) -> impl FnOnce(Result<Attributes>) {
    move |made| match made {
        Ok(found) => reply.entry(&FOREVER, &view.attr(&found), GENERATION),
        Err(error) => reply.error(errno(error)),
    }
}

pub(super) fn answer_empty(reply: ReplyEmpty) -> impl FnOnce(Result<()>) {
    move |done| match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}
