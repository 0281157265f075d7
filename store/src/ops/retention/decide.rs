//! `plan` applies the rules of retention to snapshots. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{
    Decision, HELD_BACK_FOR, HELD_BACK_MOST, Keep, Limits, Policy, Rule, Snapshot, Standing, Survey, Verdict,
    Why,
};
use crate::{
    format::record::{PackUse, Reason},
    id::PackId,
    name::{Lineage, WIP},
};

const DAY: Duration = Duration::from_secs(86_400);

/// Decides about each of these snapshots, newest first within a profile.
pub fn plan(survey: Survey, policy: impl Fn(&Lineage) -> Policy, limits: Limits) -> Vec<Decision> {
    let Survey { snapshots, now_ms } = survey;
    let mut by_lineage: BTreeMap<Lineage, Vec<Snapshot>> = BTreeMap::new();
    for snapshot in snapshots {
        by_lineage.entry(snapshot.lineage.clone()).or_default().push(snapshot);
    }
    let mut decisions = Vec::new();
    for (lineage, mut snapshots) in by_lineage {
        snapshots.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.place));
        decisions.extend(Profile::new(snapshots, policy(&lineage), now_ms).decide());
    }
    limit(&mut decisions, limits);
    decisions
}

/// The snapshots of one profile, newest first.
struct Profile {
    policy: Policy,
    now_ms: u64,
    decisions: Vec<Decision>,
}

impl Profile {
    fn new(snapshots: Vec<Snapshot>, policy: Policy, now_ms: u64) -> Self {
        let count = snapshots.len();
        let has_current = snapshots.iter().any(|snapshot| snapshot.standing == Standing::Current);
        let mut held_back = 0;
        let decisions = (1..).zip(snapshots).map(|(place, snapshot)| {
            let why = protects(&snapshot, &policy, now_ms)
                .filter(|why| {
                    held_back += usize::from(matches!(why, Why::HeldBack { .. }));
                    !matches!(why, Why::HeldBack { .. }) || held_back <= HELD_BACK_MOST
                })
                .or_else(|| (count == 1 || (place == 1 && !has_current)).then_some(Why::Last));
            Decision { snapshot, verdict: Verdict::Keep(why.unwrap_or(Why::NoRule { place })) }
        });
        Self { decisions: decisions.collect(), policy, now_ms }
    }

    /// Age before count, count before size; a snapshot that one rule removes does not count for the next.
    fn decide(mut self) -> Vec<Decision> {
        if let Some(keep) = self.policy.keep {
            let newest = match keep {
                Keep::One => 1,
                Keep::Newest(newest) => newest,
            };
            self.beyond(
                newest,
                |_| true,
                |place| match keep {
                    Keep::One => Rule::KeepOne,
                    Keep::Newest(newest) => Rule::Keep { newest, place },
                },
            );
            if keep == Keep::One {
                // The newest is not the current one after a rollback.
                let current = |decision: &Decision| decision.snapshot.standing == Standing::Current;
                if self.decisions.iter().any(current) {
                    self.remove(|_, _| Some(Rule::KeepOne));
                }
            }
        }
        if let Some(max_age) = self.policy.max_age {
            let now_ms = self.now_ms;
            self.remove(|snapshot, _| {
                let age = Duration::from_millis(now_ms.saturating_sub(snapshot.stored_at_ms));
                (age > max_age).then(|| Rule::MaxAge { days: days(max_age), age_days: days(age) })
            });
        }
        if let Some(most) = self.policy.max_count {
            self.beyond(most, |_| true, |place| Rule::MaxCount { most, place });
        }
        if let Some(most) = self.policy.auto {
            self.beyond(
                most,
                |snapshot| snapshot.reason != Reason::Manual,
                |place| Rule::Auto { most, place },
            );
        }
        for (of, most) in self.policy.of_reason.clone() {
            let reason = of.word().unwrap_or_default();
            self.beyond(
                most,
                |snapshot| snapshot.reason == of,
                |place| Rule::OfReason { reason, most, place },
            );
        }
        if let Some(most) = self.policy.max_bytes {
            shrink(&mut self.decisions, most, |were| Rule::MaxBytes { most, were });
        }
        self.decisions
    }

    /// Removes those of a kind beyond the newest `most` that are kept so far.
    fn beyond(&mut self, most: u64, of: impl Fn(&Snapshot) -> bool, rule: impl Fn(u64) -> Rule) {
        let mut place = 0;
        self.remove(|snapshot, kept| {
            if !of(snapshot) || !kept {
                return None;
            }
            place += 1;
            (place > most).then(|| rule(place))
        });
    }

    /// `rule` sees every snapshot, newest first, and whether it is kept so far and counts.
    fn remove(&mut self, mut rule: impl FnMut(&Snapshot, bool) -> Option<Rule>) {
        for Decision { snapshot, verdict } in &mut self.decisions {
            let removed = rule(snapshot, counts(verdict));
            if let (Verdict::Keep(Why::NoRule { .. }), Some(rule)) = (&*verdict, removed) {
                *verdict = Verdict::Remove(rule);
            }
        }
    }
}

/// The reason that keeps a snapshot from every rule.
fn protects(snapshot: &Snapshot, policy: &Policy, now_ms: u64) -> Option<Why> {
    match &snapshot.standing {
        Standing::Current => return Some(Why::Current),
        Standing::Mounted => return Some(Why::Mounted),
        Standing::Session { id, host } => return Some(Why::Session { id: *id, host: host.clone() }),
        Standing::Disputed => return Some(Why::Disputed),
        Standing::Free => {}
    }
    let age = Duration::from_millis(now_ms.saturating_sub(snapshot.stored_at_ms));
    let waits = HELD_BACK_FOR.checked_sub(age).map(days);
    let in_progress = snapshot.tags.iter().any(|(tag, _)| tag == WIP);
    if let (true, Some(days_left)) = (in_progress, waits) {
        return Some(Why::WorkInProgress { days_left });
    }
    let left = |tagged_at_ms: u64| match policy.tagged_for {
        None => Some(None),
        Some(term) => {
            // An earlier pstore set tags by its host's clock: one from before the snapshot, or from
            // the future, is as old as it can be at most, or has just been set.
            let tagged_at_ms = tagged_at_ms.max(snapshot.stored_at_ms);
            let age = Duration::from_millis(now_ms.saturating_sub(tagged_at_ms));
            term.checked_sub(age).map(|left| Some(days(left)))
        }
    };
    // The one that protects longest is told; one without an end longest of all.
    let tags = snapshot.tags.iter().filter(|(tag, _)| tag != WIP);
    let tags = tags.filter_map(|(tag, at)| left(*at).map(|days| (tag, days)));
    if let Some((tag, days_left)) = tags.max_by_key(|(_, days)| days.map_or((1, 0), |days| (0, days))) {
        return Some(Why::Tagged { tag: tag.clone(), days_left });
    }
    if snapshot.reason == Reason::Manual && policy.manual.is_some() {
        return Some(Why::Checkpoint);
    }
    let word = snapshot.held_back.clone()?;
    waits.map(|days_left| Why::HeldBack { word, days_left })
}

/// Whether a snapshot takes one of the places that a rule has. One that was held back does
/// not: else a few bad ones in a row would take the places of all good ones. Nor does one that nobody has finished.
fn counts(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Keep(why) if !matches!(why, Why::HeldBack { .. } | Why::WorkInProgress { .. }))
}

/// Applies the limits of all profiles together: the oldest snapshot goes first, whichever profile it is of.
fn limit(decisions: &mut [Decision], limits: Limits) {
    if let Some(most) = limits.max_count {
        let kept = decisions.iter().filter(|decision| counts(&decision.verdict));
        let were = kept.count() as u64;
        let mut excess = were.saturating_sub(most);
        for at in oldest_first(decisions) {
            if excess == 0 {
                break;
            }
            decisions[at].verdict = Verdict::Remove(Rule::TenantMaxCount { most, were });
            excess -= 1;
        }
    }
    if let Some(most) = limits.max_bytes {
        shrink(decisions, most, |were| Rule::TenantMaxBytes { most, were });
    }
}

/// Those that a rule may remove, oldest first.
fn oldest_first(decisions: &[Decision]) -> Vec<usize> {
    let mut removable: Vec<usize> = (0..decisions.len())
        .filter(|at| matches!(decisions[*at].verdict, Verdict::Keep(Why::NoRule { .. })))
        .collect();
    removable.sort_by_key(|at| decisions[*at].snapshot.place);
    removable
}

/// Removes the oldest until the rest takes no more than `most` bytes.
fn shrink(decisions: &mut [Decision], most: u64, rule: impl Fn(u64) -> Rule) {
    let kept = |decision: &&Decision| counts(&decision.verdict);
    let mut weight = Weight::default();
    decisions.iter().filter(kept).for_each(|decision| weight.add(&decision.snapshot.packs));
    let were = weight.bytes();
    for at in oldest_first(decisions) {
        if weight.bytes() <= most {
            break;
        }
        weight.remove(&decisions[at].snapshot.packs);
        decisions[at].verdict = Verdict::Remove(rule(were));
    }
}

/// The packs that some snapshots need. Of two snapshots that share a pack it is not known which
/// chunks they share, so the larger need stands for both: an estimate, and never too high.
#[derive(Debug, Default)]
pub(super) struct Weight {
    packs: HashMap<PackId, BTreeMap<u64, u32>>,
    bytes: u64,
}

impl Weight {
    pub(super) fn add(&mut self, packs: &[PackUse]) {
        for used in packs {
            let needs = self.packs.entry(used.pack).or_default();
            let before = largest(needs);
            *needs.entry(used.live_bytes).or_default() += 1;
            self.bytes += largest(needs) - before;
        }
    }

    pub(super) fn remove(&mut self, packs: &[PackUse]) {
        for used in packs {
            let Some(needs) = self.packs.get_mut(&used.pack) else { continue };
            let before = largest(needs);
            if let Some(count) = needs.get_mut(&used.live_bytes) {
                *count -= 1;
                if *count == 0 {
                    needs.remove(&used.live_bytes);
                }
            }
            self.bytes -= before - largest(needs);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn largest(needs: &BTreeMap<u64, u32>) -> u64 {
    needs.last_key_value().map_or(0, |(bytes, _)| *bytes)
}

fn days(duration: Duration) -> u64 {
    duration.as_secs() / DAY.as_secs()
}
