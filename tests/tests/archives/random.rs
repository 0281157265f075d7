//! These tests export random trees: each is the same tree for whoever unpacks it, and the same snapshot for whoever
//! imports it.

use std::{fs, sync::Arc};

use proptest::prelude::*;
use store::{
    bucket::MemoryBucket,
    id::SnapshotId,
    ops::archive::{
        export::{self, Exported, Framing, Times},
        import,
    },
    progress::Silent,
};
use tests::{
    archive::{Reader, archived},
    random::{Entry, entries, make},
    store_fixture::{StoreFixture, lineage, request},
    tree::look_at,
};
use tokio::runtime::Runtime;

async fn imported(fixture: &StoreFixture, exported: &Exported) -> SnapshotId {
    let to = lineage("acme/bob");
    let about = request(&to, &exported.archive_path).about;
    let request = import::Request {
        form: import::Form::Archive,
        handle: None,
        lineage: to,
        name: "the archive".to_owned(),
        source: ("archive", String::new()),
        manifest: Some(exported.manifest.clone()),
        about,
        max_bytes: 1 << 30,
        quota_bytes: None,
        threads: 2,
        carried: Vec::new(),
        judge: None,
    };
    let stream = Box::new(fs::File::open(&exported.archive_path).unwrap());
    import::import(&fixture.store, request, None, stream, Arc::new(Silent)).await.unwrap().snapshot_id
}

async fn round_trip(entries: &[(Vec<u8>, Entry)], framing: Framing) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    make(&source, entries);
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let captured = fixture.snapshot(&source).await.unwrap().snapshot_id;
    let record = fixture.current().await.unwrap();
    let request = export::Request { framing, times: Times::Exact, seal: None, max_bytes: u64::MAX };
    let archives = folder.path().join("archives");
    let exported =
        export::to_directory(&fixture.store, &fixture.lineage, &record, request, &archives, Arc::new(Silent));
    let exported = exported.await.unwrap();
    let expected = archived(&source);
    // The `tar` crate ends a pax record at the first newline, which long names here may have.
    for reader in [Reader::GnuTar, Reader::BsdTar, Reader::Python] {
        let out = folder.path().join(format!("{reader:?}"));
        reader.unpack(&exported.archive_path, &out);
        let (mut expected, mut found) = (expected.clone(), look_at(&out));
        reader.forget(&mut expected);
        reader.forget(&mut found);
        assert!(expected == found, "{reader:?} makes of {expected:#?} this: {found:#?}");
    }
    assert_eq!(imported(&fixture, &exported).await, captured);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn whoever_unpacks_an_archive_gets_the_tree_and_whoever_takes_it_in_the_snapshot(
        entries in entries(),
        splice in any::<bool>(),
    ) {
        let framing = if splice { Framing::Splice } else { Framing::Solid { level: 3, threads: 2 } };
        Runtime::new().unwrap().block_on(round_trip(&entries, framing));
    }
}
