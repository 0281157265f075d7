//! `Info` is what `session.json` in a session's directory says: what is mounted, where, in which mode, and by which
//! process and run.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use store::{
    id::RecordId,
    name::{ChromeMajor, Lineage, ProfileName},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Writable, under the profile's lock: its commits move the pointer.
    Locked,
    /// Writable, without a lock: its commits go to another profile.
    Fork,
    /// Nothing can be changed.
    ReadOnly,
}

impl Mode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Fork => "fork",
            Self::ReadOnly => "read_only",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    pub v: u32,
    /// The store as it was named, so that it can be found again.
    pub store: String,
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub profile: String,
    pub chrome_major: u64,
    pub mode: Mode,
    pub mountpoint: PathBuf,
    pub pid: u32,
    pub boot_id: String,
    pub started_at_ms: u64,
    /// The snapshot it was mounted from.
    pub record: Option<RecordId>,
    pub sha256_prefix: Option<String>,
    /// Why it started empty though there is a snapshot.
    pub fallback: Option<String>,
    pub run_id: String,
}

pub const VERSION: u32 = 1;

impl Info {
    pub fn lineage(&self) -> Option<Lineage> {
        let name: ProfileName = self.profile.parse().ok()?;
        Some(Lineage { name, chrome_major: ChromeMajor::try_from(self.chrome_major).ok()? })
    }

    /// Whether the machine has been running since.
    pub fn is_of_this_boot(&self) -> bool {
        boot_id().is_some_and(|id| id == self.boot_id)
    }
}

pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}
