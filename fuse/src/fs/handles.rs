//! `Handles` records which files and directories are open.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use store::content::chunk_fetcher::ReadAhead;

use crate::{attributes::FileKind, overlay::node::Ino};

#[derive(Debug, Default)]
pub struct Handles {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<Handle>>>,
    /// One that writes was closed.
    written: Condvar,
}

#[derive(Debug)]
pub struct Handle {
    pub ino: Ino,
    pub writes: bool,
    pub what: What,
}

#[derive(Debug)]
pub enum What {
    File {
        read_ahead: Mutex<ReadAhead>,
    },
    /// A directory as it was when it was read from the start: so that whoever reads on finds
    /// every entry once, whatever happens meanwhile.
    Directory {
        listing: Mutex<Arc<Vec<Listed>>>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub ino: Ino,
    pub kind: FileKind,
    pub name: Vec<u8>,
}

impl Handles {
    pub fn open(&self, ino: Ino, writes: bool, what: What) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.lock().insert(id, Arc::new(Handle { ino, writes, what }));
        id
    }

    pub fn get(&self, id: u64) -> Option<Arc<Handle>> {
        self.open.lock().get(&id).cloned()
    }

    pub fn close(&self, id: u64) -> Option<Arc<Handle>> {
        let closed = self.open.lock().remove(&id);
        if closed.as_ref().is_some_and(|handle| handle.writes) {
            self.written.notify_all();
        }
        closed
    }

    pub fn has(&self, ino: Ino) -> bool {
        self.open.lock().values().any(|handle| handle.ino == ino)
    }

    /// The files that are open for writing.
    pub fn writers(&self) -> Vec<Ino> {
        writers(&self.open.lock())
    }

    /// Waits, but no longer than this, until one of these files has no writer any more.
    pub fn await_fewer_writers(&self, than: &[Ino], patience: Duration) {
        let as_many = |open: &mut HashMap<u64, Arc<Handle>>| {
            let now = writers(open);
            than.iter().all(|ino| now.binary_search(ino).is_ok())
        };
        self.written.wait_while_for(&mut self.open.lock(), as_many, patience);
    }
}

fn writers(open: &HashMap<u64, Arc<Handle>>) -> Vec<Ino> {
    let mut writers: Vec<Ino> =
        open.values().filter(|handle| handle.writes).map(|handle| handle.ino).collect();
    writers.sort_unstable();
    writers.dedup();
    writers
}
