//! `Numbers` maps each entry of the base snapshot to its inode number, and back.
//!
//! Entries that follow each other in the tree mostly have numbers that follow each other. So only the runs are kept:
//! a fresh mount has one, and each change of the tree splits a few.

use std::collections::{BTreeMap, HashSet};

use super::node::Ino;

/// The number of an entry that is no node of its own: another name of one.
pub const NONE: Ino = Ino(0);

/// Entries in a row whose numbers are in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// The first entry, by how many come before it.
    ordinal: u64,
    len: u64,
    /// The number of the first entry; if it is [`NONE`], none of them has one.
    ino: Ino,
}

/// The numbers of all entries of a tree. No number is that of two entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    runs: Vec<Run>,
    /// The runs by their first number.
    by_ino: Vec<(Ino, usize)>,
    /// Entries that are other names of a symbolic link, which a snapshot has as links of their own.
    aliases: BTreeMap<u64, Ino>,
    len: u64,
}

impl Numbers {
    /// Of a tree of so many entries that was never changed: entry `n` has the number `n + 1`.
    pub fn fresh(len: u64) -> Self {
        let mut builder = Builder::default();
        builder.push(Ino::ROOT, len);
        builder.finish()
    }

    /// Of entries with these numbers. One that has the number of an entry before is another name of that.
    pub fn of(numbers: impl IntoIterator<Item = Ino>) -> Self {
        let (mut builder, mut seen) = (Builder::default(), HashSet::new());
        for ino in numbers {
            if ino == NONE || seen.insert(ino) {
                builder.push(ino, 1);
            } else {
                builder.push_alias(ino);
            }
        }
        builder.finish()
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many runs they are.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// No entry has this number or a higher one.
    pub fn next(&self) -> Ino {
        let ends = self.runs.iter().filter(|run| run.ino != NONE).map(|run| Ino(run.ino.0 + run.len));
        ends.max().unwrap_or(Ino::ROOT)
    }

    /// The number of the entry that has so many before it.
    pub fn ino(&self, ordinal: u64) -> Option<Ino> {
        if let Some(ino) = self.aliases.get(&ordinal) {
            return Some(*ino);
        }
        let after = self.runs.partition_point(|run| run.ordinal <= ordinal);
        let run = self.runs.get(after.checked_sub(1)?)?;
        let at = ordinal - run.ordinal;
        (at < run.len && run.ino != NONE).then_some(Ino(run.ino.0 + at))
    }

    /// The entry that has this number, the first if it has several names.
    pub fn ordinal(&self, ino: Ino) -> Option<u64> {
        let after = self.by_ino.partition_point(|(first, _)| *first <= ino);
        let run = self.runs[self.by_ino.get(after.checked_sub(1)?)?.1];
        let at = ino.0 - run.ino.0;
        (at < run.len).then_some(run.ordinal + at)
    }

    /// The other entries that are names of this node, if it is a symbolic link.
    pub fn aliases(&self, ino: Ino) -> impl Iterator<Item = u64> + '_ {
        self.aliases.iter().filter(move |(_, of)| **of == ino).map(|(ordinal, _)| *ordinal)
    }

    /// The runs as they are stored: how long each is, and its first number.
    pub fn stored_runs(&self) -> impl ExactSizeIterator<Item = (u64, Ino)> + '_ {
        self.runs.iter().map(|run| (run.len, run.ino))
    }

    /// The aliases as they are stored.
    pub fn stored_aliases(&self) -> &BTreeMap<u64, Ino> {
        &self.aliases
    }

    /// What was stored so.
    pub fn from_stored(runs: impl IntoIterator<Item = (u64, Ino)>, aliases: BTreeMap<u64, Ino>) -> Self {
        let mut builder = Builder::default();
        for (len, ino) in runs {
            builder.push(ino, len);
        }
        Self { aliases, ..builder.finish() }
    }
}

/// Numbers that are put together in the order of the tree.
#[derive(Debug, Default)]
pub struct Builder {
    numbers: Numbers,
}

impl Builder {
    /// So many entries come next, the first with this number.
    pub fn push(&mut self, ino: Ino, len: u64) {
        if len == 0 {
            return;
        }
        let ordinal = self.numbers.len;
        self.numbers.len += len;
        match self.numbers.runs.last_mut() {
            Some(last) if last.ino == NONE && ino == NONE => last.len += len,
            Some(last) if last.ino != NONE && ino.0 == last.ino.0 + last.len => last.len += len,
            _ => self.numbers.runs.push(Run { ordinal, len, ino }),
        }
    }

    /// An entry comes next that is another name of this node.
    pub fn push_alias(&mut self, ino: Ino) {
        self.numbers.aliases.insert(self.numbers.len, ino);
        self.push(NONE, 1);
    }

    /// The entries of another tree from one to before another come next, as they are numbered there.
    pub fn copy(&mut self, from: &Numbers, range: std::ops::Range<u64>) {
        let first = from.runs.partition_point(|run| run.ordinal + run.len <= range.start);
        for run in from.runs[first..].iter().take_while(|run| run.ordinal < range.end) {
            let (start, end) = (run.ordinal.max(range.start), (run.ordinal + run.len).min(range.end));
            let at = self.numbers.len;
            let ino = if run.ino == NONE { NONE } else { Ino(run.ino.0 + (start - run.ordinal)) };
            self.push(ino, end - start);
            let aliases = from.aliases.range(start..end).map(|(ordinal, ino)| (ordinal - start + at, *ino));
            self.numbers.aliases.extend(aliases);
        }
    }

    pub fn finish(self) -> Numbers {
        let mut numbers = self.numbers;
        let numbered = numbers.runs.iter().enumerate().filter(|(_, run)| run.ino != NONE);
        numbers.by_ino = numbered.map(|(at, run)| (run.ino, at)).collect();
        numbers.by_ino.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_tree_is_one_run_however_large() {
        let numbers = Numbers::fresh(1_000_000);
        assert_eq!((numbers.runs(), numbers.next()), (1, Ino(1_000_001)));
        assert_eq!(
            (numbers.ino(0), numbers.ino(999_999), numbers.ino(1_000_000)),
            (Some(Ino(1)), Some(Ino(1_000_000)), None)
        );
        assert_eq!(
            (numbers.ordinal(Ino(1)), numbers.ordinal(Ino(0)), numbers.ordinal(Ino(1_000_001))),
            (Some(0), None, None)
        );
    }

    #[test]
    fn every_number_leads_to_its_entry_and_back() {
        let list: Vec<Ino> = [1, 2, 3, 90, 91, 0, 7, 3, 8, 9, 4].map(Ino).to_vec();
        let numbers = Numbers::of(list.iter().copied());
        for (at, ino) in list.iter().enumerate() {
            let expected = (*ino != NONE).then_some(*ino);
            assert_eq!(numbers.ino(at as u64), expected, "{at}");
        }
        for ino in 1..100 {
            let first = list.iter().position(|other| *other == Ino(ino)).map(|at| at as u64);
            assert_eq!(numbers.ordinal(Ino(ino)), first, "{ino}");
        }
        assert_eq!(numbers.aliases(Ino(3)).collect::<Vec<_>>(), [7]);
        assert_eq!(numbers.next(), Ino(92));
        let stored = Numbers::from_stored(numbers.stored_runs(), numbers.stored_aliases().clone());
        assert_eq!(stored, numbers);
    }

    #[test]
    fn a_change_in_the_middle_splits_a_run() {
        let before = Numbers::fresh(100);
        let mut builder = Builder::default();
        builder.copy(&before, 0..50);
        builder.push(Ino(500), 1);
        builder.copy(&before, 51..100);
        let after = builder.finish();
        assert_eq!((after.len(), after.runs()), (100, 3));
        assert_eq!(
            (after.ordinal(Ino(500)), after.ordinal(Ino(51)), after.ordinal(Ino(52))),
            (Some(50), None, Some(51))
        );
    }
}
