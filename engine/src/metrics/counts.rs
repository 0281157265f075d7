//! `Counts` holds what was counted: series of known families, which can be added to those of other processes.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use store::format::metrics::{Series, SeriesValue};

use super::family::{self, Family, FamilyKind, LAST_COLLECTION, PROCESS_CPU, Values};

/// So many hosts have series of their own; the counts of more go to [`OTHERS`].
pub(super) const MAX_HOSTS: usize = 200;
/// What hosts are called that have no series of their own.
const OTHERS: &str = "others";
/// For so long a profile is told of that nobody has captured or loaded.
const FORGOTTEN_AFTER_MS: u64 = 90 * 86_400_000;

/// Bounds how many series there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// So many profiles have series of their own: those that were used last.
    pub profiles: usize,
    /// The time, by the clock of this host.
    pub now_ms: u64,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<SeriesKey, SeriesValue>);

/// Names a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesKey {
    name: &'static str,
    labels: Vec<String>,
}

impl Counts {
    /// Every series whose labels are known, at zero, with the name of this host.
    pub fn zeros(host: &str) -> Self {
        let mut counts = Self::default();
        // The time of a process is that of a server alone.
        let counted = |family: &&&Family| family.kind != FamilyKind::Gauge && family.name != PROCESS_CPU.name;
        for family in family::ALL.iter().filter(counted) {
            for labels in known_labels(family, host) {
                let key = SeriesKey { name: family.name, labels };
                counts.0.insert(key, zero(family.kind));
            }
        }
        counts.set(&LAST_COLLECTION, &[], 0, 0);
        counts
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(SeriesValue::is_zero)
    }

    /// Counts `more`.
    pub fn count(&mut self, family: &'static Family, labels: &[&str], more: u64) {
        self.value(family, labels).add(&SeriesValue::Counter(more));
    }

    /// Replaces the value of a gauge.
    pub fn set(&mut self, family: &'static Family, labels: &[&str], value: u64, at_ms: u64) {
        self.value(family, labels).add(&SeriesValue::Gauge { value, at_ms });
    }

    /// Counts one observation of a histogram.
    pub fn observe(&mut self, family: &'static Family, labels: &[&str], amount: u64) {
        let FamilyKind::Histogram(ends) = family.kind else { return };
        let mut buckets = vec![0; ends.len() + 1];
        buckets[ends.partition_point(|end| *end < amount)] = 1;
        self.value(family, labels).add(&SeriesValue::Histogram { buckets, sum: amount });
    }

    fn value(&mut self, family: &'static Family, labels: &[&str]) -> &mut SeriesValue {
        let labels = labels.iter().map(|label| cut(label)).collect();
        self.0.entry(SeriesKey { name: family.name, labels }).or_insert_with(|| zero(family.kind))
    }

    /// Adds what others have counted, within bounds.
    pub fn add(&mut self, other: &Self, bounds: &Bounds) {
        let mut hosts = self.hosts();
        for (key, value) in &other.0 {
            match self.0.entry(with_known_host(key, &mut hosts)) {
                Entry::Occupied(mut found) => found.get_mut().add(value),
                Entry::Vacant(free) => drop(free.insert(value.clone())),
            }
        }
        self.forget_profiles(bounds);
    }

    /// The hosts that have series.
    pub fn hosts(&self) -> BTreeSet<String> {
        let named = self.0.keys().filter_map(|key| Some(key.labels[host_at(key.name)?].clone()));
        named.collect()
    }

    /// The series of a family, each with the values of its labels.
    pub fn of(&self, family: &Family) -> impl Iterator<Item = (&[String], &SeriesValue)> {
        let name = family.name;
        let first = SeriesKey { name, labels: Vec::new() };
        self.0
            .range(first..)
            .take_while(move |(key, _)| key.name == name)
            .map(|(key, value)| (key.labels.as_slice(), value))
    }

    /// Leaves the profiles out that were used least recently, if there are too many, and those of long ago.
    fn forget_profiles(&mut self, bounds: &Bounds) {
        let mut used: BTreeMap<&[String], u64> = BTreeMap::new();
        for (key, value) in self.0.iter().filter(|(key, _)| is_of_a_profile(key.name)) {
            if let SeriesValue::Gauge { at_ms, .. } = value {
                let at = used.entry(&key.labels).or_default();
                *at = (*at).max(*at_ms);
            }
        }
        let mut used: Vec<(u64, Vec<String>)> =
            used.into_iter().map(|(profile, at)| (at, profile.to_vec())).collect();
        used.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = bounds.now_ms.saturating_sub(FORGOTTEN_AFTER_MS);
        let keep = used.iter().take(bounds.profiles).take_while(|(at, _)| *at >= oldest).count();
        let gone: BTreeSet<Vec<String>> = used.split_off(keep).into_iter().map(|(_, name)| name).collect();
        if !gone.is_empty() {
            self.0.retain(|key, _| !is_of_a_profile(key.name) || !gone.contains(&key.labels));
        }
    }

    /// As documents have them.
    pub fn to_series(&self) -> Vec<Series> {
        let series = self.0.iter().map(|(key, value)| Series {
            name: key.name.to_owned(),
            labels: key.labels.clone(),
            value: value.clone(),
        });
        series.collect()
    }

    /// From a document, which another pstore may have written: series that this one does not know are left out.
    pub fn of_series(series: Vec<Series>) -> Self {
        let known = series.into_iter().filter_map(|Series { name, labels, value }| {
            let family = family::named(&name).filter(|family| fits(family, &labels, &value))?;
            Some((SeriesKey { name: family.name, labels }, value))
        });
        Self(known.collect())
    }
}

fn zero(kind: FamilyKind) -> SeriesValue {
    match kind {
        FamilyKind::Counter => SeriesValue::Counter(0),
        FamilyKind::Gauge => SeriesValue::Gauge { value: 0, at_ms: 0 },
        FamilyKind::Histogram(ends) => SeriesValue::Histogram { buckets: vec![0; ends.len() + 1], sum: 0 },
    }
}

/// The value of a label, no longer than a document may have it.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(128)].to_owned()
}

/// Every combination of the values that the labels of a family can have.
fn known_labels(family: &Family, host: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for label in family.labels {
        let values: Vec<String> = match label.values {
            Values::Known(values) => values.iter().map(|value| (*value).to_owned()).collect(),
            Values::Hosts => vec![cut(host)],
            Values::Profiles => Vec::new(),
        };
        let longer = |before: &Vec<String>| -> Vec<Vec<String>> {
            values.iter().map(|value| [before.as_slice(), std::slice::from_ref(value)].concat()).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Where the labels of a family name a host.
fn host_at(name: &str) -> Option<usize> {
    let family = family::named(name)?;
    family.labels.iter().position(|label| matches!(label.values, Values::Hosts))
}

fn is_of_a_profile(name: &str) -> bool {
    family::named(name)
        .is_some_and(|family| family.labels.iter().any(|label| matches!(label.values, Values::Profiles)))
}

/// The same series of a host that has some already, or may have some; otherwise of all others.
fn with_known_host(key: &SeriesKey, hosts: &mut BTreeSet<String>) -> SeriesKey {
    let mut key = key.clone();
    if let Some(at) = host_at(key.name)
        && !hosts.contains(&key.labels[at])
    {
        if hosts.len() >= MAX_HOSTS {
            key.labels[at] = OTHERS.to_owned();
        }
        hosts.insert(key.labels[at].clone());
    }
    key
}

/// Whether a series can be one of the family.
fn fits(family: &Family, labels: &[String], value: &SeriesValue) -> bool {
    let kind_fits = match (family.kind, value) {
        (FamilyKind::Counter, SeriesValue::Counter(_)) | (FamilyKind::Gauge, SeriesValue::Gauge { .. }) => {
            true
        }
        (FamilyKind::Histogram(ends), SeriesValue::Histogram { buckets, .. }) => {
            buckets.len() == ends.len() + 1
        }
        _ => false,
    };
    let label_fits = |(label, value): (&family::Label, &String)| match label.values {
        Values::Known(known) => known.contains(&value.as_str()),
        Values::Hosts | Values::Profiles => true,
    };
    kind_fits && family.labels.len() == labels.len() && family.labels.iter().zip(labels).all(label_fits)
}
