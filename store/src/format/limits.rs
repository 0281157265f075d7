//! Bounds how many bytes an object of each kind may have.
//!
//! A reader of an object states its kind, and a bucket takes no more than that kind's bound
//! into memory: an object that a tenant has put in its place, however large, costs its readers no more than
//! a refusal. Writers stay below. Packs and archives are read in ranges and have no bound here.
//!
//! Section 14 of `format-spec/README.md` says the same; a test compares the two.

const MIB: u64 = 1 << 20;

/// `pstore.json` and `tenant.json`.
pub const CONFIG: u64 = MIB;
/// `latest.json`.
pub const POINTER: u64 = MIB;
/// `lock.json`.
pub const LOCK: u64 = MIB;
/// Of readers, and the roots of sessions.
pub const PIN: u64 = MIB;
pub(crate) const EVENT: u64 = MIB;
/// `expectations.json`.
pub(crate) const EXPECTATIONS: u64 = MIB;
/// A job of a server. An outcome that does not fit is left out.
pub const JOB: u64 = 2 * MIB;
/// When work was last done that is due again and again.
pub const SCHEDULE: u64 = MIB;
/// One program's report of its counts.
pub const METRICS_REPORT: u64 = MIB;
/// The total counts of all programs.
pub const METRICS_TOTALS: u64 = 16 * MIB;
/// Writers begin another one long before.
pub(crate) const MERGED_EVENTS: u64 = 8 * MIB;
/// A record.
pub const RECORD: u64 = 8 * MIB;
/// A document of a collection.
pub const CONDEMNED: u64 = 8 * MIB;
/// The tombstone of a profile.
pub const TOMBSTONE: u64 = MIB;
/// `wip.json`, which names the work in progress of a lineage.
pub const WORK_IN_PROGRESS: u64 = MIB;
/// Of an archive.
pub const MANIFEST: u64 = MIB;
/// A write that has more to tell writes several.
pub const INDEX: u64 = 128 * MIB;

/// Each kind as the specification calls it.
pub const ALL: [(&str, u64); 17] = [
    ("configuration", CONFIG),
    ("pointer", POINTER),
    ("lock", LOCK),
    ("pin", PIN),
    ("event", EVENT),
    ("expectations", EXPECTATIONS),
    ("job", JOB),
    ("schedule", SCHEDULE),
    ("metrics report", METRICS_REPORT),
    ("metrics totals", METRICS_TOTALS),
    ("merged events", MERGED_EVENTS),
    ("record", RECORD),
    ("condemned", CONDEMNED),
    ("tombstone", TOMBSTONE),
    ("work in progress", WORK_IN_PROGRESS),
    ("manifest", MANIFEST),
    ("index", INDEX),
];

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIFIED: &str = include_str!("../../../format-spec/README.md");

    #[test]
    fn the_specification_names_the_same_bounds() {
        for (kind, bytes) in ALL {
            let row = format!("\n| {kind} | {} MiB |\n", bytes / MIB);
            assert!(SPECIFIED.contains(&row), "{row}");
        }
    }
}
