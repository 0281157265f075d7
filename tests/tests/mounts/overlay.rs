//! These tests run random operations on the file system without a kernel, beside a model, through commits and the
//! sudden end of the daemon.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use fuse::{
    freeze::frozen_files::FrozenFiles,
    fs::{Must, SetAttributes},
    overlay::{
        change::{Intent, NewKind},
        node::Ino,
        recovery::Unfinished,
    },
};
use proptest::prelude::*;
use store::{id::RecordId, ops::write::snapshot::TreeFiles};
use tests::{
    disk::SmallDisk,
    overlay::{ME, Mounted, Room, Step, play},
    tree::noise,
};

fn step() -> impl Strategy<Value = Step> {
    let (what, name) = (0usize..64, 0..Step::NAMES);
    let offset = prop_oneof![0u32..200_000, Just(0), Just(4096), Just(131_072)];
    let len = prop_oneof![1u32..300, 1u32..100_000, Just(4096u32)];
    prop_oneof![
        3 => (what.clone(), name.clone(), any::<bool>()).prop_map(|(folder, name, folder_too)| Step::Make { folder, name, folder_too }),
        1 => (what.clone(), what.clone(), name.clone()).prop_map(|(file, folder, name)| Step::Link { file, folder, name }),
        1 => (what.clone(), name.clone()).prop_map(|(folder, name)| Step::Symlink { folder, name }),
        8 => (what.clone(), offset.clone(), len.clone(), 0u64..50).prop_map(|(file, offset, len, seed)| Step::Write { file, offset, len, seed }),
        3 => (what.clone(), offset.clone()).prop_map(|(file, size)| Step::Truncate { file, size }),
        2 => (what.clone(), offset, len, any::<bool>()).prop_map(|(file, offset, len, punch)| Step::Zero { file, offset, len, punch }),
        3 => (what.clone(), what.clone(), name, any::<bool>()).prop_map(|(what, folder, name, exchange)| Step::Rename { what, folder, name, exchange }),
        2 => what.clone().prop_map(|what| Step::Remove { what }),
        1 => (what.clone(), 0u8..3).prop_map(|(what, value)| Step::Mark { what, value }),
        1 => what.prop_map(|file| Step::Sync { file }),
        2 => Just(Step::Kill),
        2 => Just(Step::Commit),
        1 => Just(Step::Compact),
        3 => Just(Step::Checkpoint),
    ]
}

/// More of them by `PSTORE_FS_CASES`.
fn cases() -> u32 {
    std::env::var("PSTORE_FS_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(96)
}

async fn mounted() -> Mounted {
    Mounted::new(tempfile::tempdir().unwrap()).await
}

/// After a crash of the host, bytes that were never flushed may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_of_the_host_what_was_synced_is_there_and_what_was_not_is_whole_or_gone() {
    let mut mounted = mounted().await;
    let fs = Arc::clone(&mounted.fs);
    let pass = fs.enter();
    let make = |name: &[u8]| fs.make(&pass, ME, Ino::ROOT, name, NewKind::File, 0o644).unwrap().ino;
    let (synced, kept, lost) = (make(b"synced"), make(b"kept"), make(b"lost"));
    let (old, new) = (noise(50_000, 1), noise(50_000, 2));
    fs.write(&pass, synced, 0, &old).unwrap();
    fs.sync(&pass, synced).unwrap();
    // An overwrite that was not synced may be there in part; the range is never dropped.
    fs.write(&pass, synced, 10_000, &new[..100]).unwrap();
    fs.write(&pass, kept, 0, &new).unwrap();
    fs.write(&pass, lost, 0, &old).unwrap();
    fs.sync(&pass, lost).unwrap();
    fs.write(&pass, lost, 60_000, &new).unwrap();
    drop(pass);
    let data =
        fs::File::options().write(true).open(mounted.session.data().join(format!("{:x}-0", lost.0))).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&data, &[0; 4096], 70_000).unwrap();
    drop(fs);
    mounted.kill(false).await;
    let found = mounted.read("synced").await;
    assert_eq!(found.len(), old.len());
    assert_eq!((&found[..10_000], &found[10_100..]), (&old[..10_000], &old[10_100..]));
    assert_eq!(mounted.read("kept").await, new);
    assert_eq!(mounted.read("lost").await, old, "half a write is no write");
}

/// A journal whose end was torn off loses its end and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_journal_is_read_as_far_as_it_is_whole() {
    let mut mounted = mounted().await;
    let fs = Arc::clone(&mounted.fs);
    let pass = fs.enter();
    let first = fs.make(&pass, ME, Ino::ROOT, b"first", NewKind::File, 0o644).unwrap().ino;
    fs.write(&pass, first, 0, b"hello").unwrap();
    let whole = fs.journal_bytes();
    fs.make(&pass, ME, Ino::ROOT, b"second", NewKind::File, 0o644).unwrap();
    fs.journal_file().set_len(whole + 7).unwrap();
    drop(pass);
    drop(fs);
    mounted.kill(true).await;
    assert_eq!(mounted.read("first").await, b"hello");
    assert!(mounted.fs.lookup(Ino::ROOT, b"second").is_err());
    // And it goes on from there.
    let fs = Arc::clone(&mounted.fs);
    let pass = fs.enter();
    fs.make(&pass, ME, Ino::ROOT, b"third", NewKind::File, 0o644).unwrap();
    drop(pass);
    drop(fs);
    mounted.kill(true).await;
    assert!(mounted.fs.lookup(Ino::ROOT, b"third").is_ok());
}

/// A snapshot has a link of two names twice. Neither is a number that a new file gets.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_made_during_a_commit_is_none_of_the_names_of_a_link() {
    let mut mounted = mounted().await;
    let fs = Arc::clone(&mounted.fs);
    let link = NewKind::Symlink { target: b"target".to_vec() };
    let ino = fs.make(&fs.enter(), ME, Ino::ROOT, b"link", link, 0o777).unwrap().ino;
    fs.link(&fs.enter(), ino, Ino::ROOT, b"other").unwrap();
    drop(fs);
    mounted
        .commit_beside(|fs| {
            let pass = fs.enter();
            let made = fs.make(&pass, ME, Ino::ROOT, b"made", NewKind::File, 0o644).unwrap().ino;
            fs.write(&pass, made, 0, b"hello").unwrap();
            fs.sync(&pass, made).unwrap();
        })
        .await;
    for _ in 0..2 {
        mounted.kill(true).await;
        assert_eq!(mounted.read("made").await, b"hello");
        let found = |name: &[u8]| mounted.fs.lookup(Ino::ROOT, name).unwrap();
        for name in [&b"link"[..], b"other"] {
            assert_eq!(mounted.fs.read_link(found(name).ino).unwrap(), b"target");
        }
        let (link, other) = (found(b"link"), found(b"other"));
        assert_eq!((link.ino, link.links), (other.ino, 2), "it is no longer one node");
        mounted.commit().await;
    }
}

/// Names and attributes alone can make a base larger than a frame of the journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_base_is_written_once_and_read_back() {
    let mut mounted = mounted().await;
    let fs = Arc::clone(&mounted.fs);
    let value = |file: usize, at: usize| noise(64 << 10, (64 * file + at) as u64);
    let fill = |file: usize| {
        let name = file.to_string();
        let ino = fs.make(&fs.enter(), ME, Ino::ROOT, name.as_bytes(), NewKind::File, 0o644).unwrap().ino;
        for at in 0..60 {
            let name = format!("user.{at}");
            fs.set_xattr(&fs.enter(), ino, name.as_bytes(), &value(file, at), Must::Either).unwrap();
        }
    };
    let journal = fs.journal_file();
    (0..4).for_each(fill);
    fs.shorten_journal(&mounted.session).unwrap();
    assert!(Arc::ptr_eq(&journal, &fs.journal_file()), "a short journal was rewritten");
    (4..6).for_each(fill);
    // Once, however often it is looked at.
    let mut rewritten = Vec::new();
    for _ in 0..4 {
        fs.shorten_journal(&mounted.session).unwrap();
        let now = fs.journal_file();
        if !rewritten.iter().chain([&journal]).any(|known| Arc::ptr_eq(known, &now)) {
            rewritten.push(now);
        }
    }
    assert_eq!(rewritten.len(), 1, "a journal that is all base cannot be shortened");
    let ino = fs.make(&fs.enter(), ME, Ino::ROOT, b"synced", NewKind::File, 0o644).unwrap().ino;
    fs.write(&fs.enter(), ino, 0, b"hello").unwrap();
    fs.sync(&fs.enter(), ino).unwrap();
    for same_boot in [true, false] {
        mounted.kill(same_boot).await;
        assert_eq!(mounted.read("synced").await, b"hello");
        for file in 0..6 {
            let ino = mounted.fs.lookup(Ino::ROOT, file.to_string().as_bytes()).unwrap().ino;
            for at in 0..60 {
                let found = mounted.fs.xattr(ino, format!("user.{at}").as_bytes()).unwrap();
                assert!(found == value(file, at), "{file}/{at}");
            }
        }
        // Nor is it rewritten by whoever continues it.
        let journal = mounted.fs.journal_file();
        mounted.fs.shorten_journal(&mounted.session).unwrap();
        assert!(Arc::ptr_eq(&journal, &mounted.fs.journal_file()));
    }
}

/// A mode that is set to what it was changes a file, and the tree is the same: there is nothing to store.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_what_was_changed_to_what_it_had_been_stores_nothing_and_leaves_nothing_at_stake() {
    let make = Step::Make { folder: 0, name: 0, folder_too: false };
    let mark = Step::Mark { what: 0, value: 1 };
    play(mounted().await, &[make, mark.clone(), Step::Commit, mark, Step::Commit]).await;
}

/// The directory that a file has taken the place of was where the file had been.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_takes_the_name_of_a_directory_it_was_in_leaves_nothing_of_that() {
    let make = |folder, name, folder_too| Step::Make { folder, name, folder_too };
    let steps = [
        make(0, 2, false),
        make(0, 1, true),
        make(1, 0, false),
        Step::Remove { what: 2 },
        Step::Commit,
        Step::Link { file: 0, folder: 44, name: 2 },
        Step::Remove { what: 46 },
        Step::Remove { what: 20 },
        Step::Rename { what: 0, folder: 0, name: 1, exchange: false },
    ];
    play(mounted().await, &steps).await;
}

/// What is zeroed between two holes is one hole with them, whether it was written before the checkpoint or after.
#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_after_data_became_a_hole_is_what_a_commit_would_be() {
    let write = |offset| Step::Write { file: 0, offset, len: 1, seed: 0 };
    let steps = [
        Step::Make { folder: 0, name: 0, folder_too: false },
        Step::Link { file: 0, folder: 0, name: 1 },
        write(4096),
        write(8192),
        Step::Checkpoint,
        Step::Zero { file: 0, offset: 4096, len: 1, punch: false },
    ];
    play(mounted().await, &steps).await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_file_system_is_what_the_model_is(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { play(mounted().await, &steps).await });
    }

    /// Whatever is dropped comes back as it was.
    #[test]
    fn a_file_system_without_room_is_what_the_model_is(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async { play(mounted().await.with(Room::None), &steps).await });
    }
}

/// What a commit has checked is what it stores, though changes go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_tree_is_read_as_it_was_whatever_is_changed_since() {
    let mut mounted = mounted().await;
    let (below, old, new) = (noise(90_000, 1), noise(90_000, 2), noise(90_000, 3));
    let fs = Arc::clone(&mounted.fs);
    let make = |name: &[u8]| fs.make(&fs.enter(), ME, Ino::ROOT, name, NewKind::File, 0o644).unwrap().ino;
    let write = |ino, offset, bytes: &[u8]| assert!(fs.write(&fs.enter(), ino, offset, bytes).is_ok());
    let (kept, changed, empty) = (make(b"kept"), make(b"changed"), make(b"empty"));
    [kept, changed].into_iter().for_each(|ino| write(ino, 0, &below));
    mounted.commit().await;
    write(changed, 40_000, &old[..1000]);
    fs.link(&fs.enter(), kept, Ino::ROOT, b"linked").unwrap();

    let closed = fs.close_when_quiet(Duration::ZERO).unwrap();
    let frozen = fs.freeze(&closed).unwrap();
    drop(closed);
    [kept, changed, empty].into_iter().for_each(|ino| write(ino, 0, &new));
    make(b"later");
    let mut half_old = below.clone();
    half_old[40_000..41_000].copy_from_slice(&old[..1000]);
    let files = FrozenFiles::of(&frozen, &tokio::runtime::Handle::current());
    tokio::task::block_in_place(|| {
        let mut paths = Vec::new();
        files
            .each_folder(&mut |files| {
                paths.extend(files.iter().cloned());
                Ok(())
            })
            .unwrap();
        let read = |path: &PathBuf| {
            let file = files.file(path).unwrap().unwrap();
            let mut bytes = vec![0; file.size() as usize];
            file.read(0, &mut bytes).unwrap();
            (path.to_str().unwrap().to_owned(), bytes)
        };
        let found: Vec<(String, Vec<u8>)> = paths.iter().map(read).collect();
        let expected = [("changed", half_old), ("empty", vec![]), ("kept", below.clone()), ("linked", below)];
        assert!(found == expected.map(|(name, bytes)| (name.to_owned(), bytes)), "{paths:?}");
        assert!(files.has(Path::new("changed")).unwrap() && !files.has(Path::new("later")).unwrap());
        assert_eq!(files.within(Path::new("")).unwrap().0, paths.into_iter().collect::<Vec<_>>());
    });
}

/// The journal that a commit begins may find no room.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebase_that_finds_no_room_has_changed_nothing_and_can_be_done_later() {
    let disk = SmallDisk::new(16 << 20);
    let mut mounted = Mounted::at(disk.path()).await;
    let fs = Arc::clone(&mounted.fs);
    let make = |name: &[u8]| fs.make(&fs.enter(), ME, Ino::ROOT, name, NewKind::File, 0o644).unwrap().ino;
    let write = |ino, bytes: &[u8]| assert!(fs.write(&fs.enter(), ino, 0, bytes).is_ok());
    let (kept, changed) = (make(b"kept"), make(b"changed"));
    let (old, new, later) = (noise(300_000, 1), noise(300_000, 2), noise(300_000, 3));
    [kept, changed].into_iter().for_each(|ino| write(ino, &old));
    mounted.commit().await;
    write(changed, &new);
    let pending = mounted.stored(|_| {}).await;
    disk.fill_but(0);
    mounted.rebase(&pending).unwrap_err();
    assert!(fs.dirty_bytes() >= 300_000, "what could not be written down has left the overlay");
    assert_eq!(mounted.read("changed").await, new);
    assert_eq!(mounted.read("kept").await, old);
    // What is changed meanwhile stays so when there is room again.
    for size in [1000, 2000] {
        let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
        fs.set_attributes(&fs.enter(), kept, set).unwrap();
    }
    disk.relieve();
    write(changed, &later[..1000]);
    mounted.rebase(&pending).unwrap();
    let mixed = [&later[..1000], &new[1000..]].concat();
    let cut = [&old[..1000], &[0; 1000]].concat();
    for _ in 0..2 {
        assert_eq!(mounted.read("changed").await, mixed);
        assert_eq!(mounted.read("kept").await, cut);
        mounted.kill(true).await;
    }
    drop(fs);
    mounted.commit().await;
    assert_eq!(mounted.read("changed").await, mixed);
}

/// What a commit has taken cannot be told any more after another freeze.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_was_meant_is_forgotten_when_another_begins() {
    let mut mounted = mounted().await;
    let record = RecordId::from_bytes([7; 16]);
    let freeze = |mounted: &Mounted| {
        let closed = mounted.fs.close_when_quiet(Duration::ZERO).unwrap();
        mounted.fs.freeze(&closed).unwrap().epoch
    };
    let epoch = freeze(&mounted);
    mounted.fs.intend(Intent { record, epoch, flip: None }).unwrap();
    mounted.kill(true).await;
    assert_eq!(mounted.fs.intent().map(|intent| (intent.record, intent.epoch)), Some((record, epoch)));
    freeze(&mounted);
    assert_eq!(Unfinished::read(&mounted.session, true).unwrap().intent(), None);
    mounted.kill(true).await;
    assert_eq!(mounted.fs.intent(), None);
}
