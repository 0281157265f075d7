//! `Rates` tells how fast counters grow, from what they were within the last minute.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::rows::TopRate;
use crate::verbs::metrics::MetricFields;

/// Over how long a rate is told. Programs leave their counts once a minute.
const WINDOW: Duration = Duration::from_secs(60);

/// A sample of a metric: its name, its labels and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// Something that is counted, and the samples that count it: those whose label, if one is named, has one of the values.
struct Counted {
    name: &'static str,
    is_bytes: bool,
    metric: &'static str,
    only: Option<(&'static str, &'static [&'static str])>,
}

const fn counted(
    name: &'static str,
    metric: &'static str,
    only: Option<(&'static str, &'static [&'static str])>,
) -> Counted {
    Counted { name, is_bytes: false, metric, only }
}

const fn bytes(name: &'static str, metric: &'static str) -> Counted {
    Counted { name, is_bytes: true, metric, only: None }
}

/// What is told, in this order.
const COUNTED: [Counted; 13] = [
    counted("captures stored", "mantis_profile_snapshot_total", Some(("outcome", &["success"]))),
    counted("captures without a change", "mantis_profile_snapshot_total", Some(("outcome", &["skipped"]))),
    counted("captures that failed", "mantis_profile_snapshot_total", Some(("outcome", &["failed"]))),
    counted("loads", "mantis_profile_load_total", Some(("outcome", &["success"]))),
    counted(
        "loads that fell back",
        "mantis_profile_load_total",
        Some((
            "outcome",
            &["fresh_fallback", "integrity_failed", "sha_mismatch", "version_mismatch", "too_large"],
        )),
    ),
    counted("mounts", "pstore_mounts_total", None),
    counted(
        "locks taken",
        "mantis_profile_lock_acquire_total",
        Some(("outcome", &["acquired", "forced_expired"])),
    ),
    counted("lock conflicts", "mantis_profile_lock_acquire_total", Some(("outcome", &["conflict_409"]))),
    counted("lock evictions", "mantis_profile_lock_evict_total", None),
    counted("requests to the store", "pstore_store_requests_total", None),
    counted(
        "requests that failed",
        "pstore_store_requests_total",
        Some(("outcome", &["denied", "unavailable", "error"])),
    ),
    bytes("sent to the store", "pstore_store_sent_bytes_total"),
    bytes("received from the store", "pstore_store_received_bytes_total"),
];

impl Counted {
    fn total(&self, samples: &[Sample]) -> Option<f64> {
        let is_meant = |sample: &&Sample| match self.only {
            Some((label, values)) => {
                let value = sample.labels.iter().find(|(name, _)| name == label).map(|(_, value)| value);
                value.is_some_and(|value| values.contains(&value.as_str()))
            }
            None => true,
        };
        let named = samples.iter().filter(|sample| sample.name == self.metric);
        let mut found = named.filter(is_meant).peekable();
        found.peek()?;
        Some(found.map(|sample| sample.value).sum())
    }
}

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// What was counted at each look, the oldest first.
    looks: VecDeque<(Instant, Vec<TopRate>)>,
}

impl Rates {
    /// What these samples say, and how fast it grows.
    pub(super) fn of(&mut self, samples: &[Sample], now: Instant) -> Vec<TopRate> {
        let totals = COUNTED
            .iter()
            .filter_map(|counted| Some((counted.name.to_owned(), counted.is_bytes, counted.total(samples)?)));
        self.grown(totals.collect(), now)
    }

    /// The same of totals by their names, and whether they are bytes.
    pub(super) fn grown(&mut self, totals: Vec<(String, bool, f64)>, now: Instant) -> Vec<TopRate> {
        while self.looks.front().is_some_and(|(at, _)| now.duration_since(*at) > WINDOW) {
            self.looks.pop_front();
        }
        let told: Vec<TopRate> = totals
            .into_iter()
            .map(|(name, is_bytes, total)| TopRate {
                per_second: self.per_second(&name, total, now),
                name,
                is_bytes,
                total,
            })
            .collect();
        self.looks.push_back((now, told.clone()));
        told
    }

    /// Since the oldest look at which it was not more than now: who counts anew begins below.
    fn per_second(&self, name: &str, total: f64, now: Instant) -> Option<f64> {
        let mut before = self.looks.iter().filter_map(|(at, told)| {
            let found = told.iter().find(|rate| rate.name == name)?;
            Some((*at, found.total))
        });
        let (at, then) = before.find(|(at, then)| *then <= total && *at < now)?;
        Some((total - then) / now.duration_since(at).as_secs_f64())
    }
}

/// The samples of metrics that were read on this host.
pub(super) fn of_metrics(metrics: &[MetricFields]) -> Vec<Sample> {
    let samples = metrics.iter().flat_map(|metric| {
        metric.series.iter().map(|series| Sample {
            name: metric.name.clone(),
            labels: series.labels.iter().map(|label| (label.name.clone(), label.value.clone())).collect(),
            value: series.value,
        })
    });
    samples.collect()
}

/// The samples of a text for Prometheus. Lines that are none are passed over.
pub(super) fn of_text(text: &str) -> Vec<Sample> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect()
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while let Some((label, more)) = rest.split_once("=\"") {
            let (value, after) = quoted(more)?;
            labels.push((label.trim_start_matches(',').to_owned(), value));
            rest = after;
            if rest.starts_with('}') {
                break;
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// A value up to its quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counts, FAMILIES, Format, text};

    #[test]
    fn every_counter_that_is_told_is_one_that_there_is() {
        for counted in COUNTED {
            let family = FAMILIES.iter().find(|family| family.name == counted.metric).unwrap();
            if let Some((label, _)) = counted.only {
                assert!(family.labels.iter().any(|known| known.name == label), "{}", counted.name);
            }
        }
        // As a server tells it before anything has happened.
        let samples = of_text(&text(&Counts::zeros("h"), Format::Text));
        let told = Rates::default().of(&samples, Instant::now());
        let names: Vec<&str> = told.iter().map(|rate| rate.name.as_str()).collect();
        assert_eq!(names, COUNTED.map(|counted| counted.name));
        assert!(told.iter().all(|rate| rate.total == 0.0 && rate.per_second.is_none()));
    }

    #[test]
    fn a_sample_has_its_labels_whatever_they_hold() {
        let read = of_text(
            "# HELP a_total about\na_total{outcome=\"ok\",host=\"x\\\"y\\\\z\\n}\"} 7\nb 1.5e3\nbroken{\n\nnone\n",
        );
        let labels =
            vec![("outcome".to_owned(), "ok".to_owned()), ("host".to_owned(), "x\"y\\z\n}".to_owned())];
        assert_eq!(
            read,
            [
                Sample { name: "a_total".to_owned(), labels, value: 7.0 },
                Sample { name: "b".to_owned(), labels: Vec::new(), value: 1500.0 },
            ]
        );
    }

    #[test]
    fn a_rate_is_that_of_the_last_minute_and_begins_anew_with_its_counter() {
        let (mut rates, began) = (Rates::default(), Instant::now());
        let mut look = |seconds: u64, total: f64| {
            let totals = vec![("things".to_owned(), false, total)];
            rates.grown(totals, began + Duration::from_secs(seconds))[0].per_second
        };
        assert_eq!(look(0, 10.0), None);
        assert_eq!(look(10, 30.0), Some(2.0));
        assert_eq!(look(60, 40.0), Some(0.5));
        // What was more than a minute ago plays no part.
        assert_eq!(look(65, 41.0), Some(0.2));
        // The counting process was started again.
        assert_eq!(look(66, 3.0), None);
        assert_eq!(look(68, 5.0), Some(1.0));
    }
}
