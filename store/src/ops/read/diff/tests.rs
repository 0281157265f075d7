//! These tests compare snapshots, and the comparison with a look at every path.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::format::tree::{Extent, Meta, Time, TreePath};

/// Compares two trees as lists, each in order.
fn compare(before: &[Entry], after: &[Entry]) -> Diff {
    let mut comparison = Comparison::default();
    let bytes = |entries: &[Entry]| entries.iter().map(Entry::size).sum();
    (comparison.diff.totals.bytes_before, comparison.diff.totals.bytes_after) = (bytes(before), bytes(after));
    let paths: BTreeSet<&TreePath> = before.iter().chain(after).map(|entry| &entry.path).collect();
    let find = |entries: &[Entry], path: &TreePath| {
        let entry = entries.iter().find(|entry| entry.path == *path)?.clone();
        let file = match &entry.kind {
            Kind::HardLink { target } => entries.iter().find(|entry| entry.path == *target).cloned(),
            _ => None,
        };
        Some((LocatedEntry { entry, locations: Vec::new() }, file))
    };
    for path in paths {
        let (a, b) = (find(before, path), find(after, path));
        comparison.pair(
            a.as_ref().map(|(found, file)| ComparedEntry::of(found, file.as_ref())),
            b.as_ref().map(|(found, file)| ComparedEntry::of(found, file.as_ref())),
        );
    }
    comparison.finish()
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn entry(at: &str, kind: Kind) -> Entry {
    Entry { path: path(at), meta: Meta::default(), kind }
}

fn chunk(number: u8) -> Extent {
    Extent::Chunk { id: ChunkId::from_bytes([number; 32]), len: 100 + u32::from(number) }
}

fn file(at: &str, chunks: &[u8]) -> Entry {
    extents(at, chunks.iter().map(|number| chunk(*number)).collect())
}

fn extents(at: &str, extents: Vec<Extent>) -> Entry {
    entry(at, Kind::File { size: extents.iter().map(Extent::len).sum(), extents })
}

fn tree(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.push(entry("", Kind::Directory));
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    entries
}

fn changes(diff: &Diff) -> Vec<(String, Change)> {
    diff.lines.iter().map(|line| (line.path.to_string(), line.change)).collect()
}

#[test]
fn every_kind_of_change_is_told_apart() {
    let link = |to: &str| Kind::Symlink { target: to.into() };
    let before = tree(vec![
        file("content", &[1, 2]),
        file("gone", &[3]),
        file("mode", &[4]),
        entry("kind", Kind::Directory),
        entry("kind/below", Kind::Fifo),
        entry("link", link("a")),
        file("same", &[5]),
    ]);
    let mut mode = file("mode", &[4]);
    mode.meta = Meta { mode: 0o600, mtime: Time { seconds: 1, nanos: 0 }, ..Meta::default() };
    let after = tree(vec![
        file("content", &[1, 6]),
        file("fresh", &[7, 5]),
        mode,
        file("kind", &[]),
        entry("link", link("b")),
        file("same", &[5]),
    ]);
    let diff = compare(&before, &after);
    let expected = [
        ("content", Change::Content),
        ("fresh", Change::Added),
        ("gone", Change::Removed),
        ("kind", Change::Type),
        ("kind/below", Change::Removed),
        ("link", Change::Content),
        ("mode", Change::Metadata),
    ];
    assert_eq!(changes(&diff), expected.map(|(path, change)| (path.to_owned(), change)));
    let line = |at: &str| diff.lines.iter().find(|line| line.path == path(at)).unwrap();
    let side = |size, unshared_bytes| Some(Side { kind: "file", size, unshared_bytes });
    assert_eq!((line("content").before, line("content").after), (side(203, 102), side(207, 106)));
    assert_eq!((line("fresh").before, line("fresh").after), (None, side(212, 107)));
    assert_eq!(line("kind").before.map(|side| side.kind), Some("directory"));
    assert_eq!(line("mode").metadata.names(), ["mode", "mtime"]);
    let expected = Totals {
        added: 1,
        removed: 2,
        changed: 2,
        metadata_changed: 1,
        type_changed: 1,
        unchanged: 2,
        bytes_before: 203 + 103 + 104 + 105,
        bytes_after: 207 + 212 + 104 + 105,
        new_bytes: 106 + 107,
        gone_bytes: 102 + 103,
    };
    assert_eq!(diff.totals, expected);
}

#[test]
fn a_file_that_moved_has_no_new_bytes() {
    let diff = compare(&tree(vec![file("a", &[1, 2])]), &tree(vec![file("b", &[1, 2])]));
    assert_eq!(changes(&diff), [("a".to_owned(), Change::Removed), ("b".to_owned(), Change::Added)]);
    assert_eq!((diff.totals.new_bytes, diff.totals.gone_bytes), (0, 0));
}

#[test]
fn a_chunk_that_occurs_often_is_new_once() {
    let diff = compare(&tree(vec![]), &tree(vec![file("a", &[1, 1]), file("b", &[1])]));
    assert_eq!(diff.totals.new_bytes, 101);
    assert_eq!(diff.lines[0].after.map(|side| side.unshared_bytes), Some(202));
}

#[test]
fn tiny_files_count_though_they_are_in_no_chunk() {
    let tiny = |at: &str, text: &str| extents(at, vec![Extent::Inline(text.into())]);
    let diff = compare(&tree(vec![tiny("a", "one")]), &tree(vec![tiny("a", "three"), tiny("b", "b")]));
    assert_eq!((diff.totals.new_bytes, diff.totals.gone_bytes), (6, 3));
    assert_eq!(diff.lines[0].after, Some(Side { kind: "file", size: 5, unshared_bytes: 5 }));
}

#[test]
fn a_hard_link_is_compared_as_the_file_it_names() {
    let link = |at: &str, to: &str| entry(at, Kind::HardLink { target: path(to) });
    let before = tree(vec![file("a", &[1]), link("b", "a"), link("c", "a")]);
    assert_eq!(compare(&before, &before).lines, []);
    // The first name is gone: the second one holds the file now.
    let after = tree(vec![file("b", &[1]), link("c", "b")]);
    let diff = compare(&before, &after);
    let expected = [("a", Change::Removed), ("b", Change::Metadata), ("c", Change::Metadata)];
    assert_eq!(changes(&diff), expected.map(|(path, change)| (path.to_owned(), change)));
    assert_eq!(diff.lines[1].metadata.names(), ["links"]);
    // A change of the file is one of all its names, but its bytes are counted once.
    let diff = compare(&before, &tree(vec![file("a", &[2]), link("b", "a"), link("c", "a")]));
    assert_eq!(diff.totals.changed, 3);
    assert_eq!(diff.totals.new_bytes, 102);
    assert_eq!(diff.lines[1].after, Some(Side { kind: "hard_link", size: 102, unshared_bytes: 0 }));
}

/// Few names, kinds and chunks, so that trees have much in common.
fn trees() -> impl Strategy<Value = Vec<Entry>> {
    let kind = prop_oneof![
        prop::collection::vec(0u8..4, 0..3).prop_map(|chunks| file("x", &chunks).kind),
        prop::collection::vec(0u8..2, 1..3).prop_map(|bytes| extents("x", vec![Extent::Inline(bytes)]).kind),
        (1u64..3).prop_map(|len| extents("x", vec![Extent::Hole(len)]).kind),
        (b'a'..b'c').prop_map(|to| Kind::Symlink { target: vec![to] }),
        Just(Kind::Directory),
    ];
    let names = ["a", "a b", "a!", "b", "\u{ff}", "c"];
    let entries = prop::collection::btree_map(prop::sample::select(names.to_vec()), (kind, 0u32..2), 0..6);
    entries.prop_map(|entries| {
        let entries = entries.into_iter().map(|(name, (kind, mode))| {
            let meta = Meta { mode, ..Meta::default() };
            Entry { meta, ..entry(name, kind) }
        });
        tree(entries.collect())
    })
}

/// The same, path by path, without any cleverness.
fn naive(before: &[Entry], after: &[Entry]) -> BTreeMap<Vec<u8>, Change> {
    let find = |entries: &[Entry], path: &[u8]| entries.iter().find(|e| e.path.as_bytes() == path).cloned();
    let paths: BTreeSet<Vec<u8>> =
        before.iter().chain(after).map(|entry| entry.path.as_bytes().to_vec()).collect();
    let judge = |path: &[u8]| match (find(before, path), find(after, path)) {
        (None, _) => Some(Change::Added),
        (_, None) => Some(Change::Removed),
        (Some(a), Some(b)) if a == b => None,
        (Some(a), Some(b)) if std::mem::discriminant(&a.kind) != std::mem::discriminant(&b.kind) => {
            Some(Change::Type)
        }
        (Some(a), Some(b)) => Some(if a.kind == b.kind { Change::Metadata } else { Change::Content }),
    };
    paths.into_iter().filter_map(|path| Some((path.clone(), judge(&path)?))).collect()
}

proptest! {
    #[test]
    fn comparing_agrees_with_looking_up_every_path(before in trees(), after in trees()) {
        let there = compare(&before, &after);
        let found: BTreeMap<Vec<u8>, Change> =
            there.lines.iter().map(|line| (line.path.as_bytes().to_vec(), line.change)).collect();
        prop_assert_eq!(&found, &naive(&before, &after));
        prop_assert!(there.lines.is_sorted_by(|a, b| a.path < b.path));
        let totals = there.totals;
        prop_assert_eq!(
            totals.unchanged + totals.added + totals.changed + totals.metadata_changed + totals.type_changed,
            after.len() as u64
        );
        // Backwards it is the same, with the sides exchanged.
        let back = compare(&after, &before).totals;
        prop_assert_eq!((back.added, back.removed), (totals.removed, totals.added));
        prop_assert_eq!((back.new_bytes, back.gone_bytes), (totals.gone_bytes, totals.new_bytes));
        prop_assert_eq!(compare(&after, &after).lines, vec![]);
    }
}
