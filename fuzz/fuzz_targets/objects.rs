//! `objects` fuzzes the readers of what is in the bucket.

use std::{hint::black_box, path::Path};

use store::{
    bucket::{Key, Prefix},
    format::{
        frame::{self, Codec},
        metrics::{FoldedReport, MetricsReport, MetricsTotals, Series, SeriesValue},
        record::Record,
        segment::SegmentReader,
        startup::Startup,
        table,
    },
    id::ReportId,
};

pub(super) fn read_tree(bytes: &[u8]) {
    let mut entries = 0;
    drop(black_box(SegmentReader::default().read(bytes, |_| entries += 1)));
    // No entry is shorter than its kind, its path and what follows.
    assert!(entries <= bytes.len() / 4, "{entries} entries of {} bytes", bytes.len());
}

/// Of as many chunks as the vectors have, and of few.
pub(super) fn read_table(bytes: &[u8]) {
    for expected in [0, 1, 2, bytes.len() / 3, usize::MAX] {
        drop(black_box(table::decode(bytes, expected)));
    }
}

pub(super) fn read_frame(bytes: &[u8]) {
    for length in [0, 1, 64, 255, 65_792, 131_073, 16 << 20] {
        for codec in [Codec::Raw, Codec::Zstd] {
            drop(black_box(frame::decode(codec, bytes, length)));
        }
    }
}

/// What is understood is understood again when it is written.
pub(super) fn read_record(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        let again = Record::decode(&record.encode()).unwrap();
        assert_eq!(format!("{record:?}"), format!("{again:?}"));
    }
}

fn series() -> Vec<Series> {
    let series =
        |name: &str, value| Series { name: name.to_owned(), labels: vec!["success".to_owned()], value };
    vec![
        series("mantis_profile_snapshot_total", SeriesValue::Counter(3)),
        series("pstore_active_mounts", SeriesValue::Gauge { value: 7, at_ms: 9 }),
        series("pstore_lock_wait_seconds", SeriesValue::Histogram { buckets: vec![1, 0, 2], sum: 12 }),
    ]
}

pub(super) fn metrics_reports() -> Vec<Vec<u8>> {
    vec![MetricsReport::new(ReportId::from_parts(1, [2; 10]), series()).encode()]
}

pub(super) fn metrics_totals() -> Vec<Vec<u8>> {
    let folded = vec![FoldedReport { id: ReportId::from_parts(1, [2; 10]), at_ms: 5 }];
    vec![MetricsTotals { folded, series: series(), ..MetricsTotals::default() }.encode()]
}

pub(super) fn startups() -> Vec<Vec<u8>> {
    [&b"[[0,3],[7,1]]"[..], b"[]", b"null", b"[[9007199254740991,9007199254740991]]"].map(Into::into).into()
}

pub(super) fn read_startup(bytes: &[u8]) {
    if let Ok(startup) = serde_json::from_slice::<Startup>(bytes) {
        let named = startup.chunks(1000).filter(|chunk| *chunk < 1000).count();
        assert!(named <= 1000 * startup.runs().len());
    }
}

pub(super) fn keys() -> Vec<Vec<u8>> {
    [&b"content/acme/packs/01JED0YH00248H248H248H248H-00000"[..], b"a/../b", b"/", b""].map(Into::into).into()
}

/// A key that is taken stays below where it is put.
pub(super) fn read_key(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    drop(black_box(Prefix::new(text.clone())));
    if Key::new(text.clone()).is_ok() {
        let plain = |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        assert!(Path::new(&text).components().all(|part| plain(&part)), "{text:?}");
    }
}
