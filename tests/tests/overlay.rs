//! The file system without a kernel: random operations beside a model, through commits and
//! the sudden end of the daemon.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use fuse::{
    fs::{Allocation, Caller, Fs, Must, Replace, SetAttributes},
    overlay::{
        change::NewKind,
        checkpoint::{self, Below},
        journal::Journal,
        node::Ino,
        recovery::{Recovered, Unfinished},
        session::SessionDir,
        upper::Upper,
    },
};
use proptest::prelude::*;
use store::{
    bucket::MemoryBucket,
    content::lazy::{Lazy, Limits},
    format::tree::Meta,
    ops::{
        commit::{self, Base},
        open::Opened,
        snapshot::Examined,
    },
    progress::Silent,
};
use tests::{
    tree::noise,
    world::{World, request},
};
use tokio::runtime::Handle;

const ME: Caller = Caller { uid: 0, gid: 0 };

#[derive(Clone, Debug)]
enum Step {
    Make { folder: usize, name: u8, folder_too: bool },
    Link { file: usize, folder: usize, name: u8 },
    Symlink { folder: usize, name: u8 },
    Write { file: usize, offset: u32, len: u32, seed: u64 },
    Truncate { file: usize, size: u32 },
    Zero { file: usize, offset: u32, len: u32, punch: bool },
    Rename { what: usize, folder: usize, name: u8, exchange: bool },
    Remove { what: usize },
    Mark { what: usize, value: u8 },
    Sync { file: usize },
    Kill,
    Commit,
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let (what, name) = (0usize..64, 0u8..6);
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
    ]
}

/// What a file system is to whoever uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    /// By path; the root is the empty path.
    names: BTreeMap<String, Thing>,
    contents: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    Folder,
    File(u64),
    Link,
}

impl Model {
    fn new() -> Self {
        Self { names: BTreeMap::from([(String::new(), Thing::Folder)]), ..Self::default() }
    }

    fn pick(&self, at: usize, fits: impl Fn(&str, &Thing) -> bool) -> Option<String> {
        let fitting: Vec<&String> =
            self.names.iter().filter(|(path, thing)| fits(path, thing)).map(|(path, _)| path).collect();
        (!fitting.is_empty()).then(|| fitting[at % fitting.len()].clone())
    }

    fn folder(&self, at: usize) -> String {
        self.pick(at, |_, thing| *thing == Thing::Folder).unwrap()
    }

    fn file(&self, at: usize) -> Option<String> {
        self.pick(at, |_, thing| matches!(thing, Thing::File(_)))
    }

    fn anything(&self, at: usize) -> Option<String> {
        self.pick(at, |path, _| !path.is_empty())
    }

    fn content(&mut self, path: &str) -> &mut Vec<u8> {
        let Thing::File(id) = self.names[path] else { panic!("{path} is no file") };
        self.contents.get_mut(&id).unwrap()
    }

    fn move_all(&mut self, from: &str, to: &str) {
        let moved: Vec<String> = self
            .names
            .keys()
            .filter(|path| *path == from || path.starts_with(&format!("{from}/")))
            .cloned()
            .collect();
        for path in moved {
            let thing = self.names.remove(&path).unwrap();
            self.names.insert(format!("{to}{}", &path[from.len()..]), thing);
        }
    }
}

fn join(folder: &str, name: u8) -> String {
    let name = ["a", "b", "c", "d.db", "e", "f"][usize::from(name)];
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn split(path: &str) -> (&str, &[u8]) {
    match path.rsplit_once('/') {
        Some((folder, name)) => (folder, name.as_bytes()),
        None => ("", path.as_bytes()),
    }
}

/// A file system over a store, and everything needed to lose and find it again.
struct Desk {
    world: World,
    folder: tempfile::TempDir,
    session: SessionDir,
    fs: Arc<Fs>,
    base: Option<Base>,
}

impl Desk {
    async fn new() -> Self {
        let world = World::open(Arc::new(MemoryBucket::new()), None).await;
        let folder = tempfile::tempdir().unwrap();
        let session = SessionDir::create(folder.path(), "session").unwrap();
        let meta = Meta { mode: 0o700, ..Meta::default() };
        let base = checkpoint::Base::fresh(None, &meta);
        let journal = Journal::create(&session.journal(), &base.encode(), &[]).unwrap();
        let recovered = Recovered {
            table: base.table(&[], &[]).unwrap(),
            journal,
            upper: Upper::new(session.data()),
            intent: None,
            intended: Vec::new(),
            numbers: Vec::new(),
            lost_writes: 0,
        };
        let fs = Self::fs(&world, recovered, None);
        Self { world, folder, session, fs, base: None }
    }

    fn fs(world: &World, recovered: Recovered, below: Option<Below>) -> Arc<Fs> {
        let lazy = Lazy::new(world.store.clone(), Handle::current(), Limits::default(), Default::default());
        Arc::new(Fs::new(recovered, below, Arc::new(lazy), Vec::new()))
    }

    /// The daemon is gone; another takes up what it left.
    async fn kill(&mut self, same_boot: bool) {
        let unfinished = Unfinished::read(&self.session, same_boot).unwrap();
        let below = unfinished.below().cloned();
        let opened = match &self.base {
            Some(base) => Some(Opened::load(&self.world.store, base.record.clone()).await.unwrap()),
            None => None,
        };
        assert_eq!(
            below.as_ref().map(|below| below.record),
            self.base.as_ref().map(|base| base.record.record)
        );
        let (entries, locations) =
            opened.as_ref().map_or((&[][..], &[][..]), |opened| (&opened.entries[..], &opened.locations[..]));
        let recovered = unfinished.recover(&self.session, entries, locations, &[]).unwrap();
        self.fs = Self::fs(&self.world, recovered, below);
    }

    async fn commit(&mut self) -> store::id::SnapshotId {
        let (closed, frozen) = self.fs.freeze(&Handle::current()).unwrap();
        drop(closed);
        let epoch = frozen.epoch;
        let numbers = frozen.numbers.clone();
        let template = request(&self.world.lineage, Path::new("/"));
        let wanted = commit::Request {
            lineage: self.world.lineage.clone(),
            path: "/mnt".into(),
            about: template.about,
            threads: 2,
            examined: Examined::default(),
            hold_back: None,
            first_reads: Vec::new(),
            quota_bytes: None,
            archive: None,
        };
        let files = frozen.files.clone();
        let (report, stored) = commit::commit(
            &self.world.store,
            wanted,
            frozen.tree,
            files,
            self.base.clone(),
            None,
            async |_| Ok(()),
            Arc::new(Silent),
        )
        .await
        .unwrap();
        if let Some(stored) = stored {
            let below = Below {
                lineage: self.world.lineage.clone(),
                record: stored.record.record,
                generation: stored.record.generation,
            };
            self.fs.rebase(&self.session, epoch, numbers, below, &stored.entries, &stored.locations).unwrap();
            self.base = Some(Base { record: stored.record, metadata: stored.metadata });
            assert_eq!(self.fs.dirty_bytes(), 0, "what is committed leaves the overlay");
            assert!(!self.fs.is_changed_since(0));
        }
        report.snapshot_id
    }

    fn ino(&self, path: &str) -> Ino {
        path.split('/').filter(|name| !name.is_empty()).fold(Ino::ROOT, |at, name| {
            self.fs.lookup(at, name.as_bytes()).unwrap_or_else(|errno| panic!("{path}: {errno}")).ino
        })
    }

    async fn read(&self, path: &str) -> Vec<u8> {
        let ino = self.ino(path);
        let size = self.fs.attributes(ino).unwrap().size;
        let plan = self.fs.plan(ino, None, 0, size as u32).unwrap();
        match self.fs.read_now(&plan) {
            Some(read) => read.unwrap(),
            None => self.fs.read_later(plan).await.unwrap(),
        }
    }

    async fn assert_is(&self, model: &Model) {
        let mut seen = BTreeSet::new();
        let mut open = vec![String::new()];
        while let Some(folder) = open.pop() {
            seen.insert(folder.clone());
            let handle = self.fs.open_directory(self.ino(&folder)).unwrap();
            for listed in self.fs.list(handle, 0).unwrap().iter().skip(2) {
                let name = String::from_utf8(listed.name.clone()).unwrap();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                match &model.names.get(&path) {
                    Some(Thing::Folder) => open.push(path),
                    Some(Thing::File(id)) => {
                        assert_eq!(self.read(&path).await, model.contents[id], "{path}");
                        let names = model.names.values().filter(|thing| **thing == Thing::File(*id)).count();
                        assert_eq!(self.fs.attributes(listed.ino).unwrap().links as usize, names, "{path}");
                        seen.insert(path);
                    }
                    Some(Thing::Link) => {
                        assert_eq!(self.fs.read_link(listed.ino).unwrap(), b"target");
                        seen.insert(path);
                    }
                    None => panic!("{path} should not be there"),
                }
            }
            self.fs.close(handle);
        }
        assert_eq!(seen, model.names.keys().cloned().collect());
    }

    /// What was committed is what a capture of the same tree would be.
    async fn assert_same_as_captured(&self, id: store::id::SnapshotId) {
        let out = self.folder.path().join("out");
        let _ = fs::remove_dir_all(&out);
        let record = &self.base.as_ref().unwrap().record;
        self.world.restore_record(record, &out).await.unwrap();
        let report = self.world.snapshot(&out).await.unwrap();
        assert_eq!(report.snapshot_id, id, "a capture of the same tree has another id");
    }
}

async fn play(steps: Vec<Step>) {
    let mut desk = Desk::new().await;
    let mut model = Model::new();
    for step in steps {
        let fs = Arc::clone(&desk.fs);
        let pass = fs.enter();
        match step {
            Step::Make { folder, name, folder_too } => {
                let path = join(&model.folder(folder), name);
                let (parent, name) = split(&path);
                let kind = if folder_too { NewKind::Directory } else { NewKind::File };
                let made = fs.make(&pass, ME, desk.ino(parent), name, kind, 0o755);
                assert_eq!(made.is_ok(), !model.names.contains_key(&path));
                if made.is_ok() {
                    let thing = if folder_too { Thing::Folder } else { Thing::File(model.next) };
                    model.contents.insert(model.next, Vec::new());
                    model.next += 1;
                    model.names.insert(path, thing);
                }
            }
            Step::Link { file, folder, name } => {
                let Some(file) = model.file(file) else { continue };
                let path = join(&model.folder(folder), name);
                let (parent, name) = split(&path);
                if fs.link(&pass, desk.ino(&file), desk.ino(parent), name).is_ok() {
                    let thing = model.names[&file].clone();
                    assert!(model.names.insert(path, thing).is_none());
                }
            }
            Step::Symlink { folder, name } => {
                let path = join(&model.folder(folder), name);
                let (parent, name) = split(&path);
                let kind = NewKind::Symlink { target: b"target".to_vec() };
                if fs.make(&pass, ME, desk.ino(parent), name, kind, 0o777).is_ok() {
                    assert!(model.names.insert(path, Thing::Link).is_none());
                }
            }
            Step::Write { file, offset, len, seed } => {
                let Some(path) = model.file(file) else { continue };
                let data = noise(len as usize, seed);
                assert_eq!(fs.write(&pass, desk.ino(&path), offset.into(), &data).unwrap(), data.len());
                let content = model.content(&path);
                let end = offset as usize + data.len();
                content.resize(content.len().max(end), 0);
                content[offset as usize..end].copy_from_slice(&data);
            }
            Step::Truncate { file, size } => {
                let Some(path) = model.file(file) else { continue };
                let set = SetAttributes { size: Some(size.into()), ..SetAttributes::default() };
                fs.set_attributes(&pass, desk.ino(&path), set).unwrap();
                model.content(&path).resize(size as usize, 0);
            }
            Step::Zero { file, offset, len, punch } => {
                let Some(path) = model.file(file) else { continue };
                let what = if punch { Allocation::Punch } else { Allocation::Zero { keep_size: false } };
                let range = u64::from(offset)..u64::from(offset + len);
                fs.allocate(&pass, desk.ino(&path), range, what).unwrap();
                let content = model.content(&path);
                let end = (offset + len) as usize;
                if !punch {
                    content.resize(content.len().max(end), 0);
                }
                let end = end.min(content.len());
                if (offset as usize) < end {
                    content[offset as usize..end].fill(0);
                }
            }
            Step::Rename { what, folder, name, exchange } => {
                let Some(from) = model.anything(what) else { continue };
                let to = join(&model.folder(folder), name);
                let ((parent, old), (new_parent, new)) = (split(&from), split(&to));
                let replace = if exchange { Replace::Exchange } else { Replace::Yes };
                let (parent, new_parent) = (desk.ino(parent), desk.ino(new_parent));
                if fs.rename(&pass, parent, old, new_parent, new, replace).is_err() {
                    continue;
                }
                let same = matches!((&model.names[&from], model.names.get(&to)), (Thing::File(a), Some(Thing::File(b))) if a == b);
                if from == to || same {
                    continue;
                }
                if exchange {
                    model.move_all(&from, "aside");
                    model.move_all(&to, &from);
                    model.move_all("aside", &to);
                } else {
                    model.names.remove(&to);
                    model.move_all(&from, &to);
                }
            }
            Step::Remove { what } => {
                let Some(path) = model.anything(what) else { continue };
                let (parent, name) = split(&path);
                let parent = desk.ino(parent);
                let removed = match model.names[&path] {
                    Thing::Folder => fs.remove_directory(&pass, parent, name),
                    _ => fs.unlink(&pass, parent, name),
                };
                let full = model.names.keys().any(|other| other.starts_with(&format!("{path}/")));
                assert_eq!(removed.is_ok(), !full);
                if removed.is_ok() {
                    model.names.remove(&path);
                }
            }
            Step::Mark { what, value } => {
                let Some(path) = model.anything(what) else { continue };
                let ino = desk.ino(&path);
                let set = SetAttributes { mode: Some(0o600 + u32::from(value)), ..SetAttributes::default() };
                let link = model.names[&path] == Thing::Link;
                assert_eq!(fs.set_attributes(&pass, ino, set).is_err(), link);
                if !link {
                    fs.set_xattr(&pass, ino, b"user.x", &[value], Must::Either).unwrap();
                }
            }
            Step::Sync { file } => {
                let Some(path) = model.file(file) else { continue };
                fs.sync(&pass, desk.ino(&path)).unwrap();
            }
            Step::Kill => {
                drop(pass);
                drop(fs);
                desk.kill(true).await;
                desk.assert_is(&model).await;
            }
            Step::Commit => {
                drop(pass);
                drop(fs);
                let id = desk.commit().await;
                desk.assert_is(&model).await;
                if desk.base.is_some() {
                    desk.assert_same_as_captured(id).await;
                }
            }
            Step::Compact => {
                drop(pass);
                fs.compact(&desk.session).unwrap();
            }
        }
    }
    desk.assert_is(&model).await;
    desk.kill(true).await;
    desk.assert_is(&model).await;
    desk.commit().await;
    desk.assert_is(&model).await;
}

/// More of them by `PSTORE_FS_CASES`.
fn cases() -> u32 {
    std::env::var("PSTORE_FS_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(96)
}

/// After a crash of the host, bytes that were never flushed may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_of_the_host_what_was_synced_is_there_and_what_was_not_is_whole_or_gone() {
    let mut desk = Desk::new().await;
    let fs = Arc::clone(&desk.fs);
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
        fs::File::options().write(true).open(desk.session.data().join(format!("{:x}-0", lost.0))).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&data, &[0; 4096], 70_000).unwrap();
    drop(fs);
    desk.kill(false).await;
    let found = desk.read("synced").await;
    assert_eq!(found.len(), old.len());
    assert_eq!((&found[..10_000], &found[10_100..]), (&old[..10_000], &old[10_100..]));
    assert_eq!(desk.read("kept").await, new);
    assert_eq!(desk.read("lost").await, old, "half a write is no write");
}

/// A journal whose end was torn off loses its end and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_journal_is_read_as_far_as_it_is_whole() {
    let mut desk = Desk::new().await;
    let fs = Arc::clone(&desk.fs);
    let pass = fs.enter();
    let first = fs.make(&pass, ME, Ino::ROOT, b"first", NewKind::File, 0o644).unwrap().ino;
    fs.write(&pass, first, 0, b"hello").unwrap();
    let whole = fs.journal_bytes();
    fs.make(&pass, ME, Ino::ROOT, b"second", NewKind::File, 0o644).unwrap();
    fs.journal_file().set_len(whole + 7).unwrap();
    drop(pass);
    drop(fs);
    desk.kill(true).await;
    assert_eq!(desk.read("first").await, b"hello");
    assert!(desk.fs.lookup(Ino::ROOT, b"second").is_err());
    // And it goes on from there.
    let fs = Arc::clone(&desk.fs);
    let pass = fs.enter();
    fs.make(&pass, ME, Ino::ROOT, b"third", NewKind::File, 0o644).unwrap();
    drop(pass);
    drop(fs);
    desk.kill(true).await;
    assert!(desk.fs.lookup(Ino::ROOT, b"third").is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_file_system_is_what_the_model_is(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(play(steps));
    }
}
