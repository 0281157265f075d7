//! `pstore.json` of a store and `tenant.json` of a tenant: what writers must agree on.
//!
//! A tenant's configuration repeats all it needs of the store's, so that a credential
//! limited to one tenant never has to read outside its prefixes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FormatError, MINOR, Result, WRITER, document, pack::MAX_RAW_LEN, tree::MAX_INLINE_BYTES};
use crate::{
    id::{ChunkKey, StoreId},
    name::Tenant,
};

pub const MAX_BYTES: usize = 1 << 20;
pub const STORE_SCHEMA: &str = "pstore.store";
pub const TENANT_SCHEMA: &str = "pstore.tenant";

/// How files are cut and stored. Fixed for a tenant once it exists: equal files give
/// equal chunks only under equal parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    pub algorithm: String,
    pub min_bytes: u32,
    pub average_bytes: u32,
    pub max_bytes: u32,
    /// Files up to this size are kept in the tree itself.
    pub inline_bytes: u32,
    pub zstd_level: i32,
    pub pack_bytes: u32,
}

pub const FASTCDC_2020: &str = "fastcdc-2020";

impl Default for Chunking {
    fn default() -> Self {
        Self {
            algorithm: FASTCDC_2020.to_owned(),
            min_bytes: 16 << 10,
            average_bytes: 64 << 10,
            max_bytes: 256 << 10,
            inline_bytes: 512,
            zstd_level: 3,
            pack_bytes: 18 << 20,
        }
    }
}

impl Chunking {
    pub fn check(&self) -> Result<()> {
        let bad = |what: &str| Err(FormatError::malformed(format!("impossible chunking: {what}")));
        if self.algorithm != FASTCDC_2020 {
            return Err(FormatError::Feature {
                feature: self.algorithm.clone(),
                writer: "a newer pstore".to_owned(),
            });
        }
        if !(64..=1 << 20).contains(&self.min_bytes)
            || !(256..=4 << 20).contains(&self.average_bytes)
            || !(1024..=MAX_RAW_LEN).contains(&self.max_bytes)
            || self.min_bytes > self.average_bytes
            || self.average_bytes > self.max_bytes
        {
            return bad("chunk sizes");
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

/// What a pstore must know to use a store. Collecting garbage counts as writing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    pub read: Vec<String>,
    pub write: Vec<String>,
    pub optional: Vec<String>,
}

impl Features {
    /// This version knows no optional features yet, so every required one is unknown.
    fn check_read(&self, writer: &str) -> Result<()> {
        unknown(&self.read, writer)
    }

    pub fn check_write(&self, writer: &str) -> Result<()> {
        unknown(&self.write, writer)
    }
}

fn unknown(features: &[String], writer: &str) -> Result<()> {
    match features.first() {
        Some(feature) => Err(FormatError::Feature { feature: feature.clone(), writer: writer.to_owned() }),
        None => Ok(()),
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreConfig {
    pub version: u64,
    pub minor: u64,
    pub schema: String,
    pub writer: String,
    pub store_id: StoreId,
    pub created_at_ms: u64,
    pub features: Features,
    /// What new tenants start with.
    pub chunking: Chunking,
    /// What the probe found out about the server.
    pub probe: Value,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl StoreConfig {
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let config: Self = document::decode(bytes, MAX_BYTES)?;
        check_schema(&config.schema, STORE_SCHEMA)?;
        config.features.check_read(&config.writer)?;
        config.chunking.check()?;
        Ok(config)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantConfig {
    pub version: u64,
    pub minor: u64,
    pub schema: String,
    pub writer: String,
    pub tenant_id: Tenant,
    pub store_id: StoreId,
    pub created_at_ms: u64,
    pub chunk_key: ChunkKey,
    pub hash: String,
    pub features: Features,
    pub chunking: Chunking,
    pub probe: Value,
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

pub const HASH: &str = "blake3-keyed";

impl TenantConfig {
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let config: Self = document::decode(bytes, MAX_BYTES)?;
        check_schema(&config.schema, TENANT_SCHEMA)?;
        config.features.check_read(&config.writer)?;
        if config.hash != HASH {
            return Err(FormatError::Feature { feature: config.hash, writer: config.writer });
        }
        config.chunking.check()?;
        Ok(config)
    }
}

fn check_schema(found: &str, expected: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(FormatError::malformed(format!("its schema is {found:?} instead of {expected:?}")))
}

/// The minor version and the name of this writer, for a new document.
pub fn stamp() -> (u64, String) {
    (MINOR.into(), WRITER.to_owned())
}
