//! `Limits` bounds the resources of a cell. The cell sets these limits itself, before it reads the first byte; from
//! then on it can no longer change them.

use std::io;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use serde::{Deserialize, Serialize};

/// Of addresses, beyond its memory: the program, its stacks, and the addresses that the allocator reserves
/// for each thread without using them.
const ADDRESSES_BYTES: u64 = 1 << 30;
const ADDRESSES_BYTES_PER_THREAD: u64 = 256 << 20;

/// Recovery makes a copy larger than its original by the content of the journal.
const GROWTH_BYTES: u64 = 64 << 20;

const FILES: u64 = 64;
const FILES_PER_THREAD: u64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub memory_bytes: u64,
    pub cpu_seconds: u64,
}

impl Limits {
    /// `largest` is the size of the largest database with all that belongs to it.
    pub(super) fn set(self, threads: usize, largest: u64) -> io::Result<()> {
        let threads = threads as u64;
        // No dump of its memory, which holds cookies, wherever the host sends dumps.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let addresses = ADDRESSES_BYTES + ADDRESSES_BYTES_PER_THREAD * threads;
        for (resource, most) in [
            (Resource::Core, 0),
            (Resource::Data, self.memory_bytes),
            (Resource::As, self.memory_bytes.saturating_add(addresses)),
            (Resource::Fsize, largest.saturating_mul(2).saturating_add(GROWTH_BYTES)),
            (Resource::Nofile, FILES + FILES_PER_THREAD * threads),
        ] {
            limit(resource, most, most)?;
        }
        // The signal that tells comes at the lower one.
        limit(Resource::Cpu, self.cpu_seconds, self.cpu_seconds.saturating_add(5))
    }
}

/// From now on nothing can be started, for users other than root.
pub(super) fn no_more_threads() -> io::Result<()> {
    limit(Resource::Nproc, 0, 0)
}

/// Earlier prohibitions stay in force.
fn limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let new = Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) };
    Ok(setrlimit(resource, new)?)
}
