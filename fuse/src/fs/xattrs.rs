//! `xattrs` reads and sets extended attributes: those that a snapshot keeps, and no others.

use store::format::tree::{MAX_META_BYTES, MAX_NAME_BYTES, MAX_XATTR_BYTES, MAX_XATTRS, is_plain_xattr};

use super::{Answer, Fs, gate::Pass};
use crate::{
    Errno,
    attributes::now,
    overlay::{
        change::Change,
        node::{Ino, NodeKind},
    },
};

const USER: &[u8] = b"user.";

/// Whether an attribute must be new, or must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Must {
    Either,
    BeNew,
    Exist,
}

impl Fs {
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Answer<Vec<u8>> {
        if !is_plain_xattr(name) {
            return Err(Errno::NODATA.into());
        }
        let state = self.read_state();
        let value = state.node(ino)?.xattrs.get(name).cloned();
        value.ok_or(Errno::NODATA.into())
    }

    /// The names, each with a zero byte after it.
    pub fn xattr_names(&self, ino: Ino) -> Answer<Vec<u8>> {
        let state = self.read_state();
        let node = state.node(ino)?;
        // A session of an earlier version may hold others.
        let names = node.xattrs.keys().filter(|name| is_plain_xattr(name));
        Ok(names.flat_map(|name| name.iter().copied().chain([0])).collect())
    }

    pub fn set_xattr(&self, _: &Pass<'_>, ino: Ino, name: &[u8], value: &[u8], must: Must) -> Answer<()> {
        if !name.starts_with(USER) {
            return Err(Errno::NOTSUP.into());
        }
        if name.len() > MAX_NAME_BYTES || name.len() == USER.len() {
            return Err(Errno::RANGE.into());
        }
        if value.len() > MAX_XATTR_BYTES {
            return Err(Errno::TOOBIG.into());
        }
        let mut state = self.change_state()?;
        let node = state.node(ino)?;
        if !matches!(node.kind, NodeKind::File(_) | NodeKind::Directory(_)) {
            return Err(Errno::PERM.into());
        }
        let exists = node.xattrs.contains_key(name);
        match must {
            Must::BeNew if exists => return Err(Errno::EXIST.into()),
            Must::Exist if !exists => return Err(Errno::NODATA.into()),
            _ => {}
        }
        let held: usize = node.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if !exists && node.xattrs.len() >= MAX_XATTRS || held + name.len() + value.len() > MAX_META_BYTES {
            return Err(Errno::NOSPC.into());
        }
        drop(node);
        let value = Some(value.to_vec());
        state.make(&Change::Xattr { ino, name: name.to_vec(), value, time: now() })?;
        Ok(())
    }

    pub fn remove_xattr(&self, _: &Pass<'_>, ino: Ino, name: &[u8]) -> Answer<()> {
        let mut state = self.change_state()?;
        if !state.node(ino)?.xattrs.contains_key(name) {
            return Err(Errno::NODATA.into());
        }
        state.make(&Change::Xattr { ino, name: name.to_vec(), value: None, time: now() })?;
        Ok(())
    }
}
