//! `metadata` defines the metadata of a saved state of a project, in the words of its object model.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::id::random;

/// Why a state was saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Somebody asked for it.
    Manual,
    /// A schedule asked for it.
    Autosave,
    /// The application is about to be upgraded.
    BeforeUpgrade,
    /// An older state is about to be restored over it.
    BeforeRestore,
}

/// How a volume is made consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    /// Databases of SQLite, copied while they are written to.
    Sqlite,
    /// A dump of a Postgres server.
    Postgres,
    /// A directory, captured while its services rest.
    Generic,
}

impl Consistency {
    /// The word in a project file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Generic => "generic",
        }
    }
}

impl Reason {
    /// The word of the reason.
    pub fn word(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::Autosave => "autosave",
            Self::BeforeUpgrade => "before-upgrade",
            Self::BeforeRestore => "before-restore",
        }
    }

    /// The reason as a record has it.
    pub fn of_record(self) -> store::format::record::Reason {
        match self {
            Self::Manual => store::format::record::Reason::Manual,
            Self::Autosave => store::format::record::Reason::Autosave,
            Self::BeforeUpgrade => store::format::record::Reason::BeforeUpgrade,
            Self::BeforeRestore => store::format::record::Reason::BeforeRestore,
        }
    }
}

/// In which form a volume is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeFormat {
    /// The folder as it was, but for databases of SQLite, which are copies without journals.
    SqliteCopy,
    /// A dump of each database in Postgres' custom format, not compressed.
    PgDump,
    /// The folder as it was.
    Tree,
}

/// A copy of a database of SQLite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SqliteCopy {
    /// The path in the volume.
    pub path: String,
    /// `ok`, or the first lines of what `PRAGMA integrity_check` found in the copy.
    pub integrity_check: String,
    /// The version of the schema.
    pub schema_version: i64,
    /// Whether the whole write-ahead log was in the database file when the copy began.
    pub checkpointed: bool,
    /// For how long those who write could have been kept waiting, at most.
    pub writers_waited_ms: u64,
}

/// A dump of a database of Postgres.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostgresDump {
    /// The database.
    pub database: String,
    /// The path of the dump in the volume.
    pub path: String,
    /// The version of the server.
    pub server_version: String,
    /// The version of `pg_dump`.
    pub dumped_with: String,
    /// The role that owns the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub owner: Option<String>,
    /// The encoding of the database.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub encoding: Option<String>,
    /// The locale by which the database sorts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub lc_collate: Option<String>,
    /// The locale by which the database tells kinds of characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub lc_ctype: Option<String>,
    /// What is in the dump, by tables.
    pub tables: BTreeMap<String, TableContent>,
}

/// The rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TableContent {
    /// How many there are.
    pub rows: u64,
    /// The sum of the digests of all rows, which does not depend on their order.
    pub digest: String,
}

/// One volume of a saved state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeManifest {
    /// How it was made consistent.
    pub consistency: Consistency,
    /// In which form it is stored.
    pub format: VolumeFormat,
    /// How many bytes its files have.
    pub size: u64,
    /// The SHA-256 over its content.
    pub digest: String,
    /// Its databases of SQLite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sqlite: Vec<SqliteCopy>,
    /// Its databases of Postgres.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub postgres: Vec<PostgresDump>,
}

/// A saved state of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// A UUID that no other saved state has.
    pub snapshot_id: String,
    /// When the state was saved.
    pub timestamp: String,
    /// The saved state before this one.
    pub parent_snapshot_id: Option<String>,
    /// Why it was saved.
    pub reason: Reason,
    /// The version of the application.
    pub app_version: String,
    /// The SHA-256 over all content.
    pub state_digest: String,
    /// The volumes by their names.
    pub volume_manifests: BTreeMap<String, VolumeManifest>,
    /// What the user wrote on it.
    pub labels: BTreeMap<String, String>,
}

/// A UUID of version 7: the time, and 74 random bits.
pub(super) fn uuid(unix_ms: u64) -> String {
    let mut bytes: [u8; 16] = random();
    bytes[..6].copy_from_slice(&unix_ms.to_be_bytes()[2..]);
    bytes[6] = bytes[6] & 0x0f | 0x70;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_time_and_version() {
        let id = uuid(1_700_000_000_123);
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(id.starts_with("018bcfe5-687b-7"), "{id}");
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{id}");
    }
}
