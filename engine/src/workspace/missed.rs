//! `missed` finds what happened to files and nobody saw: what differs between two checkpoints, and no event tells of.
//!
//! A file that a revert gave back is compared with the checkpoint that it is from: what was done to it before the revert
//! says nothing of what was done to it since.

use std::collections::{BTreeMap, HashMap};

use store::{
    catalog::records,
    content::TenantStore,
    format::{
        record::Record,
        tree::{Entry, Kind, TreePath},
    },
    ops::read::{
        browse,
        diff::{self, Change, Line},
    },
};

use super::{
    compare,
    folder::WorkspaceFolder,
    method::StoredTree,
    outcome::FileAction,
    session_db::{LastEvent, NewEvent},
    slots::Slots,
};
use crate::{Engine, failure::Failure};

impl Engine {
    /// What differs from the checkpoint before, and none of the events that were `told` since has told of.
    pub(crate) async fn missed_events(
        &self,
        folder: &WorkspaceFolder,
        tenant: &TenantStore,
        slots: &Slots,
        stored: &StoredTree,
        told: &HashMap<String, LastEvent>,
    ) -> Result<Vec<NewEvent>, Failure> {
        let record = stored.record;
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
        let restored = restored(told);
        let differing = diff::diff(tenant, &before, &after).await?.lines;
        let events = differing.iter().filter_map(event);
        let is_told = |event: &NewEvent| {
            restored.contains_key(event.path.as_str())
                || told.get(&event.path).is_some_and(|last| tells_of(last.action, event.action))
        };
        let mut missed: Vec<NewEvent> = events.filter(|event| !is_told(event)).collect();
        // A mount tells of all that is done to it.
        if stored.last_event.is_none() && !restored.is_empty() {
            let reverted = Reverted { tenant, folder, slots, told, restored };
            missed.extend(reverted.missed(&after).await?);
        }
        Ok(missed)
    }
}

/// Whether an event, the last of its path, leaves nothing to tell of such a difference.
fn tells_of(told: FileAction, differs: FileAction) -> bool {
    match told {
        FileAction::Deleted => differs == FileAction::Deleted,
        FileAction::Created => differs != FileAction::Deleted,
        FileAction::Modified => differs == FileAction::Modified,
        FileAction::Restored => true,
    }
}

/// What reverts gave back since the checkpoint before, and from which checkpoint the last of them did.
fn restored(told: &HashMap<String, LastEvent>) -> HashMap<&str, (u64, &str)> {
    let mut found: HashMap<&str, (u64, &str)> = HashMap::new();
    for (text, last) in told.iter().filter(|(_, last)| last.action == FileAction::Restored) {
        let Some((path, from)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (from ")) else {
            continue;
        };
        let known = found.entry(path).or_insert((last.id, from));
        if known.0 < last.id {
            *known = (last.id, from);
        }
    }
    found
}

/// The files that reverts gave back.
struct Reverted<'a> {
    tenant: &'a TenantStore,
    folder: &'a WorkspaceFolder,
    slots: &'a Slots,
    told: &'a HashMap<String, LastEvent>,
    restored: HashMap<&'a str, (u64, &'a str)>,
}

impl Reverted<'_> {
    /// What was done to them since, and no event has told of. `after` is how everything is.
    async fn missed(&self, after: &Record) -> Result<Vec<NewEvent>, Failure> {
        // By the checkpoint that each is from.
        let mut sources: BTreeMap<&str, Vec<TreePath>> = BTreeMap::new();
        for (path, (id, from)) in &self.restored {
            let is_told_since = self.told.get(*path).is_some_and(|last| last.id > *id);
            if let (false, Ok(path)) = (is_told_since, TreePath::new(path.as_bytes())) {
                sources.entry(from).or_default().push(path);
            }
        }
        let mut missed = Vec::new();
        for (from, paths) in sources {
            // One of another workspace is not at hand.
            let Some(kept) = self.slots.find(from) else { continue };
            let record = records::get(self.tenant, &self.folder.lineage(), kept.record).await;
            let Ok((record, _)) = record else { continue };
            let given_back = browse::named(self.tenant, &record, paths.clone()).await?;
            let now = browse::named(self.tenant, after, paths.clone()).await?;
            for path in paths {
                let text = String::from_utf8_lossy(path.as_bytes());
                missed.extend(since_then(&text, given_back.get(&path), now.get(&path)));
            }
        }
        missed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(missed)
    }
}

/// An event for a file that is not as a revert gave it back.
fn since_then(path: &str, given_back: Option<&Entry>, now: Option<&Entry>) -> Option<NewEvent> {
    let is_file = |entry: &&Entry| !matches!(entry.kind, Kind::Directory);
    let (given_back, now) = (given_back.filter(is_file), now.filter(is_file));
    let action = match (given_back, now) {
        (None, None) => return None,
        (None, Some(_)) => FileAction::Created,
        (Some(_), None) => FileAction::Deleted,
        (Some(given_back), Some(now)) => match is_same_content(given_back, now) {
            true => return None,
            false => FileAction::Modified,
        },
    };
    Some(NewEvent { action, path: path.to_owned(), size: now.and_then(compare::size) })
}

/// Whether two files have the same content as far as their trees tell. One that is a link to another file is taken to have.
fn is_same_content(a: &Entry, b: &Entry) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::File { .. } | Kind::HardLink { .. }, Kind::HardLink { .. })
        | (Kind::HardLink { .. }, Kind::File { .. }) => true,
        (a, b) => a == b,
    }
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
