//! These tests compare edited trees with trees that are cut from scratch.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    bucket::{Bucket, Write},
    content::{chunk_fetcher::tests::Desk, meta::NewMetadata},
    format::{
        frame::Codec,
        layout,
        record::Counts,
        root::Root,
        table::Location,
        tree::{Meta, Time},
    },
    id::{ChunkId, PackId, PackSeq, RecordId},
};

type Tree = BTreeMap<TreePath, Entry>;

/// Numbers by lot.
struct Lot(u64);

impl Lot {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 16) as usize % below
    }

    fn chunk(&mut self) -> Extent {
        let id = ChunkId::from_bytes(std::array::from_fn(|_| self.next(256) as u8));
        Extent::Chunk { id, len: 1 + self.next(60_000) as u32 }
    }

    fn meta(&mut self) -> Meta {
        // Long enough that a segment has a few entries only.
        let xattr = (b"user.x".to_vec(), vec![self.next(256) as u8; self.next(700)]);
        let mtime = Time { seconds: self.next(1000) as i64, nanos: 0 };
        Meta { mode: 0o644, mtime, xattrs: vec![xattr], ..Meta::default() }
    }

    fn file(&mut self, path: TreePath) -> Entry {
        let chunks = match self.next(60) {
            0 => 2000 + self.next(4000),
            1 => 200 + self.next(400),
            _ => self.next(4),
        };
        let mut extents: Vec<Extent> = (0..chunks).map(|_| self.chunk()).collect();
        if chunks > 300 && self.next(2) == 0 {
            extents.insert(self.next(chunks), Extent::Hole(1 << 20));
        }
        let size = extents.iter().map(Extent::len).sum();
        Entry { path, meta: self.meta(), kind: Kind::File { size, extents } }
    }

    fn pick<'a>(&mut self, tree: &'a Tree) -> &'a Entry {
        tree.values().nth(self.next(tree.len())).unwrap()
    }

    /// Adds an entry somewhere.
    fn grow(&mut self, tree: &mut Tree) {
        let parent = loop {
            let parent = self.pick(tree);
            if parent.kind == Kind::Directory && parent.path.as_bytes().len() < 40 {
                break parent.path.clone();
            }
        };
        let path = parent.join(format!("{:x}", self.next(1 << 12)).as_bytes()).unwrap();
        if tree.contains_key(&path) {
            return;
        }
        let mut entry = self.file(path.clone());
        match self.next(12) {
            0 | 1 => entry.kind = Kind::Directory,
            2 => entry.kind = Kind::Symlink { target: b"somewhere".to_vec() },
            3 => {
                let target =
                    tree.range(..&path).rev().find(|(_, file)| matches!(file.kind, Kind::File { .. }));
                if let Some((target, _)) = target {
                    entry = Entry {
                        meta: Meta::default(),
                        kind: Kind::HardLink { target: target.clone() },
                        path: path.clone(),
                    };
                }
            }
            _ => {}
        }
        tree.insert(path, entry);
    }

    fn tree(&mut self) -> Tree {
        let root = Entry { path: TreePath::root(), meta: self.meta(), kind: Kind::Directory };
        let mut tree = Tree::from([(TreePath::root(), root)]);
        for _ in 0..self.next(500) {
            self.grow(&mut tree);
        }
        tree
    }

    /// Changes a tree in one place.
    fn edit(&mut self, tree: &mut Tree) {
        let picked = match self.next(6) {
            0 => tree.keys().next_back().unwrap().clone(),
            1 => tree.keys().next().unwrap().clone(),
            _ => self.pick(tree).path.clone(),
        };
        match self.next(6) {
            0 | 1 => self.grow(tree),
            2 => tree.get_mut(&picked).unwrap().meta = self.meta(),
            3 if !picked.is_root() => tree.retain(|path, _| !path.is_within(&picked)),
            4 if !picked.is_root() => {
                tree.retain(|path, _| !path.is_within(&picked));
                tree.insert(picked.clone(), self.file(picked));
            }
            _ => {
                let last = TreePath::new(format!("zzz{}", self.next(9))).unwrap();
                tree.insert(last.clone(), self.file(last));
            }
        }
        for entry in tree.values_mut().filter(|entry| matches!(entry.kind, Kind::HardLink { .. })) {
            entry.meta = Meta::default();
        }
        // Of files that are gone, no further names are left.
        let is_file = |path: &TreePath| matches!(tree.get(path), Some(Entry { kind: Kind::File { .. }, .. }));
        let dangling = tree.values().filter(|entry| match &entry.kind {
            Kind::HardLink { target } => !is_file(target),
            _ => false,
        });
        for path in dangling.map(|entry| entry.path.clone()).collect::<Vec<_>>() {
            tree.remove(&path);
        }
    }
}

/// One change of a tree, as an editor is told.
enum Told {
    Removed(TreePath),
    Put(Entry),
}

/// The changes between two trees, and some that change nothing: by lot, entries stay as they are but are put once
/// more, and folders are removed and put again.
fn changes(before: &Tree, after: &Tree, lot: &mut Lot) -> Vec<Told> {
    let mut told: Vec<Told> = Vec::new();
    let mut removed: Option<TreePath> = None;
    let paths: std::collections::BTreeSet<&TreePath> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let is_removed = removed.as_ref().is_some_and(|removed| path.is_within(removed));
        let (old, new) = (before.get(path), after.get(path));
        let becomes_leaf = matches!((old, new), (Some(old), Some(new)) if old.kind == Kind::Directory && new.kind != Kind::Directory);
        let at_will = !path.is_root() && lot.next(150) == 0;
        if old.is_some() && !is_removed && (new.is_none() || becomes_leaf || at_will) {
            told.push(Told::Removed(path.clone()));
            removed = Some(path.clone());
        }
        let is_gone = removed.as_ref().is_some_and(|removed| path.is_within(removed));
        if let Some(new) = new
            && (is_gone || old != Some(new) || lot.next(100) == 0)
        {
            told.push(Told::Put(new.clone()));
        }
    }
    told
}

/// Where a chunk might lie.
fn locate(id: &ChunkId) -> Option<Location> {
    let bytes = id.as_bytes();
    let pack =
        PackId { write: RecordId::from_parts(7, [7; 10]), seq: PackSeq::Data(u32::from(bytes[0] & 3)) };
    Some(Location { pack, offset: 16 + u64::from(bytes[1]) * 100, stored_len: 100, codec: Codec::Zstd })
}

fn from_scratch(store: &TenantStore, tree: &Tree) -> NewTree {
    let mut writer = SegmentWriter::default();
    tree.values().for_each(|entry| writer.push(entry).unwrap());
    let content_bytes = writer.content_bytes();
    let parts = writer.finish().into_iter().map(|segment| TreePart::new(store, segment)).collect();
    NewTree::of_parts(store, parts, content_bytes)
}

/// Stores the tree, as the write of this number.
async fn stored(desk: &Desk, tree: &Tree, write: u64) -> Arc<SnapshotTree> {
    let sealed = sealed(desk, from_scratch(&desk.store, tree), None, write);
    let key = layout::pack(&desk.store.tenant, sealed.pack.id);
    desk.memory.put(&key, sealed.pack.bytes.into(), Write::Create).await.unwrap();
    Arc::new(SnapshotTree::of_root(&desk.store, sealed.root))
}

fn sealed(desk: &Desk, tree: NewTree, base: Option<&Root>, write: u64) -> NewMetadata {
    let write = RecordId::from_parts(write, [9; 10]);
    tree.seal(&desk.store, write, base, locate, |_| false, |_| true).unwrap()
}

async fn edited(desk: &Desk, base: Option<&Arc<SnapshotTree>>, told: &[Told]) -> Edited {
    let mut editor = TreeEditor::new(&desk.store, base.cloned());
    for told in told {
        match told {
            Told::Removed(path) => editor.remove(path).await.unwrap(),
            Told::Put(entry) => editor.put(entry).await.unwrap(),
        }
    }
    editor.finish().await.unwrap()
}

fn counts(tree: &Tree) -> Counts {
    let (mut counts, mut change) = (Counts::default(), CountChange::default());
    tree.values().for_each(|entry| change.add(&entry.kind));
    change.apply(&mut counts);
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_edited_tree_is_the_one_that_is_cut_from_scratch(seed in any::<u64>(), edits in 0..8usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (desk, mut lot) = (Desk::new(None), Lot(seed));
            let before = lot.tree();
            let mut after = before.clone();
            (0..edits).for_each(|_| lot.edit(&mut after));
            let base = stored(&desk, &before, 1).await;
            let told = changes(&before, &after, &mut lot);
            let Edited { tree, located, counts: change } = edited(&desk, Some(&base), &told).await;
            let expected = from_scratch(&desk.store, &after);
            let spans = |tree: &NewTree| -> Vec<(ChunkId, Span)> {
                let span = |part: &TreePart| Span { packs: Vec::new(), ..part.span().unwrap().clone() };
                tree.parts().iter().map(|part| (part.id(), span(part))).collect()
            };
            assert_eq!(spans(&tree), spans(&expected));
            assert_eq!((tree.id, tree.content_bytes), (expected.id, expected.content_bytes));
            // The base says where those chunks lie that were not told.
            let put = told.iter().filter_map(|told| match told {
                Told::Put(entry) => Some(entry),
                Told::Removed(_) => None,
            });
            let put: std::collections::HashSet<ChunkId> =
                put.flat_map(|entry| entry.chunks().map(|(id, _)| id)).collect();
            assert!(tree.chunks().all(|(id, _)| put.contains(&id) || located.contains_key(&id)));
            let mut counted = counts(&before);
            change.apply(&mut counted);
            assert_eq!(counted, counts(&after));
            let tree = sealed(&desk, tree, Some(base.root()), 2);
            let expected = sealed(&desk, expected, Some(base.root()), 2);
            assert_eq!(tree.root, expected.root);
            assert_eq!(tree.content, expected.content);
        });
    }
}

#[tokio::test]
async fn a_tree_without_a_base_is_that_of_what_was_put() {
    let (desk, mut lot) = (Desk::new(None), Lot(3));
    let tree = lot.tree();
    let told: Vec<Told> = tree.values().cloned().map(Told::Put).collect();
    assert_eq!(edited(&desk, None, &told).await.tree.id, from_scratch(&desk.store, &tree).id);
    TreeEditor::new(&desk.store, None).finish().await.unwrap_err();
}

/// Small files alone: a large one is cut anew up to its end.
#[tokio::test]
async fn only_segments_around_a_change_are_read() {
    let (desk, mut lot) = (Desk::new(None), Lot(11));
    let root = Entry { path: TreePath::root(), meta: lot.meta(), kind: Kind::Directory };
    let mut tree = Tree::from([(TreePath::root(), root)]);
    for number in 0..6000 {
        let extents = vec![lot.chunk()];
        let kind = Kind::File { size: extents[0].len(), extents };
        let path = TreePath::new(format!("{number:04}")).unwrap();
        tree.insert(path.clone(), Entry { path, meta: lot.meta(), kind });
    }
    let base = stored(&desk, &tree, 1).await;
    let segments = base.root().segments.len();
    assert!(segments > 50, "{segments} segments");
    for _ in 0..20 {
        let mut entry = lot.pick(&tree).clone();
        entry.meta = lot.meta();
        let fresh = Arc::new(SnapshotTree::of_root(&desk.store, base.root().clone()));
        desk.recorder.take();
        let edited = edited(&desk, Some(&fresh), &[Told::Put(entry)]).await;
        let new = edited.tree.parts().iter().filter(|part| matches!(part, TreePart::New { .. })).count();
        let read = desk.recorder.take().len();
        assert!(new < 10 && read < 20, "{new} new segments after {read} requests");
    }
}

#[tokio::test]
async fn changes_out_of_order_and_entries_below_files_are_refused() {
    let (desk, mut lot) = (Desk::new(None), Lot(5));
    let path = |text: &str| TreePath::new(text).unwrap();
    let root = Entry { path: TreePath::root(), meta: Meta::default(), kind: Kind::Directory };
    let (a, below) = (lot.file(path("a")), lot.file(path("a/b")));
    let base = Tree::from([(root.path.clone(), root), (a.path.clone(), a.clone())]);
    let base = stored(&desk, &base, 1).await;
    let editor = || TreeEditor::new(&desk.store, Some(Arc::clone(&base)));
    let mut out_of_order = editor();
    out_of_order.put(&lot.file(path("b"))).await.unwrap();
    out_of_order.put(&a).await.unwrap_err();
    let mut twice = editor();
    twice.put(&a).await.unwrap();
    twice.remove(&a.path).await.unwrap_err();
    editor().put(&below).await.unwrap_err();
}
