//! These tests check that counts of many processes add up, within bounds.

use store::format::metrics::{Series, SeriesValue};

use super::{
    counts::{Bounds, Counts},
    family::{self, CAPTURE_SECONDS, LAST_GOOD_SNAPSHOT, LOADS, SNAPSHOTS},
};

const BOUNDS: Bounds = Bounds { profiles: 3, now_ms: 1_000 };

fn value(counts: &Counts, family: &'static family::Family, labels: &[&str]) -> Option<SeriesValue> {
    let found = counts.of(family).find(|(of, _)| of.iter().eq(labels.iter()));
    found.map(|(_, value)| value.clone())
}

#[test]
fn everything_that_is_known_begins_at_zero() {
    let zeros = Counts::zeros("here");
    assert!(zeros.is_empty());
    assert_eq!(zeros.of(&SNAPSHOTS).count(), 3);
    assert_eq!(zeros.of(&LOADS).count(), 6);
    assert_eq!(value(&zeros, &LOADS, &["sha_mismatch", "here"]), Some(SeriesValue::Counter(0)));
    for family in family::ALL.iter().filter(|family| family.kind != family::FamilyKind::Gauge) {
        let is_of_a_server = family.name.starts_with("pstore_process_");
        assert_eq!(zeros.of(family).count() == 0, is_of_a_server, "{}", family.name);
    }
}

#[test]
fn counts_of_two_processes_add_up_and_survive_a_document() {
    let mut one = Counts::default();
    one.count(&SNAPSHOTS, &["failed", "here"], 2);
    one.observe(&CAPTURE_SECONDS, &["cold"], 10_000);
    one.observe(&CAPTURE_SECONDS, &["cold"], 10_001);
    let mut other = Counts::of_series(one.to_series());
    assert_eq!(other, one);
    other.add(&one, &BOUNDS);
    assert_eq!(value(&other, &SNAPSHOTS, &["failed", "here"]), Some(SeriesValue::Counter(4)));
    let Some(SeriesValue::Histogram { buckets, sum }) = value(&other, &CAPTURE_SECONDS, &["cold"]) else {
        panic!("{other:?}")
    };
    // The upper end belongs to its bucket.
    assert_eq!((buckets[0], buckets[1], sum), (2, 2, 40_002));
}

#[test]
fn the_profiles_that_were_used_last_have_series_and_no_more_than_the_setting_allows() {
    let mut counts = Counts::default();
    for (at, profile) in ["a", "b", "c", "d"].iter().enumerate() {
        let mut more = Counts::default();
        more.set(&LAST_GOOD_SNAPSHOT, &["acme", profile], 1, at as u64);
        counts.add(&more, &BOUNDS);
    }
    let named = |counts: &Counts| -> Vec<String> {
        counts.of(&LAST_GOOD_SNAPSHOT).map(|(labels, _)| labels[1].clone()).collect()
    };
    assert_eq!(named(&counts), ["b", "c", "d"]);
    counts.add(&Counts::default(), &Bounds { profiles: 0, ..BOUNDS });
    assert_eq!(named(&counts), Vec::<String>::new());
}

#[test]
fn a_profile_that_nobody_uses_any_more_is_forgotten() {
    let mut counts = Counts::default();
    counts.set(&LAST_GOOD_SNAPSHOT, &["acme", "a"], 1, 5);
    let in_a_year = Bounds { profiles: 3, now_ms: 365 * 86_400_000 };
    counts.add(&Counts::default(), &in_a_year);
    assert_eq!(counts.of(&LAST_GOOD_SNAPSHOT).count(), 0);
}

#[test]
fn many_hosts_share_a_series() {
    let mut counts = Counts::default();
    for host in 0..300 {
        let mut more = Counts::default();
        more.count(&SNAPSHOTS, &["success", &format!("host-{host}")], 1);
        counts.add(&more, &BOUNDS);
    }
    assert_eq!(counts.of(&SNAPSHOTS).count(), 201);
    assert_eq!(value(&counts, &SNAPSHOTS, &["success", "others"]), Some(SeriesValue::Counter(100)));
}

#[test]
fn what_another_pstore_counts_and_this_one_does_not_know_is_left_out() {
    let series = |name: &str, labels: &[&str], value| Series {
        name: name.to_owned(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        value,
    };
    let counter = || SeriesValue::Counter(1);
    let read = Counts::of_series(vec![
        series("pstore_of_the_future_total", &[], counter()),
        series(SNAPSHOTS.name, &["postponed", "here"], counter()),
        series(SNAPSHOTS.name, &["failed"], counter()),
        series(SNAPSHOTS.name, &["failed", "here"], SeriesValue::Gauge { value: 1, at_ms: 1 }),
        series(CAPTURE_SECONDS.name, &["cold"], SeriesValue::Histogram { buckets: vec![1], sum: 1 }),
        series(SNAPSHOTS.name, &["failed", "here"], counter()),
    ]);
    assert_eq!(read.to_series().len(), 1);
    assert_eq!(value(&read, &SNAPSHOTS, &["failed", "here"]), Some(SeriesValue::Counter(1)));
}
