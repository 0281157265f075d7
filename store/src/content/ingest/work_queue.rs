//! `WorkQueue` holds the work that the threads of an ingest hand each other.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Condvar, Mutex};

use crate::id::ChunkId;

const MAX_QUEUED: usize = 8;

/// A chunk to be compressed.
pub(super) struct Task {
    pub id: ChunkId,
    pub raw: Vec<u8>,
    pub is_first: bool,
}

/// The queue that idle workers wait for.
#[derive(Default)]
pub(super) struct WorkQueue {
    state: Mutex<PoolState>,
    changed: Condvar,
    idle: AtomicUsize,
}

#[derive(Default)]
struct PoolState {
    tasks: VecDeque<Task>,
    next: usize,
    reading: usize,
    failed: bool,
}

pub(super) enum WorkItem {
    Compress(Task),
    Read(usize),
}

/// Marks the work as failed if it is dropped: a worker that finishes forgets it.
pub(super) struct FailOnDrop<'a>(pub &'a WorkQueue);

impl Drop for FailOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

impl WorkQueue {
    /// Somebody reads who was not given anything to read here.
    pub fn begin_read(&self) {
        self.state.lock().reading += 1;
    }

    pub fn next_job(&self, files: usize) -> Option<WorkItem> {
        let mut state = self.state.lock();
        loop {
            if state.failed {
                return None;
            }
            if let Some(task) = state.tasks.pop_front() {
                return Some(WorkItem::Compress(task));
            }
            if state.next < files {
                state.next += 1;
                state.reading += 1;
                return Some(WorkItem::Read(state.next - 1));
            }
            if state.reading == 0 {
                return None;
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            self.changed.wait(&mut state);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn end_read(&self) {
        self.state.lock().reading -= 1;
        self.changed.notify_all();
    }

    fn fail(&self) {
        self.state.lock().failed = true;
        self.changed.notify_all();
    }

    /// Hands a chunk to an idle worker, if there is one with nothing to do.
    pub fn offer(&self, id: ChunkId, raw: &[u8], is_first: bool) -> bool {
        if self.idle.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        if state.tasks.len() >= MAX_QUEUED {
            return false;
        }
        state.tasks.push_back(Task { id, raw: raw.to_vec(), is_first });
        drop(state);
        self.changed.notify_one();
        true
    }
}
