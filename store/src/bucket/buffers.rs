//! `Buffers` keeps the buffers of packs and reads, so that later ones use them again.
//!
//! Packs, and the ranges read of them, are large. An allocator that keeps all that every thread has
//! freed would hold many times the memory in use.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;

/// Idle ones are kept for the next caller, but only so many.
#[derive(Clone, Debug)]
pub struct Buffers(Arc<Mutex<Idle>>);

#[derive(Debug)]
struct Idle {
    buffers: Vec<Vec<u8>>,
    most: usize,
}

impl Buffers {
    /// Keeps at most `most` idle.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Idle { buffers: Vec::new(), most })))
    }

    /// Some buffer with this much room; it still holds bytes of its last use.
    pub fn take(&self, capacity: usize) -> Vec<u8> {
        let mut idle = self.idle();
        // One that is large enough, rather than one that has to grow.
        let fits = idle.buffers.iter().position(|buffer| buffer.capacity() >= capacity);
        let buffer = fits.map(|at| idle.buffers.swap_remove(at)).or_else(|| idle.buffers.pop());
        drop(idle);
        let mut buffer = buffer.unwrap_or_default();
        buffer.reserve_exact(capacity.saturating_sub(buffer.len()));
        buffer
    }

    /// Keeps none any more, not even those that are still to come back: their users are
    /// done, and others need the memory.
    pub fn retire(&self) {
        let mut idle = self.idle();
        idle.most = 0;
        idle.buffers = Vec::new();
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock()
    }

    /// The bytes of `buffer`, which comes back when their last reader is done.
    pub fn lend(&self, buffer: Vec<u8>) -> Bytes {
        Bytes::from_owner(Loan { buffer, home: self.clone() })
    }
}

struct Loan {
    buffer: Vec<u8>,
    home: Buffers,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut idle = self.home.idle();
        if idle.buffers.len() < idle.most {
            idle.buffers.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_nobody_reads_it_any_more() {
        let buffers = Buffers::new(1);
        let mut buffer = buffers.take(1000);
        buffer.resize(1000, 7);
        let place = buffer.as_ptr();
        let bytes = buffers.lend(buffer);
        let part = bytes.slice(10..20);
        drop(bytes);
        let other = buffers.take(1000);
        assert_ne!(other.as_ptr(), place, "somebody reads it still");
        assert_eq!(part, [7; 10][..]);
        drop(part);
        let again = buffers.take(500);
        assert_eq!((again.as_ptr(), again.capacity()), (place, 1000));
        let (one, two) = (buffers.lend(again), buffers.lend(vec![0; 10]));
        drop((one, two));
        assert_eq!(buffers.idle().buffers.len(), 1, "no more than so many are kept");
        let late = buffers.lend(vec![0; 10]);
        buffers.retire();
        drop(late);
        assert_eq!(buffers.idle().buffers.len(), 0);
    }
}
