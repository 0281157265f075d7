//! These tests snapshot a directory of many small files: memory and what is written follow from what changed, not
//! from how many there are.

use std::{fs, path::Path, sync::Arc, thread::sleep, time::Duration};

use store::{bucket::MemoryBucket, content::meta::Metadata, ops::write::snapshot::Outcome};
use tests::{
    binary::{self, Host},
    store_fixture::StoreFixture,
    tree::noise,
};

use super::memory::watched;

const FILES: u64 = 60_000;
const IN_EACH_FOLDER: u64 = 40;
/// With three packs of 20 MiB under way; the names, states and chunks of so many files fit beside them.
const BOUND: u64 = 136 << 20;
/// Nothing is under way where nothing is read.
const UNCHANGED_BOUND: u64 = 56 << 20;
/// A little more than the time a file needs to settle.
const SETTLE: Duration = Duration::from_millis(2200);

fn file(root: &Path, number: u64) -> std::path::PathBuf {
    let folder = number / IN_EACH_FOLDER;
    root.join(format!("node_modules/package-{:02}/lib-{folder:04}/file-{number:05}.js", folder % 50))
}

fn fill(root: &Path) {
    for number in 0..FILES {
        let path = file(root, number);
        if number % IN_EACH_FOLDER == 0 {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        fs::write(path, noise(500 + (number % 700) as usize, number)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_sixty_thousand_files_one_that_changed_is_read_and_few_segments_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source);
    sleep(SETTLE);
    let host = Host::local(&dir.path().join("home"), &dir.path().join("store"));
    let mut peaks = Vec::new();
    let mut snapshot = |what: &'static str, bound: u64| {
        let (peak, ended) = watched(host.start(binary::snapshot(&source, "acme/alice")));
        println!("{what}: {} MiB, {} files read", peak >> 20, ended.document["read_files"]);
        peaks.push((what, peak, bound));
        ended.document["read_files"].clone()
    };
    assert_eq!(snapshot("first", BOUND), FILES);
    assert_eq!(snapshot("unchanged", UNCHANGED_BOUND), 0);
    fs::write(file(&source, 30_017), "changed").unwrap();
    assert_eq!(snapshot("one change", BOUND), 1);
    for (what, peak, bound) in peaks {
        assert!(peak <= bound, "{what} took {} MiB", peak >> 20);
    }

    // The file that changed settles, so that it is trusted once it was read.
    sleep(SETTLE);
    let cache = Some(dir.path().join("cache"));
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), cache).await;
    fixture.snapshot(&source).await.unwrap();
    fs::write(file(&source, 30_018), "changed as well").unwrap();
    let report = fixture.snapshot(&source).await.unwrap();
    assert_eq!((report.outcome, report.read_files), (Outcome::Stored, 1));
    // To read the index would cost more than to store one file again, which nobody has to be told.
    assert_eq!((report.index.indexes, report.index.left_out), (0, 0));
    let content = fixture.current().await.unwrap().content.unwrap();
    let root = Metadata::fetch(&fixture.store, &content).await.unwrap().root;
    let new = root.segments.iter().filter(|segment| segment.tree.pack.write == report.record).count();
    assert!(root.segments.len() > 300 && new <= 20, "{new} segments of {} are new", root.segments.len());
}
