//! Encodes and decodes `profile-<12 digits>.manifest.json`: the description of an archive, for programs that
//! know only the contract.
//!
//! It is not ours alone: it carries no digest, a program that writes one need not be
//! pstore, and fields that nobody relies on may be missing. The fields a loader relies
//! on — the profile, its Chrome, and the archive's digest and length — may not.

use serde::{Deserialize, Deserializer, Serialize};

use super::{
    MAJOR, Result, Unknown, document, limits,
    record::{CapturedBy, CapturedIn, Mode, Record, SCHEMA},
};
use crate::{
    id::Sha256,
    name::{ChromeMajor, Lineage, Profile, ProfileName, Tenant},
};

/// The manifest that lies beside an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Manifest {
    /// The version of the contract.
    pub version: u64,
    /// The contract's name for this kind of document.
    pub schema: String,
    /// The owner of the profile.
    pub tenant_id: Tenant,
    /// The profile that was captured.
    pub profile_id: Profile,
    /// The Chrome that wrote the profile.
    pub chrome_major_version: ChromeMajor,
    /// Of the archive as it is stored: compressed.
    pub archive_sha256: Sha256,
    /// How long the compressed archive is.
    pub archive_size_bytes: u64,
    /// How many bytes the files have.
    pub uncompressed_size_bytes: u64,
    /// When the profile was captured, by the host's clock.
    pub captured_at_ms: u64,
    /// The author of the capture.
    pub captured_by: CapturedBy,
    /// Where it was captured, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_in: Option<CapturedIn>,
    /// Whether the browser had ended.
    pub mode: Mode,
    /// How long the browser had run when the profile was captured.
    #[serde(default, deserialize_with = "or_empty")]
    pub chrome_uptime_seconds_at_capture: u64,
    /// The archive of the snapshot this one supersedes; of ours, its snapshot id where it has
    /// no archive. Empty for the first. Told as it is: nothing relies on it.
    #[serde(default, deserialize_with = "or_empty")]
    pub predecessor_sha256: String,
    /// Free text for people.
    #[serde(default, deserialize_with = "or_empty")]
    pub notes: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Reads `null` as an absent field.
fn or_empty<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(value: D) -> Result<T, D::Error> {
    Option::deserialize(value).map(Option::unwrap_or_default)
}

impl Manifest {
    /// The manifest that describes the archive of `record`. `predecessor` is the archive of the
    /// snapshot it supersedes, if that has one by now.
    pub fn of(
        record: &Record,
        archive: Sha256,
        archive_size_bytes: u64,
        predecessor: Option<Sha256>,
    ) -> Self {
        Self {
            version: MAJOR.into(),
            schema: SCHEMA.to_owned(),
            tenant_id: record.tenant_id.clone(),
            profile_id: record.profile_id.clone(),
            chrome_major_version: record.chrome_major_version,
            archive_sha256: archive,
            archive_size_bytes,
            uncompressed_size_bytes: record.uncompressed_size_bytes,
            captured_at_ms: record.captured_at_ms,
            captured_by: record.captured_by.clone(),
            // Always there: who reads the contract alone looks for it.
            captured_in: Some(record.captured_in.clone().unwrap_or_default()),
            mode: record.mode.clone(),
            chrome_uptime_seconds_at_capture: record.chrome_uptime_seconds_at_capture,
            predecessor_sha256: predecessor
                .map_or_else(|| record.predecessor_sha256.clone(), |sha| sha.to_string()),
            notes: record.notes.clone(),
            unknown: Unknown::new(),
        }
    }

    /// The bytes of the manifest.
    pub fn encode(&self) -> Vec<u8> {
        document::encode_contract(self)
    }

    /// Reads a manifest of any program.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::parse(bytes, limits::MANIFEST)?;
        document::check_schema(&fields, SCHEMA)?;
        document::typed(fields)
    }

    /// The lineage whose profile the archive holds, as the manifest says.
    pub fn lineage(&self) -> Lineage {
        Lineage {
            name: ProfileName { tenant: self.tenant_id.clone(), profile: self.profile_id.clone() },
            chrome_major: self.chrome_major_version,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::format::FormatError;

    /// As the contract shows one, with its hints filled in.
    fn example() -> Value {
        json!({
            "version": 1,
            "schema": "computer-plane.profile-snapshot",
            "tenant_id": "acme",
            "profile_id": "alice",
            "chrome_major_version": 131,
            "archive_sha256": "1a".repeat(32),
            "archive_size_bytes": 482_919_334,
            "uncompressed_size_bytes": 1_412_339_201,
            "captured_at_ms": 1_733_456_512_000_u64,
            "captured_by": { "host": "modal", "host_run_id": "fc-01", "writer_version": "snapshotter-0.1.0" },
            "captured_in": { "host_region": "us-east-1", "egress_ip_geo": { "country": "US", "region": "NY" } },
            "mode": "cold",
            "chrome_uptime_seconds_at_capture": 0,
            "predecessor_sha256": "8d".repeat(32),
            "notes": "",
        })
    }

    fn decode(manifest: &Value) -> Result<Manifest> {
        Manifest::decode(manifest.to_string().as_bytes())
    }

    #[test]
    fn every_field_is_read_and_written_again_and_unknown_ones_survive() {
        let mut json = example();
        json["later"] = json!({ "a": [1, null] });
        json["captured_by"]["zone"] = "b".into();
        json["captured_in"]["egress_ip_geo"]["city"] = "Albany".into();
        let manifest = decode(&json).unwrap();
        assert_eq!(manifest.lineage().to_string(), "acme/alice (Chrome 131)");
        assert_eq!(manifest.archive_sha256.prefix(), "1a1a1a1a1a1a");
        let again: Value = serde_json::from_slice(&manifest.encode()).unwrap();
        assert_eq!(again, json);
        assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
    }

    #[test]
    fn what_a_loader_relies_on_must_be_there() {
        for field in [
            "version",
            "schema",
            "tenant_id",
            "profile_id",
            "chrome_major_version",
            "archive_sha256",
            "archive_size_bytes",
            "uncompressed_size_bytes",
            "captured_at_ms",
            "captured_by",
            "mode",
        ] {
            let mut json = example();
            json.as_object_mut().unwrap().remove(field);
            let error = decode(&json).unwrap_err().to_string();
            assert!(error.contains(field), "{field}: {error}");
        }
    }

    #[test]
    fn what_is_only_told_may_be_missing() {
        for missing in [None, Some(Value::Null)] {
            let mut json = example();
            for field in ["captured_in", "chrome_uptime_seconds_at_capture", "predecessor_sha256", "notes"] {
                let fields = json.as_object_mut().unwrap();
                match &missing {
                    None => fields.remove(field),
                    Some(null) => fields.insert(field.to_owned(), null.clone()),
                };
            }
            let manifest = decode(&json).unwrap();
            assert_eq!((manifest.captured_in, manifest.predecessor_sha256), (None, String::new()));
        }
    }

    #[test]
    fn other_versions_are_refused_by_the_name_of_their_writer() {
        for version in [0, 2] {
            let mut json = example();
            json["version"] = version.into();
            json["anything"] = 1.5.into();
            let expected = FormatError::Version { found: version, writer: "snapshotter-0.1.0".to_owned() };
            assert_eq!(decode(&json).unwrap_err(), expected);
        }
    }

    #[test]
    fn what_is_not_as_the_contract_says_is_refused() {
        for (field, value) in [
            ("schema", json!("pstore.pin")),
            ("tenant_id", json!("../acme")),
            ("profile_id", json!("")),
            ("chrome_major_version", json!(0)),
            ("archive_sha256", json!("1A".repeat(32))),
            ("archive_sha256", json!("1a2b3c4d5e6f")),
            ("archive_size_bytes", json!(-1)),
            ("archive_size_bytes", json!("5")),
            ("captured_by", json!("modal")),
        ] {
            let mut json = example();
            json[field] = value.clone();
            assert!(matches!(decode(&json), Err(FormatError::Malformed(_))), "{field}: {value}");
        }
        let mut long = example();
        long["notes"] = "x".repeat(limits::MANIFEST as usize).into();
        decode(&long).unwrap_err();
        Manifest::decode(br#"{"version": 1, "version": 1}"#).unwrap_err();
    }
}
