//! These tests check the guess at Chrome's first reads.

use store::{
    content::chunk_fetcher::startup::{guessed, reads_of},
    format::tree::{Extent, Kind, Meta},
    id::{ChunkId, ChunkKey},
};

use super::*;

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
    let names: Vec<ChunkId> = reads_of(&guessed(guess, &entries), &entries);
    let wanted = ["state", "cookies", "h0", "h1", "preferences", "index", "l2", "log"].map(id);
    assert_eq!(names, wanted);
    assert!(guessed(guess, &entries[..8]).is_empty());
    let large: Vec<Entry> = (0..200).map(|at| file(&format!("Default/{at:03}"), &["x", "y"])).collect();
    let all = [large, vec![file("Default/Preferences", &["p"])]].concat();
    let bytes = reads_of(&guessed(guess, &all), &all).len() as u64 * u64::from(LEN);
    assert!((2 << 20..=3 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn what_chrome_reads_is_known_of_files_that_are_not_cut_yet() {
    let (len, path) = (u64::from(LEN), |path: &str| TreePath::new(path).unwrap());
    let profile = guess(&[file("Default/Preferences", &["p"])]);
    assert!(profile.rank(&path("Default/Cookies"), 9 * len, 0..len).is_some());
    assert!(profile.rank(&path("Default/Cookies"), 9 * len, 8 * len..9 * len).is_none());
    let other = guess(&[file("a", &["a0"])]);
    assert!(other.rank(&path("a"), len, 0..len).is_none());
}
