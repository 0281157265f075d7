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

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o010;
const EXECUTE: u32 = 0o111;

/// What is to be set; times that are to be now are given as such by the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<Time>,
    pub mtime: Option<Time>,
    /// When it was changed, if the kernel keeps the times; else it is changed now.
    pub ctime: Option<Time>,
    /// Whether a change of the size leaves the file the rights that it lends: whoever asks may give them.
    pub keeps_rights: bool,
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
        let time = set.ctime.unwrap_or_else(now);
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
        let is_given_away = (set.uid.is_some() || set.gid.is_some()) && node.directory().is_none();
        let loses_rights = is_given_away || set.size.is_some() && !set.keeps_rights;
        let before = without_lent_rights(node.mode);
        let lent = loses_rights && before != node.mode;
        drop(node);
        if let Some(size) = set.size {
            state.make(&Change::Truncate { ino, size, time })?;
        }
        let setting = Setting {
            mode: set.mode.map(|mode| mode & 0o7777).or(lent.then_some(before)),
            uid: set.uid,
            gid: set.gid,
            atime: set.atime,
            mtime: set.mtime,
        };
        if setting != Setting::default() {
            state.make(&Change::Set { ino, setting, time })?;
        } else if let (Some(ctime), Some(node)) = (set.ctime, state.nodes.table.get_mut(ino)) {
            // No snapshot has it, and nothing is at stake by it.
            node.ctime = ctime;
        }
        state.attributes(ino)
    }

    /// A file whose bytes somebody changes who may not give rights lends none from then on.
    pub fn take_rights(&self, _: &Pass<'_>, ino: Ino) -> Answer<()> {
        let mode = self.read_state().node(ino)?.mode;
        let without = without_lent_rights(mode);
        if without != mode {
            let setting = Setting { mode: Some(without), ..Setting::default() };
            self.change_state()?.make(&Change::Set { ino, setting, time: now() })?;
        }
        Ok(())
    }

    /// Root may read and write everything, and execute what anybody may.
    pub fn check_access_of_root(&self, ino: Ino, execute: bool) -> Answer<()> {
        let state = self.read_state();
        let node = state.node(ino)?;
        let is_executable = node.directory().is_some() || node.mode & EXECUTE != 0;
        if execute && !is_executable { Err(Errno::ACCESS.into()) } else { Ok(()) }
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

/// A mode that lends nobody the rights of the file's owner or group. Without the right to execute, the bit of the
/// group means something else.
const fn without_lent_rights(mode: u32) -> u32 {
    let group = if mode & GROUP_EXECUTES != 0 { SET_GROUP_ID } else { 0 };
    mode & !(SET_USER_ID | group)
}
