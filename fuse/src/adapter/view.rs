//! `view` decides to which user and group the mounted files seem to belong.

use fuser::FileAttr;

use super::translate::file_attr;
use crate::{
    attributes::Attributes,
    fs::{Answer, Caller, Fs},
    overlay::node::Ino,
};

/// Of a directory that is one user's alone.
const OWNERS_ALONE: u16 = 0o700;

/// The user a mount was given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// What is told to the kernel of whom files belong to. With an owner, all are that user's, and no
/// other user gets past the root; whom they belong to in the snapshot stays as it was, and what
/// is new there belongs to whom its directory does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View(pub(super) Option<Owner>);

impl View {
    pub(super) fn attr(self, found: &Attributes) -> FileAttr {
        let mut attr = file_attr(found);
        if let Some(Owner { uid, gid }) = self.0 {
            (attr.uid, attr.gid) = (uid, gid);
            if found.ino == Ino::ROOT {
                attr.perm &= OWNERS_ALONE;
            }
        }
        attr
    }

    /// Whom a file is to belong to that `caller` makes in `parent`.
    pub(super) fn maker(self, fs: &Fs, caller: Caller, parent: Ino) -> Answer<Caller> {
        if self.0.is_none() {
            return Ok(caller);
        }
        let folder = fs.attributes(parent)?;
        Ok(Caller { uid: folder.uid, gid: folder.gid })
    }

    /// What is set of an owner, or a group, that somebody asks for.
    pub(super) fn owner(self, asked: Option<u32>) -> Option<u32> {
        asked.filter(|_| self.0.is_none())
    }
}
