//! These tests capture after a repair, and beside one.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use store::{
    ErrorKind,
    bucket::{Bucket, Verb},
    format::layout,
    id::PackSeq,
    ops::write::snapshot::Outcome,
};
use tests::{
    interrupter::{Interrupter, deed},
    store_fixture::{StoreFixture, copy},
    tree::noise,
};

use crate::repair::{
    RepairScenario, apart, assert_restores, change, data_pack, meta_pack, repair, spoil, used,
};

/// The snapshots of alice's in which a check of every byte finds damage.
async fn hit(fixture: &StoreFixture) -> BTreeSet<String> {
    let found = fixture.verify().await.unwrap().damage;
    found.into_iter().flat_map(|damage| damage.snapshots).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_snapshot_stores_anew_what_is_lost_and_heals_those_before_it() {
    let RepairScenario { dir: _dir, source, memory: stage, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    let before = fixture.current().await.unwrap();
    let (pack, meta) = (data_pack(&fixture).await, meta_pack(&fixture).await);
    for blow in 0..3 {
        let memory = copy(&stage).await;
        let fixture = fixture.on(memory.clone());
        match blow {
            0 => spoil(&memory, &pack).await,
            1 => memory.delete(&pack).await.unwrap(),
            _ => memory.delete(&meta).await.unwrap(),
        }
        assert_eq!(repair(&fixture).await.marked, [before.sha256_prefix()], "{blow}");
        // Of another profile by the index, of the same by the base.
        let bob = fixture.of("acme/bob");
        let stored = bob.snapshot(&source).await.unwrap().counts.new_chunks;
        assert_eq!(stored > 0, blow < 2, "{blow}: {stored} chunks");
        bob.assert_clean().await;
        let again = fixture.snapshot(&source).await.unwrap();
        assert_eq!(
            (again.outcome, again.snapshot_id),
            (Outcome::Stored, before.content.as_ref().unwrap().snapshot_id)
        );
        let current = fixture.current().await.unwrap();
        assert!(current.record != before.record && current.damage.is_none());
        assert_restores(&fixture, &current, &source).await;
        let report = repair(&fixture).await;
        assert!(report.damage.is_empty() && report.marked.is_empty(), "{blow}: {report:#?}");
        let (healed, _) =
            store::catalog::records::get(&fixture.store, &fixture.lineage, before.record).await.unwrap();
        assert_eq!((healed.generation, &healed.damage), (1, &None), "{blow}");
        assert_restores(&fixture, &healed, &source).await;
        assert_eq!(fixture.snapshot(&source).await.unwrap().outcome, Outcome::Unchanged);
    }
}

/// A repair that ends between a capture's look at what it builds on and its lease, or when the lease
/// is there and before that is looked at again: what the repair has found lost is stored anew, and what
/// it has found elsewhere is referred to there, in a pack that is younger than the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_does_not_refer_to_what_was_found_damaged_since_it_began() {
    for (has_copy, is_leased) in [(false, false), (true, false), (false, true), (true, true)] {
        let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
        let before = fixture.snapshot(&source).await.unwrap().record;
        if has_copy {
            apart(&fixture.of("acme/bob"), &source).await;
        }
        fs::write(source.join("new"), noise(60_000, 99)).unwrap();
        let (meanwhile, damaged) = (fixture.clone(), memory.clone());
        let deed = deed(move || async move {
            spoil(&damaged, &data_pack(&meanwhile).await).await;
            assert_eq!(repair(&meanwhile).await.marked.len(), usize::from(!has_copy));
        });
        let base = layout::record(&fixture.lineage, before);
        let records = base.as_str().trim_end_matches(base.name());
        let bucket = Arc::new(match is_leased {
            false => Interrupter::before(memory, Verb::Create, records, deed),
            true => Interrupter::between(memory, records, &base, deed),
        });
        let report = fixture.on(bucket.clone()).snapshot(&source).await.unwrap();
        assert!(bucket.is_done());
        let current = fixture.current().await.unwrap();
        assert_eq!((current.record, &current.damage), (report.record, &None));
        assert_restores(&fixture, &current, &source).await;
        let hit = hit(&fixture).await;
        assert!(!hit.contains(&report.sha256_prefix), "{hit:?}");
        assert_eq!(hit.len(), usize::from(!has_copy));
    }
}

/// A repair may come before any request of a capture, also between its last look at what it builds on and its
/// publication: nothing that is lost is referred to without a mark, and once more makes it whole.
#[tokio::test(flavor = "multi_thread")]
async fn a_repair_at_any_moment_of_a_capture_leaves_no_snapshot_that_lacks_something_silently() {
    let RepairScenario { dir: _dir, source, memory: stage, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    fs::write(source.join("new"), noise(60_000, 99)).unwrap();
    let (mut again, mut marked) = (0, 0);
    for number in 1.. {
        let memory = copy(&stage).await;
        let fixture = fixture.on(memory.clone());
        let (meanwhile, damaged) = (fixture.clone(), memory.clone());
        let deed = deed(move || async move {
            spoil(&damaged, &data_pack(&meanwhile).await).await;
            assert!(!repair(&meanwhile).await.marked.is_empty());
        });
        let bucket = Arc::new(Interrupter::at(memory, number, deed));
        let report = fixture.on(bucket.clone()).snapshot(&source).await.unwrap();
        if !bucket.is_done() {
            break;
        }
        let current = fixture.current().await.unwrap();
        assert_eq!(current.record, report.record);
        let is_hit = hit(&fixture).await.contains(&report.sha256_prefix);
        assert_eq!(current.damage.is_some(), is_hit, "a repair before request {number}");
        marked += usize::from(is_hit);
        again += usize::from(!is_hit);
        fixture.snapshot(&source).await.unwrap();
        assert_restores(&fixture, &fixture.current().await.unwrap(), &source).await;
    }
    assert!(again > 5 && marked > 0, "{again} {marked}");
}

/// What was lost when a capture began is found by a repair beside it, which writes down where; then what
/// it wrote down is lost too. The capture has that from elsewhere, and does not go back to the place
/// that nobody calls lost any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_lost_where_it_lay_stays_lost_there_when_nobody_can_tell_where_it_went() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    let before = fixture.snapshot(&source).await.unwrap().record;
    spoil(&memory, &data_pack(&fixture).await).await;
    assert_eq!(repair(&fixture).await.marked.len(), 1);
    apart(&fixture.of("acme/bob"), &source).await;
    fs::write(source.join("new"), noise(60_000, 99)).unwrap();
    let (meanwhile, harmed) = (fixture.clone(), memory.clone());
    let deed = deed(move || async move {
        assert_eq!(repair(&meanwhile).await.marked.len(), 0);
        let base = meanwhile.current().await.unwrap();
        assert_eq!((base.generation, &base.damage), (1, &None));
        for pack in used(&base, |seq| seq == PackSeq::Meta) {
            harmed.delete(&layout::pack(&meanwhile.store.tenant, pack)).await.unwrap();
        }
    });
    let base = layout::record(&fixture.lineage, before);
    let records = base.as_str().trim_end_matches(base.name());
    let bucket = Arc::new(Interrupter::before(memory, Verb::Create, records, deed));
    let report = fixture.on(bucket.clone()).snapshot(&source).await.unwrap();
    assert!(bucket.is_done());
    assert_restores(&fixture, &fixture.current().await.unwrap(), &source).await;
    assert!(!hit(&fixture).await.contains(&report.sha256_prefix));
}

/// While a repair marks what a capture builds on, the directory becomes again what that was. It is not
/// called unchanged: what is marked is stored anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_is_again_what_was_damaged_meanwhile_is_stored() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    let before = fixture.snapshot(&source).await.unwrap();
    let changing = source.join("00");
    let modified = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let was = modified(&changing);
    // What is in the base already, so that the capture refers to what is about to be lost.
    fs::write(&changing, noise(60_000, 5)).unwrap();
    let (meanwhile, harmed) = (fixture.clone(), memory.clone());
    let deed = deed(move || async move {
        let pack = data_pack(&meanwhile).await;
        let end = harmed.get(&pack, u64::MAX).await.unwrap().bytes.len() - 10_000;
        change(&harmed, &pack, |bytes| bytes[20..end].iter_mut().for_each(|byte| *byte ^= 1)).await;
        assert_eq!(repair(&meanwhile).await.marked.len(), 1);
        fs::write(&changing, noise(60_000, 0)).unwrap();
        fs::File::options().write(true).open(&changing).unwrap().set_modified(was).unwrap();
    });
    let base = layout::record(&fixture.lineage, before.record);
    let records = base.as_str().trim_end_matches(base.name());
    let bucket = Arc::new(Interrupter::before(memory, Verb::Create, records, deed));
    let report = fixture.on(bucket.clone()).snapshot(&source).await;
    assert!(bucket.is_done());
    // It may say instead that the directory was written to.
    match report {
        Ok(report) => assert_eq!((report.outcome, report.snapshot_id), (Outcome::Stored, before.snapshot_id)),
        Err(error) => assert_eq!(error.kind(), ErrorKind::SourceChanged, "{error}"),
    }
    let report = fixture.snapshot(&source).await.unwrap();
    assert_eq!(report.snapshot_id, before.snapshot_id);
    let current = fixture.current().await.unwrap();
    assert!(current.record != before.record && current.damage.is_none());
    assert_restores(&fixture, &current, &source).await;
}

/// As before, but that the capture knows what is lost from the index alone: another profile has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_repair_at_any_moment_of_a_capture_that_shares_by_the_index_hides_nothing() {
    let RepairScenario { dir: _dir, source, memory: stage, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    for number in 1.. {
        let memory = copy(&stage).await;
        let (fixture, bob) = (fixture.on(memory.clone()), fixture.of("acme/bob").on(memory.clone()));
        let (meanwhile, damaged) = (fixture.clone(), memory.clone());
        let deed = deed(move || async move {
            spoil(&damaged, &data_pack(&meanwhile).await).await;
            assert!(!repair(&meanwhile).await.marked.is_empty());
        });
        let bucket = Arc::new(Interrupter::at(memory, number, deed));
        let report = bob.on(bucket.clone()).snapshot(&source).await.unwrap();
        if !bucket.is_done() {
            assert!(number > 5, "it makes more requests than that");
            break;
        }
        let current = bob.current().await.unwrap();
        assert_eq!(current.record, report.record);
        let is_hit = hit(&bob).await.contains(&report.sha256_prefix);
        assert_eq!(current.damage.is_some(), is_hit, "a repair before request {number}");
    }
}
