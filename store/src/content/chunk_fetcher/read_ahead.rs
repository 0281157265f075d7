//! `ReadAhead` foretells the bytes that a reader of one file will want next.

use std::ops::Range;

const FIRST_WINDOW: u64 = 256 << 10;
const MAX_WINDOW: u64 = 4 << 20;
/// A kernel that reads ahead itself sends neighbouring reads out of order.
const SLACK: u64 = 512 << 10;

/// Follows the reads of one open file.
///
/// As long as they go forwards, it names ranges ahead of them, twice as far each time; a
/// reader that jumps about gets nothing.
#[derive(Clone, Debug, Default)]
pub struct ReadAhead {
    /// Where the reads have got to.
    reached: u64,
    /// Up to where ranges were named.
    named: u64,
    window: u64,
    /// Reads in a row that went forwards.
    forwards: u32,
}

impl ReadAhead {
    /// The range to fetch after a read of `len` bytes at `offset`, if any.
    pub fn next(&mut self, offset: u64, len: u32, file_size: u64) -> Option<Range<u64>> {
        let end = offset.saturating_add(len.into()).min(file_size);
        let follows = if self.forwards == 0 {
            offset == self.reached
        } else {
            offset <= self.reached.saturating_add(SLACK) && end >= self.reached.saturating_sub(SLACK)
        };
        if !follows {
            *self = Self { reached: end, named: end, window: 0, forwards: 0 };
            return None;
        }
        self.reached = self.reached.max(end);
        self.forwards += 1;
        // One read says nothing yet: most files are read once, and are small.
        if self.forwards < 2 {
            return None;
        }
        let from = self.named.max(self.reached);
        // Few large ranges rather than many small ones.
        if from - self.reached > self.window / 2 || from >= file_size {
            return None;
        }
        self.window = (self.window * 2).clamp(FIRST_WINDOW, MAX_WINDOW);
        let to = self.reached.saturating_add(self.window).min(file_size);
        if to <= from {
            return None;
        }
        self.named = to;
        Some(from..to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 128 << 10;

    #[test]
    fn a_reader_from_the_start_is_read_ahead_for_in_growing_ranges() {
        let size = 64 << 20;
        let mut ahead = ReadAhead::default();
        let mut named = Vec::new();
        for at in (0..size).step_by(READ as usize) {
            if let Some(range) = ahead.next(at, READ, size) {
                assert!(range.start >= at, "behind the reader");
                named.push(range);
            }
        }
        assert!(named.windows(2).all(|pair| pair[0].end == pair[1].start), "{named:?}");
        assert_eq!(named.last().unwrap().end, size);
        let longest = named.iter().map(|range| range.end - range.start).max().unwrap();
        assert!((1 << 20..=4 << 20).contains(&longest), "{longest}");
        assert!(named.len() < 48, "{} ranges", named.len());
    }

    #[test]
    fn reads_that_arrive_out_of_order_still_go_forwards() {
        let mut ahead = ReadAhead::default();
        let step = u64::from(READ);
        let found: Vec<bool> = [0, 1, 3, 2, 5, 4, 6, 7, 9, 8, 10, 11, 12]
            .iter()
            .map(|at| ahead.next(at * step, READ, 64 << 20).is_some())
            .collect();
        assert!(found.iter().filter(|some| **some).count() >= 3, "{found:?}");
    }

    #[test]
    fn a_reader_that_jumps_about_gets_nothing() {
        let mut ahead = ReadAhead::default();
        for at in [7u64, 3, 50, 12, 33, 1, 60, 20] {
            assert_eq!(ahead.next(at << 20, 4096, 64 << 20), None);
        }
        assert_eq!(ahead.next(0, 4096, 4096), None);
        assert_eq!(ahead.next(u64::MAX - 1, u32::MAX, u64::MAX), None);
    }
}
