//! `directories` lists directories.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    Fs,
    handles::{Listed, What},
};
use crate::{Errno, Result, overlay::node::Ino};

impl Fs {
    pub fn open_directory(&self, ino: Ino) -> Result<u64> {
        self.read_state().directory(ino)?;
        Ok(self.handles.open(ino, false, What::Directory { listing: Mutex::default() }))
    }

    /// The entries of an open directory; those before `from` were read already. Reading from
    /// the start looks at the directory anew.
    pub fn list(&self, handle: u64, from: u64) -> Result<Arc<Vec<Listed>>> {
        let handle = self.handles.get(handle).ok_or(Errno::BADF)?;
        let What::Directory { listing } = &handle.what else { return Err(Errno::NOTDIR) };
        let mut listing = listing.lock();
        if from == 0 {
            *listing = Arc::new(self.look(handle.ino)?);
        }
        Ok(Arc::clone(&listing))
    }

    fn look(&self, ino: Ino) -> Result<Vec<Listed>> {
        let state = self.read_state();
        let folder = state.directory(ino)?;
        let mut entries = Vec::with_capacity(folder.children.len() + 2);
        entries.push(state.listed(ino, b".")?);
        // The parent may be gone if the directory was removed while it was open.
        entries.push(state.listed(folder.parent, b"..").or_else(|_| state.listed(ino, b".."))?);
        for (name, child) in &folder.children {
            entries.push(state.listed(*child, name)?);
        }
        Ok(entries)
    }
}
