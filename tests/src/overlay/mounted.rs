//! `Mounted` is a file system over a store, with everything needed to lose and find it again.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use fuse::{
    Errno,
    freeze::{FrozenChanges, Taken},
    fs::{Answer, Caller, Fs, Unanswered, read::Reading},
    overlay::{
        checkpoint::{Below, Checkpoint},
        journal::Journal,
        node::Ino,
        recovery::{Recovered, Unfinished},
        session::SessionDir,
        upper::Upper,
    },
};
use store::{
    bucket::MemoryBucket,
    content::{
        chunk_fetcher::{ChunkFetcher, Limits},
        snapshot_tree::SnapshotTree,
    },
    format::tree::{Entry, Kind, Meta},
    id::SnapshotId,
    ops::write::commit::{self, Base, Stored},
    progress::Silent,
};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::{
    checkpoint::LastCheckpoint,
    model::{Model, Thing},
};
use crate::store_fixture::{StoreFixture, commit_request};

/// The caller of everything.
pub const ME: Caller = Caller { uid: 0, gid: 0 };

const SESSION: &str = "session";

#[derive(Debug)]
pub struct Mounted {
    pub(super) fixture: StoreFixture,
    _folder: Option<TempDir>,
    pub session: SessionDir,
    pub fs: Arc<Fs>,
    pub(super) base: Option<Base>,
    pub(super) last: LastCheckpoint,
    room: Room,
    /// Whether each commit is compared with the whole tree.
    compares: bool,
}

/// How much of a tree is held in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// As much as a mount holds.
    #[default]
    Plenty,
    /// As good as nothing: content was dropped, and is read again from the store.
    None,
}

/// A snapshot that the overlay does not stand on yet.
#[derive(Debug)]
pub struct Pending {
    id: SnapshotId,
    taken: Taken,
    /// `None` if nothing had changed.
    stored: Option<Stored>,
}

impl Mounted {
    /// An empty one, with its session in `folder`, which goes with it.
    pub async fn new(folder: TempDir) -> Self {
        let mounted = Self::at(folder.path()).await;
        Self { _folder: Some(folder), ..mounted }
    }

    /// An empty one, with its session in `folder`.
    pub async fn at(folder: &Path) -> Self {
        let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
        let session = SessionDir::create(folder, SESSION).unwrap();
        let meta = Meta { mode: 0o700, ..Meta::default() };
        let base = Checkpoint::fresh(None, &meta);
        let journal = Journal::create(&session.journal(), &base.encode(), &[]).unwrap();
        let recovered = Recovered {
            nodes: base.nodes(None).await.unwrap(),
            journal,
            upper: Upper::new(session.data()),
            intent: None,
            intended: None,
            lost_writes: 0,
        };
        let fs = Self::fs(&fixture, recovered, None, Room::Plenty);
        let (room, last) = (Room::Plenty, LastCheckpoint::default());
        let mounted = Self { fixture, _folder: None, session, fs, base: None, last, room, compares: true };
        mounted.note_happenings();
        mounted
    }

    /// One of the current snapshot of a store, which is read by need; its session is in `folder`.
    pub async fn over(fixture: StoreFixture, folder: TempDir) -> Self {
        let session = SessionDir::create(folder.path(), SESSION).unwrap();
        let record = fixture.current().await.unwrap();
        let tree = Arc::new(SnapshotTree::by_need(&fixture.store, &record).await.unwrap());
        let (lineage, id) = (fixture.lineage.clone(), record.record);
        let below = Some(Below { lineage, record: id, generation: record.generation });
        let checkpoint = Checkpoint::fresh(below.clone(), &Meta::default());
        let journal = Journal::create(&session.journal(), &checkpoint.encode(), &[]).unwrap();
        let recovered = Recovered {
            nodes: checkpoint.nodes(Some(Arc::clone(&tree))).await.unwrap(),
            journal,
            upper: Upper::new(session.data()),
            intent: None,
            intended: None,
            lost_writes: 0,
        };
        let (base, room) = (Some(Base { record, tree }), Room::Plenty);
        let fs = Self::fs(&fixture, recovered, below, room);
        let last = LastCheckpoint::default();
        Self { fixture, _folder: Some(folder), session, fs, base, last, room, compares: false }
    }

    /// The same, with so much room for content that was read.
    pub fn with(self, room: Room) -> Self {
        Self { room, ..self }
    }

    /// The same session as somebody left it in `folder`, over the same snapshot.
    pub async fn found_in(&self, folder: TempDir, same_boot: bool) -> Self {
        let session = SessionDir::open(&folder.path().join(SESSION)).unwrap().unwrap();
        let (fixture, base, room) = (self.fixture.clone(), self.base.clone(), self.room);
        let fs = Box::pin(Self::recover(&fixture, base.as_ref(), &session, same_boot, room)).await.unwrap();
        let last = LastCheckpoint::default();
        Self { fixture, _folder: Some(folder), session, fs, base, last, room, compares: self.compares }
    }

    fn fs(fixture: &StoreFixture, recovered: Recovered, below: Option<Below>, room: Room) -> Arc<Fs> {
        let fetcher = ChunkFetcher::new(
            fixture.store.clone(),
            Handle::current(),
            Limits::default(),
            Default::default(),
        );
        let nodes = match room {
            Room::Plenty => recovered.nodes,
            Room::None => recovered.nodes.keeping(0),
        };
        Arc::new(Fs::new(Recovered { nodes, ..recovered }, below, Arc::new(fetcher), Vec::new()))
    }

    /// The tree of a snapshot, whole or by need.
    async fn tree(fixture: &StoreFixture, base: &Base, room: Room) -> store::Result<Arc<SnapshotTree>> {
        Ok(Arc::new(match room {
            Room::Plenty => return Ok(Arc::clone(&base.tree)),
            Room::None => SnapshotTree::by_need(&fixture.store, &base.record).await?.holding(0),
        }))
    }

    /// Asks the file system until there is an answer, and loads the missing parts.
    pub fn ask<T>(&self, mut ask: impl FnMut(&Fs) -> Answer<T>) -> Result<T, Errno> {
        loop {
            match ask(&self.fs) {
                Ok(answer) => return Ok(answer),
                Err(Unanswered::Refused(errno)) => return Err(errno),
                Err(Unanswered::Missing(missing)) => {
                    awaited(missing.load()).map_err(|_| Errno::IO)?;
                }
            }
        }
    }

    /// The daemon is gone; another takes up its session.
    pub async fn kill(&mut self, same_boot: bool) {
        self.try_kill(same_boot).await.unwrap();
    }

    /// As [`Self::kill`]; if the session cannot be taken up, nothing happens.
    pub async fn try_kill(&mut self, same_boot: bool) -> store::Result<()> {
        let recovering =
            Self::recover(&self.fixture, self.base.as_ref(), &self.session, same_boot, self.room);
        self.fs = Box::pin(recovering).await?;
        self.note_happenings();
        Ok(())
    }

    async fn recover(
        fixture: &StoreFixture,
        base: Option<&Base>,
        session: &SessionDir,
        same_boot: bool,
        room: Room,
    ) -> store::Result<Arc<Fs>> {
        let unfinished = Unfinished::read(session, same_boot)?;
        let below = unfinished.below().cloned();
        let tree = match base {
            Some(base) => Some(Self::tree(fixture, base, room).await?),
            None => None,
        };
        assert_eq!(below.as_ref().map(|below| below.record), base.map(|base| base.record.record));
        let recovered = unfinished.recover(session, tree).await?;
        Ok(Self::fs(fixture, recovered, below, room))
    }

    /// Stores all changes. The snapshot is the one that a capture of the same tree would be.
    pub async fn commit(&mut self) {
        let Pending { id, taken, stored } = Box::pin(self.store(|_| {})).await;
        assert!(!self.fs.is_changed_since(taken.epoch), "nothing is at stake after a commit");
        // What was changed to what it had been is stored nowhere else, and stays marked.
        if stored.is_some() {
            assert_eq!(self.fs.dirty_bytes(), 0, "what is committed leaves the overlay");
            assert!(!self.fs.is_changed_since(0), "what is committed leaves the overlay");
        }
        if let Some(base) = &self.base {
            let out = tempfile::tempdir().unwrap();
            let out = out.path().join("out");
            self.fixture.restore_record(&base.record, &out).await.unwrap();
            let report = self.fixture.snapshot(&out).await.unwrap();
            assert_eq!(report.snapshot_id, id, "a capture of the same tree has another id");
        }
    }

    /// Stores all changes, while something happens that is not stored.
    pub async fn commit_beside(&mut self, happens: impl FnOnce(&Fs)) {
        Box::pin(self.store(happens)).await;
    }

    async fn store(&mut self, happens: impl FnOnce(&Fs)) -> Pending {
        let pending = self.stored(happens).await;
        self.rebase(&pending).unwrap();
        pending
    }

    /// Stores all changes, and leaves them in the overlay.
    pub async fn stored(&mut self, happens: impl FnOnce(&Fs)) -> Pending {
        let closed = self.fs.close_when_quiet(Duration::ZERO).unwrap();
        let frozen = self.fs.freeze(&closed).unwrap();
        drop(closed);
        happens(&self.fs);
        let FrozenChanges { changes, files, taken, bytes, .. } =
            frozen.changes(&Handle::current()).await.unwrap();
        if self.compares {
            let listed = frozen.list().await.unwrap();
            assert_eq!(taken.numbers.len(), listed.entries.len() as u64, "other numbers than entries");
            assert_eq!(bytes, listed.entries.iter().map(Entry::size).sum::<u64>());
            for (at, (entry, ino)) in listed.entries.iter().zip(&listed.numbers).enumerate() {
                let expected = (!matches!(entry.kind, Kind::HardLink { .. })).then_some(*ino);
                assert_eq!(taken.numbers.ino(at as u64), expected, "{}", entry.path);
            }
        }
        let (report, stored) = commit::commit(
            &self.fixture.store,
            commit_request(&self.fixture.lineage, Path::new("/mnt")),
            (changes, files),
            self.base.clone(),
            None,
            async |_| Ok(()),
            Arc::new(Silent),
        )
        .await
        .unwrap();
        Pending { id: report.snapshot_id, taken, stored }
    }

    /// Takes the stored changes out of the overlay.
    pub fn rebase(&mut self, pending: &Pending) -> store::Result<()> {
        let Pending { taken, stored, .. } = pending;
        let Some(Stored { record, tree, .. }) = stored else { return Ok(()) };
        let (lineage, id) = (self.fixture.lineage.clone(), record.record);
        let below = Below { lineage, record: id, generation: record.generation };
        let base = Base { record: record.clone(), tree: Arc::clone(tree) };
        let onto = awaited(async {
            let tree = Self::tree(&self.fixture, &base, self.room).await?;
            taken.clone().stored_as(tree).await
        })?;
        self.fs.rebase(&self.session, onto, below)?;
        self.base = Some(base);
        Ok(())
    }

    pub(super) fn ino(&self, path: &str) -> Ino {
        path.split('/').filter(|name| !name.is_empty()).fold(Ino::ROOT, |at, name| {
            self.ask(|fs| fs.lookup(at, name.as_bytes()))
                .unwrap_or_else(|errno| panic!("{path}: {errno}"))
                .ino
        })
    }

    pub async fn read(&self, path: &str) -> Vec<u8> {
        let ino = self.ino(path);
        let size = self.ask(|fs| fs.attributes(ino)).unwrap().size;
        let plan = self.ask(|fs| fs.plan(ino, None, 0, size as u32)).unwrap();
        match self.fs.read_now(&plan) {
            Reading::Done(read) => read.unwrap(),
            Reading::Waiting(found) => self.fs.read_later(plan, found).await.unwrap(),
        }
    }

    pub(super) async fn assert_is(&self, model: &Model) {
        let mut seen = BTreeSet::new();
        let mut open = vec![String::new()];
        while let Some(folder) = open.pop() {
            seen.insert(folder.clone());
            let ino = self.ino(&folder);
            let handle = self.ask(|fs| fs.open_directory(ino)).unwrap();
            for listed in self.ask(|fs| fs.list(handle, 0)).unwrap().iter().skip(2) {
                let name = String::from_utf8(listed.name.clone()).unwrap();
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let thing = *model.names.get(&path).unwrap_or_else(|| panic!("{path} should not be there"));
                match thing {
                    Thing::Folder => {
                        open.push(path);
                        continue;
                    }
                    Thing::File(id) => {
                        assert!(self.read(&path).await == model.contents[&id], "{path} has other bytes");
                    }
                    Thing::Link(_) => assert_eq!(self.ask(|fs| fs.read_link(listed.ino)).unwrap(), b"target"),
                }
                let links = self.ask(|fs| fs.attributes(listed.ino)).unwrap().links as usize;
                assert_eq!(links, model.links(thing), "{path}");
                seen.insert(path);
            }
            self.fs.close(handle);
        }
        assert_eq!(seen, model.names.keys().cloned().collect());
    }
}

/// Waits for something where nothing else can.
fn awaited<T>(work: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| Handle::current().block_on(work))
}
