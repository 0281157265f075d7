//! `checkpoint` takes checkpoints of a file system: each is what a commit of all its changes would be, and no event is
//! missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use fuse::{
    freeze::{ChangesSince, CheckpointBase, FrozenChanges},
    overlay::chronicle::Happened,
};
use store::{
    format::tree::{Entry, Kind},
    id::SnapshotId,
    name::{ChromeMajor, Lineage},
    ops::write::commit::{self, Base, Stored, TreeChanges},
    progress::Silent,
};
use tokio::runtime::Handle;

use super::Mounted;
use crate::store_fixture::commit_request;

/// The checkpoint before.
#[derive(Debug, Default)]
pub struct LastCheckpoint {
    standing: Option<(Base, CheckpointBase)>,
    /// The files and links that it has.
    files: BTreeSet<Vec<u8>>,
    /// The last event that was read.
    event: (u32, u64),
}

impl Mounted {
    /// What happens to files is noted from now on, if there is room for it.
    pub(super) fn note_happenings(&self) {
        let _ = self.fs.begin_chronicle(&self.session.path().join("chronicle"));
    }

    /// Takes a checkpoint, and leaves everything in the overlay.
    pub async fn checkpoint(&mut self) {
        let closed = self.fs.close_at_once();
        let frozen = self.fs.freeze(&closed).unwrap();
        drop(closed);
        let before = match self.last.standing.take() {
            Some(before) if frozen.follows(&before.1, &[]).await.unwrap() => Some(before),
            _ => None,
        };
        let (base, standing) = before.unzip();
        let since = frozen.since(standing.as_ref(), &[], &Handle::current()).await.unwrap();
        let ChangesSince { changes, files, bytes, taken } = since;
        let listed = frozen.list().await.unwrap().entries;
        assert_eq!(bytes, listed.iter().map(Entry::size).sum::<u64>());
        self.check_events(&changes, &listed, frozen.last_event, standing.is_some());
        let (id, stored) = self.store_changes(changes, files, base.or(self.base.clone())).await;
        let FrozenChanges { changes, files, .. } = frozen.changes(&Handle::current()).await.unwrap();
        let (expected, _) = self.store_changes(changes, files, self.base.clone()).await;
        assert_eq!(id, expected, "a commit of all changes has another id");
        let standing = taken.stored_as(Arc::clone(&stored.tree)).await.unwrap();
        self.last.standing = Some((stored, standing));
    }

    async fn store_changes(
        &self,
        changes: TreeChanges,
        files: Arc<fuse::freeze::ChangedFiles>,
        base: Option<Base>,
    ) -> (SnapshotId, Base) {
        let name = self.fixture.lineage.name.clone();
        let lineage = Lineage { name, chrome_major: ChromeMajor::WORKSPACE };
        let wanted = commit_request(&lineage, Path::new("/mnt"));
        let (store, intend) = (&self.fixture.store, async |_| Ok(()));
        let storing =
            commit::commit(store, wanted, (changes, files), base.clone(), None, intend, Arc::new(Silent));
        let (report, stored) = Box::pin(storing).await.unwrap();
        let stored = match stored {
            Some(Stored { record, tree, .. }) => Base { record, tree },
            None => base.unwrap(),
        };
        (report.snapshot_id, stored)
    }

    /// Every file that came, was written to or went since the checkpoint before has an event that says so.
    fn check_events(&mut self, changes: &TreeChanges, listed: &[Entry], until: u64, follows: bool) {
        let is_file = |entry: &&Entry| !matches!(entry.kind, Kind::Directory);
        let files: BTreeSet<Vec<u8>> =
            listed.iter().filter(is_file).map(|entry| entry.path.as_bytes().to_vec()).collect();
        let told = self.fs.happenings(self.last.event, until, usize::MAX).unwrap().unwrap();
        self.last.event = (told.chronicle, told.last);
        let mut events: BTreeMap<Vec<u8>, Vec<Happened>> = BTreeMap::new();
        for happening in told.happenings {
            events.entry(happening.path).or_default().push(happening.happened);
        }
        let of = |path: &Vec<u8>| events.get(path).map(Vec::as_slice).unwrap_or_default();
        let shown = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        for path in files.difference(&self.last.files) {
            assert_eq!(of(path).first(), Some(&Happened::Created), "{} came", shown(path));
            assert_ne!(of(path).last(), Some(&Happened::Deleted), "{} came", shown(path));
        }
        for path in self.last.files.difference(&files) {
            assert_eq!(of(path).last(), Some(&Happened::Deleted), "{} went", shown(path));
        }
        for (entry, _) in changes.changes.iter().filter_map(|change| change.rewritten()) {
            let path = entry.path.as_bytes().to_vec();
            if follows {
                assert!(!of(&path).is_empty(), "{} was written to", shown(&path));
            }
        }
        self.last.files = files;
    }
}
