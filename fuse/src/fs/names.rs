//! `names` creates, links, renames and removes directory entries.

use store::format::tree::{MAX_NAME_BYTES, MAX_TARGET_BYTES};

use super::{Answer, Caller, Fs, State, gate::Pass};
use crate::{
    Errno, Result,
    attributes::{Attributes, now},
    overlay::{
        change::{Change, NewKind},
        node::Ino,
    },
};

const SET_GROUP_ID: u32 = 0o2000;

/// What a rename does with what has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    Yes,
    /// It is an error.
    No,
    /// They change places.
    Exchange,
}

impl Fs {
    /// Makes a node of any kind. The kernel knows it from then on.
    pub fn make(
        &self,
        _: &Pass<'_>,
        caller: Caller,
        parent: Ino,
        name: &[u8],
        kind: NewKind,
        mode: u32,
    ) -> Answer<Attributes> {
        if let NewKind::Symlink { target } = &kind
            && (target.is_empty() || target.len() > MAX_TARGET_BYTES || target.contains(&0))
        {
            return Err(if target.is_empty() { Errno::NOENT } else { Errno::NAMETOOLONG }.into());
        }
        let mut state = self.change_state()?;
        state.check_new_name(parent, name)?;
        let (mut gid, mut mode) = (caller.gid, mode & 0o7777);
        let folder = state.node(parent)?;
        if folder.mode & SET_GROUP_ID != 0 {
            gid = folder.gid;
            if kind == NewKind::Directory {
                mode |= SET_GROUP_ID;
            }
        }
        drop(folder);
        if matches!(kind, NewKind::Symlink { .. }) {
            mode = 0o777;
        }
        let ino = state.nodes.table.next_ino();
        let change = Change::Create {
            parent,
            name: name.to_vec(),
            ino,
            kind,
            mode,
            uid: caller.uid,
            gid,
            time: now(),
        };
        state.make(&change)?;
        let made = state.attributes(ino)?;
        self.know(ino);
        Ok(made)
    }

    pub fn link(&self, _: &Pass<'_>, ino: Ino, parent: Ino, name: &[u8]) -> Answer<Attributes> {
        let mut state = self.change_state()?;
        let node = state.node(ino)?;
        if node.directory().is_some() {
            return Err(Errno::PERM.into());
        }
        if node.names == 0 {
            return Err(Errno::NOENT.into());
        }
        drop(node);
        state.check_new_name(parent, name)?;
        state.make(&Change::Link { ino, parent, name: name.to_vec(), time: now() })?;
        let linked = state.attributes(ino)?;
        self.know(ino);
        Ok(linked)
    }

    pub fn unlink(&self, _: &Pass<'_>, parent: Ino, name: &[u8]) -> Answer<()> {
        let mut state = self.change_state()?;
        let ino = state.nodes.child(&*state.directory(parent)?, name)?.ok_or(Errno::NOENT)?;
        if state.node(ino)?.directory().is_some() {
            return Err(Errno::ISDIR.into());
        }
        state.make(&Change::Unlink { parent, name: name.to_vec(), time: now() })?;
        drop(state);
        self.drop_if_unused(ino);
        Ok(())
    }

    pub fn remove_directory(&self, _: &Pass<'_>, parent: Ino, name: &[u8]) -> Answer<()> {
        let mut state = self.change_state()?;
        let ino = state.nodes.child(&*state.directory(parent)?, name)?.ok_or(Errno::NOENT)?;
        if !state.nodes.is_empty(&*state.directory(ino)?)? {
            return Err(Errno::NOTEMPTY.into());
        }
        state.make(&Change::Unlink { parent, name: name.to_vec(), time: now() })?;
        drop(state);
        self.drop_if_unused(ino);
        Ok(())
    }

    pub fn rename(
        &self,
        _: &Pass<'_>,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        replace: Replace,
    ) -> Answer<()> {
        let mut state = self.change_state()?;
        let moved = state.nodes.child(&*state.directory(parent)?, name)?.ok_or(Errno::NOENT)?;
        let folder = state.directory(new_parent)?;
        if folder.names == 0 {
            return Err(Errno::NOENT.into());
        }
        let there = state.nodes.child(&folder, new_name)?;
        check_name(new_name)?;
        match (replace, there) {
            (Replace::No, Some(_)) => return Err(Errno::EXIST.into()),
            (Replace::Exchange, None) => return Err(Errno::NOENT.into()),
            // Two names of one file: nothing happens, says POSIX.
            (_, Some(there)) if there == moved => return Ok(()),
            (Replace::Yes, Some(there)) => state.check_replaceable(moved, there)?,
            _ => {}
        }
        let displaced = there.filter(|_| replace == Replace::Exchange);
        for (ino, into) in [(Some(moved), new_parent), (displaced, parent)] {
            if let Some(ino) = ino
                && state.nodes.is_within(into, ino)?
            {
                return Err(Errno::INVAL.into());
            }
        }
        drop(folder);
        state.make(&Change::Rename {
            parent,
            name: name.to_vec(),
            new_parent,
            new_name: new_name.to_vec(),
            exchange: replace == Replace::Exchange,
            time: now(),
        })?;
        drop(state);
        if let Some(there) = there {
            self.drop_if_unused(there);
        }
        Ok(())
    }
}

impl State {
    fn check_new_name(&self, parent: Ino, name: &[u8]) -> Answer<()> {
        check_name(name)?;
        let folder = self.directory(parent)?;
        if folder.names == 0 {
            return Err(Errno::NOENT.into());
        }
        match self.nodes.child(&folder, name)? {
            Some(_) => Err(Errno::EXIST.into()),
            None => Ok(()),
        }
    }

    /// Whether `moved` may take the place of `there`.
    fn check_replaceable(&self, moved: Ino, there: Ino) -> Answer<()> {
        let (moved, there) = (self.node(moved)?, self.node(there)?);
        match (moved.directory(), there.directory()) {
            (Some(_), None) => Err(Errno::NOTDIR.into()),
            (None, Some(_)) => Err(Errno::ISDIR.into()),
            (Some(_), Some(_)) if !self.nodes.is_empty(&there)? => Err(Errno::NOTEMPTY.into()),
            _ => Ok(()),
        }
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    match name {
        _ if name.len() > MAX_NAME_BYTES => Err(Errno::NAMETOOLONG),
        b"" | b"." | b".." => Err(Errno::INVAL),
        _ if name.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}
