//! `Startup` names the chunks of a snapshot that are read first, as the mount before has recorded them.
//!
//! Chunks are named by their number in the tree, counted as tables count them, so that a hint
//! stays true when chunks are moved. It is only a hint: one that makes no sense is ignored, and
//! never an error.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A longer hint is not written, and not read to its end.
pub(crate) const MAX_RUNS: usize = 512;
/// Uncompressed bytes of the chunks that a hint names together.
pub const MAX_BYTES: u64 = 8 << 20;
/// The largest integer that every JSON reader keeps exactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Chunks that follow each other in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of the first chunk.
    pub first: u64,
    /// How many chunks follow one another.
    pub count: u64,
}

/// Runs of chunks in the order of their first use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup(Vec<Run>);

impl Startup {
    /// Of chunks in the order of their first use.
    pub fn new(chunks: impl IntoIterator<Item = u64>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for chunk in chunks {
            if runs.iter().any(|run| (run.first..run.first + run.count).contains(&chunk)) {
                continue;
            }
            let full = runs.len() == MAX_RUNS || chunk >= MAX_NUMBER;
            match runs.last_mut() {
                Some(last) if last.first + last.count == chunk => last.count += 1,
                _ if full => break,
                _ => runs.push(Run { first: chunk, count: 1 }),
            }
        }
        Self(runs)
    }

    /// The runs, in the order in which they are read.
    pub fn runs(&self) -> &[Run] {
        &self.0
    }

    /// Whether nothing is known of first reads.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The chunks of a tree that has `count` of them.
    pub fn chunks(&self, count: u64) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(move |run| run.first..(run.first + run.count).min(count).max(run.first))
    }

    fn from_json(value: &Value) -> Option<Self> {
        let runs = value.as_array()?.iter().take(MAX_RUNS).map(|run| match run.as_array()?.as_slice() {
            [first, count] => {
                let run = Run { first: first.as_u64()?, count: count.as_u64()? };
                let end = run.first.checked_add(run.count)?;
                (run.count > 0 && end <= MAX_NUMBER).then_some(run)
            }
            _ => None,
        });
        runs.collect::<Option<Vec<_>>>().map(Self)
    }
}

impl Serialize for Startup {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|run| [run.first, run.count]))
    }
}

impl<'de> Deserialize<'de> for Startup {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_json(&Value::deserialize(deserializer)?).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn chunks_become_runs_in_the_order_of_their_first_use() {
        let startup = Startup::new([7, 8, 9, 2, 8, 3, 100]);
        assert_eq!(serde_json::to_value(&startup).unwrap(), json!([[7, 3], [2, 2], [100, 1]]));
        assert_eq!(startup.chunks(50).collect::<Vec<_>>(), [7, 8, 9, 2, 3]);
        assert_eq!(startup.chunks(8).collect::<Vec<_>>(), [7, 2, 3]);
        assert_eq!(Startup::new((0..10_000).map(|chunk| chunk * 2)).runs().len(), MAX_RUNS);
    }

    #[test]
    fn what_makes_no_sense_is_no_hint() {
        let read = |value: Value| serde_json::from_value::<Startup>(value).unwrap();
        assert_eq!(read(json!([[7, 3], [2, 2]])).runs().len(), 2);
        for nonsense in [
            json!(null),
            json!("soon"),
            json!({ "first": 1 }),
            json!([1, 2]),
            json!([[1]]),
            json!([[1, 2, 3]]),
            json!([[1, 0]]),
            json!([[-1, 2]]),
            json!([[1.5, 2]]),
            json!([[u64::MAX, u64::MAX]]),
            json!([[1, 1_u64 << 60]]),
        ] {
            assert!(read(nonsense.clone()).is_empty(), "{nonsense}");
        }
        // However much it names, only what there is is gone through.
        assert_eq!(read(json!([[5, 1_u64 << 52]])).chunks(10).count(), 5);
        let many: Vec<[u64; 2]> = (0..2000).map(|first| [first, 1]).collect();
        assert_eq!(read(json!(many)).runs().len(), MAX_RUNS);
    }
}
