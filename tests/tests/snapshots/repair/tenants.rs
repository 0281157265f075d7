//! These tests repair all profiles of a tenant at once.

use store::bucket::Write;

use super::*;

async fn check(fixture: &StoreFixture, memory_bytes: u64) -> Report {
    let options = verify::Options { repair: false, memory_bytes, ..REPAIR };
    verify::verify_tenant(&fixture.store, options, Arc::new(Silent)).await.unwrap()
}

fn numbers(report: &Report) -> [u64; 4] {
    [report.snapshots, report.packs, report.chunks, report.read_bytes]
}

#[tokio::test(flavor = "multi_thread")]
async fn with_little_memory_a_tenant_is_checked_as_well_and_no_chunk_is_read_twice() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    let alone = fixture.verify().await.unwrap();
    for name in ["acme/bob", "acme/carol", "acme/dave"] {
        fs::write(source.join(name.replace('/', " ")), noise(60_000, 70 + name.len() as u64)).unwrap();
        fixture.of(name).snapshot(&source).await.unwrap();
    }
    let (much, none) = (check(&fixture, verify::DEFAULT_MEMORY_BYTES).await, check(&fixture, 0).await);
    assert_eq!(numbers(&much), numbers(&none));
    assert_eq!((much.snapshots, much.damage.len()), (4, 0));
    assert!(much.read_bytes < 2 * alone.read_bytes, "{much:#?}");

    // The first profile's pack is read for it, and counts against all that need it.
    spoil(&memory, &data_pack(&fixture).await).await;
    let (much, none) = (check(&fixture, verify::DEFAULT_MEMORY_BYTES).await, check(&fixture, 0).await);
    assert_eq!(much.damage, none.damage);
    assert_eq!(much.damage[0].snapshots.len(), 4, "{much:#?}");
    assert!(none.lineages.iter().all(|looked| looked.damage == 1), "{none:#?}");
}

/// A collection moves what a snapshot needs while it is checked. What is damaged stays where it was, and
/// is found all the same.
#[tokio::test(flavor = "multi_thread")]
async fn damage_is_found_again_in_a_snapshot_that_was_moved_meanwhile() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    let record = fixture.snapshot(&source).await.unwrap().record;
    spoil(&memory, &data_pack(&fixture).await).await;
    // As a move leaves it: the same content, one generation later, when the record was read and its packs were not.
    let (at, key) = (memory.clone(), layout::record(&fixture.lineage, record));
    let moved = deed(move || async move {
        let object = at.get(&key, u64::MAX).await.unwrap();
        let mut record = Record::decode(&object.bytes).unwrap();
        record.generation += 1;
        at.put(&key, record.encode().into(), Write::Replace(object.version)).await.unwrap();
    });
    let bucket = Arc::new(Interrupter::before_reading(memory, "content/acme/packs/", moved));
    let report = fixture.on(bucket.clone()).verify().await.unwrap();
    assert!(bucket.is_done());
    assert_eq!(report.damage.len(), 1, "{report:#?}");
}
