//! `CapturedBy`, `CapturedIn` and `Source` tell where a snapshot comes from.

use serde::{Deserialize, Serialize};

use crate::format::Unknown;

/// The author of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedBy {
    /// The host.
    pub host: String,
    /// The run of the host. Empty if it is not known.
    pub host_run_id: String,
    /// The program that captured it, with its version.
    pub writer_version: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where a snapshot was captured, as far as that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapturedIn {
    /// Empty where nobody said it.
    pub host_region: String,
    /// Where the internet saw the browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_ip_geo: Option<Geo>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A place, as a service for addresses tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Geo {
    /// The country's code.
    pub country: String,
    /// The part of the country.
    pub region: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where the bytes came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// Such as `directory`, `mount` or `archive`.
    pub kind: String,
    /// Where the bytes were, on the host that captured them.
    pub path: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}
