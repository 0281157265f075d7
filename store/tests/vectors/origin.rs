//! `origin` says who wrote the vectors, when, and for which lineage.

use serde_json::json;
use store::{
    format::{Unknown, config::Chunking},
    id::RecordId,
    name::Lineage,
};

/// Every vector says this wrote it, whatever version of the code makes it again.
pub(super) const WRITER: &str = "pstore 0.1.0";
pub(super) const CAPTURED_AT_MS: u64 = 1_733_456_512_000;

/// A field that no version knows yet, wherever one may be.
pub(super) fn tomorrow() -> Unknown {
    Unknown::from_iter([("a_field_of_tomorrow".to_owned(), json!({ "kept": true }))])
}

pub(super) fn lineage() -> Lineage {
    Lineage {
        name: "acme/alice".parse().expect("a valid name"),
        chrome_major: "131".parse().expect("a valid version"),
    }
}

/// Small chunks, so that a small file has many.
pub(super) fn chunking() -> Chunking {
    // Named, each of them: a store keeps what it was made with, whatever is the default by now.
    Chunking {
        min_bytes: 64,
        average_bytes: 256,
        max_bytes: 1024,
        inline_bytes: 32,
        pack_bytes: 18 << 20,
        ..Chunking::default()
    }
}

pub(super) fn write_id() -> RecordId {
    RecordId::from_parts(CAPTURED_AT_MS, [0x11; 10])
}
