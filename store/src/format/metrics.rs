//! `metrics` reads and writes the counts of programs: reports, one for each program that ended, and the
//! totals that a server folds them into.
//!
//! Both are hints for people: nothing that keeps data safe depends on them. A counter or a bucket is a count since the
//! beginning, a sum is in whole units (bytes, or microseconds), and the newer of two gauges is the right one.

use serde::{Deserialize, Serialize};

use super::{FormatError, MAJOR, MINOR, Result, Unknown, WRITER, document, json::MAX_INTEGER, limits};
use crate::id::ReportId;

/// The value of a report's field `schema`.
pub const REPORT_SCHEMA: &str = "pstore.metrics-report";
/// The value of the totals' field `schema`.
pub const TOTALS_SCHEMA: &str = "pstore.metrics-totals";
/// So many labels a series may have.
const MAX_LABELS: usize = 8;
/// So many bytes a name or the value of a label may have.
const MAX_TEXT_BYTES: usize = 256;
/// So many buckets a histogram may have.
const MAX_BUCKETS: usize = 64;

/// One series: its family, the values of its labels in the order of the family, and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// The name of the family.
    pub name: String,
    /// The values of its labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Its value.
    #[serde(flatten)]
    pub value: SeriesValue,
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeriesValue {
    /// A count that only grows.
    Counter(u64),
    /// A value that replaces older ones.
    Gauge {
        /// The value.
        value: u64,
        /// When it was true, by the clock of its host.
        at_ms: u64,
    },
    /// How many observations were of which size.
    Histogram {
        /// The observations of each bucket, without those of smaller ones; the last has no upper end.
        buckets: Vec<u64>,
        /// The sum of all observations.
        sum: u64,
    },
}

impl SeriesValue {
    /// Adds the counts of another report. One of another kind, or with other buckets, is not the same series,
    /// and is left out.
    pub fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Counter(own), Self::Counter(more)) => *own = sum(*own, *more),
            (Self::Gauge { value, at_ms }, Self::Gauge { value: later, at_ms: at }) if at >= at_ms => {
                (*value, *at_ms) = (*later, *at);
            }
            (Self::Histogram { buckets, sum: all }, Self::Histogram { buckets: more, sum: of_more })
                if buckets.len() == more.len() =>
            {
                buckets.iter_mut().zip(more).for_each(|(own, more)| *own = sum(*own, *more));
                *all = sum(*all, *of_more);
            }
            _ => {}
        }
    }

    /// Whether it says nothing yet.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Counter(count) => *count == 0,
            Self::Gauge { at_ms, .. } => *at_ms == 0,
            Self::Histogram { buckets, .. } => buckets.iter().all(|count| *count == 0),
        }
    }
}

/// A document holds no larger number.
fn sum(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(MAX_INTEGER)
}

/// `operations/metrics/reports/<ulid>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsReport {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`REPORT_SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// Names the report: the name of the key.
    pub id: ReportId,
    /// The counts since the report before.
    pub series: Vec<Series>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl MetricsReport {
    /// A report with these series.
    pub fn new(id: ReportId, series: Vec<Series>) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: REPORT_SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            id,
            series,
            unknown: Unknown::new(),
        }
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::METRICS_REPORT)?;
        document::check_schema(&fields, REPORT_SCHEMA)?;
        let report: Self = document::typed(fields)?;
        check(&report.series)?;
        Ok(report)
    }
}

/// A report that is part of the totals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedReport {
    /// The report.
    pub id: ReportId,
    /// When it was folded, by the clock of the server's host.
    pub at_ms: u64,
}

/// `operations/metrics/totals.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricsTotals {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`TOTALS_SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// Counts the writes.
    pub revision: u64,
    /// The reports that are counted and whose objects may still be there.
    pub folded: Vec<FoldedReport>,
    /// The counts of all reports together.
    pub series: Vec<Series>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Default for MetricsTotals {
    fn default() -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: TOTALS_SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            revision: 0,
            folded: Vec::new(),
            series: Vec::new(),
            unknown: Unknown::new(),
        }
    }
}

impl MetricsTotals {
    /// Whether a report is counted.
    pub fn has(&self, id: ReportId) -> bool {
        self.folded.iter().any(|folded| folded.id == id)
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::METRICS_TOTALS)?;
        document::check_schema(&fields, TOTALS_SCHEMA)?;
        let totals: Self = document::typed(fields)?;
        check(&totals.series)?;
        Ok(totals)
    }
}

/// A series that would cost its readers more than it may is refused.
fn check(series: &[Series]) -> Result<()> {
    for each in series {
        let texts = std::iter::once(&each.name).chain(&each.labels);
        let buckets = match &each.value {
            SeriesValue::Histogram { buckets, .. } => buckets.len(),
            _ => 0,
        };
        if each.labels.len() > MAX_LABELS
            || buckets > MAX_BUCKETS
            || texts.into_iter().any(|text| text.len() > MAX_TEXT_BYTES)
        {
            return Err(FormatError::malformed("a series is longer than it may be"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, value: SeriesValue) -> Series {
        Series { name: name.to_owned(), labels: vec!["success".to_owned()], value }
    }

    fn all() -> Vec<Series> {
        vec![
            series("a_total", SeriesValue::Counter(3)),
            series("b_bytes", SeriesValue::Gauge { value: 7, at_ms: 9 }),
            series("c_seconds", SeriesValue::Histogram { buckets: vec![1, 0, 2], sum: 12 }),
        ]
    }

    #[test]
    fn reports_and_totals_are_read_as_they_were_written() {
        let report = MetricsReport::new(ReportId::from_parts(1, [2; 10]), all());
        assert_eq!(MetricsReport::decode(&report.encode()).unwrap(), report);
        let folded = vec![FoldedReport { id: report.id, at_ms: 5 }];
        let totals = MetricsTotals { revision: 4, folded, series: all(), ..MetricsTotals::default() };
        let read = MetricsTotals::decode(&totals.encode()).unwrap();
        assert_eq!(read, totals);
        assert!(read.has(report.id) && !read.has(ReportId::from_parts(2, [2; 10])));
        MetricsReport::decode(&totals.encode()).unwrap_err();
        MetricsTotals::decode(&report.encode()).unwrap_err();
    }

    #[test]
    fn what_is_longer_than_it_may_be_is_refused() {
        let id = ReportId::from_parts(1, [2; 10]);
        for bad in [
            Series { labels: vec![String::new(); MAX_LABELS + 1], ..all().remove(0) },
            series(&"x".repeat(MAX_TEXT_BYTES + 1), SeriesValue::Counter(1)),
            series("x", SeriesValue::Histogram { buckets: vec![0; MAX_BUCKETS + 1], sum: 0 }),
        ] {
            MetricsReport::decode(&MetricsReport::new(id, vec![bad]).encode()).unwrap_err();
        }
    }

    #[test]
    fn counts_are_added_and_the_newer_gauge_is_taken() {
        let add = |mut one: SeriesValue, other: SeriesValue| {
            one.add(&other);
            one
        };
        assert_eq!(add(SeriesValue::Counter(3), SeriesValue::Counter(4)), SeriesValue::Counter(7));
        assert_eq!(
            add(SeriesValue::Counter(MAX_INTEGER), SeriesValue::Counter(4)),
            SeriesValue::Counter(MAX_INTEGER)
        );
        let gauge = |value, at_ms| SeriesValue::Gauge { value, at_ms };
        assert_eq!(add(gauge(1, 5), gauge(2, 4)), gauge(1, 5));
        assert_eq!(add(gauge(1, 5), gauge(2, 6)), gauge(2, 6));
        let histogram = |buckets: &[u64], sum| SeriesValue::Histogram { buckets: buckets.to_vec(), sum };
        assert_eq!(add(histogram(&[1, 2], 3), histogram(&[4, 5], 6)), histogram(&[5, 7], 9));
        // One with other buckets cannot be added.
        assert_eq!(add(histogram(&[1, 2], 3), histogram(&[4], 6)), histogram(&[1, 2], 3));
        assert_eq!(add(SeriesValue::Counter(1), gauge(2, 6)), SeriesValue::Counter(1));
    }
}
