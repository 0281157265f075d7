//! Which packs are to be emptied.
//!
//! Those of which the largest part is not needed, until what is left of such content is well within
//! the limit. So no pack is touched that wastes less than the limit by itself, and what is
//! rewritten goes with what is freed.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::SystemTime,
};

use futures::{StreamExt, stream};

use super::{
    documents::Filed,
    inventory::Inventory,
    roots::{Marks, Seen},
    round::Round,
};
use crate::{
    ErrorKind, Result,
    format::record::{Record, State},
    id::{PackId, RecordId},
    name::Lineage,
    ops::repack::{self, FRAME_BYTES, Failed, Survey, survey},
};

const REQUESTS_AT_ONCE: usize = 16;
/// At most so much is emptied by one write.
const MOST_BYTES: u64 = 4 << 30;
/// So many frames are moved together, and so many packs looked at, whatever memory there is.
const FEWEST: usize = 1000;
/// A pack that is needed by snapshots with more chunks than this in all is left as it is:
/// all their tables would have to be written anew.
const MOST_CHUNKS: u64 = 4_000_000;

/// A pack, and how much of it is needed at least.
#[derive(Clone, Copy, Debug)]
struct Half {
    pack: PackId,
    bytes: u64,
    unused: u64,
}

impl Round<'_> {
    /// Empties packs of which too little is needed: what they hold is moved. Then nothing
    /// needs them, and they are condemned like any others. `false` if there was nothing to move.
    pub(super) async fn repack(
        &mut self,
        filed: &[Filed],
        inventory: &mut Inventory,
        marks: &mut Marks,
        now: SystemTime,
    ) -> Result<bool> {
        let mut moved_any = false;
        if marks.records.values().any(Seen::is_moving) {
            tracing::info!(tenant = %self.store.tenant, "somebody else moves chunks now");
            return Ok(false);
        }
        // What is condemned and needed all the same is about to be pardoned.
        let open = filed.iter().filter(|document| !document.is_decided());
        let mut passed_over: HashSet<PackId> =
            open.flat_map(|document| document.body.packs.iter().copied()).collect();
        while let Some(survey) = choose(self, inventory, marks, &mut passed_over).await? {
            let stored = if self.is_real() {
                let run = repack::run(self.store, &survey, self.collector.rules).await;
                run.map(|moved| (moved.write, Vec::new()))
            } else {
                let stored = self.rehearsal.add(self.store, &survey, &marks.pins).await;
                stored.map(|stored| (Some(stored.write), stored.packs))
            };
            let imagined = match stored {
                Ok((write, imagined)) => {
                    self.filled.extend(write);
                    imagined
                }
                Err(failed) => {
                    let (packs, go_on) = left(failed, &survey)?;
                    self.plan.repacked.failed += packs.len() as u64;
                    passed_over.extend(packs);
                    if go_on {
                        continue;
                    }
                    break;
                }
            };
            if self.is_real() {
                *inventory = Inventory::take(self.store, self.collector.room()).await?;
            }
            imagined.into_iter().try_for_each(|(pack, bytes)| inventory.imagine(pack, bytes, now))?;
            *marks = self.mark().await?;
            moved_any = true;
            self.note_repack(&survey);
            // What did not move for some reason is for the next run.
            passed_over.extend(survey.packs.keys());
        }
        Ok(moved_any)
    }

    fn note_repack(&mut self, survey: &Survey) {
        let done = &mut self.plan.repacked;
        for (pack, bytes) in &survey.packs {
            done.emptied.add(*bytes);
            done.kept_bytes += survey.kept_bytes(*pack);
        }
        self.moved.extend(survey.records().map(|record| record.record));
        done.records = self.moved.len() as u64;
    }
}

/// The packs that were not emptied, and whether others can be: not if the store takes nothing
/// more, or not from us. That keeps nobody from condemning what is garbage, so only a defect
/// ends the run.
fn left(failed: Failed, survey: &Survey) -> Result<(Vec<PackId>, bool)> {
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

/// The packs that one write should empty now, and what is needed of them. `None` if what is
/// not needed is within the limit. What cannot be emptied is passed over from then on.
pub(super) async fn choose(
    round: &Round<'_>,
    inventory: &Inventory,
    marks: &Marks,
    passed_over: &mut HashSet<PackId>,
) -> Result<Option<Survey>> {
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
        let chosen = worst(halves, all_unused, total, &limit);
        if chosen.is_empty() || options.max_unused_percent >= 100 {
            return Ok(None);
        }
        let users = Users::find(round, marks, &chosen).await?;
        let (packs, records) = users.affordable(&chosen, passed_over);
        if packs.is_empty() {
            continue;
        }
        let surveyed = match survey(round.store, &round.rehearsal, packs, &records).await {
            Ok(surveyed) => surveyed,
            Err((Some(record), error)) if is_its_own(error.kind()) => {
                tracing::warn!(record = %record.record, %error, "a snapshot cannot be moved; its packs stay as they are");
                passed_over.extend(packs_of(&record));
                continue;
            }
            Err((_, error)) => return Err(error),
        };
        if let Some((record, error)) = surveyed.forgetful(&marks.pins) {
            tracing::warn!(%error, "a snapshot cannot be moved; its packs stay as they are");
            passed_over.extend(packs_of(record));
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
        let surveyed = surveyed.without(&no_room).up_to(most);
        let in_vain = surveyed.in_vain();
        passed_over.extend(&in_vain);
        let surveyed = surveyed.without(&in_vain);
        if !surveyed.packs.is_empty() {
            return Ok(Some(surveyed));
        }
    }
}

/// Whether an error is about one snapshot, and keeps no other from being moved.
fn is_its_own(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Damaged | ErrorKind::UnsupportedFormat | ErrorKind::InvalidInput)
}

fn sort_by_waste(halves: &mut [Half]) {
    let share = |half: &Half| half.unused as f64 / half.bytes.max(1) as f64;
    halves.sort_by(|a, b| share(b).total_cmp(&share(a)).then(a.pack.cmp(&b.pack)));
}

/// The worst first, if more than the limit is unused. Then until that is less by an eighth, for the
/// tables that are written anew leave some unused themselves, and that must not ask for another write.
fn worst(mut halves: Vec<Half>, mut unused: u64, mut total: u64, limit: &impl Fn(u64) -> u64) -> Vec<Half> {
    if unused <= limit(total) {
        return Vec::new();
    }
    sort_by_waste(&mut halves);
    let mut chosen_bytes = 0;
    halves
        .into_iter()
        .take_while(|half| {
            let more = unused > limit(total) / 8 * 7 && chosen_bytes < MOST_BYTES;
            (unused, total) = (unused - half.unused, total - half.unused.min(total));
            chosen_bytes += half.bytes;
            more && half.unused > 0
        })
        .collect()
}

/// Who needs the packs that are to be emptied.
struct Users {
    records: Vec<(Lineage, RecordId, u64)>,
    by_pack: HashMap<PackId, Vec<usize>>,
}

impl Users {
    async fn find(round: &Round<'_>, marks: &Marks, chosen: &[Half]) -> Result<Self> {
        let chosen: HashSet<PackId> = chosen.iter().map(|half| half.pack).collect();
        let mut live: Vec<(RecordId, Lineage)> = marks
            .records
            .iter()
            .filter(|(_, seen)| seen.state == State::Live)
            .map(|(id, seen)| (*id, marks.lineage(seen).clone()))
            .collect();
        live.sort_unstable();
        let mut users = Self { records: Vec::new(), by_pack: HashMap::new() };
        let mut read =
            stream::iter(live)
                .map(|(id, lineage)| async move {
                    (round.rehearsal.get(round.store, &lineage, id).await, lineage)
                })
                .buffered(REQUESTS_AT_ONCE);
        while let Some((found, lineage)) = read.next().await {
            let Some((record, _)) = found? else { continue };
            let mut needs = packs_of(&record).filter(|pack| chosen.contains(pack)).peekable();
            if record.state != State::Live || needs.peek().is_none() {
                continue;
            }
            for pack in needs {
                users.by_pack.entry(pack).or_default().push(users.records.len());
            }
            users.records.push((lineage, record.record, record.counts.chunks));
        }
        Ok(users)
    }

    /// As many of the packs as one write can empty, with all that needs them.
    fn affordable(
        &self,
        chosen: &[Half],
        passed_over: &mut HashSet<PackId>,
    ) -> (BTreeMap<PackId, u64>, Vec<(Lineage, RecordId)>) {
        let mut packs = BTreeMap::new();
        let mut taken: HashSet<usize> = HashSet::new();
        let mut chunks = 0;
        for half in chosen {
            let users = self.by_pack.get(&half.pack).map(Vec::as_slice).unwrap_or_default();
            let chunks_of = |user: &usize| self.records[*user].2;
            if users.is_empty() || users.iter().map(chunks_of).sum::<u64>() > MOST_CHUNKS {
                passed_over.insert(half.pack);
                continue;
            }
            let more: u64 = users.iter().filter(|user| !taken.contains(user)).map(chunks_of).sum();
            // One that does not fit beside the others has its turn when they are done.
            if chunks + more > MOST_CHUNKS {
                continue;
            }
            chunks += more;
            taken.extend(users);
            packs.insert(half.pack, half.bytes);
        }
        let mut taken: Vec<usize> = taken.into_iter().collect();
        taken.sort_unstable();
        let records = taken.into_iter().map(|at| (self.records[at].0.clone(), self.records[at].1));
        (packs, records.collect())
    }
}

fn packs_of(record: &Record) -> impl Iterator<Item = PackId> {
    record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::PackSeq, name::ProfileName};

    fn pack(seq: usize) -> PackId {
        PackId { write: RecordId::from_bytes([0; 16]), seq: PackSeq::Data(seq as u32) }
    }

    /// Packs of 1000 bytes each, and how many of these are not needed.
    fn chosen(unused: &[u64], limit: u64) -> Vec<u64> {
        let halves = unused.iter().enumerate();
        let halves =
            halves.map(|(seq, unused)| Half { pack: pack(seq), bytes: 1000, unused: *unused }).collect();
        let total = 1000 * unused.len() as u64;
        worst(halves, unused.iter().sum(), total, &|_| limit).iter().map(|half| half.unused).collect()
    }

    /// What does not fit beside others is for the next write; what no write can take stays as it is.
    #[test]
    fn a_pack_waits_for_its_turn() {
        let half = |seq| Half { pack: pack(seq), bytes: 1000, unused: 500 };
        let name: ProfileName = "acme/alice".parse().unwrap();
        let lineage = Lineage { name, chrome_major: "131".parse().unwrap() };
        let user = |number, chunks| (lineage.clone(), RecordId::from_bytes([number; 16]), chunks);
        let most = MOST_CHUNKS;
        let users = Users {
            records: vec![user(1, most - 10), user(2, 11), user(3, most + 1), user(4, 10)],
            by_pack: (0..4).map(|number| (pack(number), vec![number])).collect(),
        };
        let mut passed_over = HashSet::new();
        let chosen: Vec<Half> = (0..5).map(half).collect();
        let (packs, records) = users.affordable(&chosen, &mut passed_over);
        assert_eq!(packs.into_keys().collect::<Vec<_>>(), [pack(0), pack(3)]);
        assert_eq!(records.len(), 2);
        assert_eq!(passed_over, [pack(2), pack(4)].into(), "one is too much, one is needed by nobody");
    }

    #[test]
    fn the_worst_are_emptied_until_less_than_the_limit_is_unused() {
        assert_eq!(chosen(&[100, 300, 200, 400], 1000), [0; 0], "it is within the limit");
        assert_eq!(chosen(&[100, 300, 200, 400], 999), [400], "600 is less than 868");
        assert_eq!(chosen(&[100, 300, 200, 400], 601), [400, 300], "600 is within it, but hardly");
        assert_eq!(chosen(&[100, 300, 0, 400], 0), [400, 300, 100], "one is needed as a whole");
    }
}
