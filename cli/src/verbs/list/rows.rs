//! `rows` makes rows of a table from snapshots: ours, and the archives of other programs.

use capture::examiner::LOGGED_OUT;
use engine::{
    text::{size, time},
    verbs::list::{SnapshotList, SnapshotRow},
};

use crate::table::{
    Align::{Left, Right},
    Table,
};

const ANOTHERS: &str = "archive of another program";
const UNKNOWN: &str = "-";
const SHOWN_DIGITS: usize = 12;

pub(super) fn table(list: &SnapshotList) -> String {
    let mut table = Table::new(&[
        (" ", Left),
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("NEW", Right),
        ("STORED", Right),
        ("MODE", Left),
        ("CHROME", Right),
        ("REASON", Left),
        ("STATE", Left),
        ("LABELS", Left),
    ]);
    list.snapshots.iter().for_each(|row| table.row(cells(row)));
    table.render()
}

fn cells(row: &SnapshotRow) -> Vec<String> {
    let unknown = || UNKNOWN.to_owned();
    let tags = row.tags.iter().map(|tag| format!("#{tag}"));
    let labels = row.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let labels: Vec<String> = tags.chain(labels).collect();
    vec![
        if row.latest { "*" } else { " " }.to_owned(),
        time::utc(row.captured_at_ms),
        shown_id(row),
        size::bytes(row.uncompressed_size_bytes),
        row.new_bytes.map_or_else(unknown, size::bytes),
        size::bytes(row.stored_bytes),
        row.mode.as_str().to_owned(),
        row.chrome_major_version.to_string(),
        row.reason.as_ref().map_or_else(unknown, |reason| reason.as_str().to_owned()),
        if row.foreign { ANOTHERS.to_owned() } else { state(row) },
        labels.join(" "),
    ]
}

/// The id does not change when an archive of the snapshot is published: the archive's is told beside.
fn shown_id(row: &SnapshotRow) -> String {
    match &row.snapshot_id {
        Some(id) => id.to_string().chars().take(SHOWN_DIGITS).collect(),
        None => row.sha256_prefix.clone(),
    }
}

/// What sets a snapshot apart from others.
fn state(row: &SnapshotRow) -> String {
    let missing = row.expectation.missing_names();
    let held_back = row.held_back.as_ref().map(|word| match &missing {
        Some(missing) if word == LOGGED_OUT => format!("held back ({word}: {missing})"),
        _ => format!("held back ({word})"),
    });
    let logged_out = missing.filter(|_| row.held_back.as_deref() != Some(LOGGED_OUT));
    let logged_out = logged_out.map(|missing| format!("{LOGGED_OUT}: {missing}"));
    let damaged = row.damaged.then(|| "damaged".to_owned());
    let published = row.published.then(|| format!("published as {}", row.sha256_prefix));
    let parts: Vec<String> = [held_back, logged_out, damaged, published].into_iter().flatten().collect();
    parts.join(", ")
}
