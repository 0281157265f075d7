//! `PageOf` cuts a part out of a list.

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOf {
    /// How many rows are passed over.
    pub skip: usize,
    /// How many rows there are at most.
    pub limit: usize,
}

impl PageOf {
    /// The rows of this part, and where the next one begins, if there is one.
    pub(super) fn cut<T>(self, rows: Vec<T>) -> (Vec<T>, Option<u64>) {
        let end = self.skip.saturating_add(self.limit);
        let next = (rows.len() > end).then_some(end as u64);
        (rows.into_iter().skip(self.skip).take(self.limit).collect(), next)
    }
}
