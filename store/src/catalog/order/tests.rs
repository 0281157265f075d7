//! These tests order snapshots by wrong clocks, parents, and chains without an end.

use std::time::{Duration, SystemTime};

use super::*;

const DAY_MS: u64 = 86_400_000;
const NOW_DAY: u64 = 1000;

fn at(day: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(day * DAY_MS)
}

fn id(n: u8) -> RecordId {
    RecordId::from_parts(n.into(), [n; 10])
}

/// The `n`th record, on top of another, captured on a day by its host's clock.
fn record(n: u8, parent: Option<u8>, captured: u64) -> Record {
    let bytes = include_bytes!("../../../../format-spec/vectors/records/moved.json");
    let mut record = Record::decode(bytes).unwrap();
    (record.record, record.parent, record.captured_at_ms) = (id(n), parent.map(id), captured * DAY_MS);
    record.stored_at_ms = None;
    record
}

/// As a pstore writes it that knows the store's clock.
fn stored(n: u8, parent: Option<u8>, captured: u64, stored: u64) -> (Record, Stamp) {
    let record = Record { stored_at_ms: Some(stored * DAY_MS), ..record(n, parent, captured) };
    (record, Stamp { modified: at(NOW_DAY), now: at(NOW_DAY) })
}

/// As an earlier pstore has written it, which was replaced last on a day.
fn earlier(n: u8, parent: Option<u8>, captured: u64, modified: u64) -> (Record, Stamp) {
    (record(n, parent, captured), Stamp { modified: at(modified), now: at(NOW_DAY) })
}

fn order(read: Vec<(Record, Stamp)>) -> Vec<u8> {
    dated(read).iter().map(|dated| dated.record.record.to_bytes()[15]).collect()
}

fn ages(read: Vec<(Record, Stamp)>) -> Vec<u64> {
    dated(read).iter().map(|dated| NOW_DAY - dated.stored_at_ms / DAY_MS).collect()
}

#[test]
fn what_the_store_says_counts_and_not_what_a_host_says() {
    let read = vec![stored(3, None, 995, 995), stored(2, None, 1040, 994), stored(1, None, 900, 996)];
    assert_eq!(order(read.clone()), [2, 3, 1]);
    assert_eq!(ages(read), [6, 5, 4]);
    assert_eq!(ages(vec![stored(1, None, 5, 4000)]), [0], "nothing is younger than new");
}

#[test]
fn a_snapshot_comes_after_what_it_was_built_on() {
    // All in the same second, and by hosts that know nothing of the store's clock.
    let same = vec![stored(1, Some(2), 9, 9), stored(2, Some(3), 9, 9), stored(3, None, 9, 9)];
    assert_eq!(order(same), [3, 2, 1]);
    let behind =
        vec![earlier(1, Some(2), 950, 990), earlier(2, None, 980, 990), earlier(3, Some(1), 985, 990)];
    assert_eq!(order(behind), [2, 1, 3]);
    let ahead =
        vec![earlier(1, None, 1030, 999), earlier(2, Some(1), 991, 992), earlier(3, Some(2), 993, 993)];
    assert_eq!(order(ahead), [1, 2, 3]);
}

#[test]
fn one_of_an_earlier_pstore_is_as_young_as_any_of_its_times_says() {
    // Captured on a host that was behind; replaced since; on one that was ahead; with a lost time.
    let read = vec![
        earlier(1, None, 950, 990),
        earlier(2, None, 970, 999),
        earlier(3, None, 1040, 980),
        earlier(4, None, 985, 0),
    ];
    let mut ages: Vec<(RecordId, u64)> = dated(read)
        .iter()
        .map(|dated| (dated.record.record, NOW_DAY - dated.stored_at_ms / DAY_MS))
        .collect();
    ages.sort();
    assert_eq!(ages, [(id(1), 10), (id(2), 1), (id(3), 0), (id(4), 15)]);
}

#[test]
fn a_chain_that_leads_back_into_itself_has_an_end() {
    let read = vec![stored(1, Some(2), 9, 9), stored(2, Some(1), 9, 9), stored(3, Some(3), 9, 9)];
    assert_eq!(dated(read).len(), 3);
}
