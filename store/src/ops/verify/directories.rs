//! Keeps the directories of packs, as many of them as there is room for.
//!
//! Of a pack whose directory had to go only two bits are kept for each chunk: whether it was looked at,
//! and whether it was read. So no chunk is read twice, however many snapshots share it, and however
//! little memory there is: only the directory is fetched once more.

use std::collections::HashMap;

use crate::{content::damage::DamagedFrames, format::pack::PackEntry, id::PackId};

/// The memory of one entry.
const ENTRY_BYTES: u64 = size_of::<PackEntry>() as u64;

#[derive(Default)]
pub(super) struct Directories {
    /// `None` if it cannot be read.
    packs: HashMap<PackId, Option<Known>>,
    /// How many entries are held.
    held: u64,
    /// Counts uses, to tell which was used last.
    turn: u64,
}

struct Known {
    /// By offset; `None` if they had to go.
    entries: Option<Vec<PackEntry>>,
    used: u64,
    checked: Bits,
    seen: Bits,
}

/// Where a chunk is: the pack, and the number of its entry.
pub(super) type EntryPlace = (PackId, usize);

impl Directories {
    pub(super) fn len(&self) -> usize {
        self.packs.len()
    }

    /// Whether it must be read to be used.
    pub(super) fn lacks(&self, pack: &PackId) -> bool {
        match self.packs.get(pack) {
            Some(Some(known)) => known.entries.is_none(),
            Some(None) => false,
            None => true,
        }
    }

    /// Takes in a pack's directory; `None` if it cannot be read. Earlier notes about the pack stay.
    pub(super) fn insert(&mut self, pack: PackId, entries: Option<Vec<PackEntry>>) {
        let before = self.remove(&pack);
        self.turn += 1;
        let known = entries.map(|mut entries| {
            entries.sort_by_key(|entry| entry.offset);
            self.held += entries.len() as u64;
            let len = entries.len();
            let (checked, seen) = before
                .map(|before| (before.checked, before.seen))
                .filter(|(checked, _)| checked.len == len)
                .unwrap_or_else(|| (Bits::new(len), Bits::new(len)));
            Known { entries: Some(entries), used: self.turn, checked, seen }
        });
        self.packs.insert(pack, known);
    }

    fn remove(&mut self, pack: &PackId) -> Option<Known> {
        let known = self.packs.remove(pack)??;
        self.held -= known.entries.as_ref().map_or(0, Vec::len) as u64;
        Some(known)
    }

    pub(super) fn forget(&mut self, pack: &PackId) {
        self.remove(pack);
    }

    /// Those that could not be read may be there the next time.
    pub(super) fn forget_unreadable(&mut self) {
        self.packs.retain(|_, known| known.is_some());
    }

    /// Whether the pack could be read.
    pub(super) fn is_readable(&self, pack: &PackId) -> bool {
        matches!(self.packs.get(pack), Some(Some(_)))
    }

    /// The entry at this place of a pack, and its number.
    pub(super) fn at(&self, pack: PackId, offset: u64) -> Option<(EntryPlace, PackEntry)> {
        let entries = self.entries(&pack)?;
        let number = entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
        Some(((pack, number), entries[number]))
    }

    pub(super) fn entries(&self, pack: &PackId) -> Option<&[PackEntry]> {
        self.packs.get(pack)?.as_ref()?.entries.as_deref()
    }

    /// Notes that a chunk was looked at.
    pub(super) fn check(&mut self, (pack, number): EntryPlace) {
        self.turn += 1;
        if let Some(Some(known)) = self.packs.get_mut(&pack) {
            known.used = self.turn;
            known.checked.set(number);
        }
    }

    /// Notes that a chunk is read. Says whether it was not before.
    pub(super) fn see(&mut self, (pack, number): EntryPlace) -> bool {
        let known = self.packs.get_mut(&pack).and_then(Option::as_mut);
        known.is_some_and(|known| known.seen.set(number))
    }

    /// How many chunks were looked at.
    pub(super) fn checked(&self) -> u64 {
        self.packs.values().flatten().map(|known| known.checked.count()).sum()
    }

    /// Has lost frames looked at again; a few more of the same pack do no harm.
    pub(super) fn look_again_at(&mut self, lost: &DamagedFrames) {
        self.forget_unreadable();
        for pack in lost.packs() {
            if let Some(Some(known)) = self.packs.get_mut(&pack) {
                (known.checked, known.seen) = (Bits::new(known.checked.len), Bits::new(known.seen.len));
            }
        }
    }

    /// Lets go of those that were not used for longest, until the rest take no more than `bytes`.
    pub(super) fn shrink(&mut self, bytes: u64) {
        let most = bytes / ENTRY_BYTES;
        if self.held <= most {
            return;
        }
        let mut held: Vec<&mut Known> =
            self.packs.values_mut().flatten().filter(|known| known.entries.is_some()).collect();
        held.sort_by_key(|known| known.used);
        for known in held {
            if self.held <= most {
                break;
            }
            self.held -= known.entries.take().map_or(0, |entries| entries.len()) as u64;
        }
    }
}

/// A bit for each of so many.
struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    /// Whether it was not set before.
    fn set(&mut self, number: usize) -> bool {
        let (word, bit) = (&mut self.words[number / 64], 1 << (number % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::{frame::Codec, pack::EntryKind},
        id::{ChunkId, PackSeq, RecordId},
    };

    fn pack(seq: u32) -> PackId {
        PackId { write: RecordId::from_parts(1, [3; 10]), seq: PackSeq::Data(seq) }
    }

    fn entries(count: u64) -> Vec<PackEntry> {
        let entry = |number: u64| PackEntry {
            id: ChunkId::from_bytes([number as u8; 32]),
            kind: EntryKind::Data,
            codec: Codec::Zstd,
            offset: 100 * number,
            stored_len: 100,
            raw_len: 100,
            crc: 0,
        };
        (0..count).rev().map(entry).collect()
    }

    #[test]
    fn what_was_read_is_known_when_the_directory_had_to_go() {
        let mut all = Directories::default();
        for seq in 0..3 {
            all.insert(pack(seq), Some(entries(70)));
        }
        let (place, entry) = all.at(pack(0), 6_900).unwrap();
        assert_eq!((place.1, entry.offset), (69, 6_900));
        assert!(all.see(place) && !all.see(place));
        all.check(place);
        // The first was used last, the second has been unused for longest.
        all.shrink(2 * 70 * ENTRY_BYTES);
        assert_eq!([0, 1, 2].map(|seq| all.lacks(&pack(seq))), [false, true, false]);
        all.shrink(0);
        assert!(all.lacks(&pack(0)) && all.is_readable(&pack(0)) && all.at(pack(0), 6_900).is_none());
        all.insert(pack(0), Some(entries(70)));
        let (place, _) = all.at(pack(0), 6_900).unwrap();
        assert!(!all.see(place), "it was read before");
        assert_eq!((all.checked(), all.len(), all.held), (1, 3, 70));
        let mut lost = DamagedFrames::default();
        lost.add_frame(pack(0), 0);
        all.look_again_at(&lost);
        assert!(all.see(place), "something of the pack was lost");
    }
}
