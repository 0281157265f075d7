//! `ScanReadahead` notices that a program reads file after file, and names the files to fetch next.
//!
//! A copy or a search of the whole tree reads its files in the order in which the snapshot
//! lists, numbers and packs them. Each is too small to be read ahead for by itself; the files
//! that follow it are what is wanted next.

use std::collections::VecDeque;

use crate::overlay::node::Ino;

/// Files that follow each other may have others in between: directories, links, empty ones.
const GAP: u64 = 8;
/// So many files in a row are no accident.
const ENOUGH: u32 = 4;
const FIRST_WINDOW: u64 = 256 << 10;
const MAX_WINDOW: u64 = 2 << 20;

#[derive(Debug, Default)]
pub struct ScanReadahead {
    last: u64,
    /// Files in a row that followed each other.
    run: u32,
    /// What was named and has not been reached, with its bytes.
    ahead: VecDeque<(u64, u64)>,
    window: u64,
}

impl ScanReadahead {
    /// After a read at the start of `ino`: from which number on, and how many bytes of files to
    /// name to [`Self::named`], if any.
    pub fn next(&mut self, ino: Ino) -> Option<(Ino, u64)> {
        let at = ino.0;
        if at == self.last {
            return None;
        }
        if at > self.last && at - self.last <= GAP {
            self.run = self.run.saturating_add(1);
        } else {
            *self = Self::default();
        }
        self.last = at;
        if self.run < ENOUGH {
            return None;
        }
        while self.ahead.front().is_some_and(|(number, _)| *number <= at) {
            self.ahead.pop_front();
        }
        let left: u64 = self.ahead.iter().map(|(_, bytes)| bytes).sum();
        // Much at a time rather than little at every file.
        if left > self.window / 2 {
            return None;
        }
        self.window = (self.window * 2).clamp(FIRST_WINDOW, MAX_WINDOW);
        let from = self.ahead.back().map_or(at, |(number, _)| *number);
        Some((Ino(from + 1), self.window - left))
    }

    /// That file is being prepared.
    pub fn named(&mut self, ino: Ino, bytes: u64) {
        self.ahead.push_back((ino.0, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which files are named when those at `reads` are read, each of 50 kB.
    fn named(reads: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let (mut scan, mut all) = (ScanReadahead::default(), Vec::new());
        for read in reads {
            let Some((from, bytes)) = scan.next(Ino(read)) else { continue };
            assert!(from.0 > read, "behind the reader");
            for number in from.0..from.0 + bytes / 50_000 {
                scan.named(Ino(number), 50_000);
                all.push(number);
            }
        }
        all
    }

    #[test]
    fn who_reads_file_after_file_finds_the_next_ones_prepared_each_once() {
        let all = named(10..400);
        assert!(all.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{all:?}");
        assert!(all[0] <= 16 && all.last().unwrap() > &400, "{all:?}");
        assert!(*all.last().unwrap() < 400 + MAX_WINDOW / 50_000 + 1, "far beyond: {all:?}");
        // With directories in between.
        assert!(named((10..400).step_by(3)).len() > 200);
    }

    #[test]
    fn who_reads_here_and_there_gets_nothing() {
        assert!(named([5, 90, 91, 3, 400, 401, 402, 7, 7, 7, 7, 7, 7]).is_empty());
        assert!(named((0..100).rev()).is_empty());
    }
}
