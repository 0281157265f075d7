//! These tests follow chains of snapshots to every kind of end.

use serde_json::json;

use super::*;
use crate::id::ChunkKey;

fn id(number: u8) -> RecordId {
    RecordId::from_bytes([number; 16])
}

fn record(number: u8, parent: Option<u8>, state: &str) -> Record {
    let predecessor = parent.map(|parent| format!("{parent:02x}").repeat(32)).unwrap_or_default();
    let fields = json!({
        "version": 1,
        "schema": "computer-plane.profile-snapshot",
        "tenant_id": "acme",
        "profile_id": "alice",
        "chrome_major_version": 131,
        "archive_sha256": null,
        "archive_size_bytes": null,
        "uncompressed_size_bytes": 0,
        "captured_at_ms": 0,
        "captured_by": { "host": "", "host_run_id": "", "writer_version": "" },
        "mode": "cold",
        "chrome_uptime_seconds_at_capture": 0,
        "predecessor_sha256": predecessor,
        "notes": "",
        "record": id(number),
        "minor": 0,
        "writer": "",
        "state": state,
        "generation": 0,
        "chunk_key": ChunkKey::from_bytes([0; 32]),
        "hash": "",
        "parent": parent.map(id),
        "reason": "manual",
        "counts": {
            "files": 0, "directories": 0, "symlinks": 0, "hard_links": 0, "skipped": 0,
            "chunks": 0, "new_chunks": 0, "new_bytes": 0, "stored_bytes": 0,
        },
        "content": null,
        "complete": true,
    });
    serde_json::from_value(fields).unwrap()
}

fn walk(start: Record, others: Vec<Record>) -> (Vec<RecordId>, Stop) {
    let known = others.into_iter().chain([start.clone()]).map(|record| (record.record, record)).collect();
    let (records, stop) = chain(start, known);
    (records.iter().map(|record| record.record).collect(), stop)
}

#[test]
fn a_chain_is_followed_to_the_first_snapshot() {
    let others = vec![record(1, None, "live"), record(2, Some(1), "live"), record(4, Some(2), "live")];
    let (found, stop) = walk(record(3, Some(2), "live"), others);
    assert_eq!(found, [id(3), id(2), id(1)]);
    assert!(matches!(stop, Stop::At(End::First)));
}

#[test]
fn deleted_snapshots_are_passed_while_their_records_are_there() {
    let others = vec![record(1, None, "live"), record(2, Some(1), "tombstone")];
    let (found, stop) = walk(record(3, Some(2), "live"), others);
    assert_eq!(found, [id(3), id(2), id(1)]);
    assert!(matches!(stop, Stop::At(End::First)));
    let (found, stop) = walk(record(3, Some(2), "live"), vec![record(1, None, "live")]);
    assert_eq!(found, [id(3)]);
    assert!(matches!(stop, Stop::Unknown { record, .. } if record == id(2)));
}

#[test]
fn what_was_never_finished_is_no_predecessor() {
    let (found, stop) = walk(record(3, Some(2), "live"), vec![record(2, None, "revoked")]);
    assert_eq!(found, [id(3)]);
    assert!(matches!(stop, Stop::At(End::Unreadable { record, .. }) if record == id(2)));
}

#[test]
fn another_programs_archive_ends_a_chain() {
    let sha256 = "ab".repeat(32);
    let start = Record { predecessor_sha256: sha256.clone(), ..record(1, None, "live") };
    let (_, stop) = walk(start, Vec::new());
    assert!(matches!(stop, Stop::At(End::Foreign { sha256: found }) if found == sha256));
}

#[test]
fn a_chain_that_bites_its_tail_ends() {
    let others = vec![record(1, Some(3), "live"), record(2, Some(1), "live")];
    let (found, stop) = walk(record(3, Some(2), "live"), others);
    assert_eq!(found, [id(3), id(2), id(1)]);
    assert!(matches!(stop, Stop::At(End::Cycle { record }) if record == id(3)));
    let (found, stop) = walk(record(1, Some(1), "live"), Vec::new());
    assert_eq!(found, [id(1)]);
    assert!(matches!(stop, Stop::At(End::Cycle { .. })));
}
