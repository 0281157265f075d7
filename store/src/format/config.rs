//! Encodes and decodes `pstore.json` of a store and `tenant.json` of a tenant: the settings of all writers.
//!
//! A tenant's configuration repeats all it needs of the store's, so that a credential
//! limited to one tenant never has to read outside its prefixes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    FormatError, MINOR, Result, Unknown, WRITER, document, limits, pack::MAX_RAW_LEN, tombstone::Deletion,
    tree::MAX_INLINE_BYTES,
};
use crate::{
    id::{ChunkKey, StoreId},
    name::Tenant,
};

/// The value of the field `schema` of `pstore.json`.
pub const STORE_SCHEMA: &str = "pstore.store";
/// The value of the field `schema` of `tenant.json`.
pub const TENANT_SCHEMA: &str = "pstore.tenant";

/// How files are cut and stored. Fixed for a tenant once it exists: equal files give
/// equal chunks only under equal parameters.
///
/// Readers need none of it, so a field that another algorithm does without may be absent:
/// [`Chunking::check`] is for writers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    /// The name of the algorithm that cuts.
    pub algorithm: String,
    /// No chunk is shorter, but for the last of a file.
    #[serde(default)]
    pub min_bytes: u32,
    /// The average length of a chunk.
    #[serde(default)]
    pub average_bytes: u32,
    /// No chunk is longer.
    #[serde(default)]
    pub max_bytes: u32,
    /// Files up to this size are kept in the tree itself.
    #[serde(default)]
    pub inline_bytes: u32,
    /// How hard chunks are compressed.
    #[serde(default)]
    pub zstd_level: i32,
    /// A data pack is closed when it has become so long.
    #[serde(default)]
    pub pack_bytes: u32,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

pub(crate) const FASTCDC_2020: &str = "fastcdc-2020";

impl Default for Chunking {
    fn default() -> Self {
        Self {
            algorithm: FASTCDC_2020.to_owned(),
            min_bytes: 8 << 10,
            average_bytes: 32 << 10,
            max_bytes: 128 << 10,
            inline_bytes: 512,
            zstd_level: 3,
            pack_bytes: 20 << 20,
            unknown: Unknown::new(),
        }
    }
}

impl Chunking {
    /// Whether this code can cut as these parameters say; `writer` wrote them.
    pub fn check(&self, writer: &str) -> Result<()> {
        let bad = |what: &str| Err(FormatError::malformed(format!("impossible chunking: {what}")));
        if self.algorithm != FASTCDC_2020 {
            return Err(FormatError::Feature { feature: self.algorithm.clone(), writer: writer.to_owned() });
        }
        if !(64..=1 << 20).contains(&self.min_bytes)
            || !(256..=4 << 20).contains(&self.average_bytes)
            || !(1024..=MAX_RAW_LEN).contains(&self.max_bytes)
            || self.min_bytes > self.average_bytes
            || self.average_bytes > self.max_bytes
        {
            return bad("chunk sizes");
        }
        // The cutter takes two bytes a step and the logarithm of the average: nothing may depend on rounding.
        if !self.average_bytes.is_power_of_two()
            || !self.min_bytes.is_multiple_of(2)
            || !self.max_bytes.is_multiple_of(2)
        {
            return bad("chunk sizes must be even, and their average a power of two");
        }
        if self.inline_bytes as usize > MAX_INLINE_BYTES {
            return bad("inline_bytes");
        }
        if !(1..=22).contains(&self.zstd_level) {
            return bad("zstd_level");
        }
        if !(1 << 20..=512 << 20).contains(&self.pack_bytes) {
            return bad("pack_bytes");
        }
        Ok(())
    }
}

/// The features that a pstore must know to use a store. Collecting garbage counts as writing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// Without these, nothing in the store can be read.
    pub read: Vec<String>,
    /// Without these, nothing may be written to it.
    pub write: Vec<String>,
    /// A program that does not know these may read and write all the same.
    pub optional: Vec<String>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Features {
    /// This version knows no optional features yet, so every required one is unknown.
    fn check_read(&self, writer: &str) -> Result<()> {
        unknown(&self.read, writer)
    }

    fn check_write(&self, writer: &str) -> Result<()> {
        unknown(&self.write, writer)
    }
}

fn unknown(features: &[String], writer: &str) -> Result<()> {
    match features.first() {
        Some(feature) => Err(FormatError::Feature { feature: feature.clone(), writer: writer.to_owned() }),
        None => Ok(()),
    }
}

/// `pstore.json`: the settings of a whole store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreConfig {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`STORE_SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// Random, and the same for as long as the store exists.
    pub store_id: StoreId,
    /// When the store was made, by its maker's clock.
    pub created_at_ms: u64,
    /// The features that a program must know to use the store.
    pub features: Features,
    /// The parameters of new tenants.
    pub chunking: Chunking,
    /// The probe's verdict on the server.
    pub probe: Value,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl StoreConfig {
    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::CONFIG)?;
        document::check_schema(&fields, STORE_SCHEMA)?;
        let config: Self = document::typed(fields)?;
        config.features.check_read(&config.writer)?;
        Ok(config)
    }

    /// Whether this code may make tenants as this document says.
    pub fn check_write(&self) -> Result<()> {
        self.features.check_write(&self.writer)?;
        self.chunking.check(&self.writer)
    }
}

/// `tenant.json`: the settings of one tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantConfig {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`TENANT_SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// The tenant with these settings.
    pub tenant_id: Tenant,
    /// The store in which the tenant was made.
    pub store_id: StoreId,
    /// When the tenant was made, by its maker's clock.
    pub created_at_ms: u64,
    /// The key of the tenant's chunk ids: other tenants have other ids for the same bytes.
    pub chunk_key: ChunkKey,
    /// Always [`HASH`].
    pub hash: String,
    /// The features that a program must know to use the tenant's objects.
    pub features: Features,
    /// How the tenant's files are cut.
    pub chunking: Chunking,
    /// The verdicts of probes, one for each server.
    pub probe: Value,
    /// Of a tenant that was deleted: this document is then its tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How chunk ids are made: BLAKE3 with the tenant's key.
pub const HASH: &str = "blake3-keyed";

impl TenantConfig {
    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::CONFIG)?;
        document::check_schema(&fields, TENANT_SCHEMA)?;
        document::known_word(&fields, "hash", &[HASH])?;
        let config: Self = document::typed(fields)?;
        config.features.check_read(&config.writer)?;
        Ok(config)
    }

    /// Whether this code may write to the tenant.
    pub fn check_write(&self) -> Result<()> {
        self.features.check_write(&self.writer)?;
        self.chunking.check(&self.writer)
    }
}

/// The minor version and the name of this writer, for a new document.
pub fn stamp() -> (u64, String) {
    (MINOR.into(), WRITER.to_owned())
}
