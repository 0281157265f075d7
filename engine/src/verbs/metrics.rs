//! `metrics` shows what the commands of this host have counted. It needs no store.

use schemars::JsonSchema;
use serde::Serialize;
use store::{catalog::clock, format::metrics::SeriesValue};

use crate::{
    metrics::{self, Bounds, Counts, FAMILIES, Family, FamilyKind, Format, Textfile},
    outcome::Outcome,
    settings::Settings,
};

/// Asks what the commands of this host have counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct MetricsRequest {}

/// The kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// A count that only grows.
    Counter,
    /// A value that replaces older ones.
    Gauge,
    /// How many observations were of which size.
    Histogram,
}

/// What the commands of this host have counted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MetricsOutcome {
    /// The directory of the textfile, if one is set. Without it nothing is kept from one command to the next.
    pub textfile: Option<String>,
    /// Each metric.
    pub metrics: Vec<MetricFields>,
    /// The same as text for Prometheus.
    #[serde(skip)]
    pub text: String,
}

impl Outcome for MetricsOutcome {}

/// A metric.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MetricFields {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: MetricKind,
    /// A sentence about it.
    pub help: String,
    /// Its series.
    pub series: Vec<SeriesFields>,
}

/// A series.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SeriesFields {
    /// Its labels.
    pub labels: Vec<LabelFields>,
    /// Its value; of a histogram, the sum of all observations.
    pub value: f64,
    /// Of a histogram, how many observations there were.
    pub count: Option<u64>,
}

/// A label.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LabelFields {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Settings {
    /// Shows what the commands of this host have counted.
    pub fn show_metrics(&self, _: &MetricsRequest) -> MetricsOutcome {
        let host = self.host_name().unwrap_or_default();
        let bounds = Bounds { profiles: self.metrics_profiles(), now_ms: clock::unix_ms() };
        let (gauges, directory) = (metrics::of_host(self), self.metrics_textfile());
        let told = match &directory {
            Some(directory) => Textfile::new(directory).told(&gauges, &host, &bounds),
            None => {
                let mut zeros = Counts::zeros(&host);
                zeros.add(&gauges, &bounds);
                zeros
            }
        };
        MetricsOutcome {
            textfile: directory.map(|directory| directory.to_string_lossy().into_owned()),
            metrics: FAMILIES.iter().filter_map(|family| metric(family, &told)).collect(),
            text: metrics::text(&told, Format::Text),
        }
    }
}

/// A metric as it is shown; none if it has no series.
fn metric(family: &Family, told: &Counts) -> Option<MetricFields> {
    let series: Vec<SeriesFields> =
        told.of(family).map(|(labels, value)| series(family, labels, value)).collect();
    (!series.is_empty()).then(|| MetricFields {
        name: family.name.to_owned(),
        kind: match family.kind {
            FamilyKind::Counter => MetricKind::Counter,
            FamilyKind::Gauge => MetricKind::Gauge,
            FamilyKind::Histogram(_) => MetricKind::Histogram,
        },
        help: family.help.to_owned(),
        series,
    })
}

fn series(family: &Family, labels: &[String], value: &SeriesValue) -> SeriesFields {
    let named = family.labels.iter().zip(labels);
    let (value, count) = match value {
        SeriesValue::Counter(value) | SeriesValue::Gauge { value, .. } => (*value, None),
        SeriesValue::Histogram { buckets, sum } => (*sum, Some(buckets.iter().sum())),
    };
    SeriesFields {
        labels: named
            .map(|(label, value)| LabelFields { name: label.name.to_owned(), value: value.clone() })
            .collect(),
        value: family.unit.told(value),
        count,
    }
}
