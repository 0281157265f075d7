//! `SessionDb` is `session.db`: what happened to files, and which events lie between two checkpoints.
//!
//! The tables and their columns are fixed: programs that do not know pstore read them. Paths are text there; bytes that
//! are none are written as the replacement character.

use std::{collections::HashMap, fs, path::Path, time::Duration};

use rusqlite::{Connection, OptionalExtension, params};
use store::ErrorKind;

use super::{
    outcome::{EventCounts, FileAction, FileEvent, Origin},
    slots::{iso, now_ms},
};
use crate::failure::Failure;

const PATIENCE: Duration = Duration::from_secs(30);
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS fs_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    timestamp TEXT NOT NULL,
    action TEXT NOT NULL,
    path TEXT NOT NULL,
    size INTEGER
);
CREATE TABLE IF NOT EXISTS snapshot_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    timestamp TEXT NOT NULL,
    slot INTEGER NOT NULL,
    origin TEXT NOT NULL,
    name TEXT,
    files_count INTEGER DEFAULT 0,
    start_fs_event_id INTEGER DEFAULT 0,
    stop_fs_event_id INTEGER DEFAULT 0
);
";

/// Numbers in the head of the database, which are none of its tables: which events of a mount it has.
const CHRONICLE: &str = "application_id";
const LAST_EVENT: &str = "user_version";

/// An event that has no number yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewEvent {
    pub action: FileAction,
    pub path: String,
    pub size: Option<u64>,
}

/// A database that is open.
#[derive(Debug)]
pub(crate) struct SessionDb {
    connection: Connection,
    /// Of each path the last event since the checkpoint with this stop; known once it was asked for.
    recent: Option<(u64, RecentEvents)>,
}

/// The last event of a path, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastEvent {
    pub id: u64,
    pub action: FileAction,
}

/// The last event of each path.
type RecentEvents = HashMap<String, LastEvent>;

fn failed(error: rusqlite::Error) -> Failure {
    Failure::new(ErrorKind::Io, format!("session.db: {error}"))
}

fn set_number(connection: &Connection, name: &str, number: u64) -> Result<(), Failure> {
    let number = i32::try_from(number).unwrap_or(i32::MAX);
    connection.pragma_update(None, name, number).map_err(failed)
}

impl SessionDb {
    /// Opens it, and makes it if it is not there.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        connection.pragma_update(None, "journal_mode", "WAL").map_err(failed)?;
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
        connection.execute_batch(TABLES).map_err(failed)?;
        Ok(Self { connection, recent: None })
    }

    /// Copies the database up to the event `stop` to another place.
    pub fn copy_until(&self, to: &Path, stop: u64) -> Result<(), Failure> {
        // A database that an earlier attempt has left is not this one's.
        let _ = fs::remove_file(to);
        self.connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]).map_err(failed)?;
        let copy = Self::open(to)?;
        copy.connection
            .execute("DELETE FROM fs_events WHERE id > ?1", [stop as i64])
            .and_then(|_| copy.connection.execute("DELETE FROM snapshot_events", []))
            .map_err(failed)?;
        set_number(&copy.connection, CHRONICLE, 0)?;
        set_number(&copy.connection, LAST_EVENT, 0)
    }

    /// Where the range of the newest checkpoint ends.
    fn last_stop(&self) -> Result<u64, Failure> {
        let found: Option<i64> = self
            .connection
            .query_row("SELECT stop_fs_event_id FROM snapshot_events ORDER BY id DESC LIMIT 1", [], |row| {
                row.get(0)
            })
            .optional()
            .map_err(failed)?;
        Ok(found.unwrap_or(0).max(0) as u64)
    }

    /// Adds events. Those of one path since the last checkpoint become one where that loses nothing: writing to a file
    /// twice, or writing to one that was just made.
    pub fn add(&mut self, events: &[NewEvent]) -> Result<(), Failure> {
        match events.is_empty() {
            true => Ok(()),
            false => self.add_all(events, None),
        }
    }

    /// The same, of events that a chronicle has up to this number: both are written down, or neither is.
    pub fn add_up_to(&mut self, events: &[NewEvent], position: (u32, u64)) -> Result<(), Failure> {
        self.add_all(events, Some(position))
    }

    /// The chronicle whose events were added last, and the number of the last.
    pub fn position(&self) -> Result<(u32, u64), Failure> {
        let number = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let (chronicle, last) = (number(CHRONICLE).map_err(failed)?, number(LAST_EVENT).map_err(failed)?);
        Ok((chronicle.max(0) as u32, last.max(0) as u64))
    }

    fn add_all(&mut self, events: &[NewEvent], position: Option<(u32, u64)>) -> Result<(), Failure> {
        self.read_recent()?;
        let now = iso(now_ms());
        let Some((_, recent)) = &mut self.recent else { return Ok(()) };
        let transaction = self.connection.transaction().map_err(failed)?;
        let mut next = recent.clone();
        {
            let mut insert = transaction
                .prepare_cached(
                    "INSERT INTO fs_events (timestamp, action, path, size) VALUES (?1, ?2, ?3, ?4)",
                )
                .map_err(failed)?;
            let mut update =
                transaction.prepare_cached("UPDATE fs_events SET size = ?2 WHERE id = ?1").map_err(failed)?;
            for NewEvent { action, path, size } in events {
                let size = size.map(|size| size as i64);
                match next.get(path) {
                    Some(last) if is_one(last.action, *action) => {
                        update.execute(params![last.id as i64, size]).map_err(failed)?;
                    }
                    _ => {
                        let id = insert.insert(params![now, action.word(), path, size]).map_err(failed)?;
                        next.insert(path.clone(), LastEvent { id: id.max(0) as u64, action: *action });
                    }
                }
            }
        }
        if let Some((chronicle, last)) = position {
            set_number(&transaction, CHRONICLE, chronicle.into())?;
            set_number(&transaction, LAST_EVENT, last)?;
        }
        transaction.commit().map_err(failed)?;
        *recent = next;
        Ok(())
    }

    /// The last event of each path since the newest checkpoint.
    pub fn since_checkpoint(&self) -> Result<HashMap<String, LastEvent>, Failure> {
        let (_, recent) = self.read_since(self.last_stop()?)?;
        Ok(recent)
    }

    fn read_recent(&mut self) -> Result<(), Failure> {
        let stop = self.last_stop()?;
        if self.recent.as_ref().is_none_or(|(of, _)| *of != stop) {
            self.recent = Some(self.read_since(stop)?);
        }
        Ok(())
    }

    fn read_since(&self, stop: u64) -> Result<(u64, RecentEvents), Failure> {
        let mut found = HashMap::new();
        let mut events = self
            .connection
            .prepare_cached("SELECT id, action, path FROM fs_events WHERE id > ?1 ORDER BY id")
            .map_err(failed)?;
        let mut rows = events.query([stop as i64]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (id, action): (i64, String) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            let last = LastEvent { id: id.max(0) as u64, action: action_of(&action) };
            found.insert(row.get(2).map_err(failed)?, last);
        }
        Ok((stop, found))
    }

    /// Tells of a checkpoint. The range of an automatic one begins where that of the automatic one before it ends; the
    /// range of one that is kept begins with the first event.
    pub fn add_checkpoint(
        &mut self,
        (slot, origin): (u64, Origin),
        name: Option<&str>,
        files_count: u64,
    ) -> Result<u64, Failure> {
        self.connection
            .execute(
                "INSERT INTO snapshot_events
                     (timestamp, slot, origin, name, files_count, start_fs_event_id, stop_fs_event_id)
                 VALUES (?1, ?2, ?3, ?4, ?5,
                     CASE ?3 WHEN 'auto' THEN COALESCE((SELECT stop_fs_event_id FROM snapshot_events
                         WHERE origin = 'auto' ORDER BY id DESC LIMIT 1), 0) ELSE 0 END,
                     COALESCE((SELECT MAX(id) FROM fs_events), 0))",
                params![iso(now_ms()), slot as i64, origin.word(), name, files_count as i64],
            )
            .map_err(failed)?;
        self.recent = None;
        Ok(self.connection.last_insert_rowid().max(0) as u64)
    }

    /// Takes away what tells of later checkpoints than that with this row: no slot has come to hold them, since who took
    /// them was killed. Their events belong to the next one.
    pub fn forget_checkpoints_after(&mut self, row: Option<u64>) -> Result<(), Failure> {
        let Some(row) = row else { return Ok(()) };
        self.connection.execute("DELETE FROM snapshot_events WHERE id > ?1", [row as i64]).map_err(failed)?;
        self.recent = None;
        Ok(())
    }

    /// The range of the checkpoint that a slot holds now.
    pub fn range(&self, slot: u64) -> Result<(u64, u64), Failure> {
        let found: Option<(i64, i64)> = self
            .connection
            .query_row(
                "SELECT start_fs_event_id, stop_fs_event_id FROM snapshot_events WHERE slot = ?1
                 ORDER BY id DESC LIMIT 1",
                [slot as i64],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(failed)?;
        let (start, stop) = found.unwrap_or_default();
        Ok((start.max(0) as u64, stop.max(0) as u64))
    }

    /// How many events of each kind a range has.
    pub fn counts(&self, (start, stop): (u64, u64)) -> Result<EventCounts, Failure> {
        let mut counted = self
            .connection
            .prepare_cached(
                "SELECT action, COUNT(*) FROM fs_events WHERE id > ?1 AND id <= ?2 GROUP BY action",
            )
            .map_err(failed)?;
        let stop = i64::try_from(stop).unwrap_or(i64::MAX);
        let mut rows = counted.query(params![start as i64, stop]).map_err(failed)?;
        let mut counts = EventCounts::default();
        while let Some(row) = rows.next().map_err(failed)? {
            let (action, count): (String, i64) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            let count = count.max(0) as u64;
            match action_of(&action) {
                FileAction::Created => counts.created += count,
                FileAction::Modified => counts.modified += count,
                FileAction::Deleted => counts.deleted += count,
                FileAction::Restored => counts.restored += count,
            }
        }
        Ok(counts)
    }

    /// The events of a range, the oldest first.
    pub fn events(&self, (start, stop): (u64, u64), limit: u64) -> Result<Vec<FileEvent>, Failure> {
        self.select("WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3", (start, stop, limit), None)
    }

    /// The events of one path, the newest first.
    pub fn events_of(&self, path: &str, limit: u64) -> Result<Vec<FileEvent>, Failure> {
        let clause =
            "WHERE id > ?1 AND id <= ?2 AND (path = ?4 OR (action = 'restored' AND path LIKE ?5 ESCAPE '!'))
                      ORDER BY id DESC LIMIT ?3";
        self.select(clause, (0, i64::MAX as u64, limit), Some(path))
    }

    fn select(
        &self,
        clause: &str,
        (start, stop, limit): (u64, u64, u64),
        path: Option<&str>,
    ) -> Result<Vec<FileEvent>, Failure> {
        let sql = format!("SELECT id, timestamp, action, path, size FROM fs_events {clause}");
        let mut select = self.connection.prepare_cached(&sql).map_err(failed)?;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (start, stop, limit) = (number(start), number(stop), number(limit));
        let event = |row: &rusqlite::Row<'_>| {
            let (id, size): (i64, Option<i64>) = (row.get(0)?, row.get(4)?);
            Ok(FileEvent {
                id: id.max(0) as u64,
                timestamp: row.get(1)?,
                action: action_of(&row.get::<_, String>(2)?),
                path: row.get(3)?,
                size: size.map(|size| size.max(0) as u64),
            })
        };
        let rows = match path {
            None => select.query_map(params![start, stop, limit], event),
            Some(path) => {
                let escaped = path.replace('!', "!!").replace('%', "!%").replace('_', "!_");
                let restored = format!("{escaped} (from cp-%)");
                select.query_map(params![start, stop, limit, path, restored], event)
            }
        };
        rows.and_then(Iterator::collect).map_err(failed)
    }
}

/// Whether the later of two events of one file adds nothing but a size.
fn is_one(before: FileAction, now: FileAction) -> bool {
    matches!(
        (before, now),
        (FileAction::Created | FileAction::Modified, FileAction::Modified)
            | (FileAction::Created, FileAction::Created)
            | (FileAction::Deleted, FileAction::Deleted)
    )
}

fn action_of(word: &str) -> FileAction {
    match word {
        "created" => FileAction::Created,
        "deleted" => FileAction::Deleted,
        "restored" => FileAction::Restored,
        _ => FileAction::Modified,
    }
}
