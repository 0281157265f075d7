//! `queries` answers questions about a workspace, and changes nothing.

use std::{
    io::Write,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use store::{
    ErrorKind,
    catalog::records,
    format::{
        record::Record,
        tree::{Entry, Kind, TreePath},
    },
    name::ProfileName,
    ops::read::browse,
    tree::root_dir::RootDir,
};

use super::{
    compare::{self, Difference, Scope, Stored},
    folder::WorkspaceFolder,
    lines,
    outcome::{
        ChangeKind, ChangeTotals, ChangesOutcome, CheckpointFields, CheckpointsOutcome, EventsOutcome,
        PathHistoryOutcome, PathState, PathVersion, WorkspaceChange, WorkspaceDiffOutcome,
    },
    request::{ChangesRequest, EventsRequest, ListRequest, PathHistoryRequest, WorkspaceDiffRequest},
    session_db::SessionDb,
    slots::Kept,
};
use crate::{Engine, failure::Failure, text::path};

/// Larger files are not compared line by line.
const MOST_TEXT_BYTES: u64 = 8 << 20;
const CONTEXT_LINES: u64 = 3;
/// So many events of one path are told.
const EVENTS_OF_A_PATH: u64 = 200;

/// A checkpoint with the counts of its range.
pub(crate) fn told(db: &SessionDb, kept: &Kept) -> Result<CheckpointFields, Failure> {
    Ok(kept.fields(db.counts(db.range(kept.slot)?)?))
}

impl Engine {
    /// The checkpoints, the newest first.
    #[crate::boxed]
    pub async fn workspace_list(&self, request: &ListRequest) -> Result<CheckpointsOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let (slots, db) = (folder.slots()?, SessionDb::open(&folder.session_db())?);
        let checkpoints = slots.newest_first().into_iter().map(|kept| told(&db, kept));
        Ok(CheckpointsOutcome {
            directory: folder.directory().to_owned(),
            auto_max: folder.settings.auto_max,
            manual_max: folder.settings.manual_max,
            checkpoints: checkpoints.collect::<Result<_, _>>()?,
        })
    }

    /// The profiles and directories of the workspaces that were started directly below a folder and may still be there.
    pub fn workspaces_below(&self, folder: &Path) -> Result<Vec<(ProfileName, PathBuf)>, Failure> {
        let started = WorkspaceFolder::started_below(self, folder)?;
        Ok(started.into_iter().map(|settings| (settings.profile, settings.directory)).collect())
    }

    /// What differs between a checkpoint and now.
    #[crate::boxed]
    pub async fn workspace_changes(&self, request: &ChangesRequest) -> Result<ChangesOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let kept = folder.checkpoint(&folder.slots()?, request.since.as_deref())?;
        let path = match &request.path {
            Some(path) => Some(compare::tree_path(folder.directory(), path)?).filter(|path| !path.is_root()),
            None => None,
        };
        let found = self.differences_since(&folder, &kept, Scope(path)).await?;
        let mut totals = ChangeTotals::default();
        for difference in &found {
            match difference.change {
                ChangeKind::Created => totals.created += 1,
                ChangeKind::Modified => totals.modified += 1,
                ChangeKind::Deleted => totals.deleted += 1,
                ChangeKind::Metadata => totals.metadata += 1,
            }
        }
        let limit = request.limit.unwrap_or(u64::MAX);
        let end = request.offset.saturating_add(limit);
        let page = found.iter().skip(request.offset as usize).take(limit.min(usize::MAX as u64) as usize);
        Ok(ChangesOutcome {
            since: told(&SessionDb::open(&folder.session_db())?, &kept)?,
            totals,
            changes: page.map(change).collect(),
            next_offset: (end < totals.all()).then_some(end),
        })
    }

    async fn differences_since(
        &self,
        folder: &WorkspaceFolder,
        kept: &Kept,
        scope: Scope,
    ) -> Result<Vec<Difference>, Failure> {
        let tenant = self.tenant(&folder.settings.profile.tenant).await?;
        let (record, _) = records::get(&tenant, &folder.lineage(), kept.record).await?;
        let stored = Stored::of(&tenant, &record, &scope).await?;
        let (directory, exclusions) = (folder.directory().to_owned(), folder.left_out()?);
        let (key, began_ms) = (*tenant.key(), kept.began_ms);
        let found = tokio::task::spawn_blocking(move || {
            let root = RootDir::open(&directory)?;
            let wanted = |found: &Difference| !found.is_time_of_directory && scope.holds(&found.path);
            compare::compare(&root, &key, (&scope, &exclusions), (stored, began_ms), &wanted)
        });
        Ok(found.await.map_err(|error| Failure::internal(error.to_string()))??.differences)
    }

    /// How the text of one file differs between a checkpoint and now.
    #[crate::boxed]
    pub async fn workspace_diff(
        &self,
        request: &WorkspaceDiffRequest,
    ) -> Result<WorkspaceDiffOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let path = compare::tree_path(folder.directory(), &request.path)?;
        let kept = folder.checkpoint(&folder.slots()?, request.since.as_deref())?;
        let since = told(&SessionDb::open(&folder.session_db())?, &kept)?;
        let found = self.differences_since(&folder, &kept, Scope(Some(path.clone()))).await?;
        let text = path::shown(path.as_bytes());
        let difference = found.into_iter().find(|found| found.path == path);
        let (old, new) = self.texts(&folder, &kept, &path, difference.as_ref()).await?;
        let both = (old.as_deref().map(lines::text), new.as_deref().map(lines::text));
        let is_text = both.0 != Some(None) && both.1 != Some(None) && (old.is_some() || new.is_some());
        let (old_text, new_text) = (both.0.flatten().unwrap_or(""), both.1.flatten().unwrap_or(""));
        let named = format!("{text} ({})", since.checkpoint);
        let context = request.context.unwrap_or(CONTEXT_LINES) as usize;
        let unified = match is_text {
            true => lines::unified(old_text, new_text, (&named, &text), context),
            false => lines::Unified::default(),
        };
        let before = difference.as_ref().and_then(|found| found.before.as_ref());
        let after = difference.as_ref().and_then(|found| found.after.as_ref());
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| bytes.len() as u64);
        Ok(WorkspaceDiffOutcome {
            since,
            path: text,
            change: difference.as_ref().map(|found| found.change),
            size_before: before.and_then(compare::size).or(length(&old)),
            size_after: after.and_then(compare::size).or(length(&new)),
            is_text,
            added_lines: unified.added,
            removed_lines: unified.removed,
            diff: unified.text,
        })
    }

    /// The file before and after, as far as it is one that can be compared by lines.
    async fn texts(
        &self,
        folder: &WorkspaceFolder,
        kept: &Kept,
        path: &TreePath,
        difference: Option<&Difference>,
    ) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>), Failure> {
        let root = RootDir::open(folder.directory())?;
        let Some(difference) = difference else {
            let there = read_live(&root, path)?;
            if there.is_none() {
                let shown = path::shown(path.as_bytes());
                let message = format!("neither the workspace nor cp-{} has a file {shown}", kept.slot);
                return Err(Failure::new(ErrorKind::NotFound, message).hint(format!(
                    "`pstore workspace changes {}` shows what differs",
                    folder.directory().display()
                )));
            }
            return Ok((there.clone(), there));
        };
        let is_small =
            |entry: &Entry| matches!(entry.kind, Kind::File { .. }) && entry.size() <= MOST_TEXT_BYTES;
        let old = match difference.before.as_ref().map(is_small) {
            Some(true) => {
                let tenant = self.tenant(&folder.settings.profile.tenant).await?;
                let (record, _) = records::get(&tenant, &folder.lineage(), kept.record).await?;
                let bytes = Memory::default();
                let out = (bytes.clone(), folder.directory().to_owned());
                browse::write(&tenant, &record, path, out).await?;
                Some(std::mem::take(&mut *bytes.0.lock()))
            }
            Some(false) => Some(vec![0]),
            None => None,
        };
        let new = match difference.after.as_ref().map(is_small) {
            Some(true) => read_live(&root, path)?,
            Some(false) => Some(vec![0]),
            None => None,
        };
        Ok((old, new))
    }

    /// How a path was at every checkpoint.
    #[crate::boxed]
    pub async fn workspace_history(
        &self,
        request: &PathHistoryRequest,
    ) -> Result<PathHistoryOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let path = compare::tree_path(folder.directory(), &request.path)?;
        let (slots, db) = (folder.slots()?, SessionDb::open(&folder.session_db())?);
        let tenant = self.tenant(&folder.settings.profile.tenant).await?;
        let (mut versions, mut before): (Vec<PathVersion>, Option<Entry>) = (Vec::new(), None);
        for kept in slots.newest_first().into_iter().rev() {
            let (record, _) = records::get(&tenant, &folder.lineage(), kept.record).await?;
            let entry = entry_at(&tenant, &record, &path).await?;
            versions.push(version(Some(told(&db, kept)?), before.as_ref(), entry.as_ref()));
            before = entry;
        }
        let newest = slots.newest();
        let now = match newest {
            Some(kept) => {
                let found = self.differences_since(&folder, kept, Scope(Some(path.clone()))).await?;
                let found = found.into_iter().find(|found| found.path == path);
                match found {
                    Some(found) => {
                        let mut now = version(None, before.as_ref(), found.after.as_ref());
                        if found.change == ChangeKind::Modified {
                            now.state = PathState::Modified;
                        }
                        now
                    }
                    None => version(None, before.as_ref(), before.as_ref()),
                }
            }
            None => version(None, None, None),
        };
        versions.push(now);
        versions.reverse();
        let text = String::from_utf8_lossy(path.as_bytes()).into_owned();
        let events = db.events_of(&text, EVENTS_OF_A_PATH)?;
        let is_known = versions.iter().any(|version| version.kind.is_some()) || !events.is_empty();
        if !is_known {
            let shown = path::shown(path.as_bytes());
            let message = format!("{} never had {shown}", folder.directory().display());
            return Err(Failure::new(ErrorKind::NotFound, message).hint(folder.listing()));
        }
        Ok(PathHistoryOutcome { path: text, versions, events })
    }

    /// What happened to files.
    #[crate::boxed]
    pub async fn workspace_events(&self, request: &EventsRequest) -> Result<EventsOutcome, Failure> {
        let folder = WorkspaceFolder::open(self, &request.directory)?;
        let db = SessionDb::open(&folder.session_db())?;
        let (start, stop) = match &request.checkpoint {
            Some(wanted) => db.range(folder.checkpoint(&folder.slots()?, Some(wanted))?.slot)?,
            None => (0, i64::MAX as u64),
        };
        let limit = request.limit.unwrap_or(i64::MAX as u64);
        let wanted = limit.saturating_add(1).min(i64::MAX as u64);
        let mut events = db.events((start.max(request.after), stop), wanted)?;
        let has_more = events.len() as u64 > limit;
        events.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(EventsOutcome {
            session_db: folder.session_db(),
            counts: db.counts((start, stop))?,
            next_after: events.last().map(|event| event.id).filter(|_| has_more),
            events,
        })
    }
}

async fn entry_at(
    tenant: &store::content::TenantStore,
    record: &Record,
    path: &TreePath,
) -> Result<Option<Entry>, Failure> {
    let mut part = browse::part(tenant, record, path).await?;
    let found = part.iter().position(|entry| entry.path == *path);
    Ok(found.map(|at| part.swap_remove(at)))
}

fn version(checkpoint: Option<CheckpointFields>, before: Option<&Entry>, now: Option<&Entry>) -> PathVersion {
    let state = match (before, now) {
        (None, None) => PathState::Absent,
        (None, Some(_)) => PathState::Created,
        (Some(_), None) => PathState::Deleted,
        (Some(before), Some(now)) if is_same(before, now) => PathState::Unchanged,
        (Some(_), Some(_)) => PathState::Modified,
    };
    let mtime_ms =
        |entry: &Entry| entry.meta.mtime.seconds * 1000 + i64::from(entry.meta.mtime.nanos / 1_000_000);
    PathVersion {
        checkpoint,
        state,
        kind: now.map(compare::kind),
        size: now.and_then(compare::size),
        mtime_ms: now.map(mtime_ms),
    }
}

/// Whether content and mode are the same; of a directory, what is in it does not count. The live file has no extents.
fn is_same(before: &Entry, now: &Entry) -> bool {
    let is_same_content = match (&before.kind, &now.kind) {
        (Kind::File { size, extents }, Kind::File { size: new_size, extents: new }) => {
            size == new_size && (extents == new || new.is_empty())
        }
        (old, new) => old == new,
    };
    is_same_content && before.meta.mode == now.meta.mode
}

fn change(difference: &Difference) -> WorkspaceChange {
    let (path, path_hex) = path::fields(difference.path.as_bytes());
    let (before, after) = (difference.before.as_ref(), difference.after.as_ref());
    WorkspaceChange {
        change: difference.change,
        path,
        path_hex,
        kind: after.or(before).map_or(super::outcome::PathKind::Special, compare::kind),
        size_before: before.and_then(compare::size),
        size_after: after.and_then(compare::size),
    }
}

/// A regular file as it is now, if it is one and not too large; a larger one as what is no text.
fn read_live(root: &RootDir, path: &TreePath) -> Result<Option<Vec<u8>>, Failure> {
    let unread = |error: std::io::Error| {
        Failure::new(ErrorKind::Io, format!("{} cannot be read: {error}", root.display(path).display()))
    };
    let Some(mut file) = compare::open_file(root, path).map_err(unread)? else {
        let is_there = root.open_at(path.as_bytes(), OFlags::PATH, Mode::empty()).is_ok();
        return Ok(is_there.then(|| vec![0]));
    };
    if file.metadata().map_err(unread)?.size() > MOST_TEXT_BYTES {
        return Ok(Some(vec![0]));
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut bytes).map_err(unread)?;
    Ok(Some(bytes))
}

/// Bytes that are written to and taken out again.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The name of a directory in a profile's name: what is not allowed there becomes a dash.
pub(crate) fn profile_word(directory: &Path) -> String {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let word: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .take(60)
        .collect();
    word.trim_start_matches('.').to_owned()
}
