//! `revert` gives files back as a checkpoint has them.
//!
//! 1. What is about to be overwritten becomes a checkpoint of its own.
//! 2. The files that differ are written to a folder that is prepared within the workspace, verified and durable.
//! 3. If somebody has written to one of the paths meanwhile, there is another checkpoint of that.
//! 4. [`place`](super::place) puts everything where it belongs. From then on nobody can interrupt it.

use std::{
    collections::HashSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use store::{
    ErrorKind,
    catalog::records,
    content::TenantStore,
    format::{
        record::Record,
        tree::{Entry, Kind, TreePath},
    },
    ops::{
        point_of_no_return::PointOfNoReturn,
        read::{browse, restore},
        write::snapshot::SecondLook,
    },
    progress::Silent,
    tree::{remove::remove_all, root_dir::RootDir, walk::FileState, write::Keeping},
};

use super::{
    compare::{self, Compared, Difference, Scope, Stored},
    folder::{FolderLock, PREPARED, WorkspaceFolder, prepared},
    linked_names::with_linked_names,
    outcome::{CheckpointFields, FileAction, Origin, PathKind, RevertAction, RevertOutcome, RevertedPath},
    place::{self, broken},
    queries::told,
    request::{RevertRequest, Trigger},
    session_db::{NewEvent, SessionDb},
    slots::{Kept, Slots},
    wanted::{Again, Wanted},
};
use crate::{
    Engine,
    engine::threads,
    failure::Failure,
    text::{path, shell},
};

/// What the checkpoint before a revert is called.
const BEFORE_RESTORE: &str = "before-restore";

/// A revert that is decided, and not done.
struct Plan {
    kept: Kept,
    fields: CheckpointFields,
    /// As events call the checkpoint.
    label: String,
    record: Record,
    differences: Vec<Difference>,
}

impl Engine {
    /// Reverts in this process. `changed` is told the paths before any of them is touched.
    pub(crate) async fn revert_here(
        &self,
        folder: &WorkspaceFolder,
        lock: &FolderLock,
        request: &RevertRequest,
        changed: impl FnOnce(&[PathBuf]),
    ) -> Result<RevertOutcome, Failure> {
        for left in prepared(folder) {
            remove_all(&folder.directory().join(&left)).map_err(|error| broken(&left, &error))?;
        }
        let root = Arc::new(RootDir::open(folder.directory())?);
        let tenant = self.tenant_to_change(&folder.settings.profile.tenant).await?;
        let slots = folder.slots()?;
        let plan = self.plan_revert(folder, &tenant, &slots, &root, request).await?;
        let told: Vec<&Difference> =
            plan.differences.iter().filter(|found| !found.is_time_of_directory).collect();
        let paths: Vec<RevertedPath> = told.iter().map(|found| reverted(found)).collect();
        let count = |action| paths.iter().filter(|path| path.action == action).count() as u64;
        let (restored, removed) = (count(RevertAction::Restored), count(RevertAction::Removed));
        let mut db = SessionDb::open(&folder.session_db())?;
        let mut outcome = RevertOutcome {
            reverted: !request.preview,
            checkpoint: plan.fields.clone(),
            before: None,
            restored,
            removed,
            paths,
        };
        if request.preview || plan.differences.is_empty() {
            return Ok(outcome);
        }
        let wanted = Wanted {
            origin: Origin::Auto,
            name: Some(BEFORE_RESTORE.to_owned()),
            trigger: Trigger::BeforeRestore,
            description: format!("before a revert to {}", plan.label),
            run_id: String::new(),
            spared: request.of.is_none().then_some(plan.kept.slot),
            patience_ms: None,
            again: None,
        };
        let mut before = self.take_checkpoint(folder, lock, &wanted).await?;
        let prepared = self.prepare(&tenant, &root, &plan).await?;
        if plan.differences.iter().any(|found| has_changed(&root, found)) {
            let paths = plan.differences.iter().map(|found| found.path.clone()).collect();
            let look = SecondLook { after: before.stored.snapshot_id, paths };
            let wanted = Wanted { again: Some(Again { began_ms: before.kept.began_ms, look }), ..wanted };
            before = self.take_checkpoint(folder, lock, &wanted).await?;
        }
        outcome.before = Some(before.kept.fields(db.counts(db.range(before.kept.slot)?)?));
        let full = |difference: &Difference| root.display(&difference.path);
        changed(&plan.differences.iter().map(full).collect::<Vec<_>>());
        let mount = self.workspace_mount(folder);
        if let Some(live) = &mount {
            self.take_events(live, &mut db, u64::MAX, &HashSet::new()).await;
        }
        if !self.interrupt.point_of_no_return().make() {
            return Err(Failure::new(ErrorKind::Interrupted, "interrupted before anything was changed"));
        }
        let (beneath, differences) = (Arc::clone(&root), plan.differences.clone());
        let placing =
            tokio::task::spawn_blocking(move || place::place(&beneath, &prepared.name, &differences));
        let placed = placing.await.map_err(|error| Failure::internal(error.to_string()))?;
        if let Some(live) = &mount {
            let text =
                |difference: &Difference| String::from_utf8_lossy(difference.path.as_bytes()).into_owned();
            let own = plan.differences.iter().map(text).collect();
            self.take_events(live, &mut db, u64::MAX, &own).await;
        }
        placed?;
        db.add(&events(&plan, &plan.label))?;
        Ok(outcome)
    }

    /// Chooses the checkpoint, and finds out what differs from it.
    async fn plan_revert(
        &self,
        folder: &WorkspaceFolder,
        tenant: &TenantStore,
        slots: &Slots,
        root: &Arc<RootDir>,
        request: &RevertRequest,
    ) -> Result<Plan, Failure> {
        let path = match &request.path {
            Some(path) => Some(compare::tree_path(folder.directory(), path)?).filter(|path| !path.is_root()),
            None => None,
        };
        let scope = Scope(path);
        let other = request.of.as_ref().map(|of| WorkspaceFolder::open(self, of)).transpose()?;
        let source = other.as_ref().unwrap_or(folder);
        let (kept, record, before) = match (&request.to, &scope.0) {
            (to, _) if other.is_some() => {
                let kept = source.checkpoint(&source.slots()?, to.as_deref())?;
                let (record, _) = records::get(tenant, &source.lineage(), kept.record).await?;
                let before = Stored::of(tenant, &record, &scope).await?;
                (kept, record, before)
            }
            (Some(_), _) | (None, None) => {
                let kept = folder.checkpoint(slots, request.to.as_deref())?;
                let (record, _) = records::get(tenant, &folder.lineage(), kept.record).await?;
                let before = Stored::of(tenant, &record, &scope).await?;
                (kept, record, before)
            }
            (None, Some(path)) => newest_with(folder, tenant, slots, &scope, path).await?,
        };
        let (root, key, began_ms) = (Arc::clone(root), *tenant.key(), kept.began_ms);
        let (scope, exclusions) = (scope.clone(), folder.left_out()?);
        // The checkpoint does not say whether what it left out was there: nothing of that is taken away.
        let unknown = record.exclusions.clone();
        let compared = tokio::task::spawn_blocking(move || {
            let wanted =
                |found: &Difference| found.before.is_some() || !compare::is_left_out(&found.path, &unknown);
            let stored = (before, began_ms);
            let mut found = compare::compare(&root, &key, (&scope, &exclusions), stored, &wanted)?;
            let was_there = found.was_there;
            found
                .differences
                .retain(|found| scope.holds(&found.path) || was_there && compare::is_lost_way(found));
            let in_the_way = place::in_the_way(&root, &found.differences)?;
            Ok::<_, Failure>((found, in_the_way))
        });
        let (Compared { differences, was_there, is_there }, in_the_way) =
            compared.await.map_err(|error| Failure::internal(error.to_string()))??;
        let differences = add_linked_names(folder, tenant, &record, began_ms, differences).await?;
        if let Some((top, inner)) = in_the_way {
            return Err(buried(folder.directory(), &top, &inner));
        }
        if !was_there && !is_there {
            let path = request.path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
            let message = format!("neither the workspace nor cp-{} has {path}", kept.slot);
            return Err(Failure::new(ErrorKind::NotFound, message).hint(format!(
                "`pstore workspace history {} {path}` shows the checkpoints that have it",
                folder.directory().display()
            )));
        }
        let fields = told(&SessionDb::open(&source.session_db())?, &kept)?;
        let label = match &other {
            Some(other) => format!("{} of {}", fields.checkpoint, other.settings.profile),
            None => fields.checkpoint.clone(),
        };
        Ok(Plan { kept, fields, label, record, differences })
    }

    /// Writes the files that differ to a folder in the workspace.
    async fn prepare(
        &self,
        tenant: &TenantStore,
        root: &Arc<RootDir>,
        plan: &Plan,
    ) -> Result<Prepared, Failure> {
        let wanted: Vec<TreePath> = plan
            .differences
            .iter()
            .filter(|found| is_written(found))
            .map(|found| found.path.clone())
            .collect();
        let id = u64::from_le_bytes(store::id::random());
        let prepared = Prepared { root: Arc::clone(root), name: format!("{PREPARED}{id:016x}") };
        if !wanted.is_empty() {
            let request = restore::Request {
                paths: wanted,
                target: prepared.path(),
                force: false,
                keeping: Keeping { owner: rustix::process::geteuid().is_root(), special: true },
                threads: threads(),
                inspector: None,
                point_of_no_return: PointOfNoReturn::default(),
            };
            restore::restore(tenant, &plan.record, &request, Arc::new(Silent)).await?;
        }
        Ok(prepared)
    }
}

/// A folder with what a revert is going to move to its place. It goes when the revert is over, however it ends.
struct Prepared {
    root: Arc<RootDir>,
    name: String,
}

impl Prepared {
    fn path(&self) -> PathBuf {
        self.root.path().join(&self.name)
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.path().symlink_metadata().is_ok()
            && let Err(error) = remove_all(&self.path())
        {
            tracing::warn!(%error, "{} stays until the next revert", self.path().display());
        }
    }
}

/// Adds the other names that files have in the checkpoint.
async fn add_linked_names(
    folder: &WorkspaceFolder,
    tenant: &TenantStore,
    record: &Record,
    began_ms: u64,
    differences: Vec<Difference>,
) -> Result<Vec<Difference>, Failure> {
    let files = differences.iter().filter(|found| is_written(found)).map(|found| found.path.clone());
    let names = browse::other_names(tenant, record, &files.collect::<Vec<_>>()).await?;
    if names.is_empty() {
        return Ok(differences);
    }
    let (directory, key, left_out) = (folder.directory().to_owned(), *tenant.key(), folder.left_out()?);
    let added = tokio::task::spawn_blocking(move || {
        let root = RootDir::open(&directory)?;
        with_linked_names((&root, &key, began_ms), differences, &names, &left_out)
    });
    added.await.map_err(|error| Failure::internal(error.to_string()))?
}

/// Something would have to go that no checkpoint has.
fn buried(directory: &Path, top: &TreePath, inner: &TreePath) -> Failure {
    let name = |path: &TreePath| path::shown(path.as_bytes());
    let message = format!(
        "{} is a directory now, and {} in it is in no checkpoint: nothing takes its place",
        name(top),
        name(inner)
    );
    let from = directory.join(OsStr::from_bytes(top.as_bytes()));
    let aside = from.file_name().unwrap_or_default().to_owned();
    let to = directory.parent().unwrap_or(directory).join(format!("{}.aside", aside.to_string_lossy()));
    Failure::new(ErrorKind::TargetExists, message).hint(format!(
        "`mv -nT {} {}` puts it out of the way; then run the same command again",
        shell::word(&from),
        shell::word(&to)
    ))
}

/// Whether a file is another than it was when the revert was planned: the checkpoint of what is overwritten may not have it.
fn has_changed(root: &RootDir, found: &Difference) -> bool {
    let now = root.open_at(found.path.as_bytes(), OFlags::PATH, Mode::empty()).and_then(|fd| Ok(fstat(fd)?));
    let holds = |now: &Stat| {
        matches!(FileType::from_raw_mode(now.st_mode), FileType::RegularFile | FileType::Symlink)
    };
    match (&found.after, now) {
        (None, now) => now.is_ok_and(|now| holds(&now)),
        (Some(Entry { kind: Kind::File { size, .. }, meta, .. }), Ok(now)) => {
            let state = FileState::of(&now);
            (state.size, state.mtime) != (*size, meta.mtime)
        }
        // A link keeps the time at which it was made.
        (Some(Entry { kind: Kind::Symlink { .. }, meta, .. }), Ok(now)) => {
            FileState::of(&now).mtime != meta.mtime
        }
        (Some(_), Ok(now)) => holds(&now),
        (Some(_), Err(_)) => false,
    }
}

/// The newest checkpoint that has the path.
async fn newest_with(
    folder: &WorkspaceFolder,
    tenant: &TenantStore,
    slots: &Slots,
    scope: &Scope,
    path: &TreePath,
) -> Result<(Kept, Record, Stored), Failure> {
    for kept in slots.newest_first() {
        let (record, _) = records::get(tenant, &folder.lineage(), kept.record).await?;
        let before = Stored::of(tenant, &record, scope).await?;
        if before.has(path) {
            return Ok((kept.clone(), record, before));
        }
    }
    let (shown, directory) = (path::shown(path.as_bytes()), folder.directory().display());
    let message = format!("no checkpoint of {directory} has {shown}");
    Err(Failure::new(ErrorKind::NotFound, message).hint(format!(
        "with --to the path is made as that checkpoint has it: what was created later goes; {}",
        folder.listing()
    )))
}

/// Whether it is written anew: a file or a link whose content, mode or time differs.
fn is_written(found: &Difference) -> bool {
    found.before.as_ref().is_some_and(|before| !matches!(before.kind, Kind::Directory))
}

fn reverted(found: &Difference) -> RevertedPath {
    let (text, path_hex) = path::fields(found.path.as_bytes());
    let action = match found.before {
        Some(_) => RevertAction::Restored,
        None => RevertAction::Removed,
    };
    let entry = found.before.as_ref().or(found.after.as_ref());
    RevertedPath {
        action,
        path: text,
        path_hex,
        kind: entry.map_or(PathKind::Special, compare::kind),
        size: entry.and_then(compare::size),
    }
}

/// The events of the files, with the checkpoint that they are from.
fn events(plan: &Plan, checkpoint: &str) -> Vec<NewEvent> {
    let is_directory =
        |entry: &Option<Entry>| entry.as_ref().is_none_or(|entry| matches!(entry.kind, Kind::Directory));
    let is_folder = |found: &Difference| is_directory(&found.before) && is_directory(&found.after);
    let of_files = plan.differences.iter().filter(|found| !found.is_time_of_directory && !is_folder(found));
    of_files
        .map(|found| NewEvent {
            action: FileAction::Restored,
            path: format!("{} (from {checkpoint})", String::from_utf8_lossy(found.path.as_bytes())),
            size: found.before.as_ref().and_then(compare::size),
        })
        .collect()
}
