//! Decides which packs are worth emptying.

use std::collections::{HashMap, HashSet};

use super::repack_plan::{RepackPlan, entry};
use crate::id::PackId;

/// How often packs are left out that are not worth it without those that were left out before.
const ROUNDS: usize = 8;

impl RepackPlan {
    /// The packs that are not worth it: emptying them would make nearly as much useless elsewhere as it
    /// frees, for the roots and tables that name their chunks are written anew. Then those would be next, and
    /// so on, without end; freeing twice as much makes the garbage less each time.
    pub fn in_vain(&self) -> HashSet<PackId> {
        let mut dropped = HashSet::new();
        // First those that spoil too much by themselves, so that others do not suffer for them.
        for _ in 0..ROUNDS {
            let spoils = Spoils::of(self, &dropped);
            let in_vain = |pack: &&PackId| self.unused_bytes(**pack) <= 2 * spoils.only(pack);
            let more: Vec<PackId> =
                self.packs.keys().filter(|pack| !dropped.contains(*pack)).filter(in_vain).copied().collect();
            if more.is_empty() {
                break;
            }
            dropped.extend(more);
        }
        let spoils = Spoils::of(self, &dropped);
        let rest = self.packs.keys().filter(|pack| !dropped.contains(*pack));
        if rest.clone().map(|pack| self.unused_bytes(*pack)).sum::<u64>() > 2 * spoils.all {
            return dropped;
        }
        // Those that are worth it by themselves are so together, for they share what they spoil.
        let in_vain = |pack: &&PackId| self.unused_bytes(**pack) <= 2 * spoils.any(pack);
        let more: Vec<PackId> = rest.filter(in_vain).copied().collect();
        dropped.extend(more);
        dropped
    }
}

/// The roots and tables that become useless where they lie when some packs are emptied.
#[derive(Default)]
struct Spoils {
    all: u64,
    /// Of each pack, the bytes of roots and tables that name it; and of those that name no other.
    by_pack: HashMap<PackId, (u64, u64)>,
}

impl Spoils {
    /// If all packs of `survey` were emptied but those that are `dropped`.
    fn of(survey: &RepackPlan, dropped: &HashSet<PackId>) -> Self {
        let mut spoils = Self::default();
        let is_emptied = |pack: &PackId| survey.packs.contains_key(pack) && !dropped.contains(pack);
        for ((home, _), names) in &survey.names {
            let bytes = entry(names.stored_len);
            let mut hit = names.packs.iter().filter(|pack| is_emptied(pack)).peekable();
            if hit.peek().is_none() {
                continue;
            }
            if !is_emptied(home) {
                spoils.all += bytes;
            }
            let is_only = hit.clone().nth(1).is_none();
            for pack in hit.filter(|pack| *pack != home) {
                let (any, only) = spoils.by_pack.entry(*pack).or_default();
                *any += bytes;
                *only += if is_only && !is_emptied(home) { bytes } else { 0 };
            }
        }
        spoils
    }

    fn any(&self, pack: &PackId) -> u64 {
        self.by_pack.get(pack).map_or(0, |(any, _)| *any)
    }

    fn only(&self, pack: &PackId) -> u64 {
        self.by_pack.get(pack).map_or(0, |(_, only)| *only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::gc::repack::repack_plan::Names;
    use crate::{
        format::pack::{ENTRY_LEN, HEADER_LEN, TRAILER_LEN},
        id::{ChunkId, PackSeq, RecordId},
    };

    /// By number. The packs to be emptied, each with its unused bytes; and the tables that name them, each
    /// with its length, its own pack, and the packs it names.
    fn in_vain(packs: &[(u8, u64)], names: &[(u64, u8, &[u8])]) -> Vec<u8> {
        let id = |number: u8| PackId { write: RecordId::from_bytes([number; 16]), seq: PackSeq::Meta };
        let around = (HEADER_LEN + TRAILER_LEN) as u64;
        let survey = RepackPlan {
            packs: packs.iter().map(|(pack, unused)| (id(*pack), unused + around)).collect(),
            names: (0..)
                .zip(names)
                .map(|(number, (bytes, home, named))| {
                    let stored_len = (bytes - ENTRY_LEN as u64) as u32;
                    let packs = named.iter().map(|pack| id(*pack)).collect();
                    ((id(*home), ChunkId::from_bytes([number; 32])), Names { stored_len, packs })
                })
                .collect(),
            ..RepackPlan::default()
        };
        let dropped = survey.in_vain();
        packs.iter().map(|(pack, _)| *pack).filter(|pack| dropped.contains(&id(*pack))).collect()
    }

    const NONE: [u8; 0] = [];
    /// Lies in a pack that stays.
    const ELSEWHERE: u8 = 99;

    #[test]
    fn a_pack_is_emptied_if_that_frees_more_than_twice_what_it_spoils() {
        let names: &[(u64, u8, &[u8])] = &[(500, ELSEWHERE, &[1])];
        assert_eq!(in_vain(&[(1, 1001)], names), NONE);
        assert_eq!(in_vain(&[(1, 1000)], names), [1]);
        // One that is worth it does not carry one that is not.
        let names: &[(u64, u8, &[u8])] = &[(500, ELSEWHERE, &[1]), (500, ELSEWHERE, &[2])];
        assert_eq!(in_vain(&[(1, 900), (2, 9000)], names), [1]);
    }

    #[test]
    fn what_lies_in_a_pack_that_is_emptied_too_is_not_spoilt() {
        assert_eq!(in_vain(&[(1, 600), (2, 600)], &[(500, 2, &[1])]), NONE);
        assert_eq!(in_vain(&[(1, 600)], &[(500, 1, &[1])]), NONE);
        // Nor if it is more than all of it frees, or others are not worth it.
        assert_eq!(in_vain(&[(1, 400), (2, 400)], &[(500, 2, &[1])]), NONE);
        let names: &[(u64, u8, &[u8])] = &[(500, 1, &[1]), (1400, ELSEWHERE, &[2, 3])];
        assert_eq!(in_vain(&[(1, 600), (2, 1000), (3, 1000)], names), [2, 3]);
    }

    /// Each is worth it only together with the one before.
    #[test]
    fn packs_are_left_out_one_after_another_while_the_rest_is_worth_it() {
        let names: &[(u64, u8, &[u8])] =
            &[(2000, ELSEWHERE, &[1]), (500, ELSEWHERE, &[1, 2]), (500, ELSEWHERE, &[2, 3])];
        assert_eq!(in_vain(&[(1, 4000), (2, 1000), (3, 1000), (4, 9000)], names), [1, 2, 3]);
    }

    #[test]
    fn what_names_two_is_counted_when_only_one_of_them_is_left() {
        let names: &[(u64, u8, &[u8])] = &[(500, ELSEWHERE, &[1, 2]), (2000, ELSEWHERE, &[1])];
        assert_eq!(in_vain(&[(1, 4000), (2, 1000)], names), [1, 2]);
        assert_eq!(in_vain(&[(1, 4000), (2, 1001)], names), [1]);
    }

    #[test]
    fn packs_share_what_they_spoil_together() {
        let names: &[(u64, u8, &[u8])] = &[(900, ELSEWHERE, &[1, 2])];
        assert_eq!(in_vain(&[(1, 1000), (2, 1000)], names), NONE);
        let names: &[(u64, u8, &[u8])] = &[(1000, ELSEWHERE, &[1, 2])];
        assert_eq!(in_vain(&[(1, 1000), (2, 1000)], names), [1, 2]);
        // And all of them do, if any of them does.
        let names: &[(u64, u8, &[u8])] = &[(1000, ELSEWHERE, &[1, 2]), (900, ELSEWHERE, &[3, 4])];
        assert_eq!(in_vain(&[(1, 500), (2, 500), (3, 1400), (4, 1400)], names), [1, 2, 3, 4]);
        assert_eq!(in_vain(&[(1, 500), (2, 500), (3, 1900), (4, 1900)], names), NONE);
    }
}
