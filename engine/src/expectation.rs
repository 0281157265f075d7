//! `expectation` describes what a snapshot has of the cookies, origins and files that are expected of it.

use schemars::JsonSchema;
use serde::Serialize;
use store::format::{health::Expected, record::Record};

/// A missing expectation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MissingFields {
    /// The kind: `cookie`, `origin` or `file`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why it counts as missing.
    pub why: String,
}

/// An expected cookie and its end.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LapseFields {
    /// The cookie's host.
    pub host: String,
    /// The cookie's name.
    pub name: String,
    /// When it lapses.
    pub lapses_at_ms: u64,
}

/// The part of a snapshot's document that tells of expectations.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExpectationFields {
    /// The missing things.
    pub missing: Vec<MissingFields>,
    /// The expected cookie that lapses first.
    pub first_lapse: Option<LapseFields>,
}

impl ExpectationFields {
    /// The missing things for people, if there are any.
    pub fn missing_names(&self) -> Option<String> {
        let names: Vec<String> =
            self.missing.iter().map(|missing| format!("{} {}", missing.kind, missing.name)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

impl From<&Record> for ExpectationFields {
    fn from(record: &Record) -> Self {
        let expected = record.health.as_ref().and_then(|health| health.expected.as_ref());
        expected.map(Self::from).unwrap_or_default()
    }
}

impl From<&Expected> for ExpectationFields {
    fn from(expected: &Expected) -> Self {
        let missing = expected.missing.iter().map(|it| MissingFields {
            kind: it.kind.clone(),
            name: it.name.clone(),
            why: it.why.clone(),
        });
        let first = expected.first_lapse().map(|(cookie, lapses_at_ms)| LapseFields {
            host: cookie.host.clone(),
            name: cookie.name.clone(),
            lapses_at_ms,
        });
        Self { missing: missing.collect(), first_lapse: first }
    }
}
