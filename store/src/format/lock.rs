//! Encodes and decodes `lock.json`, which names the run that may move a lineage's pointer.
//!
//! The contract's fields, plus one block of ours that is bound to the acquisition it was
//! written for. A block that is not bound belongs to an earlier holder: a program that
//! knows only the contract has taken the lock since, and its fields alone count.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Result, Unknown,
    bytes::Put,
    document,
    event::{Actor, Event},
    limits,
};
use crate::id::Nonce;

/// The holder of a lock that an operator has taken away.
pub const OPERATOR_FORCE: &str = "operator-force";

/// Fields that are missing are empty: an operator's tool may write but a few of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The version of the contract.
    pub version: u64,
    /// The run that holds the lock. Empty if the lock is free.
    #[serde(default)]
    pub holder_run_id: String,
    /// The host of the holder.
    #[serde(default)]
    pub holder_host: String,
    /// The run of that host.
    #[serde(default)]
    pub holder_host_run_id: String,
    /// When the holder took it, by the holder's clock.
    #[serde(default)]
    pub acquired_at_ms: u64,
    /// When the holder renewed it last, by the holder's clock.
    #[serde(default)]
    pub renewed_at_ms: u64,
    /// When it expires if it is not renewed, by the holder's clock.
    #[serde(default)]
    pub expires_at_ms: u64,
    /// How often the holder renewed it.
    #[serde(default)]
    pub renewal_count: u64,
    /// The additions of pstore to the contract. Absent if another program wrote the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pstore: Option<LockBlock>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The additions of pstore to `lock.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockBlock {
    /// The version of this block.
    pub v: u64,
    /// The program that wrote the block, for messages.
    pub writer: String,
    /// A digest of the contract's fields: if it does not fit, another program has written the lock since.
    pub bind: String,
    /// Fresh for every attempt to take the lock, and in every free lock.
    pub nonce: Nonce,
    /// Rises with every renewal.
    pub seq: u64,
    /// Fresh in every write, so that a holder knows its own from those of a twin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<Nonce>,
    /// Whether the writer showed the token of a lock that another process took.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_token: bool,
    /// Why the lock is free, until that is stored as an object of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Lock {
    /// The bytes of `lock.json`.
    pub fn encode(&self) -> Vec<u8> {
        document::encode_contract(self)
    }

    /// Reads a `lock.json` of any program.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        document::decode_contract(bytes, limits::LOCK)
    }

    /// The digest that ties our block to the acquisition it was written for.
    pub fn binding(&self) -> String {
        let mut bytes = b"pstore/lock-bind/1\n".to_vec();
        bytes.put_bytes(self.holder_run_id.as_bytes());
        bytes.put_bytes(self.acquired_at_ms.to_string().as_bytes());
        blake3::hash(&bytes).to_hex().to_string()
    }

    /// Our block, unless a program that knows only the contract holds the lock.
    pub fn block(&self) -> Option<&LockBlock> {
        self.pstore.as_ref().filter(|block| block.bind == self.binding())
    }

    /// Whether a program that knows only the contract has held it last: whether it still does,
    /// has given it back or has let it expire. What operators write is nobody's.
    pub fn is_of_contract_only(&self) -> bool {
        !matches!(self.holder_run_id.as_str(), "" | OPERATOR_FORCE) && self.block().is_none()
    }

    /// Whether this is the acquisition known by `nonce`.
    pub fn is_held_by(&self, nonce: Nonce) -> bool {
        !self.is_free() && self.block().is_some_and(|block| block.nonce == nonce)
    }

    /// Whether nobody holds it: given back, taken away, or never taken.
    pub fn is_free(&self) -> bool {
        self.expires_at_ms <= self.renewed_at_ms
    }

    /// How long after its last write it is held. Both times are by the holder's clock, so
    /// that clock's error cancels out.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.expires_at_ms.saturating_sub(self.renewed_at_ms))
    }

    /// The holder of the lock, in the form of events.
    pub fn holder(&self) -> Actor {
        Actor {
            run_id: self.holder_run_id.clone(),
            host: self.holder_host.clone(),
            host_run_id: self.holder_host_run_id.clone(),
            unknown: Unknown::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::WRITER;

    fn held() -> Lock {
        let mut lock = Lock {
            version: 1,
            holder_run_id: "run-1".into(),
            holder_host: "modal".into(),
            holder_host_run_id: "fc-01".into(),
            acquired_at_ms: 1_000,
            renewed_at_ms: 61_000,
            expires_at_ms: 361_000,
            renewal_count: 1,
            pstore: None,
            unknown: Unknown::new(),
        };
        lock.pstore = Some(LockBlock {
            v: 1,
            writer: WRITER.to_owned(),
            bind: lock.binding(),
            nonce: Nonce::from_bytes([7; 16]),
            seq: 1,
            mark: Some(Nonce::from_bytes([9; 16])),
            by_token: false,
            event: None,
            unknown: Unknown::new(),
        });
        lock
    }

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let lock = held();
        let read = Lock::decode(&lock.encode()).unwrap();
        assert_eq!(read, lock);
        assert!(read.is_held_by(Nonce::from_bytes([7; 16])));
        assert!(!read.is_held_by(Nonce::from_bytes([8; 16])));
        assert_eq!(read.ttl(), Duration::from_secs(300));
    }

    #[test]
    fn a_block_left_by_an_earlier_holder_does_not_count() {
        let mut lock = held();
        lock.holder_run_id = "another".into();
        assert!(lock.block().is_none());
        assert!(!lock.is_held_by(Nonce::from_bytes([7; 16])));
    }

    #[test]
    fn a_lock_tells_whether_its_holder_knows_more_than_the_contract() {
        assert!(!held().is_of_contract_only());
        assert!(Lock { pstore: None, ..held() }.is_of_contract_only());
        // One that keeps fields it does not know, and gives the lock back.
        let taken = Lock { holder_run_id: "another".into(), expires_at_ms: 0, ..held() };
        assert!(taken.is_free() && taken.is_of_contract_only());
    }

    #[test]
    fn an_operators_empty_lock_is_free() {
        let lock = Lock::decode(br#"{"version": 1, "holder_run_id": "operator-force"}"#).unwrap();
        assert!(lock.is_free() && !lock.is_of_contract_only());
        Lock::decode(b"{}").unwrap_err();
        Lock::decode(b"").unwrap_err();
    }
}
