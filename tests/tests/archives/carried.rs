//! These tests import streams that leave out files which the snapshot before has.

use std::{fs, io::Cursor, sync::Arc, time::Duration};

use store::{
    ErrorKind, Result,
    bucket::{Bucket, Key, MemoryBucket},
    format::{record::Record, tree::TreePath},
    ops::{
        archive::import::{self, Carried, Imported},
        gc::{Collector, Options},
        read::resolve,
    },
    progress::Silent,
};
use tests::{
    store_fixture::{StoreFixture, request},
    tarball::Tarball,
    tree::noise,
};

const LAYER: usize = 3_000_000;

/// A store whose current snapshot has one large file.
async fn stored(folder: &std::path::Path) -> (Arc<MemoryBucket>, StoreFixture, Record) {
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let source = folder.join("source");
    fs::create_dir_all(source.join("layers")).unwrap();
    fs::write(source.join("layers/0000"), noise(LAYER, 1)).unwrap();
    fixture.snapshot(&source).await.unwrap();
    let record = fixture.current().await.unwrap();
    (memory, fixture, record)
}

/// Imports a stream with a small file, and takes `from` over.
async fn imported(fixture: &StoreFixture, base: &Record, from: &str) -> Result<Imported> {
    let path = |path: &str| TreePath::new(path.as_bytes().to_vec()).unwrap();
    let request = import::Request {
        form: import::Form::Tar,
        handle: None,
        lineage: fixture.lineage.clone(),
        name: "a stream".to_owned(),
        source: ("archive", String::new()),
        manifest: None,
        about: request(&fixture.lineage, "/".as_ref()).about,
        max_bytes: 1 << 30,
        quota_bytes: None,
        threads: 2,
        carried: vec![Carried { from: path(from), path: path("layers/0001") }],
        judge: None,
    };
    let stream = Tarball::new().directory("layers").file("layers/0000", b"new").end().0;
    let base = Some(base.clone());
    import::import(&fixture.store, request, base, Box::new(Cursor::new(stream)), Arc::new(Silent)).await
}

async fn collect(fixture: &StoreFixture) {
    Collector::new(fixture.store.clone(), Options::after(Duration::ZERO)).run().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_taken_over_is_not_stored_again_and_stays_when_the_snapshot_before_goes() {
    let folder = tempfile::tempdir().unwrap();
    let (_, fixture, base) = stored(folder.path()).await;
    let taken = imported(&fixture, &base, "layers/0000").await.unwrap();
    // What is small is a part of the tree.
    assert_eq!(taken.record.counts.new_bytes, 0);
    assert_eq!(taken.record.uncompressed_size_bytes, LAYER as u64 + 3);
    // The source becomes another, so that nothing but the import needs the large file.
    fs::write(folder.path().join("source/layers/0000"), "small").unwrap();
    fixture.snapshot(&folder.path().join("source")).await.unwrap();
    fixture.handle("test").delete(base.record, "").await.unwrap();
    for _ in 0..3 {
        collect(&fixture).await;
    }
    let target = folder.path().join("target");
    fixture.restore_record(&taken.record, &target).await.unwrap();
    assert_eq!(fs::read(target.join("layers/0001")).unwrap(), noise(LAYER, 1));
    assert_eq!(fs::read(target.join("layers/0000")).unwrap(), b"new");
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_referred_to_is_not_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    // There is no such file.
    let (memory, fixture, base) = stored(folder.path()).await;
    let refused = |taken: Result<Imported>| assert_eq!(taken.unwrap_err().kind(), ErrorKind::Damaged);
    refused(imported(&fixture, &base, "layers/0007").await);
    // Its content is gone.
    for key in memory.keys().into_iter().map(|key| Key::new(key).unwrap()) {
        if memory.get(&key, u64::MAX).await.unwrap().bytes.len() > LAYER / 2 {
            memory.delete(&key).await.unwrap();
        }
    }
    refused(imported(&fixture, &base, "layers/0000").await);
    // A collection is about to take it: the snapshot that had it was deleted.
    let (_, fixture, base) = stored(folder.path()).await;
    fs::write(folder.path().join("source/layers/0000"), "small").unwrap();
    fixture.snapshot(&folder.path().join("source")).await.unwrap();
    fixture.handle("test").delete(base.record, "").await.unwrap();
    collect(&fixture).await;
    refused(imported(&fixture, &base, "layers/0000").await);
    let listing = resolve::list(&fixture.store, &fixture.lineage).await.unwrap();
    assert_eq!(listing.records.len(), 1, "nothing became a snapshot");
    fixture.assert_clean().await;
}
