//! These tests race writers, readers and listings on a directory, and fail its fsyncs.

use std::{sync::atomic::Ordering, time::Duration};

use super::*;

fn bucket() -> (tempfile::TempDir, LocalBucket) {
    let folder = tempfile::tempdir().unwrap();
    let bucket = LocalBucket::open(folder.path(), Access::ReadWrite).unwrap();
    (folder, bucket)
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn body(text: &str) -> Body {
    text.as_bytes().to_vec().into()
}

#[tokio::test]
async fn a_failed_fsync_is_ambiguous_and_ends_all_writing_and_reading() {
    let (folder, bucket) = bucket();
    let version = bucket.put(&key("a/kept"), body("1"), Write::Create).await.unwrap();
    bucket.disk.durability.fail_in.store(1, Ordering::SeqCst);
    let error = bucket.put(&key("a/lost"), body("2"), Write::Create).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");

    let later = [
        bucket.put(&key("a/new"), body("3"), Write::Create).await.map(drop),
        bucket.put(&key("a/kept"), body("3"), Write::Replace(version.clone())).await.map(drop),
        bucket.delete(&key("a/kept")).await,
        bucket.delete_if(&key("a/kept"), &version).await.map(drop),
        bucket.get(&key("a/kept"), u64::MAX).await.map(drop),
        bucket.get(&key("a/none"), u64::MAX).await.map(drop),
        bucket.get_range(&key("a/kept"), 0..1).await.map(drop),
        bucket.list(&Prefix::root(), Depth::All, None).await.map(drop),
    ];
    for answer in later {
        assert!(matches!(answer, Err(BucketError::Rejected { .. })), "{answer:?}");
    }
    let other = LocalBucket::open(folder.path(), Access::ReadOnly).unwrap();
    assert_eq!(&other.get(&key("a/kept"), u64::MAX).await.unwrap().bytes[..], b"1");
}

/// The new value is in place, but it may not survive a crash.
#[tokio::test]
async fn a_replace_that_was_not_flushed_is_not_read_back_as_a_success() {
    let (_folder, bucket) = bucket();
    let version = bucket.put(&key("latest"), body("1"), Write::Create).await.unwrap();
    // The first flush is that of the bytes, the second that of their name.
    bucket.disk.durability.fail_in.store(2, Ordering::SeqCst);
    let error = bucket.put(&key("latest"), body("2"), Write::Replace(version)).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    let answer = bucket.get(&key("latest"), u64::MAX).await;
    assert!(matches!(answer, Err(BucketError::Rejected { .. })), "{answer:?}");
}

/// Lists for as long as somebody replaces; every listing must show every key.
fn race_lists_with_replaces(folder: &Path, bucket: &LocalBucket) {
    const KEYS: usize = 40;
    let keys: Vec<Key> = (0..KEYS).map(|number| key(&format!("p/{number:02}/snap"))).collect();
    let flat: Vec<Key> = (0..KEYS).map(|number| key(&format!("q/snap-{number:02}"))).collect();
    for key in keys.iter().chain(&flat) {
        bucket.disk.put(key, &body("0"), &Write::Create).unwrap();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = LocalBucket::open(folder, Access::ReadOnly).unwrap();
                while !done.load(Ordering::SeqCst) {
                    let all = reader.disk.list(&Prefix::root(), Depth::All).unwrap();
                    assert_eq!(all.entries.len(), 2 * KEYS);
                    let folders = reader.disk.list(&Prefix::new("p/").unwrap(), Depth::Children).unwrap();
                    assert_eq!(folders.folders.len(), KEYS);
                }
            });
        }
        let _ended = Ended(&done);
        for round in 0..10 {
            for key in keys.iter().chain(&flat) {
                let version = bucket.disk.get(key, u64::MAX).unwrap().version;
                let next = body(&format!("{round}, {key}"));
                bucket.disk.put(key, &next, &Write::Replace(version)).unwrap();
            }
        }
    });
}

/// Ends the other threads even if this one fails.
struct Ended<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// As it is on the file system that tests run on; on btrfs this fails without the lock.
#[test]
fn a_listing_shows_what_is_being_replaced() {
    let (folder, bucket) = bucket();
    race_lists_with_replaces(folder.path(), &bucket);
}

/// On every file system, as it is on the worst of them.
#[test]
fn a_listing_shows_what_is_being_replaced_where_a_rename_moves_the_entry() {
    let (folder, bucket) = bucket();
    bucket.disk.moves_entries.store(true, Ordering::SeqCst);
    race_lists_with_replaces(folder.path(), &bucket);
}

#[tokio::test]
async fn a_name_is_an_object_or_a_folder_but_not_both() {
    let (_folder, bucket) = bucket();
    bucket.put(&key("a/b"), body("1"), Write::Create).await.unwrap();
    for clash in ["a", "a/b/c", "a/b/c/d"] {
        let answer = bucket.put(&key(clash), body("2"), Write::Create).await;
        assert!(matches!(answer, Err(BucketError::Rejected { .. })), "{answer:?}");
        let answer = bucket.get(&key(clash), u64::MAX).await;
        assert!(matches!(answer, Err(BucketError::NotFound { .. })), "{answer:?}");
        bucket.delete(&key(clash)).await.unwrap();
    }
    assert_eq!(&bucket.get(&key("a/b"), u64::MAX).await.unwrap().bytes[..], b"1");
}

#[tokio::test]
async fn opening_removes_only_what_nobody_holds() {
    let (folder, bucket) = bucket();
    let left = folder.path().join("tmp/left");
    std::fs::write(&left, "half").unwrap();
    let held = temp::Temp::create(&folder.path().join("tmp")).unwrap();
    let second = LocalBucket::open(folder.path(), Access::ReadWrite).unwrap();
    assert!(!left.exists());
    assert!(held.path().exists());
    drop((held, bucket, second));
    assert_eq!(std::fs::read_dir(folder.path().join("tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_large_object_is_created_from_a_file_but_never_replaced() {
    let (folder, bucket) = bucket();
    let source = folder.path().join("source");
    let len = MUTABLE_MAX_BYTES + 1;
    std::fs::write(&source, vec![7; len as usize]).unwrap();
    let large = Body::File { path: source.clone(), len };
    let version = bucket.put(&key("large"), large.clone(), Write::Create).await.unwrap();
    assert_eq!(bucket.get(&key("large"), u64::MAX).await.unwrap().version, version);
    assert_eq!(bucket.get_range(&key("large"), len - 2..len).await.unwrap().len(), 2);

    let answer = bucket.put(&key("large"), body("x"), Write::Replace(version.clone())).await;
    assert!(matches!(answer, Err(BucketError::Rejected { .. })), "{answer:?}");
    assert_eq!(bucket.delete_if(&key("large"), &version).await.unwrap(), Deleted::Unsupported);

    let small = bucket.put(&key("small"), body("1"), Write::Create).await.unwrap();
    let answer = bucket.put(&key("small"), large, Write::Replace(small)).await;
    assert!(matches!(answer, Err(BucketError::Rejected { .. })), "{answer:?}");

    // The object is a copy: what happens to the source later is its own affair.
    std::fs::write(&source, "changed").unwrap();
    assert_eq!(bucket.get(&key("large"), u64::MAX).await.unwrap().bytes.len() as u64, len);
}

#[tokio::test]
async fn a_file_that_is_not_as_long_as_announced_is_refused() {
    let (folder, bucket) = bucket();
    let source = folder.path().join("source");
    std::fs::write(&source, "four").unwrap();
    for len in [3, 5, MUTABLE_MAX_BYTES + 1] {
        let announced = Body::File { path: source.clone(), len };
        bucket.put(&key("a"), announced, Write::Create).await.unwrap_err();
    }
    assert!(bucket.list(&Prefix::root(), Depth::All, None).await.unwrap().entries.is_empty());
}

#[tokio::test]
async fn reading_only_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = LocalBucket::open(folder.path(), Access::ReadOnly).unwrap();
    let answer = bucket.put(&key("a"), body("1"), Write::Create).await;
    assert!(matches!(answer, Err(BucketError::Denied { .. })), "{answer:?}");
    assert!(bucket.list(&Prefix::root(), Depth::All, None).await.unwrap().entries.is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_missing_directory_is_made_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("not/there");
    LocalBucket::open(&root, Access::ReadWrite).unwrap_err();
    LocalBucket::open(&root, Access::Create).unwrap();
    LocalBucket::open(&root, Access::ReadWrite).unwrap();
}

#[tokio::test]
async fn age_is_told_by_the_file_system() {
    let (folder, bucket) = bucket();
    bucket.put(&key("a"), body("1"), Write::Create).await.unwrap();
    let hour = Duration::from_secs(3600);
    let file = std::fs::File::options().write(true).open(folder.path().join("objects/a")).unwrap();
    file.set_modified(std::time::SystemTime::now() - hour).unwrap();
    let age = bucket.get(&key("a"), u64::MAX).await.unwrap().stamp.age();
    // A file system's clock ticks coarsely, so it may be a little behind the host's.
    assert!(age.abs_diff(hour) < Duration::from_secs(60), "{age:?}");
}

#[tokio::test]
async fn a_folder_without_objects_is_not_listed() {
    let (_folder, bucket) = bucket();
    bucket.put(&key("a/b/c"), body("1"), Write::Create).await.unwrap();
    bucket.put(&key("a/d/e"), body("1"), Write::Create).await.unwrap();
    bucket.delete(&key("a/d/e")).await.unwrap();
    let page = bucket.list(&Prefix::new("a/").unwrap(), Depth::Children, None).await.unwrap();
    assert_eq!(page.folders, [Prefix::new("a/b/").unwrap()]);
}

#[tokio::test]
async fn what_is_no_file_is_no_object() {
    let (folder, bucket) = bucket();
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let objects = folder.path().join("objects");
    std::os::unix::fs::symlink(&secret, objects.join("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, objects.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    for name in ["link", "pipe"] {
        let answer = bucket.get(&key(name), u64::MAX).await;
        assert!(matches!(answer, Err(BucketError::NotFound { .. })), "{answer:?}");
        let answer = bucket.get_range(&key(name), 0..1).await;
        assert!(matches!(answer, Err(BucketError::NotFound { .. })), "{answer:?}");
        let replace = Write::Replace(Version::of(b"secret"));
        let answer = bucket.put(&key(name), body("x"), replace).await;
        assert!(matches!(answer, Err(BucketError::VersionMismatch { .. })), "{answer:?}");
        bucket.put(&key(name), body("x"), Write::Create).await.unwrap_err();
        bucket.delete(&key(name)).await.unwrap();
    }
    assert_eq!(bucket.list(&Prefix::root(), Depth::All, None).await.unwrap().entries, []);
    assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
}
