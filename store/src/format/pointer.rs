//! Encodes and decodes `latest.json`: which snapshot of a lineage is current.
//!
//! The contract's six fields, plus one block of ours that is bound to them by a digest: if
//! the digest is wrong, a writer that knows only the contract has moved the pointer, and
//! the block is ignored. The block carries a digest of its own fields too, so that a
//! changed bit in it is damage and not somebody's flip.

use serde::{Deserialize, Serialize};

use super::{Result, Unknown, bytes::Put, document, event::Event, limits};
use crate::id::{FlipId, Nonce, RecordId, SnapshotId};

pub use super::document::BLOCK_VERSION;
/// How many flips a pointer remembers, for writers that must find out the outcome of theirs.
pub(crate) const RECENT: usize = 32;

/// The pointer of a lineage: the contract's fields, and pstore's block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// The version of the contract.
    pub version: u64,
    /// The short name of the snapshot that is current.
    pub active_sha256_prefix: String,
    /// Where its archive lies, or would lie if there were one.
    pub active_archive_key: String,
    /// Where the manifest of the archive lies, or would lie.
    pub active_manifest_key: String,
    /// When the pointer was moved last, by the mover's clock.
    pub flipped_at_ms: u64,
    /// The short name of the snapshot that was current before.
    pub flipped_from_sha256_prefix: String,
    /// The additions of pstore to the contract. Absent if another program wrote the pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pstore: Option<Block>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The additions of pstore to `latest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The version of this block.
    pub v: u64,
    /// The program that wrote the block, for messages.
    pub writer: String,
    /// A digest of the contract's fields: if it does not fit, another program has moved the pointer since.
    pub bind: String,
    /// Absent in a pointer that was claimed before the first snapshot, or while it names an
    /// archive that another program has put there.
    pub record: Option<RecordId>,
    /// The digest of the tree of the current snapshot.
    pub snapshot_id: Option<SnapshotId>,
    /// The last write of the pointer.
    pub flip_id: FlipId,
    /// The flips before this one, newest last.
    pub recent: Vec<FlipId>,
    /// The claim of the lock's holder. Absent if nobody has claimed the pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Claim>,
    /// The event of the pointer's last move, until it is stored as an object of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// Whether a program that knows only the contract was seen to move this pointer, or to have
    /// held its lock: it will want an archive of the pointer's next target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub contract_only_seen: bool,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The claim: who holds the lineage's lock, and the snapshot that this holder builds on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The holder's claim: only who knows it may flip the pointer.
    pub nonce: Nonce,
    /// The record that the holder builds on: the current one when the pointer was claimed, or the target of
    /// the holder's own last flip.
    pub base: Option<RecordId>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The target of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// There has been no snapshot yet.
    Nothing,
    /// A snapshot of pstore's.
    Record(RecordId),
    /// An archive of a program that knows only the contract.
    Foreign(&'a str),
}

impl Block {
    /// Whether the pointer remembers this flip: as its own, as its last move, or among
    /// the flips before.
    pub(crate) fn knows(&self, flip: FlipId) -> bool {
        self.flip_id == flip || self.last_move() == Some(flip) || self.recent.contains(&flip)
    }

    /// The flip that set its present target; other flips change only the facts
    /// about that. `None` if there is no memory of it.
    pub(crate) fn last_move(&self) -> Option<FlipId> {
        self.event.as_ref()?.flip_id
    }
}

impl Pointer {
    /// The bytes of `latest.json`.
    pub fn encode(&self) -> Vec<u8> {
        document::encode_contract(self)
    }

    /// Reads a `latest.json` of any program.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        document::decode_contract(bytes, limits::POINTER)
    }

    /// The digest that ties our block to the contract's fields.
    pub fn binding(&self) -> String {
        let mut bytes = b"pstore/bind/1\n".to_vec();
        let (version, flipped_at) = (self.version.to_string(), self.flipped_at_ms.to_string());
        for field in [
            &version,
            &self.active_sha256_prefix,
            &self.active_archive_key,
            &self.active_manifest_key,
            &flipped_at,
            &self.flipped_from_sha256_prefix,
        ] {
            bytes.put_bytes(field.as_bytes());
        }
        blake3::hash(&bytes).to_hex().to_string()
    }

    /// Our block, unless a contract-only writer has moved the pointer since.
    pub fn block(&self) -> Option<&Block> {
        self.pstore.as_ref().filter(|block| block.bind == self.binding())
    }

    /// The pointer's target.
    pub fn target(&self) -> Target<'_> {
        match self.block().and_then(|block| block.record) {
            Some(record) => Target::Record(record),
            None if self.is_empty() => Target::Nothing,
            None => Target::Foreign(&self.active_sha256_prefix),
        }
    }

    /// Whether a program that knows only the contract was seen to move it, or at its lock.
    pub fn contract_only_seen(&self) -> bool {
        match self.block() {
            Some(block) => block.contract_only_seen,
            None => !self.is_empty(),
        }
    }

    /// Whether it points at nothing yet.
    pub fn is_empty(&self) -> bool {
        self.active_sha256_prefix.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_foreign_flip_unbinds_our_block_and_unknown_fields_survive() {
        let mut pointer = Pointer {
            version: 1,
            active_sha256_prefix: "1a2b3c4d5e6f".into(),
            active_archive_key: "k".into(),
            active_manifest_key: "m".into(),
            flipped_at_ms: 5,
            flipped_from_sha256_prefix: String::new(),
            pstore: None,
            unknown: Unknown::new(),
        };
        pointer.pstore = Some(Block {
            v: BLOCK_VERSION,
            writer: "pstore 0.1.0".into(),
            bind: pointer.binding(),
            record: None,
            snapshot_id: None,
            flip_id: FlipId::from_bytes([1; 16]),
            recent: vec![],
            lease: None,
            event: None,
            contract_only_seen: false,
            unknown: Unknown::new(),
        });
        assert!(pointer.block().is_some());
        pointer.unknown.insert("region".to_owned(), "eu".into());
        pointer.pstore.as_mut().unwrap().unknown.insert("later".to_owned(), 7.into());
        let json: Value = serde_json::from_slice(&pointer.encode()).unwrap();
        let mut read = Pointer::decode(json.to_string().as_bytes()).unwrap();
        assert!(read.block().is_some());
        let again: Value = serde_json::from_slice(&read.encode()).unwrap();
        assert_eq!(again, json);
        read.flipped_at_ms += 1;
        assert!(read.block().is_none());
    }

    #[test]
    fn another_version_is_refused() {
        assert!(matches!(
            Pointer::decode(br#"{"version": 2, "writer": "pstore 9.0.0"}"#),
            Err(crate::format::FormatError::Version { found: 2, writer }) if writer == "pstore 9.0.0"
        ));
        Pointer::decode(b"{}").unwrap_err();
        Pointer::decode(br#"{"version": 0}"#).unwrap_err();
    }
}
