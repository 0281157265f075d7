//! These tests share a local directory among processes, some of which die.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command},
    thread,
    time::Duration,
};

use store::bucket::{Access, Bucket, Depth, Key, LocalBucket, Prefix, Write};

fn writer(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_local-writer")).args(arguments).spawn().unwrap()
}

fn open(root: &Path) -> LocalBucket {
    LocalBucket::open(root, Access::ReadWrite).unwrap()
}

#[tokio::test]
async fn processes_that_replace_one_object_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let bucket = open(folder.path());
    let key = Key::new("shared/counter").unwrap();
    bucket.put(&key, Vec::new().into(), Write::Create).await.unwrap();
    let writers: Vec<_> =
        ["a", "b", "c", "d"].map(|name| writer(&["count", root, key.as_str(), "50", name])).into();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let text = String::from_utf8(bucket.get(&key, u64::MAX).await.unwrap().bytes.to_vec()).unwrap();
    let lines: BTreeSet<_> = text.lines().collect();
    assert_eq!((lines.len(), text.lines().count()), (200, 200));
}

#[tokio::test]
async fn a_killed_writer_leaves_whole_objects_and_no_litter() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    drop(open(folder.path()));
    let mut left_behind = 0;
    let mut seen = 0;
    for round in 0..12 {
        let mut writer = writer(&["put", root, &format!("round-{round}")]);
        thread::sleep(Duration::from_millis(40 + 13 * round));
        writer.kill().unwrap();
        writer.wait().unwrap();
        left_behind += fs::read_dir(folder.path().join("tmp")).unwrap().count();

        let bucket = open(folder.path());
        // The one file is the handle's own, for telling the time.
        assert_eq!(fs::read_dir(folder.path().join("tmp")).unwrap().count(), 1);
        let all = bucket.list(&Prefix::root(), Depth::All, None).await.unwrap().entries;
        seen = all.len();
        for entry in all {
            let (_, len) = entry.key.name().split_once('-').unwrap();
            let bytes = bucket.get(&entry.key, u64::MAX).await.unwrap().bytes;
            assert_eq!(bytes.len(), len.parse::<usize>().unwrap(), "{}", entry.key);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "{} is torn", entry.key);
        }
    }
    assert!(seen > 0, "no writer wrote anything");
    assert!(left_behind > 0, "no writer was killed half-way");
}

#[tokio::test]
async fn a_live_writer_is_not_cleaned_away() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    drop(open(folder.path()));
    let mut writer = writer(&["put", root, "busy"]);
    for _ in 0..100 {
        drop(open(folder.path()));
        assert!(writer.try_wait().unwrap().is_none(), "the writer failed");
        thread::sleep(Duration::from_millis(2));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
}
