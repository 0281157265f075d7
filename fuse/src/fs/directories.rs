//! `directories` lists directories.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{
    Answer, Fs,
    handles::{Listed, What},
};
use crate::{
    Errno,
    attributes::FileKind,
    overlay::{node::Ino, nodes::Named},
};

impl Fs {
    pub fn open_directory(&self, ino: Ino) -> Answer<u64> {
        self.read_state().directory(ino)?;
        Ok(self.handles.open(ino, false, What::Directory { listing: Mutex::default() }))
    }

    /// The entries of an open directory; those before `from` were read already. Reading from
    /// the start looks at the directory anew.
    pub fn list(&self, handle: u64, from: u64) -> Answer<Arc<Vec<Listed>>> {
        let handle = self.handles.get(handle).ok_or(Errno::BADF)?;
        let What::Directory { listing } = &handle.what else { return Err(Errno::NOTDIR.into()) };
        let mut listing = listing.lock();
        if from == 0 {
            *listing = Arc::new(self.look(handle.ino)?);
        }
        Ok(Arc::clone(&listing))
    }

    fn look(&self, ino: Ino) -> Answer<Vec<Listed>> {
        let state = self.read_state();
        let folder = state.directory(ino)?;
        // The parent may be gone if the directory was removed while it was open.
        let parent = folder.directory().map_or(ino, |directory| directory.parent);
        let parent = if state.nodes.node(parent)?.is_some() { parent } else { ino };
        let names = state.nodes.names(&folder)?;
        let listed = |ino, name: &[u8]| Listed { ino, kind: FileKind::Directory, name: name.to_vec() };
        let mut entries = Vec::with_capacity(names.len() + 2);
        entries.extend([listed(ino, b"."), listed(parent, b"..")]);
        entries.extend(names.into_iter().map(|Named { name, ino, kind }| Listed { ino, kind, name }));
        Ok(entries)
    }
}
