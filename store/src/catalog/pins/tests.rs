//! These tests pin records that change meanwhile, and renew pins after sleeps and failures.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::{
    Error, Result,
    bucket::{Bucket, Fault, FaultBucket, MemoryBucket, Recorder, Rule, Verb, Write},
    catalog::{records, rules::Rules, store::Store},
    content::TenantStore,
    format::{layout, record::Record},
    id::{ChunkId, PackId, PackSeq, RecordId, SnapshotId},
    name::Lineage,
};

struct Desk {
    memory: Arc<MemoryBucket>,
    faults: Arc<FaultBucket>,
    recorder: Arc<Recorder>,
    store: TenantStore,
    lineage: Lineage,
}

pub(crate) const ID: RecordId = RecordId::from_bytes([7; 16]);

impl Desk {
    /// A live record.
    async fn new() -> Self {
        let memory = Arc::new(MemoryBucket::new());
        let faults = Arc::new(FaultBucket::new(memory.clone()));
        let recorder = Arc::new(Recorder::new(faults.clone()));
        let store = Store::new(recorder.clone(), None);
        let store = store.writable_tenant(&"acme".parse().unwrap()).await.unwrap();
        let name = "acme/alice".parse().unwrap();
        let lineage = Lineage { name, chrome_major: "131".parse().unwrap() };
        let desk = Self { memory, faults, recorder, store, lineage };
        desk.write("live", 0).await;
        desk.recorder.take();
        desk
    }

    /// Somebody else rewrites the record.
    async fn write(&self, state: &str, generation: u64) {
        let key = layout::record(&self.lineage, ID);
        let write = match self.memory.get(&key, u64::MAX).await {
            Ok(object) => Write::Replace(object.version),
            Err(_) => Write::Create,
        };
        let record = record(self.store.key(), state, generation);
        self.memory.put(&key, record.encode().into(), write).await.unwrap();
    }

    /// Reads the record, pins it, and reads it again.
    async fn pin(&self) -> Result<Option<Pinned>> {
        let (record, _) = records::get(&self.store, &self.lineage, ID).await?;
        Placed::on(&self.store, &self.lineage, &record, DEFAULT_TTL, Rules::ALL).await?.confirm().await
    }

    async fn generations(&self) -> Vec<u64> {
        read(&self.store).await.unwrap().iter().map(|found| found.pin.generation).collect()
    }

    async fn pins(&self) -> Vec<RecordId> {
        pinned(&self.store).await.unwrap()
    }
}

pub(crate) fn record(key: &crate::id::ChunkKey, state: &str, generation: u64) -> Record {
    let pack = PackId { write: ID, seq: PackSeq::Meta };
    let fields = json!({
        "version": 1, "schema": "computer-plane.profile-snapshot", "tenant_id": "acme",
        "profile_id": "alice", "chrome_major_version": 131, "archive_sha256": null,
        "archive_size_bytes": null, "uncompressed_size_bytes": 0, "captured_at_ms": 0,
        "captured_by": { "host": "", "host_run_id": "", "writer_version": "" }, "mode": "cold",
        "chrome_uptime_seconds_at_capture": 0, "predecessor_sha256": "", "notes": "", "record": ID,
        "minor": 0, "writer": "", "state": state, "generation": generation, "chunk_key": key,
        "hash": "blake3-keyed", "parent": null, "reason": "manual",
        "counts": {
            "files": 0, "directories": 0, "symlinks": 0, "hard_links": 0, "skipped": 0,
            "chunks": 0, "new_chunks": 0, "new_bytes": 0, "stored_bytes": 0,
        },
        "content": {
            "snapshot_id": SnapshotId::from_bytes([1; 32]),
            "root": {
                "id": ChunkId::from_bytes([1; 32]), "pack": pack, "offset": 16, "stored_len": 10,
                "raw_len": 10, "codec": 0, "encryption": 0,
            },
            "meta_ranges": [], "packs": [],
        },
        "complete": true,
    });
    serde_json::from_value(fields).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_record_is_read_then_pinned_then_read_again() {
    let desk = Desk::new().await;
    let pinned = desk.pin().await.unwrap().unwrap();
    let verbs: Vec<Verb> = desk.recorder.take().iter().map(|call| call.verb).collect();
    assert_eq!(verbs, [Verb::Get, Verb::Create, Verb::Get]);
    assert_eq!(desk.pins().await, [ID]);
    pinned.release().await;
    pinned.release().await;
    assert_eq!(desk.pins().await, []);
    assert!(matches!(pinned.renew().await.unwrap(), Renewal::Held));
    assert_eq!(desk.pins().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_changes_between_the_two_looks_makes_it_start_over() {
    let desk = Desk::new().await;
    for (state, generation, starts_over) in [("live", 0, false), ("live", 1, true), ("trashed", 1, true)] {
        let (first, _) = records::get(&desk.store, &desk.lineage, ID).await.unwrap();
        let placed = Placed::on(&desk.store, &desk.lineage, &first, DEFAULT_TTL, Rules::ALL).await.unwrap();
        desk.write(state, generation).await;
        let confirmed = placed.confirm().await.unwrap();
        assert_eq!(confirmed.is_none(), starts_over, "{state} {generation}");
        assert_eq!(desk.pins().await.is_empty(), starts_over);
        if let Some(pinned) = confirmed {
            pinned.release().await;
        }
    }
    for state in ["trashed", "tombstone"] {
        desk.write(state, 1).await;
        let error = desk.pin().await.unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        assert_eq!(desk.pins().await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_after_any_sleep_pins_again_and_follows_the_record() {
    let desk = Desk::new().await;
    let pinned = desk.pin().await.unwrap().unwrap();
    desk.memory.advance(DEFAULT_TTL * 2);
    assert_eq!(desk.pins().await, []);
    assert!(matches!(pinned.renew().await.unwrap(), Renewal::Held));
    assert_eq!(desk.pins().await, [ID]);

    desk.write("live", 3).await;
    let Renewal::Moved(record) = pinned.renew().await.unwrap() else { panic!("not moved") };
    assert_eq!(record.generation, 3);
    assert_eq!(desk.pins().await, [ID]);
    assert!(matches!(pinned.renew().await.unwrap(), Renewal::Held));

    desk.write("tombstone", 3).await;
    assert!(matches!(pinned.renew().await, Err(Error::NotFound { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_keeper_renews_through_failures_and_tells_when_all_is_lost() {
    let desk = Desk::new().await;
    let pinned = desk.pin().await.unwrap().unwrap();
    let keeper = Arc::new(pinned).keep(DEFAULT_RENEW_EVERY);
    desk.faults.inject(Rule::new(Fault::Before).on(Verb::Create));
    desk.faults.inject(Rule::new(Fault::After).on(Verb::Create).nth(2));
    for _ in 0..5 {
        tokio::time::sleep(DEFAULT_RENEW_EVERY).await;
        desk.memory.advance(DEFAULT_RENEW_EVERY);
    }
    assert_eq!(desk.faults.strikes(), 2);
    assert_eq!(desk.pins().await, [ID]);
    desk.write("live", 1).await;
    tokio::time::sleep(DEFAULT_RENEW_EVERY * 2).await;
    assert_eq!(desk.generations().await, [1], "what is pinned is what is there by now");
    desk.write("tombstone", 1).await;
    assert!(matches!(&*keeper.lost().await, Error::NotFound { .. }));
}
