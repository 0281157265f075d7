//! Computes the SHA-256 of a stream on a thread of its own: it takes as long as all the rest of a spliced
//! export together.

use std::{
    sync::mpsc::{SyncSender, sync_channel},
    thread::JoinHandle,
};

use bytes::Bytes;
use sha2::Digest as _;

use crate::{Error, Result, id::Sha256};

/// How many pieces may wait to be digested.
const QUEUE: usize = 64;

#[derive(Debug)]
pub(super) struct Digest {
    pieces: SyncSender<Bytes>,
    thread: JoinHandle<Sha256>,
}

impl Digest {
    pub fn start() -> Self {
        let (pieces, queue) = sync_channel::<Bytes>(QUEUE);
        let thread = std::thread::spawn(move || {
            let mut hasher = sha2::Sha256::new();
            queue.iter().for_each(|piece| hasher.update(&piece));
            Sha256::from_bytes(hasher.finalize().into())
        });
        Self { pieces, thread }
    }

    pub fn update(&self, piece: Bytes) {
        // Only a thread that panicked takes no more; `finish` says so.
        let _ = self.pieces.send(piece);
    }

    pub fn finish(self) -> Result<Sha256> {
        drop(self.pieces);
        self.thread.join().map_err(|_| Error::Internal { what: "a digest could not be made".to_owned() })
    }
}
