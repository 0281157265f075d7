//! `Program` defines the work of a process in a scenario, and its role.

/// The program of a process. Records are named by their number in the scenario.
#[derive(Clone, Debug)]
pub enum Program {
    /// Takes the lock, moves the pointer to each of these, renewing before each as often as
    /// it is told, and gives the lock back.
    Holder {
        flips: Vec<usize>,
        renewals: u32,
        release: bool,
    },
    /// Works with the lock that the scenario begins with, as a twin does after its machine was
    /// resumed from an image: moves the pointer to this.
    Twin {
        flip: usize,
    },
    /// Commits a mount: takes the lock, writes down which flip it means, looks at the lock while its record becomes
    /// live, and makes the flip. If it dies, somebody goes on with it.
    Commit {
        target: usize,
        resumes: bool,
    },
    /// Rolls back to a snapshot.
    Operator {
        target: usize,
        force: bool,
    },
    Deleter {
        target: usize,
    },
    /// Deletes a snapshot, and goes on with that as often as it fails, up to so many times.
    Remover {
        target: usize,
        times: u32,
    },
    /// Deletes the whole profile, and goes on with that as often as it fails, up to so many times.
    Eraser {
        times: u32,
    },
    /// Takes the lock, stores a snapshot that has the chunk of this one, and moves the pointer to it.
    Run {
        shares: usize,
    },
    /// Publishes a snapshot. All of a scenario have the same content.
    Publisher {
        target: usize,
    },
    /// Takes a publication for dead, as a collection does after a day.
    Abandoner {
        target: usize,
    },
    Reaper,
    ForceUnlock,
    /// Flips as the contract says, three times at most; with the lock if it is to take it.
    ContractWriter {
        prefix: &'static str,
        locks: bool,
    },
    /// Deletes an expired lock, as the contract says.
    ContractReaper,
    /// Stores a snapshot that has the chunk of this one, where it lies if that is allowed;
    /// and moves the pointer to it if it is to.
    Writer {
        shares: usize,
        flips: bool,
    },
    /// Stores a snapshot that has all of this one, whose segments it does not read: where they lie if that is allowed.
    Keeper {
        keeps: usize,
    },
    /// Stores work in progress that has the chunk of this snapshot, an earlier state of it: where it lies if that is allowed.
    Saver {
        saved: usize,
    },
    /// Pins a snapshot, renews the pin so often, and reads the snapshot.
    Reader {
        target: usize,
        renewals: u32,
    },
    /// Works on a snapshot in a session whose daemon is killed, and is rescued.
    Session {
        target: usize,
    },
    /// Collects garbage, so many times; and forgets swept packs at once, if it is to.
    Collector {
        runs: u32,
        forgets: bool,
    },
    /// Removes all but the current snapshot.
    Retention,
    /// Puts all events together, so many times.
    Merger {
        runs: u32,
    },
    /// Moves all of a snapshot to another pack.
    Mover {
        target: usize,
    },
    /// Empties the pack of the first snapshot, of which the others need a part, in a write for each of them.
    Repacker,
    /// As before, but that the second snapshot is deleted once it has looked at them all.
    LateRepacker,
    /// Stores what every capture of this host stores: where another one has left it if that is noted
    /// and allowed, else in a pack of its own, which it notes.
    Capture,
    /// Reads the second snapshot without a pin, as a mount does that has the lock.
    Follower,
    /// Finds that the pack of the first snapshot is lost, and says so.
    Repair,
    /// Stores a snapshot that has the chunk of the first, which it knows from the indexes.
    Sharer,
}

impl Program {
    pub fn role(&self) -> Role {
        match self {
            Self::Holder { .. } | Self::Twin { .. } | Self::Commit { .. } | Self::Run { .. } => Role::Holder,
            Self::Operator { .. } => Role::Operator,
            Self::Deleter { .. } | Self::Remover { .. } | Self::Eraser { .. } => Role::Deleter,
            Self::Publisher { .. } => Role::Publisher,
            Self::Abandoner { .. } => Role::Collector,
            Self::Reaper => Role::Reaper,
            Self::ForceUnlock => Role::ForceUnlock,
            Self::ContractWriter { .. } | Self::ContractReaper => Role::Contract,
            Self::Writer { .. } | Self::Keeper { .. } | Self::Mover { .. } => Role::Writer,
            Self::Repacker | Self::LateRepacker | Self::Capture | Self::Sharer | Self::Saver { .. } => {
                Role::Writer
            }
            Self::Reader { .. } | Self::Follower | Self::Session { .. } => Role::Reader,
            Self::Collector { .. } | Self::Merger { .. } | Self::Repair => Role::Collector,
            Self::Retention => Role::Deleter,
        }
    }
}

/// The rights of a process on the pointer, the lock and the packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Holder,
    Operator,
    Deleter,
    Reaper,
    ForceUnlock,
    Contract,
    Writer,
    Reader,
    Collector,
    Publisher,
}
