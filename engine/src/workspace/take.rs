//! `take` stores a checkpoint: a snapshot with a tag that keeps it, a slot, and a row in `session.db`.
//!
//! What a slot held before goes last, and is written down until it is gone: whoever is killed leaves nothing that nobody
//! would end.

use std::collections::HashSet;

use store::{
    Error,
    catalog::{lineage_handle::LineageHandle, records},
    content::TenantStore,
    format::record::Record,
    id::RecordId,
    ops::{
        read::diff::{self, Change, Line},
        tag,
    },
};

use super::{
    folder::{FolderLock, WorkspaceFolder},
    method::StoredTree,
    outcome::{FileAction, Origin},
    session_db::{NewEvent, SessionDb},
    slots::{self, Ending, Kept, Slots},
    wanted::Wanted,
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
        let began_ms = slots::now_ms();
        let stored = self.store_checkpoint(folder, &tenant, mount.as_ref(), (wanted, slot), &slots).await?;
        let taken = |kept: Kept, is_new| Taken { kept, is_new, stored: stored.clone() };
        let mut db = SessionDb::open(&folder.session_db())?;
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
        let events = self.missed_events(folder, &tenant, &slots, stored.record, &mut db).await?;
        let handle = self.checkpoint_handle(folder, &tenant, &wanted.run_id);
        let tag = wanted.name.clone().filter(|_| wanted.origin == Origin::Manual);
        let tag = tag.unwrap_or_else(|| format!("cp-{slot}"));
        // A record that is current cannot go before it has its tag.
        tag::tag(&handle, stored.record, &tag).await?;
        db.add(&events)?;
        db.add_checkpoint((slot, wanted.origin), wanted.name.as_deref(), stored.files)?;
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
        };
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

    /// What differs from the checkpoint before, and no event has told of.
    async fn missed_events(
        &self,
        folder: &WorkspaceFolder,
        tenant: &TenantStore,
        slots: &Slots,
        record: RecordId,
        db: &mut SessionDb,
    ) -> Result<Vec<NewEvent>, Failure> {
        let Some(before) = slots.last_record.filter(|before| *before != record) else {
            return Ok(Vec::new());
        };
        let lineage = folder.lineage();
        let before = match records::get(tenant, &lineage, before).await {
            Ok((before, _)) => before,
            Err(error) => {
                self.warn(&format!("what changed since the checkpoint before is not known: {error}"));
                return Ok(Vec::new());
            }
        };
        let (after, _) = records::get(tenant, &lineage, record).await?;
        let told = db.since_checkpoint()?;
        let restored: HashSet<&str> = told
            .iter()
            .filter(|(_, action)| **action == FileAction::Restored)
            .filter_map(|(path, _)| path.rsplit_once(" (from cp-").map(|(path, _)| path))
            .collect();
        let differing = diff::diff(tenant, &before, &after).await?.lines;
        let events = differing.iter().filter_map(event);
        let is_told = |event: &NewEvent| {
            restored.contains(event.path.as_str())
                || match told.get(&event.path) {
                    None => false,
                    Some(FileAction::Deleted) => event.action == FileAction::Deleted,
                    Some(_) => event.action != FileAction::Deleted,
                }
        };
        Ok(events.filter(|event| !is_told(event)).collect())
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
    match handle
        .delete_while(ending.record, "the checkpoint has ended", |record: &Record| record.tags.is_empty())
        .await
    {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. } | Error::Conflict { .. }) => Ok(false),
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

/// An event for a line of a diff. Directories have none, and neither has another mode or time.
fn event(line: &Line) -> Option<NewEvent> {
    let is_file = |side: &diff::Side| side.kind != "directory";
    let action = match (line.change, line.before.filter(is_file), line.after.filter(is_file)) {
        (Change::Metadata, ..) | (_, None, None) => return None,
        (_, None, Some(_)) => FileAction::Created,
        (_, Some(_), None) => FileAction::Deleted,
        (_, Some(_), Some(_)) => FileAction::Modified,
    };
    let size = line.after.filter(|_| action != FileAction::Deleted).map(|side| side.size);
    Some(NewEvent { action, path: String::from_utf8_lossy(line.path.as_bytes()).into_owned(), size })
}
