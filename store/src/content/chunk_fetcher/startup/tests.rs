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

#[test]
fn a_guess_names_what_chrome_reads_and_nothing_of_other_trees() {
    let entries = [
        file("BrowserMetrics-spare.pma", &["metrics"]),
        file("Default/Cache/Cache_Data/data_3", &["cache"]),
        file("Default/Cache/Cache_Data/index-dir/the-real-index", &["index"]),
        file("Default/Cookies", &["cookies"]),
        file("Default/History", &["h0", "h1", "h2", "h3"]),
        file("Default/IndexedDB/x.leveldb/000005.ldb", &["indexed"]),
        file("Default/Local Storage/leveldb/000005.ldb", &["l0", "l1", "l2"]),
        file("Default/Local Storage/leveldb/000006.log", &["log"]),
        file("Default/Preferences", &["preferences"]),
        file("Local State", &["state"]),
    ];
    let names: Vec<ChunkId> = reads_of(&guess(&entries), &entries);
    let wanted = ["state", "cookies", "h0", "h1", "preferences", "index", "l2", "log"].map(id);
    assert_eq!(names, wanted);
    assert!(guess(&entries[..8]).is_empty());
    let large: Vec<Entry> = (0..200).map(|at| file(&format!("Default/{at:03}"), &["x", "y"])).collect();
    let all = [large, vec![file("Default/Preferences", &["p"])]].concat();
    let bytes = numbers(&guess(&all)).len() as u64 * u64::from(LEN);
    assert!((2 << 20..=3 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn what_is_read_first_is_known_before_it_is_cut() {
    let old = [file("a", &["a0", "a1", "a2"]), file("Default/Preferences", &["p"])];
    let (len, path) = (u64::from(LEN), |path: &str| TreePath::new(path).unwrap());
    let seen = First::of(&StartupRanges::of(&[id("a1")], &old), &old);
    assert!(seen.has(&path("a"), 9 * len, len + 1..len + 2));
    assert!(!seen.has(&path("a"), 9 * len, 0..len) && !seen.has(&path("a"), 9 * len, 2 * len..3 * len));
    assert!(!seen.has(&path("Default/Preferences"), len, 0..len));
    // Nothing was seen: it is a profile of Chrome's.
    let guessed = First::of(&StartupRanges::of(&[], &old), &old);
    assert!(guessed.has(&path("Default/Cookies"), 9 * len, 0..len));
    assert!(!guessed.has(&path("Default/Cookies"), 9 * len, 8 * len..9 * len));
    assert!(!First::of(&StartupRanges::default(), &old[..1]).has(&path("a"), len, 0..len));
}
