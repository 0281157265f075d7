//! `Pane` is a part of a frame: its title, its problems, and rows of cells with the command that acts on each.

use engine::{
    text::{escape, size},
    verbs::{
        lock::LockState,
        top::{TopLock, TopMount, TopOutcome, TopPart, TopRate, TopSession},
    },
};

use crate::table::Align::{self, Left, Right};

/// A column. Where there is little room, those with a high rank go first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) align: Align,
    pub(super) rank: u8,
}

const fn column(name: &'static str, align: Align, rank: u8) -> Column {
    Column { name, align, rank }
}

const LOCKS: &[Column] = &[
    column("PROFILE", Left, 0),
    column("RUN", Left, 2),
    column("HOST", Left, 4),
    column("LEFT", Right, 1),
    column("HELD", Right, 3),
    column("RENEWED", Right, 5),
    column("COMMAND", Left, 9),
];
const MOUNTS: &[Column] = &[
    column("PROFILE", Left, 0),
    column("MODE", Left, 3),
    column("UNSAVED", Right, 1),
    column("FETCHED", Right, 4),
    column("LOCK", Right, 5),
    column("MOUNTPOINT", Left, 2),
    column("PROBLEM", Left, 6),
    column("COMMAND", Left, 9),
];
const SESSIONS: &[Column] = &[
    column("PROFILE", Left, 0),
    column("STATE", Left, 1),
    column("AGE", Right, 2),
    column("CHANGED", Right, 4),
    column("HOST", Left, 3),
    column("SESSION", Left, 5),
    column("COMMAND", Left, 9),
];
const RATES: &[Column] = &[column("COUNTED", Left, 0), column("TOTAL", Right, 2), column("RATE", Right, 1)];

/// A row of a pane.
#[derive(Clone, Debug)]
pub(super) struct PaneRow {
    pub(super) cells: Vec<String>,
    /// Acts on what the row shows; empty if there is nothing to do.
    pub(super) command: String,
    /// Whether somebody should look at it.
    pub(super) is_bad: bool,
}

/// See the module header.
#[derive(Clone, Debug)]
pub(super) struct Pane {
    pub(super) title: String,
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<PaneRow>,
    pub(super) problems: Vec<String>,
    /// What stands in the place of rows if there are none.
    pub(super) empty: &'static str,
}

/// The panes of a moment, with the rows that have `filter` in them.
pub(super) fn panes(seen: &TopOutcome, filter: &str, now_ms: u64) -> [Pane; 4] {
    TopPart::ALL.map(|part| pane(seen, part, filter, now_ms))
}

fn pane(seen: &TopOutcome, part: TopPart, filter: &str, now_ms: u64) -> Pane {
    let (name, columns, empty, mut rows): (_, _, _, Vec<PaneRow>) = match part {
        TopPart::Locks => {
            let rows = seen.locks.iter().map(|lock| lock_row(lock, now_ms)).collect();
            ("Runs and locks", LOCKS, "no profile is locked: no run is under way", rows)
        }
        TopPart::Mounts => {
            let rows = seen.mounts.iter().map(|mount| mount_row(mount, now_ms)).collect();
            ("Mounts", MOUNTS, "nothing is mounted", rows)
        }
        TopPart::Sessions => (
            "Sessions",
            SESSIONS,
            "no session was left behind",
            seen.sessions.iter().map(session_row).collect(),
        ),
        TopPart::Rates => ("Rates", RATES, "nothing is counted", seen.rates.iter().map(rate_row).collect()),
    };
    let all = match part {
        TopPart::Locks => seen.total_locks as usize,
        _ => rows.len(),
    };
    let wanted = filter.to_lowercase();
    rows.retain(|row| row.cells.iter().any(|cell| cell.to_lowercase().contains(&wanted)));
    let title = match rows.len() {
        shown if shown == all => format!("{name}: {all}"),
        shown => format!("{name}: {shown} of {all}"),
    };
    let problems = seen.problems.iter().filter(|problem| problem.part == part).map(|problem| {
        let hint = problem.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        escape::line(&format!("{}{hint}", problem.message)).into_owned()
    });
    let empty = if filter.is_empty() { empty } else { "no row has what you look for" };
    Pane { title, columns, rows, problems: problems.collect(), empty }
}

/// A row whose last cell is the command. Cells may hold what others have written.
fn row(mut cells: Vec<String>, command: &str, is_bad: bool) -> PaneRow {
    cells.push(command.to_owned());
    let cells = cells.iter().map(|cell| escape::line(cell).into_owned()).collect();
    PaneRow { cells, command: escape::line(command).into_owned(), is_bad }
}

fn lock_row(TopLock { held, command }: &TopLock, now_ms: u64) -> PaneRow {
    let (lineage, lock) = (&held.lineage, &held.lock);
    let is_over = lock.state == LockState::Expired || lock.expires_at_ms <= now_ms;
    let left = match is_over {
        true => "expired".to_owned(),
        false => short(lock.expires_at_ms - now_ms),
    };
    let cells = vec![
        format!("{}/{}", lineage.tenant_id, lineage.profile_id),
        lock.holder_run_id.clone(),
        lock.holder_host.clone(),
        left,
        short(now_ms.saturating_sub(lock.acquired_at_ms)),
        size::count(lock.renewal_count),
    ];
    row(cells, command, is_over)
}

fn mount_row(mount: &TopMount, now_ms: u64) -> PaneRow {
    let none = || "-".to_owned();
    let cells = vec![
        profile(mount.tenant_id.as_deref(), mount.profile_id.as_deref()),
        mount.mode.map_or_else(none, |mode| mode.as_str().to_owned()),
        mount.dirty_bytes.map_or_else(none, size::bytes),
        mount.fetched_bytes.map_or_else(none, size::bytes),
        mount.lock_expires_at_ms.map_or_else(none, |end| short(end.saturating_sub(now_ms))),
        mount.mountpoint.as_ref().map_or_else(none, |place| place.display().to_string()),
        mount.problem.clone().unwrap_or_else(none),
    ];
    row(cells, &mount.command, mount.problem.is_some())
}

fn session_row(session: &TopSession) -> PaneRow {
    let none = || "-".to_owned();
    let cells = vec![
        profile(session.tenant_id.as_deref(), session.profile_id.as_deref()),
        session.state.clone(),
        session.age_ms.map_or_else(none, short),
        session.dirty_bytes.map_or_else(none, size::bytes),
        session.host.clone().unwrap_or_else(none),
        session.session.clone(),
    ];
    row(cells, &session.command, session.state == "unreadable")
}

fn rate_row(rate: &TopRate) -> PaneRow {
    let (total, speed) = match rate.is_bytes {
        true => {
            let speed = rate.per_second.map(|speed| format!("{}/s", size::bytes(speed.round() as u64)));
            (size::bytes(rate.total as u64), speed)
        }
        false => {
            let speed = rate.per_second.map(|speed| format!("{:.1}/min", speed * 60.0));
            (size::count(rate.total as u64), speed)
        }
    };
    let cells = vec![rate.name.clone(), total, speed.unwrap_or_else(|| "-".to_owned())];
    PaneRow { cells, command: String::new(), is_bad: false }
}

fn profile(tenant: Option<&str>, profile: Option<&str>) -> String {
    match (tenant, profile) {
        (Some(tenant), Some(profile)) => format!("{tenant}/{profile}"),
        _ => "-".to_owned(),
    }
}

/// A time in its two largest units.
fn short(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_two_units() {
        for (ms, text) in [
            (0, "0 s"),
            (59_999, "59 s"),
            (61_000, "1 m 1 s"),
            (7_260_000, "2 h 1 m"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(short(ms), text);
        }
    }

    #[test]
    fn a_column_has_a_cell_in_every_row_and_a_rank_of_its_own() {
        for columns in [LOCKS, MOUNTS, SESSIONS, RATES] {
            let mut ranks: Vec<u8> = columns.iter().map(|column| column.rank).collect();
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), columns.len());
        }
        let seen = crate::top::draw_tests::seen();
        for pane in panes(&seen, "", 0) {
            assert!(!pane.rows.is_empty(), "{}", pane.title);
            for row in &pane.rows {
                assert_eq!(row.cells.len(), pane.columns.len(), "{}", pane.title);
            }
        }
    }
}
