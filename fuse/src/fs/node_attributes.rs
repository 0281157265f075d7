//! `node_attributes` sets the attributes of nodes, and answers `statfs`.

use store::format::tree::{MAX_FILE_BYTES, Time};

use super::{Answer, Fs, gate::Pass};
use crate::{
    Errno, Result,
    attributes::{Attributes, now},
    overlay::{
        change::{Change, Setting},
        node::{Ino, NodeKind},
    },
};

/// What is to be set; times that are to be now are given as such by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<Time>,
    pub mtime: Option<Time>,
}

/// The room on the disk that takes the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub free_files: u64,
    pub block_size: u32,
}

impl Fs {
    pub fn set_attributes(&self, _: &Pass<'_>, ino: Ino, set: SetAttributes) -> Answer<Attributes> {
        let mut state = self.change_state()?;
        let node = state.node(ino)?;
        let time = now();
        // A link has no mode of its own; a snapshot could not keep it.
        if set.mode.is_some() && matches!(node.kind, NodeKind::Symlink { .. }) {
            return Err(Errno::OPNOTSUPP.into());
        }
        if let Some(size) = set.size {
            node.file().ok_or(if node.directory().is_some() { Errno::ISDIR } else { Errno::INVAL })?;
            if size > MAX_FILE_BYTES {
                return Err(Errno::FBIG.into());
            }
        }
        drop(node);
        if let Some(size) = set.size {
            state.make(&Change::Truncate { ino, size, time })?;
        }
        let setting = Setting {
            mode: set.mode.map(|mode| mode & 0o7777),
            uid: set.uid,
            gid: set.gid,
            atime: set.atime,
            mtime: set.mtime,
        };
        if setting != Setting::default() {
            state.make(&Change::Set { ino, setting, time })?;
        }
        state.attributes(ino)
    }

    pub fn room(&self) -> Result<Room> {
        let found = rustix::fs::statvfs(self.upper.folder())?;
        Ok(Room {
            blocks: found.f_blocks,
            free: found.f_bfree,
            available: found.f_bavail,
            files: found.f_files,
            free_files: found.f_ffree,
            block_size: u32::try_from(found.f_frsize).unwrap_or(4096),
        })
    }
}
