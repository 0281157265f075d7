//! `archives` chooses how a tenant's archives are made, by its settings.

use std::path::PathBuf;

use store::{
    name::Tenant,
    ops::archive::{
        export::{self, Framing, Times},
        publish::PublishJob,
    },
};

use crate::{Engine, engine::threads, settings::ArchivePolicy};

impl Engine {
    /// How a tenant's snapshots are published before the pointer is moved to them, and which.
    pub fn publish_policy(&self, tenant: &Tenant) -> PublishJob {
        let settings = self.settings.tenant(tenant);
        let framing = solid(settings.archive_level);
        let export = export::Request {
            framing,
            times: Times::Exact,
            seal: None,
            max_bytes: settings.max_profile_bytes,
        };
        PublishJob {
            export,
            always: settings.archive == ArchivePolicy::Always,
            scratch: self.archive_scratch(),
        }
    }

    /// Where an archive is written before it is sent.
    pub fn archive_scratch(&self) -> PathBuf {
        self.cache_root.clone().unwrap_or_else(std::env::temp_dir)
    }
}

/// One stream, compressed by all threads.
pub fn solid(level: i32) -> Framing {
    Framing::Solid { level, threads: u32::try_from(threads()).unwrap_or(2) }
}
