//! `mounts` turns the arguments of `pstore mounts` into a request, and its outcome into text.

use engine::{
    failure::Failure,
    settings::Settings,
    text::{escape, size, time},
    verbs::mounts::{self, ListedMount, MountsOutcome, MountsRequest, UnansweredMount},
};
use fuse::mount::status::Status;

use crate::{
    answer::Answer,
    table::{Align, Table},
};

/// How many columns the table has.
const COLUMNS: usize = 9;

pub(super) async fn run(settings: &Settings) -> Result<Answer, Failure> {
    let outcome = mounts::mounts(settings, &MountsRequest {}).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &MountsOutcome) -> String {
    if outcome.mounts.is_empty() {
        return "nothing is mounted\n".to_owned();
    }
    let mut table = Table::new(&[
        ("MOUNTPOINT", Align::Left),
        ("PROFILE", Align::Left),
        ("SNAPSHOT", Align::Left),
        ("MODE", Align::Left),
        ("DIRTY", Align::Right),
        ("FETCHED", Align::Right),
        ("HITS", Align::Right),
        ("locked until", Align::Left),
        ("PID", Align::Right),
    ]);
    for mount in &outcome.mounts {
        table.row(match mount {
            ListedMount::Served(mount) => served(&mount.status),
            ListedMount::Unanswered(mount) => unanswered(mount),
            ListedMount::Unknown(_) => unknown(),
        });
    }
    let mut text = table.render();
    for (session, problem) in outcome.mounts.iter().filter_map(ListedMount::problem) {
        text.push_str(&format!("session {session} is unreadable: {}\n", escape::line(problem)));
    }
    text
}

fn served(status: &Status) -> Vec<String> {
    let none = || "-".to_owned();
    let lock = match &status.lock {
        _ if status.lock_lost => "lock_lost".to_owned(),
        Some(lock) => time::utc(lock.expires_at_ms),
        None => none(),
    };
    vec![
        status.mountpoint.display().to_string(),
        format!("{}/{}", status.tenant_id, status.profile_id),
        status.sha256_prefix.clone().unwrap_or_else(none),
        status.mode.as_str().to_owned(),
        size::bytes(status.dirty_bytes),
        size::bytes(status.fetched_bytes),
        status.cache_hit_ratio.map_or_else(none, |ratio| format!("{:.0} %", ratio * 100.0)),
        lock,
        status.pid.to_string(),
    ]
}

fn unanswered(mount: &UnansweredMount) -> Vec<String> {
    let none = || "-".to_owned();
    vec![
        mount.mountpoint.display().to_string(),
        format!("{}/{}", mount.tenant_id, mount.profile_id),
        none(),
        mount.mode.as_str().to_owned(),
        none(),
        none(),
        none(),
        none(),
        mount.pid.to_string(),
    ]
}

/// Nothing is known of it: of a name that is not known the halves are.
fn unknown() -> Vec<String> {
    let none = || "-".to_owned();
    let mut row = vec![none(), "-/-".to_owned()];
    row.resize_with(COLUMNS, none);
    row
}
