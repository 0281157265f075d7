//! `method` stores the tree of a checkpoint in the way that the directory allows: by the daemon of the mount that it is, or
//! by looking at its files.

use std::path::Path;

use store::{
    catalog::lock::Terms,
    content::TenantStore,
    id::{RecordId, SnapshotId},
    ops::write::snapshot::{self, LockUse, OnChange, can_clone},
    tree::root_dir::RootDir,
};

use super::{
    folder::WorkspaceFolder,
    outcome::Method,
    slots::{self, Slots},
    wanted::{Wanted, record_facts},
};
use crate::{
    Engine,
    engine::threads,
    failure::Failure,
    mount::{
        checkpoint::{self, MountCheckpointRequest},
        live::LiveMount,
        publication::KEPT_BY_THE_KERNEL,
    },
    names::ActorName,
};

/// How much of the tenant's indexes a checkpoint looks at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;

/// A tree that was stored for a checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct StoredTree {
    pub record: RecordId,
    pub snapshot_id: SnapshotId,
    pub sha256_prefix: String,
    pub files: u64,
    pub bytes: u64,
    pub read_files: u64,
    pub stored_bytes: u64,
    pub method: Method,
    /// How long writers waited, on a mount.
    pub pause_ms: Option<f64>,
    /// The last event of the mount that it has.
    pub last_event: Option<u64>,
    /// What is wrong with it.
    pub warning: Option<String>,
}

/// What is wrong with a checkpoint of a directory in which this has changed while it was read.
fn of_several_moments(changed: &Path) -> String {
    let shown = changed.display();
    format!("{shown} has changed while the checkpoint was taken: its files may be of different moments")
}

/// How a checkpoint of a directory that is no mount is taken.
fn method_of_directory(folder: &WorkspaceFolder) -> Method {
    match RootDir::open(folder.directory()) {
        Ok(root) if can_clone(&root) => Method::Reflink,
        _ => Method::Directory,
    }
}

impl Engine {
    /// The mount of ours that a workspace is, if it is one.
    pub(crate) fn workspace_mount(&self, folder: &WorkspaceFolder) -> Option<LiveMount> {
        self.mount_on(folder.directory(), &folder.settings.profile)
    }

    /// How the next checkpoint of a workspace is taken.
    pub(crate) fn method_of(&self, folder: &WorkspaceFolder) -> Method {
        match self.workspace_mount(folder) {
            Some(_) => Method::Mount,
            None => method_of_directory(folder),
        }
    }

    /// Stores what is in the workspace now.
    pub(crate) async fn store_checkpoint(
        &self,
        folder: &WorkspaceFolder,
        tenant: &TenantStore,
        mount: Option<&LiveMount>,
        (wanted, slot): (&Wanted, u64),
        slots: &Slots,
    ) -> Result<StoredTree, Failure> {
        match mount {
            Some(live) => self.store_mount(folder, live, (wanted, slot), slots).await,
            None => self.store_directory(folder, tenant, wanted, slot).await,
        }
    }

    /// The daemon of the mount ends an epoch, and stores what has changed since the checkpoint before.
    async fn store_mount(
        &self,
        folder: &WorkspaceFolder,
        live: &LiveMount,
        (wanted, slot): (&Wanted, u64),
        slots: &Slots,
    ) -> Result<StoredTree, Failure> {
        let request = MountCheckpointRequest {
            directory: folder.directory().to_owned(),
            profile: folder.settings.profile.clone(),
            slot,
            wanted: wanted.clone(),
            exclusions: folder.left_out()?,
            before: slots.last_record,
        };
        let stored = checkpoint::ask(live, &request).await?;
        Ok(StoredTree {
            record: stored.record,
            snapshot_id: stored.snapshot_id,
            sha256_prefix: stored.sha256_prefix,
            files: stored.files,
            bytes: stored.bytes,
            read_files: stored.read_files,
            stored_bytes: stored.stored_bytes,
            method: Method::Mount,
            pause_ms: Some(stored.pause_ms),
            last_event: Some(stored.last_event),
            warning: stored.may_lack_writes.then(|| KEPT_BY_THE_KERNEL.to_owned()),
        })
    }

    async fn store_directory(
        &self,
        folder: &WorkspaceFolder,
        tenant: &TenantStore,
        wanted: &Wanted,
        slot: u64,
    ) -> Result<StoredTree, Failure> {
        let lineage = folder.lineage();
        let settings = self.settings.tenant(&lineage.name.tenant);
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        let patience = self.patience(&lineage.name, wanted.lock_patience());
        let left_out = (folder.directory(), folder.left_out()?);
        let request = snapshot::Request {
            directory: folder.directory().to_owned(),
            max_bytes: Some(settings.max_profile_bytes),
            quota_bytes: settings.quota_bytes,
            rescan: false,
            second_look: wanted.again.as_ref().map(|again| again.look.clone()),
            index_budget: INDEX_BUDGET_BYTES,
            threads: threads(),
            actor: slots::actor_of(self.actor(&ActorName::default()), &wanted.run_id),
            lock: LockUse::Take { terms, renew_every: settings.lock_renew, patience },
            made_of: None,
            examiner: None,
            hold_back: None,
            archive: None,
            guess: None,
            // Whoever works here does not stop for it.
            on_change: OnChange::TakeAsRead,
            about: record_facts(&self.settings, left_out, wanted, slot),
            lineage,
        };
        let stop = self.interrupt.raised();
        let report = snapshot::snapshot(tenant, &request, self.progress(), stop).await?;
        Ok(StoredTree {
            record: report.record,
            snapshot_id: report.snapshot_id,
            sha256_prefix: report.sha256_prefix,
            files: report.counts.files,
            bytes: report.uncompressed_bytes,
            read_files: report.read_files,
            stored_bytes: report.counts.stored_bytes,
            method: method_of_directory(folder),
            pause_ms: None,
            last_event: None,
            warning: report.changed_meanwhile.as_deref().map(of_several_moments),
        })
    }
}
