//! This test mounts a tree of many files without a kernel, and counts what is read of it.

use std::{fs, path::Path, sync::Arc};

use fuse::overlay::node::Ino;
use store::bucket::{Bucket, MemoryBucket, Recorder, Verb};
use tests::{overlay::Mounted, store_fixture::StoreFixture};

const FOLDERS: usize = 200;
const FILES: usize = 100;

fn fill(directory: &Path) {
    for folder in 0..FOLDERS {
        let place = directory.join(format!("folder-{folder:03}"));
        fs::create_dir_all(&place).unwrap();
        for file in 0..FILES {
            fs::write(place.join(format!("file-{file:03}")), format!("content {folder}/{file}")).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_of_many_files_reads_and_holds_what_is_asked_for() {
    // So many files take long on a disk.
    let source = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    fill(source.path());
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fixture.snapshot(source.path()).await.unwrap();
    let recorder = Arc::new(Recorder::new(Arc::clone(&fixture.store.bucket)));
    let counted = fixture.on(Arc::clone(&recorder) as Arc<dyn Bucket>);
    let mut mounted = Mounted::over(counted, tempfile::tempdir().unwrap()).await;
    let requests = || recorder.count(Verb::GetRange);
    assert_eq!(requests(), 1, "a mount is ready when it has the root");
    assert_eq!(mounted.read("folder-100/file-050").await, b"content 100/50");
    let few = requests();
    assert!(few <= 4, "{few} requests for one file");

    let mut seen = 0;
    let list = |ino| {
        let handle = mounted.ask(|fs| fs.open_directory(ino)).unwrap();
        let listed = mounted.ask(|fs| fs.list(handle, 0)).unwrap();
        mounted.fs.close(handle);
        listed
    };
    for folder in list(Ino::ROOT).iter().skip(2) {
        for file in list(folder.ino).iter().skip(2) {
            mounted.ask(|fs| fs.attributes(file.ino)).unwrap();
            seen += 1;
        }
    }
    assert_eq!(seen, FOLDERS * FILES);
    let walked = requests() - few;
    assert!(walked <= 60, "{walked} requests for a walk of the tree");
    let nodes = mounted.fs.nodes();
    assert!(nodes < FOLDERS * FILES, "all of {nodes} nodes are held");

    let ino = mounted.ask(|fs| fs.lookup(Ino::ROOT, b"folder-150")).unwrap().ino;
    let ino = mounted.ask(|fs| fs.lookup(ino, b"file-007")).unwrap().ino;
    mounted.ask(|fs| fs.write(&fs.enter(), ino, 0, b"changed")).unwrap();
    let before = requests();
    mounted.commit_beside(|_| {}).await;
    let commit = requests() - before;
    assert!(commit <= 8, "{commit} requests for a commit of one file");
    assert_eq!(mounted.read("folder-150/file-007").await, b"changed 150/7");
    assert_eq!(mounted.read("folder-199/file-099").await, b"content 199/99");
    mounted.kill(true).await;
    assert_eq!(mounted.read("folder-150/file-007").await, b"changed 150/7");
    assert_eq!(mounted.read("folder-000/file-000").await, b"content 0/0");
}
