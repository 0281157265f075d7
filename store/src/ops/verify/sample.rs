//! `Sample` chooses a part of everything, another one each day.

use crate::id::PackId;

/// One of so many parts of all packs. All parts together are everything, and a pack is
/// always in the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The number of the part, counted from 0.
    pub part: u64,
    /// How many parts there are.
    pub of: u64,
}

impl Sample {
    /// The part for a day, so that as many days in a row cover everything.
    pub fn of_day(of: u64, unix_ms: u64) -> Self {
        Self { part: unix_ms / 86_400_000 % of.max(1), of: of.max(1) }
    }

    pub(super) fn holds(self, pack: PackId) -> bool {
        let digest = blake3::hash(pack.to_string().as_bytes());
        let mut number = [0; 8];
        number.copy_from_slice(&digest.as_bytes()[..8]);
        u64::from_le_bytes(number) % self.of == self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{PackSeq, RecordId};

    #[test]
    fn as_many_days_as_there_are_parts_cover_every_pack_once() {
        let pack = |n: u32| PackId { write: RecordId::from_parts(1, [3; 10]), seq: PackSeq::Data(n) };
        let days: Vec<Sample> = (0..10).map(|day| Sample::of_day(10, day * 86_400_000)).collect();
        for n in 0..500 {
            assert_eq!(days.iter().filter(|day| day.holds(pack(n))).count(), 1);
        }
        let first = (0..500).filter(|n| days[0].holds(pack(*n))).count();
        assert!((20..100).contains(&first), "{first} of 500 on one day");
        assert!(Sample::of_day(1, 12345).holds(pack(0)));
    }
}
