//! `take` stores a checkpoint: a snapshot with a tag that keeps it, a slot, and a row in `session.db`.
//!
//! What a slot held before goes last, and is written down until it is gone. So is a new snapshot until a slot holds it.
//! Whoever is killed leaves nothing that nobody would end.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
};

use store::{
    Error,
    catalog::{lineage_handle::LineageHandle, records},
    content::TenantStore,
    format::record::Record,
    id::RecordId,
    ops::tag,
};

use super::{
    folder::{FolderLock, WorkspaceFolder},
    method::StoredTree,
    outcome::Origin,
    session_db::SessionDb,
    slots::{self, Ending, Kept, Slots},
    wanted::{self, Wanted},
};
use crate::{Engine, failure::Failure, names::ActorName};

/// A checkpoint that was taken; or nothing had changed, and the newest stands for it.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub kept: Kept,
    pub is_new: bool,
    pub stored: StoredTree,
}

impl Engine {
    /// Takes a checkpoint. Of an automatic one nothing is kept if nothing has changed since the newest.
    pub(crate) async fn take_checkpoint(
        &self,
        folder: &WorkspaceFolder,
        lock: &FolderLock,
        wanted: &Wanted,
    ) -> Result<Taken, Failure> {
        let mut slots = folder.slots()?;
        let slot = free_slot(folder, &slots, wanted)?;
        self.location.keep_apart(folder.directory())?;
        folder.require_same()?;
        let mount = self.workspace_mount(folder);
        let tenant = self.writable_tenant(&folder.settings.profile.tenant).await?;
        let began_ms = wanted.again.as_ref().map_or_else(slots::now_ms, |again| again.began_ms);
        let stored = self.store_checkpoint(folder, &tenant, mount.as_ref(), (wanted, slot), &slots).await?;
        let taken = |kept: Kept, is_new| Taken { kept, is_new, stored: stored.clone() };
        let mut db = SessionDb::open(&folder.session_db())?;
        db.forget_checkpoints_after(slots.last_row.or((slots.last_serial == 0).then_some(0)))?;
        if let (Some(live), Some(last_event)) = (&mount, stored.last_event) {
            self.take_events(live, &mut db, last_event, &HashSet::new()).await;
        }
        if wanted.origin == Origin::Auto
            && let Some(newest) = slots.newest().filter(|newest| newest.record == stored.record)
        {
            let newest = newest.clone();
            slots.last_auto_ms = slots::now_ms();
            folder.keep_slots(&slots, lock)?;
            return Ok(taken(newest, false));
        }
        let told = db.since_checkpoint()?;
        let events = self.missed_events(folder, &tenant, &slots, &stored, &told).await?;
        let handle = self.checkpoint_handle(folder, &tenant, &wanted.run_id);
        let tag = wanted.name.clone().filter(|_| wanted.origin == Origin::Manual);
        let tag = tag.unwrap_or_else(|| format!("cp-{slot}"));
        // A record that is current cannot go before it has its tag. Whoever is killed before a slot holds it has it ended.
        let unkept = Ending { record: stored.record, tag: tag.clone() };
        slots.ending.push(unkept.clone());
        folder.keep_slots(&slots, lock)?;
        tag::tag(&handle, stored.record, &tag).await?;
        db.add(&events)?;
        let row = db.add_checkpoint((slot, wanted.origin), wanted.name.as_deref(), stored.files)?;
        let kept = Kept {
            serial: slots.last_serial + 1,
            slot,
            origin: wanted.origin,
            name: wanted.name.clone(),
            began_ms,
            taken_ms: slots::now_ms(),
            record: stored.record,
            snapshot_id: stored.snapshot_id,
            sha256_prefix: stored.sha256_prefix.clone(),
            tag,
            trigger: wanted.trigger,
            description: wanted.description.clone(),
            run_id: wanted.run_id.clone(),
            files_count: stored.files,
            bytes: stored.bytes,
            warning: stored.warning.clone(),
        };
        slots.ending.retain(|ending| *ending != unkept);
        slots.last_row = Some(row);
        slots.last_serial = kept.serial;
        slots.last_record = Some(kept.record);
        if kept.origin == Origin::Auto {
            slots.next_auto_slot = (slot + 1) % folder.settings.auto_max.max(1);
            slots.last_auto_ms = kept.taken_ms;
        }
        if let Some(before) = slots.kept.insert(slot, kept.clone()) {
            slots.ending.push(Ending { record: before.record, tag: before.tag });
        }
        folder.keep_slots(&slots, lock)?;
        self.end_checkpoints(folder, lock, &tenant, &mut slots).await?;
        Ok(taken(kept, true))
    }

    pub(crate) fn checkpoint_handle(
        &self,
        folder: &WorkspaceFolder,
        tenant: &TenantStore,
        run_id: &str,
    ) -> LineageHandle {
        let actor = slots::actor_of(self.actor(&ActorName::default()), run_id);
        LineageHandle::new(tenant.clone(), folder.lineage(), actor)
    }

    /// Has the snapshots ended that a process has stored which was killed before a slot held them.
    pub(crate) async fn end_lost_checkpoints(
        &self,
        folder: &WorkspaceFolder,
        lock: &FolderLock,
    ) -> Result<(), Failure> {
        let tenant = self.tenant_to_change(&folder.settings.profile.tenant).await?;
        let mut slots = folder.slots()?;
        let (host, shown) =
            (self.settings.host_name().unwrap_or_default(), folder.directory().display().to_string());
        let is_lost = |record: &Record| {
            record.tags.is_empty()
                && record.captured_by.host == host
                && record.labels.get(wanted::DIRECTORY_LABEL) == Some(&shown)
                && !slots.has_record(record.record)
        };
        let live = records::live(&tenant, &folder.lineage()).await?;
        let lost: Vec<RecordId> = live.iter().filter(|it| is_lost(it)).map(|it| it.record).collect();
        slots.ending.retain(|ending| !lost.contains(&ending.record));
        slots.ending.extend(lost.into_iter().map(|record| Ending { record, tag: String::new() }));
        self.end_checkpoints(folder, lock, &tenant, &mut slots).await.map(|_| ())
    }

    /// Ends the snapshots whose slots hold others now. One that somebody reads is tried again the next time.
    pub(crate) async fn end_checkpoints(
        &self,
        folder: &WorkspaceFolder,
        lock: &FolderLock,
        tenant: &TenantStore,
        slots: &mut Slots,
    ) -> Result<bool, Failure> {
        let handle = self.checkpoint_handle(folder, tenant, "");
        let mut left = Vec::new();
        let mut has_gone = false;
        for ending in std::mem::take(&mut slots.ending) {
            match end(&handle, slots, &ending).await {
                Ok(gone) => has_gone |= gone,
                Err(error) => {
                    tracing::info!(%error, record = %ending.record, "a checkpoint could not be ended yet");
                    left.push(ending);
                }
            }
        }
        slots.ending = left;
        folder.keep_slots(slots, lock)?;
        Ok(has_gone)
    }
}

/// Takes the tag away, and the snapshot if nothing else needs it. A current one goes when it is current no more.
async fn end(handle: &LineageHandle, slots: &Slots, ending: &Ending) -> store::Result<bool> {
    let is_tagged = |kept: &Kept| kept.record == ending.record && kept.tag == ending.tag;
    if !slots.kept.values().any(is_tagged) {
        match tag::untag(handle, ending.record, &ending.tag).await {
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if slots.has_record(ending.record) {
        return Ok(false);
    }
    let is_wanted = AtomicBool::new(false);
    let is_unwanted = |record: &Record| {
        is_wanted.store(!record.tags.is_empty(), Ordering::Relaxed);
        record.tags.is_empty()
    };
    match handle.delete_while(ending.record, "the checkpoint has ended", is_unwanted).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        // It has another tag, and stays for whoever gave it that.
        Err(Error::Conflict { .. }) if is_wanted.load(Ordering::Relaxed) => Ok(false),
        Err(error) => Err(error),
    }
}

fn free_slot(folder: &WorkspaceFolder, slots: &Slots, wanted: &Wanted) -> Result<u64, Failure> {
    let (auto_max, manual_max) = (folder.settings.auto_max, folder.settings.manual_max);
    if wanted.origin == Origin::Auto {
        return Ok(slots.next_auto(auto_max, wanted.spared));
    }
    if let Some(name) = &wanted.name {
        slots::check_name(name)?;
        if let Some(same) = slots.kept.values().find(|kept| kept.name.as_ref() == Some(name)) {
            let shown = folder.directory().display();
            let message = format!("{shown} has a checkpoint {name} already, in slot {}", same.slot);
            return Err(Failure::new(store::ErrorKind::TargetExists, message)
                .hint(format!("take another name, or `pstore workspace delete {shown} {name}` first")));
        }
    }
    slots.next_manual(auto_max, manual_max).ok_or_else(|| slots::full(folder.directory(), manual_max))
}
