//! `step` names the ten steps of a save, in their order.

use std::fmt;

/// A step of a save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Reads the project's file and checks its places.
    Resolve,
    /// Takes the project's lock.
    Lock,
    /// Runs the hooks before a save.
    Hooks,
    /// Waits until the services are quiet.
    Quiesce,
    /// Makes the moment that is saved.
    Checkpoint,
    /// Stores the content.
    Copy,
    /// Computes the metadata.
    Metadata,
    /// Moves the pointer.
    Index,
    /// Gives the lock back.
    Release,
    /// Lets the services go on.
    Resume,
}

impl Step {
    /// All of them in their order.
    pub const ALL: [Self; 10] = [
        Self::Resolve,
        Self::Lock,
        Self::Hooks,
        Self::Quiesce,
        Self::Checkpoint,
        Self::Copy,
        Self::Metadata,
        Self::Index,
        Self::Release,
        Self::Resume,
    ];

    /// Its number, from 1.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Its name in progress, log and failures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve the project",
            Self::Lock => "block concurrent operations",
            Self::Hooks => "run pre-save hooks",
            Self::Quiesce => "wait for quiesce",
            Self::Checkpoint => "checkpoint the state",
            Self::Copy => "copy to the store",
            Self::Metadata => "compute the metadata",
            Self::Index => "update the index",
            Self::Release => "release the lock",
            Self::Resume => "resume the services",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} of 10 ({})", self.number(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_are_numbered_in_their_order() {
        let numbers: Vec<usize> = Step::ALL.iter().map(|step| step.number()).collect();
        assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
        assert_eq!(Step::Quiesce.to_string(), "step 4 of 10 (wait for quiesce)");
    }
}
