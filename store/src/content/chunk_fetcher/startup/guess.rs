//! `guessed` plans the first fetches for a tree that no mount has read yet.
//!
//! This module does not know which program reads the tree, or in which order: the caller that opens the
//! mount or takes the snapshot gives a [`Guess`].

use std::{fmt, ops::Range, sync::Arc};

use super::parts;
use crate::format::{
    startup::Startup,
    tree::{Entry, Kind, TreePath},
};

/// Uncompressed bytes that are worth a guess.
const MAX_BYTES: u64 = 3 << 20;

/// Looks at the names in a tree, and makes a ranking of its files' parts.
pub type Guess = fn(&[Entry]) -> Arc<dyn Ranking>;

/// Ranks the parts of a tree's files by how soon they are probably read.
pub trait Ranking: fmt::Debug + Send + Sync {
    /// How soon this part of a file of `size` bytes is read, the soonest being 0. `None` if it is not read at
    /// the start.
    fn rank(&self, path: &TreePath, size: u64, part: Range<u64>) -> Option<u8>;
}

/// The plan by which a mount of the tree fetches the chunks that will probably be read first.
pub fn guessed(guess: Guess, entries: &[Entry]) -> Startup {
    let ranking = guess(entries);
    let mut found: Vec<(u8, u64, u64)> = Vec::new();
    let mut number = 0;
    for entry in entries {
        let size = if let Kind::File { size, .. } = entry.kind { size } else { 0 };
        for part in parts(entry) {
            let len = u64::from(part.len);
            if let Some(rank) = ranking.rank(&entry.path, size, part.offset..part.offset + len) {
                found.push((rank, number, len));
            }
            number += 1;
        }
    }
    found.sort_unstable();
    let mut left = MAX_BYTES;
    let mut chunks = Vec::new();
    for (_, number, len) in found {
        let Some(rest) = left.checked_sub(len) else { break };
        left = rest;
        chunks.push(number);
    }
    Startup::new(chunks)
}
