//! Gives each kind of id a type of its own, so that none can be taken for another.
//!
//! `Display` prints the whole id as it appears in keys and JSON; `Debug` the same.

use std::{fmt, str::FromStr, time::SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use ulid::Ulid;

/// An id in text that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {kind}")]
pub struct InvalidId {
    /// The kind of id that the text should have been.
    pub kind: &'static str,
    /// The text that was given.
    pub text: String,
}

macro_rules! text_serde {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

macro_rules! bytes_id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; $len]);

        impl $name {
            /// How many bytes such an id has.
            pub const LEN: usize = $len;

            /// The id with these bytes.
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The bytes of the id.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_hex(text).map(Self).ok_or_else(|| InvalidId { kind: $kind, text: text.to_owned() })
            }
        }

        text_serde!($name);
    };
}

bytes_id!(
    /// The keyed digest of a chunk's, or a metadata segment's, uncompressed bytes.
    ChunkId, 32, "chunk id"
);
bytes_id!(
    /// The digest of a snapshot's canonical tree: equal ids mean equal trees.
    SnapshotId, 32, "snapshot id"
);
bytes_id!(
    /// The SHA-256 of an archive, or of the tar stream in it.
    Sha256, 32, "SHA-256 of 64 small hexadecimal digits"
);
bytes_id!(
    /// The key of a tenant's digests. Public: it separates tenants, it protects nothing.
    ChunkKey, 32, "chunk key"
);
bytes_id!(
    /// Names one write of a pointer; never repeated.
    FlipId, 16, "flip id"
);
bytes_id!(
    /// Identifies one acquisition of a lock; never repeated. Holders hand it on as
    /// their token.
    Nonce, 16, "lock token"
);

impl ChunkKey {
    /// The id of a chunk with these bytes.
    pub fn id_of(&self, bytes: &[u8]) -> ChunkId {
        ChunkId(*blake3::keyed_hash(&self.0, bytes).as_bytes())
    }
}

macro_rules! short_name {
    ($name:ident) => {
        impl $name {
            /// The first twelve digits, as the pointer and people use them.
            pub fn prefix(&self) -> String {
                let mut text = self.to_string();
                text.truncate(12);
                text
            }
        }
    };
}

short_name!(SnapshotId);
short_name!(Sha256);

macro_rules! ulid_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Ulid);

        impl $name {
            /// The id with these bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Ulid::from_bytes(bytes))
            }

            /// The bytes of the id.
            pub const fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// Builds an id from the time of its making and 80 random bits.
            pub fn from_parts(unix_ms: u64, random: [u8; 10]) -> Self {
                let mut wide = [0; 16];
                wide[6..].copy_from_slice(&random);
                Self(Ulid::from_parts(unix_ms, u128::from_be_bytes(wide)))
            }

            /// When the id was made, by the clock of the host that made it.
            pub const fn unix_ms(self) -> u64 {
                self.0.timestamp_ms()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts the canonical spelling alone: one id has one name.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let invalid = || InvalidId { kind: $kind, text: text.to_owned() };
                let id = Self(Ulid::from_string(text).map_err(|_| invalid())?);
                if id.to_string() == text { Ok(id) } else { Err(invalid()) }
            }
        }

        text_serde!($name);
    };
}

ulid_id!(
    /// Names one write: its record, and the packs and index it uploads.
    RecordId, "record id"
);
ulid_id!(
    /// Names one thing that happened to a lineage.
    EventId, "event id"
);
ulid_id!(
    /// Names one piece of work that a server does for the store as a whole.
    JobId, "job id"
);
ulid_id!(
    /// Names what one program has counted, from one report of it to the next.
    ReportId, "report id"
);
ulid_id!(
    /// Names one store, so that a cache is never read for another.
    StoreId, "store id"
);

/// The number of a pack within its write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PackSeq {
    /// File content, numbered from zero.
    Data(u32),
    /// Tree segments, table segments and the root.
    Meta,
}

impl PackSeq {
    const META: u32 = u32::MAX;
    /// Five decimal digits.
    const MAX_DATA: u32 = 99_999;

    /// The number of the pack in the format.
    pub const fn to_u32(self) -> u32 {
        match self {
            Self::Data(seq) => seq,
            Self::Meta => Self::META,
        }
    }

    pub(crate) const fn from_u32(seq: u32) -> Option<Self> {
        match seq {
            Self::META => Some(Self::Meta),
            seq if seq <= Self::MAX_DATA => Some(Self::Data(seq)),
            _ => None,
        }
    }
}

/// Names a pack by the write that made it, never by its content: a retry must not
/// "find" an object that a collector has already condemned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackId {
    /// The write that stored the pack.
    pub write: RecordId,
    /// Its number within the write.
    pub seq: PackSeq,
}

impl fmt::Display for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seq {
            PackSeq::Data(seq) => write!(f, "{}-{seq:05}", self.write),
            PackSeq::Meta => write!(f, "{}-meta", self.write),
        }
    }
}

impl FromStr for PackId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let invalid = || InvalidId { kind: "pack id", text: text.to_owned() };
        let (write, seq) = text.split_once('-').ok_or_else(invalid)?;
        let seq = if seq == "meta" {
            PackSeq::Meta
        } else if seq.len() == 5 && seq.bytes().all(|b| b.is_ascii_digit()) {
            PackSeq::Data(seq.parse().map_err(|_| invalid())?)
        } else {
            return Err(invalid());
        };
        Ok(Self { write: write.parse().map_err(|_| invalid())?, seq })
    }
}

text_serde!(PackId);

/// Random bytes that no other process has. Machines that were resumed from one image may have
/// the same random numbers ahead of them, until their kernels notice; so the time is mixed in.
pub fn random<const N: usize>() -> [u8; N] {
    let mut seed = [0; 32];
    // Without randomness no id is unique and nothing can be written safely.
    getrandom::fill(&mut seed).expect("the operating system gives random bytes");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut bytes = [0; N];
    blake3::Hasher::new()
        .update(&seed)
        .update(&now.as_nanos().to_le_bytes())
        .update(&std::process::id().to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_exactly_one_spelling() {
        let id = ChunkKey::from_bytes([7; 32]).id_of(b"hello");
        assert_eq!(id.to_string().parse::<ChunkId>().unwrap(), id);
        id.to_string().to_uppercase().parse::<ChunkId>().unwrap_err();
        let record = RecordId::from_parts(1_700_000_000_000, [9; 10]);
        assert_eq!(record.to_string().parse::<RecordId>().unwrap(), record);
        assert_eq!(record.unix_ms(), 1_700_000_000_000);
        record.to_string().to_lowercase().parse::<RecordId>().unwrap_err();
    }

    #[test]
    fn pack_ids_round_trip() {
        let write = RecordId::from_parts(1, [1; 10]);
        for seq in [PackSeq::Data(0), PackSeq::Data(99_999), PackSeq::Meta] {
            let id = PackId { write, seq };
            assert_eq!(id.to_string().parse::<PackId>().unwrap(), id);
            assert_eq!(PackSeq::from_u32(seq.to_u32()), Some(seq));
        }
        format!("{write}-1").parse::<PackId>().unwrap_err();
        format!("{write}-+0001").parse::<PackId>().unwrap_err();
        assert_eq!(PackSeq::from_u32(100_000), None);
    }
}
