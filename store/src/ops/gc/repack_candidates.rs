//! Selects the packs to repack: those that hold most garbage.
//!
//! It takes the packs with the largest unused part first, until the rest of the garbage in packs is well
//! within the limit. So no pack is touched that wastes less than the limit by itself, and the rewritten
//! bytes keep pace with the freed ones.

use std::{collections::HashSet, time::SystemTime};

use super::{
    condemned_docs::CondemnedDoc,
    inventory::Inventory,
    roots::{Marks, SeenRecord},
    run::GcRun,
    users::{Half, Users},
};
use crate::{
    ErrorKind, Result,
    id::PackId,
    ops::gc::repack::{self, FRAME_BYTES, Failed, RepackPlan, survey},
};

/// However little memory is allowed, a tree may take this much of it.
const LEAST_FOR_A_TREE: u64 = 16 << 20;
/// At most so much is emptied by one write.
const MOST_BYTES: u64 = 4 << 30;
/// So many frames are moved together, and so many packs looked at, even if memory is short.
const FEWEST: usize = 1000;

/// The progress of emptying packs.
struct RepackProgress {
    moved: bool,
    /// Not if the store takes nothing more.
    goes_on: bool,
}

impl GcRun<'_> {
    /// Empties packs of which too little is needed: their needed frames are moved. Then nothing
    /// needs them, and they are condemned like any others. `false` if there was nothing to move.
    pub(super) async fn repack(
        &mut self,
        filed: &[CondemnedDoc],
        inventory: &mut Inventory,
        marks: &mut Marks,
        now: SystemTime,
    ) -> Result<bool> {
        let mut moved_any = false;
        if marks.records.values().any(SeenRecord::is_moving) {
            tracing::info!(tenant = %self.store.tenant, "somebody else moves chunks now");
            return Ok(false);
        }
        // What is condemned and needed all the same is about to be pardoned.
        let open = filed.iter().filter(|document| !document.is_decided());
        let mut passed_over: HashSet<PackId> =
            open.flat_map(|document| document.body.packs.iter().copied()).collect();
        loop {
            let RepackProgress { moved, goes_on } =
                self.repack_as_marked(inventory, marks, &mut passed_over, now).await?;
            if moved {
                // All records are read again: once for all that was moved, not for each write.
                *marks = self.mark().await?;
                moved_any = true;
            }
            if !moved || !goes_on {
                return Ok(moved_any);
            }
        }
    }

    /// Empties packs until the marks of before say that it is enough.
    async fn repack_as_marked(
        &mut self,
        inventory: &mut Inventory,
        marks: &mut Marks,
        passed_over: &mut HashSet<PackId>,
        now: SystemTime,
    ) -> Result<RepackProgress> {
        let (mut ended, mut users) = (RepackProgress { moved: false, goes_on: true }, None);
        while let Some(survey) = choose(self, inventory, marks, &mut users, passed_over).await? {
            let stored = if self.is_real() {
                let run = repack::run(self.store, &survey, self.collector.rules).await;
                run.map(|moved| (moved.writes, Vec::new()))
            } else {
                let stored = self.dry_run.add(self.store, &survey, &marks.pins).await;
                stored.map(|stored| (stored.writes, stored.packs))
            };
            let imagined = match stored {
                Ok((writes, imagined)) => {
                    self.filled.extend(writes);
                    imagined
                }
                Err(failed) => {
                    let (packs, go_on) = left(failed, &survey)?;
                    self.plan.repacked.failed += packs.len() as u64;
                    passed_over.extend(packs);
                    if go_on {
                        continue;
                    }
                    ended.goes_on = false;
                    break;
                }
            };
            if self.is_real() {
                *inventory = Inventory::take(self.store, self.collector.room()).await?;
            }
            imagined.into_iter().try_for_each(|(pack, bytes)| inventory.imagine(pack, bytes, now))?;
            ended.moved = true;
            self.note_repack(&survey);
            // What did not move for some reason is for the next run.
            passed_over.extend(survey.packs.keys());
            survey.packs.keys().for_each(|pack| marks.packs.remove(*pack));
        }
        Ok(ended)
    }

    fn note_repack(&mut self, survey: &RepackPlan) {
        let done = &mut self.plan.repacked;
        for (pack, bytes) in &survey.packs {
            done.emptied.add(*bytes);
            done.kept_bytes += survey.kept_bytes(*pack);
        }
        self.moved.extend(survey.records());
        done.records = self.moved.len() as u64;
    }
}

/// The packs that were not emptied, and whether others can be: not if the store takes nothing
/// more, or not from us. Garbage can still be condemned then, so only a defect
/// ends the run.
fn left(failed: Failed, survey: &RepackPlan) -> Result<(Vec<PackId>, bool)> {
    let Failed { error, pack, .. } = failed;
    let go_on = match error.kind() {
        ErrorKind::Damaged
        | ErrorKind::UnsupportedFormat
        | ErrorKind::InvalidInput
        | ErrorKind::WriteRevoked
        | ErrorKind::Conflict
        | ErrorKind::NotFound => true,
        ErrorKind::Internal => return Err(error),
        _ => false,
    };
    tracing::warn!(%error, "packs of which little is needed were not emptied");
    let packs = pack.map_or_else(|| survey.packs.keys().copied().collect(), |pack| vec![pack]);
    Ok((packs, go_on))
}

/// The packs that one write should empty now, and their needed frames. `None` if the unused bytes are
/// within the limit. Packs that cannot be emptied are passed over from then on.
async fn choose(
    round: &GcRun<'_>,
    inventory: &Inventory,
    marks: &Marks,
    users: &mut Option<Users>,
    passed_over: &mut HashSet<PackId>,
) -> Result<Option<RepackPlan>> {
    let options = round.collector.options;
    // A quarter of the memory is for what was marked, another one for what is there.
    let most_frames = usize::try_from(options.memory_bytes / 2 / FRAME_BYTES).unwrap_or(usize::MAX);
    let most = most_frames.max(FEWEST);
    let limit = |total: u64| (total / 100 * options.max_unused_percent).max(options.min_unused_bytes);
    loop {
        let (mut total, mut all_unused, mut stored) = (0, 0, 0);
        let mut halves = Vec::new();
        for line in inventory.packs.lines() {
            let (id, pack) = line?;
            stored += pack.bytes;
            let Some(need) = marks.packs.get(&id)? else { continue };
            total += pack.bytes;
            let unused = pack.bytes.saturating_sub(need.live_bytes);
            if !need.is_fixed && !passed_over.contains(&id) {
                all_unused += unused;
                halves.push(Half { pack: id, bytes: pack.bytes, unused });
                if halves.len() >= 2 * most {
                    // What is not among the worst is for another time.
                    sort_by_waste(&mut halves);
                    halves.truncate(most);
                }
            }
        }
        let chosen = worst(&mut halves, all_unused, total, &limit);
        if chosen == 0 || options.max_unused_percent >= 100 {
            return Ok(None);
        }
        let known = match users.take_if(|known| known.cover(&halves[0])) {
            Some(known) => known,
            None => {
                let wasting = halves.partition_point(|half| half.unused > 0);
                Users::find(round, marks, &halves[..wasting]).await?
            }
        };
        let known = users.insert(known);
        let chosen: Vec<Half> =
            halves[..chosen].iter().take_while(|half| known.cover(half)).copied().collect();
        let (idle, chosen): (Vec<Half>, Vec<Half>) = chosen.into_iter().partition(|half| known.lack(half));
        passed_over.extend(idle.iter().map(|half| half.pack));
        if chosen.is_empty() {
            continue;
        }
        let packs: Vec<(PackId, u64)> = chosen.iter().map(|half| (half.pack, half.bytes)).collect();
        let room = (most as u64 * FRAME_BYTES, options.memory_bytes.max(LEAST_FOR_A_TREE));
        let surveyed =
            survey(round.store, &round.dry_run, &packs, &known.of(&chosen), &marks.pins, room).await?;
        passed_over.extend(&surveyed.unmovable);
        if surveyed.packs.is_empty() {
            continue;
        }
        // By now it is known exactly what is needed of each. More than was thought, perhaps.
        let exactly: u64 = surveyed.packs.keys().map(|pack| surveyed.unused_bytes(*pack)).sum();
        let surveyed_too = chosen.iter().filter(|half| surveyed.packs.contains_key(&half.pack));
        let thought: u64 = surveyed_too.map(|half| half.unused).sum();
        if all_unused.saturating_sub(thought) + exactly <= limit(total) {
            return Ok(None);
        }
        let is_worth_it =
            |pack: PackId, bytes: u64| surveyed.unused_bytes(pack) * 100 > bytes * options.max_unused_percent;
        let rest = surveyed.packs.iter().filter(|(pack, bytes)| !is_worth_it(**pack, **bytes));
        let rest: HashSet<PackId> = rest.map(|(pack, _)| *pack).collect();
        passed_over.extend(&rest);
        let surveyed = surveyed.without(&rest);
        let room = options.quota_bytes.map_or(u64::MAX, |quota| quota.saturating_sub(stored));
        let no_room = surveyed.beyond(room);
        passed_over.extend(&no_room);
        let surveyed = surveyed.without(&no_room);
        let in_vain = surveyed.in_vain();
        passed_over.extend(&in_vain);
        let surveyed = surveyed.without(&in_vain);
        if !surveyed.packs.is_empty() {
            return Ok(Some(surveyed.in_batches_of(options.batch_chunks)));
        }
    }
}

fn sort_by_waste(halves: &mut [Half]) {
    let share = |half: &Half| half.unused as f64 / half.bytes.max(1) as f64;
    halves.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.pack.cmp(&b.pack)));
}

/// How many of them, the worst first, if more than the limit is unused. So many until that is less by an eighth, for the
/// tables that are written anew leave some unused themselves, and that must not ask for another write.
fn worst(halves: &mut [Half], mut unused: u64, mut total: u64, limit: &impl Fn(u64) -> u64) -> usize {
    if unused <= limit(total) {
        return 0;
    }
    sort_by_waste(halves);
    let mut chosen_bytes = 0;
    let is_chosen = |half: &&Half| {
        let more = unused > limit(total) / 8 * 7 && chosen_bytes < MOST_BYTES;
        (unused, total) = (unused - half.unused, total - half.unused.min(total));
        chosen_bytes += half.bytes;
        more && half.unused > 0
    };
    halves.iter().take_while(is_chosen).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{PackSeq, RecordId};

    fn pack(seq: usize) -> PackId {
        PackId { write: RecordId::from_bytes([0; 16]), seq: PackSeq::Data(seq as u32) }
    }

    /// Packs of 1000 bytes each, and how many of these are not needed.
    fn chosen(unused: &[u64], limit: u64) -> Vec<u64> {
        let halves = unused.iter().enumerate();
        let mut halves: Vec<Half> =
            halves.map(|(seq, unused)| Half { pack: pack(seq), bytes: 1000, unused: *unused }).collect();
        let total = 1000 * unused.len() as u64;
        let chosen = worst(&mut halves, unused.iter().sum(), total, &|_| limit);
        halves[..chosen].iter().map(|half| half.unused).collect()
    }

    #[test]
    fn the_worst_are_emptied_until_less_than_the_limit_is_unused() {
        assert_eq!(chosen(&[100, 300, 200, 400], 1000), [0; 0], "it is within the limit");
        assert_eq!(chosen(&[100, 300, 200, 400], 999), [400], "600 is less than 868");
        assert_eq!(chosen(&[100, 300, 200, 400], 601), [400, 300], "600 is within it, but hardly");
        assert_eq!(chosen(&[100, 300, 0, 400], 0), [400, 300, 100], "one is needed as a whole");
    }
}
