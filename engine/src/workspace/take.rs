//! `take` stores a checkpoint: a snapshot with a tag that keeps it, a slot, and a row in `session.db`.
//!
//! What a slot held before goes last, and is written down until it is gone: whoever is killed leaves nothing that nobody
//! would end.

use std::{collections::HashSet, fs, time::Duration};

use store::{
    Error,
    catalog::{lineage_handle::LineageHandle, lock::Terms, records},
    content::TenantStore,
    format::{
        WRITER,
        record::{CapturedBy, CapturedIn, Mode, Reason, Record},
    },
    id::RecordId,
    ops::{
        read::diff::{self, Change, Line},
        tag,
        write::snapshot::{self, About, LockUse, Report},
    },
};

use super::{
    folder::{FolderLock, WorkspaceFolder},
    outcome::{FileAction, Origin},
    request::Trigger,
    session_db::{NewEvent, SessionDb},
    slots::{self, Ending, Kept, Slots},
};
use crate::{Engine, engine::threads, failure::Failure, names::ActorName, settings::Settings};

/// How much of the tenant's indexes a checkpoint looks at to find known content.
const INDEX_BUDGET_BYTES: u64 = 16 << 20;
/// How long somebody else's lock of the lineage is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The beginnings of names that a revert gives to what it prepares in the workspace.
pub(crate) const PREPARED: [&str; 2] = [".pstore-revert-", "..pstore-revert-"];

/// A checkpoint that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub origin: Origin,
    pub name: Option<String>,
    pub trigger: Trigger,
    pub description: String,
    pub run_id: String,
    /// A slot that must not be overwritten.
    pub spared: Option<u64>,
}

/// A checkpoint that was taken; or nothing had changed, and the newest stands for it.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub kept: Kept,
    pub is_new: bool,
    pub read_files: u64,
    pub stored_bytes: u64,
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
        let tenant = self.writable_tenant(&folder.settings.profile.tenant).await?;
        let began_ms = slots::now_ms();
        let report = self.store_checkpoint(folder, &tenant, wanted, slot).await?;
        let taken = |kept: Kept, is_new| Taken {
            kept,
            is_new,
            read_files: report.read_files,
            stored_bytes: report.counts.stored_bytes,
        };
        if wanted.origin == Origin::Auto
            && let Some(newest) = slots.newest().filter(|newest| newest.record == report.record)
        {
            let newest = newest.clone();
            slots.last_auto_ms = slots::now_ms();
            folder.keep_slots(&slots, lock)?;
            return Ok(taken(newest, false));
        }
        let mut db = SessionDb::open(&folder.session_db())?;
        let events = self.missed_events(folder, &tenant, &slots, report.record, &mut db).await?;
        let handle = self.checkpoint_handle(folder, &tenant, &wanted.run_id);
        let tag = wanted.name.clone().filter(|_| wanted.origin == Origin::Manual);
        let tag = tag.unwrap_or_else(|| format!("cp-{slot}"));
        // A record that is current cannot go before it has its tag.
        tag::tag(&handle, report.record, &tag).await?;
        db.add(&events)?;
        db.add_checkpoint((slot, wanted.origin), wanted.name.as_deref(), report.counts.files)?;
        let kept = Kept {
            serial: slots.last_serial + 1,
            slot,
            origin: wanted.origin,
            name: wanted.name.clone(),
            began_ms,
            taken_ms: slots::now_ms(),
            record: report.record,
            snapshot_id: report.snapshot_id,
            sha256_prefix: report.sha256_prefix.clone(),
            tag,
            trigger: wanted.trigger,
            description: wanted.description.clone(),
            run_id: wanted.run_id.clone(),
            files_count: report.counts.files,
            bytes: report.uncompressed_bytes,
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

    async fn store_checkpoint(
        &self,
        folder: &WorkspaceFolder,
        tenant: &TenantStore,
        wanted: &Wanted,
        slot: u64,
    ) -> Result<Report, Failure> {
        let lineage = folder.lineage();
        let settings = self.settings.tenant(&lineage.name.tenant);
        let terms = Terms { ttl: settings.lock_ttl, with_process: true };
        let patience = self.patience(&lineage.name, PATIENCE);
        let request = snapshot::Request {
            directory: folder.directory().to_owned(),
            max_bytes: Some(settings.max_profile_bytes),
            quota_bytes: settings.quota_bytes,
            rescan: false,
            index_budget: INDEX_BUDGET_BYTES,
            threads: threads(),
            actor: slots::actor_of(self.actor(&ActorName::default()), &wanted.run_id),
            lock: LockUse::Take { terms, renew_every: settings.lock_renew, patience },
            made_of: None,
            examiner: None,
            hold_back: None,
            archive: None,
            guess: None,
            about: about(&self.settings, folder, wanted, slot),
            lineage,
        };
        let stop = self.interrupt.raised();
        Ok(snapshot::snapshot(tenant, &request, self.progress(), stop).await?)
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

fn about(settings: &Settings, folder: &WorkspaceFolder, wanted: &Wanted, slot: u64) -> About {
    let host = settings.host_name().unwrap_or_default();
    let labels = [
        ("workspace", folder.directory().display().to_string()),
        ("slot", slot.to_string()),
        ("pool", wanted.origin.word().to_owned()),
        ("name", wanted.name.clone().unwrap_or_default()),
        ("trigger", wanted.trigger.word().to_owned()),
        ("run-id", wanted.run_id.clone()),
    ];
    About {
        captured_by: CapturedBy {
            host,
            host_run_id: String::new(),
            writer_version: WRITER.to_owned(),
            unknown: Default::default(),
        },
        captured_in: Some(CapturedIn {
            host_region: settings.host_region().unwrap_or_default(),
            egress_ip_geo: settings.egress_geo(),
            unknown: Default::default(),
        }),
        // No browser runs in it.
        mode: Mode::Cold,
        reason: match (wanted.origin, wanted.trigger) {
            (_, Trigger::BeforeRestore) => Reason::BeforeRestore,
            (Origin::Manual, _) => Reason::Manual,
            (Origin::Auto, Trigger::RunEnd) => Reason::RunEnd,
            (Origin::Auto, _) => Reason::Autosave,
        },
        labels: labels
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        notes: wanted.description.clone(),
        chrome_last_version: None,
        exit_type: None,
        chrome_uptime_seconds: 0,
        fallback: None,
        transforms: Vec::new(),
        exclusions: prepared(folder),
        in_progress: None,
    }
}

/// What a revert that was killed has left.
pub(crate) fn prepared(folder: &WorkspaceFolder) -> Vec<String> {
    let entries = fs::read_dir(folder.directory()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| PREPARED.iter().any(|begin| name.starts_with(begin))).collect()
}
