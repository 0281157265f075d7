//! Which process holds something, so that others on the same host can tell that it is dead.

use serde::{Deserialize, Serialize};

use super::Unknown;

/// A process, told from every other that was or will be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Which boot of which machine.
    pub boot_id: String,
    /// Within which set of process numbers: containers on one machine have their own.
    pub pid_namespace: String,
    pub pid: u32,
    /// When it started, in ticks since the boot: numbers are used again.
    pub started: u64,
    #[serde(flatten)]
    pub unknown: Unknown,
}
