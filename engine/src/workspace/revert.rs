//! `revert` gives files back as a checkpoint has them.
//!
//! 1. What is about to be overwritten becomes a checkpoint of its own.
//! 2. The files that differ are written to a folder that is prepared within the workspace, verified and durable.
//! 3. What the checkpoint does not have is removed, then each file is moved to its place: it is the old one or the new
//!    one, never a part of either.
//! 4. Directories get their modes and times, the innermost first.
//!
//! Every path is resolved beneath the workspace, and no symbolic link is followed on the way.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io,
    path::PathBuf,
    sync::Arc,
};

use rustix::{
    fs::{
        AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens, mkdirat, renameat,
        unlinkat,
    },
    io::Errno,
};
use store::{
    ErrorKind,
    catalog::records,
    content::TenantStore,
    format::{
        record::Record,
        tree::{Entry, Kind, TreePath},
    },
    ops::{point_of_no_return::PointOfNoReturn, read::restore},
    progress::Silent,
    tree::{remove::remove_all, root_dir::RootDir, write::Keeping},
};

use super::{
    compare::{self, Difference, Scope},
    folder::{FolderLock, PREPARED, WorkspaceFolder, prepared},
    outcome::{
        ChangeKind, CheckpointFields, FileAction, Origin, PathKind, RevertAction, RevertOutcome, RevertedPath,
    },
    queries::told,
    request::{RevertRequest, Trigger},
    session_db::{NewEvent, SessionDb},
    slots::{Kept, Slots},
    wanted::Wanted,
};
use crate::{Engine, engine::threads, failure::Failure, text::path};

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
        };
        let before = self.take_checkpoint(folder, lock, &wanted).await?;
        outcome.before = Some(before.kept.fields(db.counts(db.range(before.kept.slot)?)?));
        let full = |difference: &Difference| root.display(&difference.path);
        changed(&plan.differences.iter().map(full).collect::<Vec<_>>());
        let mount = self.workspace_mount(folder);
        if let Some(live) = &mount {
            self.take_events(live, &mut db, u64::MAX, &HashSet::new()).await;
        }
        let carried_out = self.carry_out(&tenant, &root, &plan).await;
        if let Some(live) = &mount {
            let text =
                |difference: &Difference| String::from_utf8_lossy(difference.path.as_bytes()).into_owned();
            let own = plan.differences.iter().map(text).collect();
            self.take_events(live, &mut db, u64::MAX, &own).await;
        }
        carried_out?;
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
                let before = compare::stored(tenant, &record, &scope).await?;
                (kept, record, before)
            }
            (Some(_), _) | (None, None) => {
                let kept = folder.checkpoint(slots, request.to.as_deref())?;
                let (record, _) = records::get(tenant, &folder.lineage(), kept.record).await?;
                let before = compare::stored(tenant, &record, &scope).await?;
                (kept, record, before)
            }
            (None, Some(path)) => newest_with(folder, tenant, slots, &scope, path).await?,
        };
        let (root, key, began_ms) = (Arc::clone(root), *tenant.key(), kept.began_ms);
        let (scope, exclusions) = (scope.clone(), folder.left_out()?);
        let has_path = before.keys().any(|path| scope.holds(path));
        let compared = tokio::task::spawn_blocking(move || {
            let before = compare::without(before, &exclusions);
            let after = compare::live(&root, &scope, &exclusions)?;
            let is_there = after.keys().any(|path| scope.holds(path));
            let mut found = compare::differences(&root, &key, before, after, began_ms)?;
            found.retain(|found| scope.holds(&found.path) || has_path && compare::is_lost_way(found));
            Ok::<_, Failure>((found, is_there))
        });
        let (differences, is_there) =
            compared.await.map_err(|error| Failure::internal(error.to_string()))??;
        if !has_path && !is_there {
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

    async fn carry_out(&self, tenant: &TenantStore, root: &Arc<RootDir>, plan: &Plan) -> Result<(), Failure> {
        let wanted: Vec<TreePath> = plan
            .differences
            .iter()
            .filter(|found| is_written(found))
            .map(|found| found.path.clone())
            .collect();
        let id = u64::from_le_bytes(store::id::random());
        let folder = format!("{}{id:016x}", PREPARED[0]);
        if !wanted.is_empty() {
            let request = restore::Request {
                paths: wanted,
                target: root.path().join(&folder),
                force: false,
                keeping: Keeping { owner: rustix::process::geteuid().is_root(), special: true },
                threads: threads(),
                inspector: None,
                point_of_no_return: PointOfNoReturn::default(),
            };
            restore::restore(tenant, &plan.record, &request, Arc::new(Silent)).await?;
        }
        let (root, differences) = (Arc::clone(root), plan.differences.clone());
        let done = tokio::task::spawn_blocking(move || {
            let placed = place(&root, &folder, &differences);
            let cleared = match root.path().join(&folder).symlink_metadata() {
                Ok(_) => remove_all(&root.path().join(&folder)).map_err(|error| broken(&folder, &error)),
                Err(_) => Ok(()),
            };
            placed.and(cleared)
        });
        done.await.map_err(|error| Failure::internal(error.to_string()))?
    }
}

/// The newest checkpoint that has the path.
async fn newest_with(
    folder: &WorkspaceFolder,
    tenant: &TenantStore,
    slots: &Slots,
    scope: &Scope,
    path: &TreePath,
) -> Result<(Kept, Record, BTreeMap<TreePath, Entry>), Failure> {
    for kept in slots.newest_first() {
        let (record, _) = records::get(tenant, &folder.lineage(), kept.record).await?;
        let before = compare::stored(tenant, &record, scope).await?;
        if before.contains_key(path) {
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

fn broken(path: &str, error: &io::Error) -> Failure {
    Failure::new(ErrorKind::Io, format!("{path} cannot be reverted: {error}"))
        .hint("what was there before is in the checkpoint `before-restore`; run the same command again")
}

/// Removes, makes and moves, in an order in which every path has its directory.
fn place(root: &RootDir, prepared: &str, differences: &[Difference]) -> Result<(), Failure> {
    let failed = |found: &Difference, error: io::Error| broken(&path::shown(found.path.as_bytes()), &error);
    // What is not in the checkpoint, or is something else there: the innermost first.
    for found in differences.iter().rev() {
        let Some(after) = &found.after else { continue };
        let is_directory = matches!(after.kind, Kind::Directory);
        let becomes_directory = found.before.as_ref().map(|before| matches!(before.kind, Kind::Directory));
        if becomes_directory.is_none() || becomes_directory != Some(is_directory) {
            remove(root, &found.path, is_directory).map_err(|error| failed(found, error))?;
        }
    }
    for found in differences {
        let Some(before) = &found.before else { continue };
        let made = match before.kind {
            Kind::Directory if found.change == ChangeKind::Metadata => Ok(()),
            Kind::Directory => make_directory(root, &found.path),
            _ => move_file(root, prepared, &found.path),
        };
        made.map_err(|error| failed(found, error))?;
    }
    for found in differences.iter().rev() {
        if let Some(before) = found.before.as_ref().filter(|before| matches!(before.kind, Kind::Directory)) {
            finish_directory(root, before).map_err(|error| failed(found, error))?;
        }
    }
    Ok(())
}

fn parent(root: &RootDir, path: &TreePath) -> io::Result<std::os::fd::OwnedFd> {
    root.dir(path.parent().unwrap_or_default())
}

fn remove(root: &RootDir, path: &TreePath, is_directory: bool) -> io::Result<()> {
    let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let dir = match parent(root, path) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    match unlinkat(&dir, path.name(), flags) {
        // A FIFO or a socket is in it: no checkpoint has those, and none takes them away.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn make_directory(root: &RootDir, path: &TreePath) -> io::Result<()> {
    match mkdirat(parent(root, path)?, path.name(), Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn move_file(root: &RootDir, prepared: &str, path: &TreePath) -> io::Result<()> {
    let mut from = prepared.as_bytes().to_vec();
    if let Some(parent) = path.parent().filter(|parent| !parent.is_empty()) {
        from.push(b'/');
        from.extend_from_slice(parent);
    }
    Ok(renameat(root.dir(&from)?, path.name(), parent(root, path)?, path.name())?)
}

fn finish_directory(root: &RootDir, entry: &Entry) -> io::Result<()> {
    let dir =
        File::from(root.open_at(entry.path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?);
    fchmod(&dir, Mode::from(entry.meta.mode))?;
    let time = entry.meta.mtime;
    futimens(
        &dir,
        &Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() },
        },
    )?;
    Ok(())
}
