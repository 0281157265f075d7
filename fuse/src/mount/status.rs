//! `Status` is what a mount tells of itself while it is served.

use std::{path::PathBuf, sync::atomic::Ordering};

use serde::{Deserialize, Serialize};
use store::{
    catalog::lock::LockRenewer,
    id::RecordId,
    name::{ChromeMajor, Profile, Tenant},
};

use super::{Mount, info::Mode};

/// A mount that somebody serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Its session.
    pub session: String,
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profile of the tenant.
    pub profile_id: Profile,
    /// The Chrome that uses it.
    pub chrome_major_version: ChromeMajor,
    /// Whether it can be changed and committed.
    pub mode: Mode,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The process that serves it.
    pub pid: u32,
    /// When its session began.
    pub started_at_ms: u64,
    /// Whether it goes on with a session that was cut short.
    pub resumed: bool,
    /// The snapshot below it; nothing if it began empty, or is being committed.
    pub record: Option<RecordId>,
    /// The first digits of that snapshot's id.
    pub sha256_prefix: Option<String>,
    /// Why it began empty though there is a snapshot.
    pub fallback: Option<String>,
    /// Whether it holds changes that are stored nowhere else.
    pub dirty: bool,
    /// How many bytes of files are not those of the snapshot below.
    pub dirty_bytes: u64,
    /// How many bytes were written to it.
    pub written_bytes: u64,
    /// How long the session's journal is.
    pub journal_bytes: u64,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Whether the kernel keeps what is written for a while: a killed daemon loses that.
    #[serde(default)]
    pub writeback: bool,
    /// The files that are open for writing.
    pub open_for_writing: Vec<String>,
    /// How many bytes were fetched from the store.
    pub fetched_bytes: u64,
    /// How many of them somebody waited for.
    pub demanded_bytes: u64,
    /// How many of them were fetched before somebody asked for them.
    pub prefetched_bytes: u64,
    /// How many of those nobody asked for.
    pub wasted_bytes: u64,
    /// How many requests were made to the store.
    pub requests: u64,
    /// How many chunks were read from memory or the host's cache.
    pub cache_hits: u64,
    /// How many were not.
    pub cache_misses: u64,
    /// The share of hits; nothing before the first read.
    pub cache_hit_ratio: Option<f64>,
    /// How many answers of the store it took to begin, one after another.
    pub round_trips: u64,
    /// How long it took until it could be used.
    pub ready_ms: Option<f64>,
    /// Its lock, if it has one.
    pub lock: Option<LockStatus>,
    /// Whether somebody else has taken the lock.
    pub lock_lost: bool,
    /// What is known about that.
    pub lock_lost_reason: Option<String>,
}

/// The lock of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockStatus {
    /// Until when it holds unless it is renewed.
    pub expires_at_ms: u64,
    /// How often it was renewed.
    pub renewal_count: u64,
}

impl Mount {
    /// Whether somebody has files open for writing.
    pub fn is_written_to(&self) -> bool {
        !self.fs.writers().is_empty()
    }

    /// The bytes that it has fetched from the store, and those that it gave to readers without asking the store.
    pub fn read_so_far(&self) -> (u64, u64) {
        let stats = self.fetcher.as_ref().map(|fetcher| fetcher.stats()).unwrap_or_default();
        (stats.fetched_bytes, stats.cached_bytes)
    }

    /// What `mounts` tells.
    pub async fn status(&self) -> Status {
        let stats = self.fetcher.as_ref().map(|fetcher| fetcher.stats()).unwrap_or_default();
        let lock = match self.hold() {
            Some(hold) => {
                let lock = hold.lock().await;
                Some(LockStatus { expires_at_ms: lock.expires_at_ms, renewal_count: lock.renewal_count })
            }
            None => None,
        };
        let lost = self.keeper().and_then(LockRenewer::loss).map(|error| error.to_string());
        let base = self.base.try_lock().ok().and_then(|base| base.as_ref().map(|base| base.record.clone()));
        let cache_hits = stats.memory_hits + stats.disk_hits;
        let asked = cache_hits + stats.misses;
        Status {
            session: self.session_id(),
            tenant_id: self.lineage.name.tenant.clone(),
            profile_id: self.lineage.name.profile.clone(),
            chrome_major_version: self.lineage.chrome_major,
            mode: self.info.mode,
            mountpoint: self.info.mountpoint.clone(),
            pid: self.info.pid,
            started_at_ms: self.info.started_at_ms,
            resumed: self.resumed,
            record: base.as_ref().map(|base| base.record),
            sha256_prefix: base.as_ref().map(|base| base.sha256_prefix()),
            fallback: self.info.fallback.clone(),
            dirty: self.is_at_stake(),
            dirty_bytes: self.fs.dirty_bytes(),
            written_bytes: self.fs.written_bytes(),
            journal_bytes: self.fs.journal_bytes(),
            read_only: self.fs.is_read_only(),
            writeback: self.writeback.load(Ordering::Acquire),
            open_for_writing: self.fs.writers(),
            fetched_bytes: stats.fetched_bytes,
            demanded_bytes: stats.demanded_bytes,
            prefetched_bytes: stats.prefetched_bytes,
            wasted_bytes: stats.wasted_bytes,
            requests: stats.requests,
            cache_hits,
            cache_misses: stats.misses,
            cache_hit_ratio: (asked > 0).then(|| cache_hits as f64 / asked as f64),
            round_trips: self.round_trips,
            ready_ms: (*self.ready.lock()).map(|ready| ready.as_secs_f64() * 1000.0),
            lock,
            lock_lost: lost.is_some(),
            lock_lost_reason: lost,
        }
    }
}
