//! These tests edit trees of many segments at random: a snapshot that keeps what has not changed is the one that
//! reading everything gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::sleep,
    time::Duration,
};

use rustix::fs::{XattrFlags, lsetxattr};
use store::{
    Result,
    bucket::MemoryBucket,
    content::meta::Metadata,
    format::{health::Health, record::Record, tree::Kind},
    ops::write::snapshot::{Examined, Examiner, Outcome, Request, TreeFiles},
};
use tests::{
    store_fixture::{StoreFixture, request},
    tree::{assert_same, noise},
};

/// A little more than the time a file needs to settle.
const SETTLE: Duration = Duration::from_millis(2200);
const TREES: u64 = 4;
const ROUNDS: u64 = 4;
const EDITS: usize = 30;

/// Draws numbers by lot.
struct Lot(u64);

impl Lot {
    fn draw(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// Everything below `root`, directories too, sorted.
fn all(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// Some two thousand files, most of them small, in folders in folders.
fn fill(root: &Path, lot: &mut Lot) {
    for number in 0..2000 {
        let depth = lot.draw(4);
        let mut folder = root.to_owned();
        (0..depth).for_each(|_| folder.push(format!("folder {}", lot.draw(6))));
        fs::create_dir_all(&folder).unwrap();
        let len = if lot.draw(200) == 0 { 300_000 } else { lot.draw(3000) };
        fs::write(folder.join(format!("{number}")), noise(len, number as u64)).unwrap();
    }
}

/// One change, of something that is there by then.
fn edit(root: &Path, lot: &mut Lot, number: usize) {
    let there = all(root);
    let (some, other) = (&there[lot.draw(there.len())], &there[lot.draw(there.len())]);
    let folder = if other.is_dir() { other.clone() } else { other.parent().unwrap().to_owned() };
    let new = folder.join(format!("new {number}"));
    let (is_file, is_dir) = (some.symlink_metadata().unwrap().is_file(), some.is_dir());
    match lot.draw(16) {
        0 | 1 if is_file => fs::write(some, noise(lot.draw(5000), number as u64)).unwrap(),
        2 if is_file => fs::write(some, noise(200_000, number as u64)).unwrap(),
        3 if is_file => fs::remove_file(some).unwrap(),
        4 if is_dir && lot.draw(3) == 0 => fs::remove_dir_all(some).unwrap(),
        5 if !folder.starts_with(some) => fs::rename(some, &new).unwrap(),
        6 | 7 if is_file => fs::hard_link(some, &new).unwrap(),
        8 => symlink("somewhere", &new).unwrap(),
        9 => fs::create_dir(&new).unwrap(),
        10 if is_file => {
            lsetxattr(some, "user.edit", &noise(20, number as u64), XattrFlags::empty()).unwrap()
        }
        11 if is_file => fs::set_permissions(some, fs::Permissions::from_mode(0o600)).unwrap(),
        12 => retype(some, other, lot),
        13 if is_dir => match lot.draw(2) {
            0 => fs::set_permissions(some, fs::Permissions::from_mode(0o700)).unwrap(),
            _ => lsetxattr(some, "user.edit", &noise(20, number as u64), XattrFlags::empty()).unwrap(),
        },
        14 if some.is_symlink() => {
            fs::remove_file(some).unwrap();
            symlink("elsewhere", some).unwrap();
        }
        // Names that sort around those below a folder.
        15 => {
            let suffix = ["!", " x", "-", "0"][lot.draw(4)];
            let name = format!("{}{suffix}", some.file_name().unwrap().to_str().unwrap());
            let beside = some.with_file_name(name);
            if beside.symlink_metadata().is_err() {
                fs::write(beside, noise(lot.draw(2000), number as u64)).unwrap();
            }
        }
        _ => fs::write(&new, noise(lot.draw(2000), number as u64)).unwrap(),
    }
}

/// Something of another kind takes the place of what is there.
fn retype(some: &Path, other: &Path, lot: &mut Lot) {
    let was = some.symlink_metadata().unwrap().file_type();
    match was.is_dir() {
        true => fs::remove_dir_all(some).unwrap(),
        false => fs::remove_file(some).unwrap(),
    }
    match lot.draw(4) {
        0 if !was.is_dir() => {
            fs::create_dir(some).unwrap();
            fs::write(some.join("below"), "within").unwrap();
        }
        1 if !was.is_symlink() => symlink("somewhere", some).unwrap(),
        2 if other.symlink_metadata().is_ok_and(|other| other.is_file()) => {
            fs::hard_link(other, some).unwrap()
        }
        _ => fs::write(some, noise(lot.draw(3000), lot.0)).unwrap(),
    }
}

/// Notes what it is told to look at.
#[derive(Debug, Default)]
struct Noting(Mutex<Option<BTreeSet<PathBuf>>>);

impl Examiner for Noting {
    fn examine(&self, _: &Path, changed: Option<&BTreeSet<PathBuf>>, _: Option<&Record>) -> Result<Examined> {
        *self.0.lock().unwrap() = changed.cloned();
        Ok(Examined { health: Some(Health::default()), hold_back: None })
    }

    fn reads(&self, _: &dyn TreeFiles, _: Option<&BTreeSet<PathBuf>>) -> Result<BTreeSet<PathBuf>> {
        Ok(BTreeSet::new())
    }
}

/// What holds something, by path.
type Contents = BTreeMap<PathBuf, Kind>;

async fn contents(fixture: &StoreFixture) -> Contents {
    let content = fixture.current().await.unwrap().content.unwrap();
    let (entries, _) = Metadata::fetch(&fixture.store, &content).await.unwrap().decode().unwrap();
    let holding =
        entries.into_iter().filter(|entry| matches!(entry.kind, Kind::File { .. } | Kind::HardLink { .. }));
    holding.map(|entry| (PathBuf::from(OsStr::from_bytes(entry.path.as_bytes())), entry.kind)).collect()
}

/// The paths at which two trees do not hold the same.
fn differing(before: &Contents, now: &Contents) -> BTreeSet<PathBuf> {
    let paths = before.keys().chain(now.keys());
    paths.filter(|path| before.get(*path) != now.get(*path)).cloned().collect()
}

/// A host that remembers the tree, and what it edits.
struct Edited {
    source: PathBuf,
    fixture: StoreFixture,
    lot: Lot,
    before: Contents,
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_edited_is_stored_as_if_all_of_it_were_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut edited = Vec::new();
    for tree in 0..TREES {
        let (source, mut lot) = (dir.path().join(format!("{tree}")), Lot(tree));
        fs::create_dir(&source).unwrap();
        fill(&source, &mut lot);
        let cache = dir.path().join(format!("cache {tree}"));
        let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), Some(cache)).await;
        edited.push(Edited { source, fixture, lot, before: Contents::new() });
    }
    for round in 0..=ROUNDS {
        sleep(SETTLE);
        for Edited { source, fixture, lot, before } in &mut edited {
            let noting = Arc::new(Noting::default());
            let examiner = Some(Arc::clone(&noting) as Arc<dyn Examiner>);
            let stored =
                fixture.capture(&Request { examiner, ..request(&fixture.lineage, source) }).await.unwrap();
            let now = contents(fixture).await;
            let expected = (round > 0).then(|| differing(before, &now));
            assert_eq!(*noting.0.lock().unwrap(), expected, "round {round}");
            *before = now;
            let files = stored.counts.files;
            assert_eq!((stored.outcome, stored.read_files + stored.reused_files), (Outcome::Stored, files));
            // Renamed folders are read again; of the rest little is.
            assert!(round == 0 || stored.reused_files > 0, "{stored:?}");
            let mut fresh =
                StoreFixture { store: fixture.store.clone(), ..fixture.of(&format!("acme/fresh-{round}")) };
            fresh.store.cache = None;
            let read = fresh.snapshot(source).await.unwrap();
            assert_eq!((read.read_files, read.snapshot_id), (files, stored.snapshot_id), "round {round}");
            let again = fixture.snapshot(source).await.unwrap();
            assert_eq!((again.outcome, again.snapshot_id), (Outcome::Unchanged, stored.snapshot_id));
            (0..EDITS).for_each(|number| edit(source, lot, 1000 * (round as usize + 1) + number));
        }
    }
    for (tree, Edited { source, fixture, .. }) in edited.iter().enumerate() {
        fixture.snapshot(source).await.unwrap();
        let out = dir.path().join(format!("out {tree}"));
        fixture.restore(&out).await.unwrap();
        assert_same(source, &out);
        fixture.assert_clean().await;
    }
}

/// The file in which a host remembers a directory.
fn memory(cache: &Path) -> PathBuf {
    let is_one = |path: &PathBuf| path.is_file() && fs::read(path).unwrap().starts_with(b"pstore/stat/5\n");
    let found: Vec<PathBuf> = all(cache).into_iter().filter(is_one).collect();
    let [path] = &found[..] else { panic!("{found:?}") };
    path.clone()
}

/// What a host remembers may be wrong, however that came about. The number of entries shows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_only_the_memory_has_is_stored() {
    /// What comes before the entries: a mark, the tree's id and its digest.
    const HEAD_BYTES: usize = 14 + 32 + 32;
    let dir = tempfile::tempdir().unwrap();
    let (source, cache) = (dir.path().join("source"), dir.path().join("cache"));
    let folder = source.join("folder");
    let time = std::time::SystemTime::now() - Duration::from_secs(3600);
    let date = |path: &Path| fs::File::open(path).unwrap().set_modified(time).unwrap();
    fs::create_dir_all(&folder).unwrap();
    fs::write(source.join("file"), "text").unwrap();
    [&folder, &source].into_iter().for_each(|path| date(path));
    sleep(SETTLE);
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), Some(cache.clone())).await;
    let whole = fixture.snapshot(&source).await.unwrap();
    let with_folder = fs::read(memory(&cache)).unwrap();
    fs::remove_dir(&folder).unwrap();
    date(&source);
    let without = fixture.snapshot(&source).await.unwrap();
    assert_ne!(without.snapshot_id, whole.snapshot_id);
    let mut remembered = fs::read(memory(&cache)).unwrap();
    remembered.splice(HEAD_BYTES.., with_folder[HEAD_BYTES..].iter().copied());
    fs::write(memory(&cache), remembered).unwrap();
    fs::create_dir(&folder).unwrap();
    [&folder, &source].into_iter().for_each(|path| date(path));
    let again = fixture.snapshot(&source).await.unwrap();
    assert_eq!((again.outcome, again.snapshot_id), (Outcome::Stored, whole.snapshot_id));
    // It remembers the right tree now.
    fs::write(source.join("file"), "other text").unwrap();
    date(&source);
    assert_eq!(fixture.snapshot(&source).await.unwrap().outcome, Outcome::Stored);
    let out = dir.path().join("out");
    fixture.restore(&out).await.unwrap();
    assert_same(&source, &out);
    fixture.assert_clean().await;
}
