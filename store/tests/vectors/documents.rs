//! `documents` makes the documents of the vector store: its configurations, the record, the pointer, and what a
//! collection has condemned.

use std::collections::BTreeMap;

use serde_json::Value;
use store::{
    format::{
        condemned::{self, Condemned, Phase},
        config::{Chunking, Features, HASH, STORE_SCHEMA, StoreConfig, TENANT_SCHEMA, TenantConfig},
        layout,
        pointer::{Block, Claim, Pointer},
        record::{
            CapturedBy, CapturedIn, Content, Counts, Geo, Mode, Reason, Record, SCHEMA, Source, State, Tag,
        },
        tree::{Entry, Kind},
    },
    id::{FlipId, Nonce, PackId, PackSeq, RecordId, StoreId},
};

use super::{
    KEY, TEXT, catalog,
    origin::{CAPTURED_AT_MS, WRITER, chunking, lineage, tomorrow, write_id},
};

pub(super) fn store_config() -> StoreConfig {
    StoreConfig {
        version: 1,
        minor: 0,
        schema: STORE_SCHEMA.to_owned(),
        writer: WRITER.to_owned(),
        store_id: StoreId::from_parts(CAPTURED_AT_MS - 1000, [0x44; 10]),
        created_at_ms: CAPTURED_AT_MS - 1000,
        features: Features {
            optional: vec!["an-optional-one".to_owned()],
            unknown: tomorrow(),
            ..Features::default()
        },
        chunking: Chunking { unknown: tomorrow(), ..chunking() },
        probe: Value::Null,
        unknown: tomorrow(),
    }
}

pub(super) fn tenant_config() -> TenantConfig {
    let store = store_config();
    TenantConfig {
        deletion: None,
        version: 1,
        minor: 0,
        schema: TENANT_SCHEMA.to_owned(),
        writer: store.writer,
        tenant_id: lineage().name.tenant,
        store_id: store.store_id,
        created_at_ms: store.created_at_ms + 1,
        chunk_key: KEY,
        hash: HASH.to_owned(),
        features: store.features,
        chunking: store.chunking,
        probe: store.probe,
        unknown: tomorrow(),
    }
}

pub(super) fn record(entries: &[Entry], chunks: u64, content: Content) -> Record {
    let count = |fits: fn(&Kind) -> bool| entries.iter().filter(|entry| fits(&entry.kind)).count() as u64;
    let size = |entry: &Entry| if let Kind::File { size, .. } = entry.kind { size } else { 0 };
    Record {
        version: 1,
        schema: SCHEMA.to_owned(),
        tenant_id: lineage().name.tenant,
        profile_id: lineage().name.profile,
        chrome_major_version: lineage().chrome_major,
        archive_sha256: None,
        archive_size_bytes: None,
        uncompressed_size_bytes: entries.iter().map(size).sum(),
        captured_at_ms: CAPTURED_AT_MS,
        captured_by: CapturedBy {
            host: "daytona".to_owned(),
            host_run_id: "run-1".to_owned(),
            writer_version: WRITER.to_owned(),
            unknown: tomorrow(),
        },
        captured_in: Some(CapturedIn {
            host_region: "us-east-1".to_owned(),
            egress_ip_geo: Some(Geo {
                country: "US".to_owned(),
                region: "NY".to_owned(),
                unknown: tomorrow(),
            }),
            unknown: tomorrow(),
        }),
        mode: Mode::Cold,
        chrome_uptime_seconds_at_capture: 0,
        predecessor_sha256: String::new(),
        notes: String::new(),
        record: write_id(),
        minor: 0,
        writer: WRITER.to_owned(),
        state: State::Live,
        generation: 0,
        lease_seq: 1,
        chunk_key: KEY,
        hash: HASH.to_owned(),
        // The clock of the host was forty days ahead of the store's.
        stored_at_ms: Some(CAPTURED_AT_MS - 40 * 86_400_000),
        parent: None,
        updates: Vec::new(),
        reason: Reason::Manual,
        labels: BTreeMap::from([("ticket".to_owned(), "42".to_owned())]),
        chrome_last_version: Some("131.0.6778.85".to_owned()),
        exit_type: Some("Normal".to_owned()),
        counts: Counts {
            files: count(|kind| matches!(kind, Kind::File { .. })),
            directories: count(|kind| matches!(kind, Kind::Directory)),
            symlinks: count(|kind| matches!(kind, Kind::Symlink { .. })),
            hard_links: count(|kind| matches!(kind, Kind::HardLink { .. })),
            skipped: 0,
            chunks: entries.iter().map(|entry| entry.chunks().count() as u64).sum(),
            new_chunks: chunks,
            new_bytes: 130_000 + 700 + TEXT.len() as u64,
            stored_bytes: 0,
            unknown: tomorrow(),
        },
        health: Some(catalog::health()),
        damage: None,
        held_back: None,
        fallback: None,
        earlier: Vec::new(),
        startup: Default::default(),
        tags: BTreeMap::from([(
            "before-migration".to_owned(),
            Tag { tagged_at_ms: CAPTURED_AT_MS + 9000, by: catalog::actor(), unknown: tomorrow() },
        )]),
        deletion: None,
        content: Some(content),
        sources: vec![Source {
            kind: "directory".to_owned(),
            path: "/home/user/.config/chromium".to_owned(),
            unknown: tomorrow(),
        }],
        complete: true,
        exclusions: vec!["Default/Cache".to_owned()],
        transforms: Vec::new(),
        features: Vec::new(),
        tar_sha256: None,
        publishing: None,
        publications: 0,
        removing: false,
        unknown: tomorrow(),
    }
}

pub(super) fn pointer(record: &Record) -> Pointer {
    let prefix = record.sha256_prefix();
    let mut pointer = Pointer {
        version: 1,
        active_archive_key: layout::archive(&lineage(), &prefix),
        active_manifest_key: layout::manifest(&lineage(), &prefix),
        active_sha256_prefix: prefix,
        flipped_at_ms: CAPTURED_AT_MS + 3000,
        flipped_from_sha256_prefix: "8d9e7f6a5b4c".to_owned(),
        pstore: None,
        unknown: tomorrow(),
    };
    pointer.pstore = Some(Block {
        v: 1,
        writer: WRITER.to_owned(),
        bind: pointer.binding(),
        record: Some(record.record),
        snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
        flip_id: FlipId::from_bytes([0x55; 16]),
        recent: vec![FlipId::from_bytes([0x66; 16]), FlipId::from_bytes([0x77; 16])],
        lease: Some(Claim {
            nonce: Nonce::from_bytes([0x88; 16]),
            base: Some(record.record),
            unknown: tomorrow(),
        }),
        contract_only_seen: false,
        event: Some(catalog::flip(record)),
        unknown: tomorrow(),
    });
    pointer
}

pub(super) fn collection() -> RecordId {
    RecordId::from_parts(CAPTURED_AT_MS - 1, [0x33; 10])
}

pub(super) fn swept() -> Condemned {
    let write = RecordId::from_parts(CAPTURED_AT_MS - 2, [0x99; 10]);
    Condemned {
        version: 1,
        minor: 0,
        schema: condemned::SCHEMA.to_owned(),
        writer: WRITER.to_owned(),
        phase: Phase::Swept,
        packs: vec![PackId { write, seq: PackSeq::Data(0) }, PackId { write, seq: PackSeq::Meta }],
        blockers: vec![],
        unknown: tomorrow(),
    }
}
