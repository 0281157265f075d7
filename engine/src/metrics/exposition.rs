//! `exposition` writes counts as text for Prometheus: in the classic format, which textfiles have, or as OpenMetrics.

use std::fmt::Write;

use store::format::metrics::SeriesValue;

use super::{
    counts::Counts,
    family::{self, Family, FamilyKind},
};

/// A format of Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Version 0.0.4, which everything reads.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The best format that a caller takes, as its `Accept` says.
    pub fn accepted(accept: Option<&str>) -> Self {
        let is_open = |range: &str| range.trim().starts_with("application/openmetrics-text");
        match accept.is_some_and(|accept| accept.split(',').any(is_open)) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes the counts. A family without series is left out.
pub fn text(counts: &Counts, format: Format) -> String {
    let mut text = String::new();
    for family in family::ALL {
        let mut series = counts.of(family).peekable();
        if series.peek().is_none() {
            continue;
        }
        let name = match format {
            // There the suffix is that of the sample alone.
            Format::OpenMetrics => family.name.strip_suffix("_total").unwrap_or(family.name),
            Format::Text => family.name,
        };
        let _ = writeln!(text, "# HELP {name} {}", family.help);
        let _ = writeln!(text, "# TYPE {name} {}", family.kind.as_str());
        for (labels, value) in series {
            write_series(&mut text, family, labels, value);
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn write_series(text: &mut String, family: &Family, labels: &[String], value: &SeriesValue) {
    let (name, unit) = (family.name, family.unit);
    let plain = braced(family, labels, None);
    match (family.kind, value) {
        (_, SeriesValue::Counter(value) | SeriesValue::Gauge { value, .. }) => {
            let _ = writeln!(text, "{name}{plain} {}", unit.told(*value));
        }
        (FamilyKind::Histogram(ends), SeriesValue::Histogram { buckets, sum }) => {
            let mut count = 0_u64;
            for (at, more) in buckets.iter().enumerate() {
                count = count.saturating_add(*more);
                let end = ends.get(at).map_or_else(|| "+Inf".to_owned(), |end| unit.told(*end).to_string());
                let _ = writeln!(text, "{name}_bucket{} {count}", braced(family, labels, Some(&end)));
            }
            let _ = writeln!(text, "{name}_sum{plain} {}", unit.told(*sum));
            let _ = writeln!(text, "{name}_count{plain} {count}");
        }
        // A histogram is always one of a family of histograms.
        (_, SeriesValue::Histogram { .. }) => {}
    }
}

/// The labels of a sample, with the upper end of its bucket if it has one.
fn braced(family: &Family, labels: &[String], end: Option<&str>) -> String {
    let named = family.labels.iter().map(|label| label.name).zip(labels.iter().map(String::as_str));
    let all: Vec<String> = named
        .chain(end.map(|end| ("le", end)))
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::family::{ARCHIVE_SIZE, CAPTURE_SECONDS, SNAPSHOTS};

    fn counts() -> Counts {
        let mut counts = Counts::default();
        counts.count(&SNAPSHOTS, &["failed", "a\"b\\c\nd"], 2);
        counts.set(&ARCHIVE_SIZE, &["acme", "alice"], 7, 1);
        counts.observe(&CAPTURE_SECONDS, &["cold"], 30_000);
        counts.observe(&CAPTURE_SECONDS, &["cold"], 900_000_000);
        counts
    }

    #[test]
    fn the_classic_format_names_a_counter_in_full() {
        let text = text(&counts(), Format::Text);
        assert!(text.contains("# TYPE mantis_profile_snapshot_total counter\n"), "{text}");
        let failed = "mantis_profile_snapshot_total{outcome=\"failed\",host=\"a\\\"b\\\\c\\nd\"} 2\n";
        assert!(text.contains(failed), "{text}");
        let size = "mantis_profile_snapshot_archive_size_bytes{tenant_id=\"acme\",profile_id=\"alice\"} 7\n";
        assert!(text.contains(size), "{text}");
        assert!(!text.contains("# EOF"), "{text}");
    }

    #[test]
    fn open_metrics_names_the_family_without_the_suffix_and_ends() {
        let text = text(&counts(), Format::OpenMetrics);
        assert!(
            text.contains("# TYPE mantis_profile_snapshot counter\nmantis_profile_snapshot_total{"),
            "{text}"
        );
        assert!(text.ends_with("\n# EOF\n"), "{text}");
    }

    #[test]
    fn the_buckets_of_a_histogram_add_up() {
        let text = text(&counts(), Format::Text);
        for line in [
            "mantis_profile_snapshot_capture_seconds_bucket{mode=\"cold\",le=\"0.025\"} 0\n",
            "mantis_profile_snapshot_capture_seconds_bucket{mode=\"cold\",le=\"0.05\"} 1\n",
            "mantis_profile_snapshot_capture_seconds_bucket{mode=\"cold\",le=\"300\"} 1\n",
            "mantis_profile_snapshot_capture_seconds_bucket{mode=\"cold\",le=\"+Inf\"} 2\n",
            "mantis_profile_snapshot_capture_seconds_sum{mode=\"cold\"} 900.03\n",
            "mantis_profile_snapshot_capture_seconds_count{mode=\"cold\"} 2\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn a_caller_gets_the_format_that_it_takes() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        for other in [None, Some("*/*"), Some("text/plain")] {
            assert_eq!(Format::accepted(other), Format::Text);
        }
    }
}
