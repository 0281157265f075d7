//! `codes` gives every kind of failure its exit code and its name in JSON. The table for people is docs/exit-codes.md; a test keeps the two equal.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serializer;
use store::ErrorKind;

/// The exit code of a kind, and its name in JSON. Codes are only ever added.
const fn entry(kind: ErrorKind) -> (u8, &'static str) {
    match kind {
        ErrorKind::Internal => (1, "internal"),
        ErrorKind::InvalidInput => (2, "invalid_input"),
        ErrorKind::NotFound => (3, "not_found"),
        ErrorKind::Ambiguous => (4, "ambiguous"),
        ErrorKind::TargetExists => (5, "target_exists"),
        ErrorKind::Io => (6, "io"),
        ErrorKind::Damaged => (10, "damaged"),
        ErrorKind::UnsupportedFormat => (11, "unsupported_format"),
        ErrorKind::StoreRefused => (12, "store_refused"),
        ErrorKind::Denied => (13, "denied"),
        ErrorKind::Unavailable => (14, "unavailable"),
        ErrorKind::PointerNotFlipped => (20, "pointer_not_flipped"),
        ErrorKind::PointerUnknown => (21, "pointer_unknown"),
        ErrorKind::WriteRevoked => (22, "write_revoked"),
        ErrorKind::SourceChanged => (23, "source_changed"),
        ErrorKind::LockHeld => (24, "lock_held"),
        ErrorKind::LockLost => (25, "lock_lost"),
        ErrorKind::PointerMoved => (26, "pointer_moved"),
        ErrorKind::SnapshotNeeded => (27, "snapshot_needed"),
        ErrorKind::Conflict => (28, "conflict"),
        ErrorKind::HeldBack => (29, "held_back"),
        ErrorKind::NotImplemented => (30, "not_implemented"),
        ErrorKind::ProfileTooLarge => (31, "profile_too_large"),
        ErrorKind::InUse => (32, "in_use"),
        ErrorKind::IntegrityFailed => (33, "integrity_failed"),
        ErrorKind::VersionMismatch => (34, "version_mismatch"),
        ErrorKind::QuotaExceeded => (35, "quota_exceeded"),
        ErrorKind::Repaired => (36, "repaired"),
        ErrorKind::Uncommitted => (37, "uncommitted_changes"),
        ErrorKind::SessionUnreadable => (38, "session_unreadable"),
        ErrorKind::SessionBehind => (39, "session_behind"),
        ErrorKind::TenantsFailed => (40, "tenants_failed"),
        ErrorKind::Deleted => (41, "deleted"),
        ErrorKind::CommandFailed => (42, "command_failed"),
        ErrorKind::Interrupted => (130, "interrupted"),
    }
}

/// The exit code of a kind.
pub const fn code(kind: ErrorKind) -> u8 {
    entry(kind).0
}

/// The name of a kind in JSON.
pub const fn name(kind: ErrorKind) -> &'static str {
    entry(kind).1
}

/// Writes the name of a kind.
pub fn serialize<S: Serializer>(kind: &ErrorKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(name(*kind))
}

/// The names that kinds have.
pub(crate) fn names() -> Vec<&'static str> {
    KINDS.into_iter().map(name).collect()
}

/// A kind is one of these names.
pub fn schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": names() })
}

/// The kind with this name in JSON.
pub fn kind(name: &str) -> Option<ErrorKind> {
    KINDS.into_iter().find(|kind| entry(*kind).1 == name)
}

const KINDS: [ErrorKind; 35] = [
    ErrorKind::Internal,
    ErrorKind::InvalidInput,
    ErrorKind::NotFound,
    ErrorKind::Ambiguous,
    ErrorKind::TargetExists,
    ErrorKind::Io,
    ErrorKind::Damaged,
    ErrorKind::UnsupportedFormat,
    ErrorKind::StoreRefused,
    ErrorKind::Denied,
    ErrorKind::Unavailable,
    ErrorKind::PointerNotFlipped,
    ErrorKind::PointerUnknown,
    ErrorKind::WriteRevoked,
    ErrorKind::SourceChanged,
    ErrorKind::LockHeld,
    ErrorKind::LockLost,
    ErrorKind::PointerMoved,
    ErrorKind::SnapshotNeeded,
    ErrorKind::Conflict,
    ErrorKind::HeldBack,
    ErrorKind::NotImplemented,
    ErrorKind::ProfileTooLarge,
    ErrorKind::InUse,
    ErrorKind::IntegrityFailed,
    ErrorKind::VersionMismatch,
    ErrorKind::QuotaExceeded,
    ErrorKind::Repaired,
    ErrorKind::Uncommitted,
    ErrorKind::SessionUnreadable,
    ErrorKind::SessionBehind,
    ErrorKind::TenantsFailed,
    ErrorKind::Deleted,
    ErrorKind::CommandFailed,
    ErrorKind::Interrupted,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const DOCUMENTED: &str = include_str!("../../../docs/exit-codes.md");

    #[test]
    fn the_table_in_the_manual_is_the_one_in_the_code() {
        let rows = DOCUMENTED.lines().filter_map(|line| {
            let mut cells = line.strip_prefix('|')?.split('|').map(|cell| cell.trim().trim_matches('`'));
            Some((cells.next()?.parse::<u8>().ok()?, cells.next()?))
        });
        let documented: BTreeMap<u8, &str> = rows.collect();
        let mut expected: BTreeMap<u8, &str> = KINDS.iter().map(|kind| entry(*kind)).collect();
        assert_eq!(expected.len(), KINDS.len(), "every kind has a code of its own");
        expected.insert(0, "");
        assert_eq!(documented, expected);
    }
}
