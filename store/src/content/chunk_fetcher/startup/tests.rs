//! These tests follow, guess and bound the plan of first reads.

use std::ops::Range;

use super::*;
use crate::{
    format::{
        frame::Codec,
        tree::{Meta, TreePath},
    },
    id::{ChunkKey, PackId, PackSeq, RecordId},
};

const LEN: u32 = 32 << 10;

fn id(name: &str) -> ChunkId {
    ChunkKey::from_bytes([1; 32]).id_of(name.as_bytes())
}

/// A file whose chunks are called so.
fn file(path: &str, chunks: &[&str]) -> Entry {
    let extents = chunks.iter().map(|chunk| Extent::Chunk { id: id(chunk), len: LEN }).collect();
    let size = u64::from(LEN) * chunks.len() as u64;
    Entry { path: TreePath::new(path).unwrap(), meta: Meta::default(), kind: Kind::File { size, extents } }
}

fn piece(pack: u32, offset: u64) -> Piece {
    let pack = PackId { write: RecordId::from_parts(1, [1; 10]), seq: PackSeq::Data(pack) };
    let location = Location { pack, offset, stored_len: LEN, codec: Codec::Zstd };
    Piece { id: id(&format!("{offset}")), raw_len: LEN, location }
}

fn numbers(startup: &Startup) -> Vec<u64> {
    startup.chunks(u64::MAX >> 12).collect()
}

fn planned(first_reads: &[ChunkId], old: &[Entry], new: &[Entry]) -> Startup {
    StartupRanges::of(first_reads, old).plan(new)
}

#[test]
fn the_next_plan_follows_files_that_have_changed() {
    let old = [file("a", &["a0", "a1"]), file("b", &["b0", "b1", "b2"]), file("c", &["c0"])];
    let new = [file("a", &["a0", "a1"]), file("aa", &["x"]), file("b", &["b0", "new", "b2"])];
    let reads = [id("b1"), id("a0"), id("c0"), id("b2"), id("nowhere")];
    // Chunks of `new`: a 0 1, aa 2, b 3 4 5.
    let startup = planned(&reads, &old, &new);
    assert_eq!(numbers(&startup), [4, 0, 5]);
    assert_eq!(reads_of(&startup, &new), [id("new"), id("a0"), id("b2")]);
    // Carried on from tree to tree, though nothing is read in between.
    assert_eq!(planned(&reads_of(&startup, &new), &new, &new), startup);
    assert!(planned(&[], &old, &new).is_empty());
}

#[test]
fn a_plan_is_bounded() {
    let names: Vec<String> = (0..1000).map(|number| format!("{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let tree = [file("large", &names)];
    let reads: Vec<ChunkId> = names.iter().rev().map(|name| id(name)).collect();
    let startup = planned(&reads, &tree, &tree);
    assert_eq!(numbers(&startup).len() as u64, MAX_BYTES / u64::from(LEN));
    assert_eq!(numbers(&startup)[0], 999);

    let first = FirstReads::default();
    for at in 0..1000 {
        first.note(&[piece(0, at), piece(0, 0)]);
    }
    assert_eq!(first.in_order().len() as u64, MAX_BYTES / u64::from(LEN));
}

#[test]
fn small_gaps_are_fetched_along_and_large_ones_are_not() {
    let mib = 1 << 20;
    // Twelve places, each some 300 KB from the next.
    let near: Vec<Piece> = (0..12).rev().map(|at| piece(0, at * 300_000)).collect();
    let groups = gather(near);
    assert_eq!(groups.len(), REQUESTS);
    assert_eq!(groups.iter().flatten().count(), 12);
    // The one that is needed first, though it lies last.
    assert!(groups[0].iter().any(|piece| piece.location.offset == 11 * 300_000));
    let far: Vec<Piece> = (0..12).map(|at| piece(0, at * 10 * mib)).collect();
    assert_eq!(gather(far).len(), 12);
    let packs: Vec<Piece> = (0..12).map(|pack| piece(pack, 16)).collect();
    assert_eq!(gather(packs).len(), 12);
    assert!(gather(Vec::new()).is_empty());
}

/// Ranks files in `soon` before files in `later`; of each file only the first chunk is read.
#[derive(Debug)]
struct ByFolder;

impl Ranking for ByFolder {
    fn rank(&self, path: &TreePath, _: u64, part: Range<u64>) -> Option<u8> {
        let folders: [&[u8]; 2] = [b"soon/", b"later/"];
        let rank = folders.iter().position(|folder| path.as_bytes().starts_with(folder))?;
        (part.start == 0).then_some(rank as u8)
    }
}

fn by_folder(_: &[Entry]) -> Arc<dyn Ranking> {
    Arc::new(ByFolder)
}

#[test]
fn a_guess_is_followed_by_rank_and_bounded() {
    let entries = [
        file("a", &["a0"]),
        file("later/b", &["b0", "b1"]),
        file("soon/c", &["c0", "c1"]),
        file("z", &["z0"]),
    ];
    assert_eq!(reads_of(&guessed(by_folder, &entries), &entries), [id("c0"), id("b0")]);
    let many: Vec<Entry> = (0..200).map(|at| file(&format!("soon/{at:03}"), &["x", "y"])).collect();
    let bytes = numbers(&guessed(by_folder, &many)).len() as u64 * u64::from(LEN);
    assert_eq!(bytes, 3 << 20);
}

#[test]
fn what_is_read_first_is_known_before_it_is_cut() {
    let old = [file("a", &["a0", "a1", "a2"]), file("soon/b", &["b"])];
    let (len, path) = (u64::from(LEN), |path: &str| TreePath::new(path).unwrap());
    let seen = First::of(&StartupRanges::of(&[id("a1")], &old), Some(by_folder), &old);
    assert!(seen.has(&path("a"), 9 * len, len + 1..len + 2));
    assert!(!seen.has(&path("a"), 9 * len, 0..len) && !seen.has(&path("a"), 9 * len, 2 * len..3 * len));
    assert!(!seen.has(&path("soon/b"), len, 0..len));
    // Nothing was seen: the guess counts.
    let guessed = First::of(&StartupRanges::of(&[], &old), Some(by_folder), &old);
    assert!(guessed.has(&path("soon/b"), 9 * len, 0..len));
    assert!(!guessed.has(&path("soon/b"), 9 * len, 8 * len..9 * len));
    let unknown = First::of(&StartupRanges::default(), None, &old);
    assert!(!unknown.has(&path("soon/b"), len, 0..len));
}
