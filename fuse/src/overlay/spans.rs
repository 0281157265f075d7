//! `spans` records which ranges of a file have changed, and where their bytes are.

use std::{collections::BTreeMap, ops::Range};

/// Where the bytes of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// In the data file of this generation, at the offset they have in the file.
    Data { generation: u32 },
    /// Nowhere: they are zeros.
    Zeros,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    end: u64,
    bytes: Bytes,
    epoch: u64,
}

/// Ranges that do not overlap, each with the epoch it was written in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    by_start: BTreeMap<u64, Span>,
}

impl Spans {
    /// `range` now has these bytes, whatever it had.
    pub fn set(&mut self, range: Range<u64>, bytes: Bytes, epoch: u64) {
        if range.is_empty() {
            return;
        }
        self.clear(range.clone());
        let mut span = Span { end: range.end, bytes, epoch };
        let mut start = range.start;
        if let Some(next) = self.by_start.get(&range.end).copied()
            && (next.bytes, next.epoch) == (bytes, epoch)
        {
            self.by_start.remove(&range.end);
            span.end = next.end;
        }
        if let Some((&before, found)) = self.by_start.range(..range.start).next_back()
            && (found.end, found.bytes, found.epoch) == (range.start, bytes, epoch)
        {
            start = before;
        }
        self.by_start.insert(start, span);
    }

    /// Forgets what `range` had.
    pub fn clear(&mut self, range: Range<u64>) {
        if let Some((&start, &span)) = self.by_start.range(..range.start).next_back()
            && span.end > range.start
        {
            self.by_start.insert(start, Span { end: range.start, ..span });
            if span.end > range.end {
                self.by_start.insert(range.end, span);
            }
        }
        let inside: Vec<u64> = self.by_start.range(range.clone()).map(|(start, _)| *start).collect();
        for start in inside {
            if let Some(span) = self.by_start.remove(&start)
                && span.end > range.end
            {
                self.by_start.insert(range.end, span);
            }
        }
    }

    /// Forgets everything at and after `size`; says whether any of it was data.
    pub fn truncate(&mut self, size: u64) -> bool {
        let data = self.within(size..u64::MAX).any(|(_, bytes, _)| bytes != Bytes::Zeros);
        self.clear(size..u64::MAX);
        data
    }

    /// Forgets what was written in `epoch` or before.
    pub fn forget_through(&mut self, epoch: u64) {
        self.by_start.retain(|_, span| span.epoch > epoch);
    }

    /// What lies in `range`, in order, cut to it.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Bytes, u64)> + '_ {
        let first =
            self.by_start.range(..range.start).next_back().filter(move |(_, span)| span.end > range.start);
        let (start, end) = (range.start, range.end);
        first.into_iter().chain(self.by_start.range(range)).filter_map(move |(&at, span)| {
            let part = at.max(start)..span.end.min(end);
            (!part.is_empty()).then_some((part, span.bytes, span.epoch))
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, Bytes, u64)> + '_ {
        self.by_start.iter().map(|(start, span)| (*start..span.end, span.bytes, span.epoch))
    }

    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// The data files that hold something of these.
    pub fn generations(&self) -> Vec<u32> {
        let data = |bytes| match bytes {
            Bytes::Data { generation } => Some(generation),
            Bytes::Zeros => None,
        };
        let mut found: Vec<u32> = self.iter().filter_map(|(_, bytes, _)| data(bytes)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// How many bytes of data are held, zeros not counted.
    pub fn data_bytes(&self) -> u64 {
        self.iter()
            .filter(|(_, bytes, _)| *bytes != Bytes::Zeros)
            .map(|(range, ..)| range.end - range.start)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATA: Bytes = Bytes::Data { generation: 0 };

    #[test]
    fn neighbours_of_one_kind_are_one() {
        let mut spans = Spans::default();
        spans.set(0..10, DATA, 1);
        spans.set(20..30, DATA, 1);
        spans.set(10..20, DATA, 1);
        assert_eq!(spans.iter().collect::<Vec<_>>(), [(0..30, DATA, 1)]);
        spans.set(5..6, DATA, 2);
        assert_eq!(spans.iter().count(), 3);
        assert_eq!(spans.data_bytes(), 30);
        spans.forget_through(1);
        assert_eq!(spans.iter().collect::<Vec<_>>(), [(5..6, DATA, 2)]);
    }

    proptest! {
        #[test]
        fn spans_are_what_a_list_of_bytes_would_be(
            steps in proptest::collection::vec((0u64..64, 0u64..20, 0u32..4, 0u64..3), 1..40),
        ) {
            let mut spans = Spans::default();
            let mut model: Vec<Option<(Bytes, u64)>> = vec![None; 100];
            for (start, len, what, epoch) in steps {
                let range = start..start + len;
                match what {
                    0 => {
                        spans.clear(range.clone());
                        range.for_each(|at| model[at as usize] = None);
                    }
                    1 => {
                        let data = spans.truncate(start);
                        let held = model[start as usize..].iter().flatten().any(|(bytes, _)| *bytes != Bytes::Zeros);
                        prop_assert_eq!(data, held);
                        model[start as usize..].fill(None);
                    }
                    what => {
                        let bytes = if what == 2 { Bytes::Zeros } else { DATA };
                        spans.set(range.clone(), bytes, epoch);
                        range.for_each(|at| model[at as usize] = Some((bytes, epoch)));
                    }
                }
                let mut seen = vec![None; 100];
                for (range, bytes, epoch) in spans.iter() {
                    range.for_each(|at| seen[at as usize] = Some((bytes, epoch)));
                }
                prop_assert_eq!(&seen, &model);
                let mut part = vec![None; 100];
                for (range, bytes, epoch) in spans.within(7..33) {
                    range.for_each(|at| part[at as usize] = Some((bytes, epoch)));
                }
                prop_assert_eq!(&part[7..33], &model[7..33]);
                prop_assert!(part[..7].iter().chain(&part[33..]).all(Option::is_none));
            }
        }
    }
}
