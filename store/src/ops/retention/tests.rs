//! These tests apply every rule of retention, alone and together.

use std::time::Duration;

use super::*;
use crate::{
    format::record::{PackUse, Reason},
    id::PackId,
    id::PackSeq,
};

const DAY_MS: u64 = 86_400_000;
const NOW: u64 = 1000 * DAY_MS;

fn at(profile: &str) -> Lineage {
    Lineage { name: format!("acme/{profile}").parse().unwrap(), chrome_major: "131".parse().unwrap() }
}

/// The `n`th snapshot, so many days old.
fn snapshot(n: u8, age_days: u64) -> Snapshot {
    Snapshot {
        lineage: at("alice"),
        record: RecordId::from_parts(n.into(), [n; 10]),
        sha256_prefix: format!("{n:012x}"),
        stored_at_ms: NOW - age_days * DAY_MS,
        place: AgeOrder::new(NOW - age_days * DAY_MS, RecordId::from_parts(n.into(), [n; 10])),
        captured_at_ms: 0,
        reason: Reason::Autosave,
        tags: Vec::new(),
        held_back: None,
        standing: Standing::Free,
        packs: vec![uses(n, 100)],
    }
}

fn uses(pack: u8, live_bytes: u64) -> PackUse {
    let write = RecordId::from_parts(pack.into(), [pack; 10]);
    PackUse { pack: PackId { write, seq: PackSeq::Data(0) }, live_bytes }
}

/// Five, of which the first is the newest and the current one; the `n`th is `n - 1` days old.
fn five() -> Vec<Snapshot> {
    let mut all: Vec<Snapshot> = (1..=5).map(|n| snapshot(n, u64::from(n) - 1)).collect();
    all[0].standing = Standing::Current;
    all
}

fn days(days: u64) -> Duration {
    Duration::from_millis(days * DAY_MS)
}

fn now(snapshots: Vec<Snapshot>) -> Survey {
    Survey { snapshots, now_ms: NOW }
}

fn decided(snapshots: Vec<Snapshot>, policy: Policy) -> Vec<Decision> {
    plan(now(snapshots), |_| policy.clone(), Limits::default())
}

/// The removed snapshots, by their number, each with its rule.
fn removed(decisions: &[Decision]) -> Vec<(u8, Rule)> {
    let mut removed: Vec<(u8, Rule)> = decisions
        .iter()
        .filter_map(|decision| match decision.verdict {
            Verdict::Remove(rule) => Some((decision.snapshot.record.to_bytes()[15], rule)),
            Verdict::Keep(_) => None,
        })
        .collect();
    removed.sort_by_key(|(n, _)| *n);
    removed
}

fn numbers(decisions: &[Decision]) -> Vec<u8> {
    removed(decisions).into_iter().map(|(n, _)| n).collect()
}

fn why(decisions: &[Decision], n: u8) -> Why {
    let found = decisions.iter().find(|decision| decision.snapshot.record.to_bytes()[15] == n).unwrap();
    match &found.verdict {
        Verdict::Keep(why) => why.clone(),
        Verdict::Remove(rule) => panic!("removed: {rule}"),
    }
}

#[test]
fn without_rules_nothing_goes() {
    let decisions = decided(five(), Policy::default());
    assert_eq!(removed(&decisions), []);
    assert_eq!(why(&decisions, 3), Why::NoRule { place: 3 });
    assert!(!Policy { tagged_for: Some(days(1)), manual: Some(1), ..Policy::default() }.removes());
}

#[test]
fn the_newest_are_kept() {
    let policy = Policy { keep: Some(Keep::Newest(3)), ..Policy::default() };
    let decisions = decided(five(), policy);
    let rule = |place| Rule::Keep { newest: 3, place };
    assert_eq!(removed(&decisions), [(4, rule(4)), (5, rule(5))]);
}

#[test]
fn a_tag_protects_for_its_time() {
    let tagged = |tagged_days_ago: u64| {
        let mut all = five();
        all[4] = snapshot(5, 950);
        all[4].tags = vec![("before".to_owned(), NOW - tagged_days_ago * DAY_MS)];
        all
    };
    let policy = Policy { keep: Some(Keep::Newest(3)), tagged_for: Some(days(30)), ..Policy::default() };
    let decisions = decided(tagged(29), policy.clone());
    assert_eq!(numbers(&decisions), [4]);
    assert_eq!(why(&decisions, 5), Why::Tagged { tag: "before".to_owned(), days_left: Some(1) });
    assert_eq!(numbers(&decided(tagged(31), policy.clone())), [4, 5]);
    let for_ever = Policy { tagged_for: None, ..policy };
    assert_eq!(numbers(&decided(tagged(900), for_ever)), [4]);
}

/// The first, which is current, is the third by age; the two before it were held back.
#[test]
fn what_was_held_back_waits_for_a_decision_and_takes_nobodys_place() {
    let held = |n: u8, age_days: u64| {
        let held_back = Some("shrunk".to_owned());
        Snapshot { held_back, ..snapshot(n, age_days) }
    };
    let mut all = five();
    all[0].stored_at_ms -= DAY_MS / 2;
    all[0].place = AgeOrder::new(all[0].stored_at_ms, all[0].record);
    all.extend([held(6, 0), held(7, 0), held(8, 6), held(9, 8)]);
    let waits = |days_left| Why::HeldBack { word: "shrunk".to_owned(), days_left };
    let keep = |newest| Policy { keep: Some(Keep::Newest(newest)), ..Policy::default() };
    let decisions = decided(all.clone(), keep(3));
    assert_eq!(numbers(&decisions), [4, 5, 9]);
    assert_eq!((why(&decisions, 6), why(&decisions, 8)), (waits(7), waits(1)));
    assert_eq!(
        why(&decisions, 8).to_string(),
        "it was held back (shrunk), and waits 1 more days for a decision"
    );
    let one = Policy { keep: Some(Keep::One), ..Policy::default() };
    assert_eq!(numbers(&decided(all.clone(), one)), [2, 3, 4, 5, 9]);
    let oldest = Policy { max_age: Some(days(0)), max_count: Some(1), auto: Some(1), ..Policy::default() };
    assert_eq!(numbers(&decided(all.clone(), oldest)), [2, 3, 4, 5, 9]);
    let limits = Limits { max_count: Some(4), max_bytes: None };
    let decisions = plan(now(all.clone()), |_| Policy::default(), limits);
    assert_eq!(numbers(&decisions), [5, 9], "nor that of another profile's");
    let limits = Limits { max_count: None, max_bytes: Some(0) };
    assert_eq!(numbers(&plan(now(all.clone()), |_| Policy::default(), limits)), [2, 3, 4, 5, 9]);
    let limits = Limits { max_count: None, max_bytes: Some(500) };
    let decisions = plan(now(all.clone()), |_| Policy::default(), limits);
    assert_eq!(numbers(&decisions), [9], "nor is its size counted");
    let mut often = five();
    often.extend([held(6, 0), held(7, 0), held(8, 1), held(9, 1)]);
    let decisions = decided(often, keep(3));
    assert_eq!(numbers(&decisions), [3, 4, 5], "the fourth is like any other");
    assert_eq!(why(&decisions, 8).word(), "no_rule");
    // What it waits for may be that it is made the current one, or tagged.
    all[5].standing = Standing::Current;
    all[0].standing = Standing::Free;
    all[6].tags = vec![("look".to_owned(), NOW)];
    let decisions = decided(all, keep(1));
    assert_eq!((why(&decisions, 6), why(&decisions, 7).word()), (Why::Current, "tagged"));
}

#[test]
fn exactly_one_is_the_current_one_even_after_a_rollback() {
    let policy = Policy { keep: Some(Keep::One), ..Policy::default() };
    assert_eq!(numbers(&decided(five(), policy.clone())), [2, 3, 4, 5]);
    let mut rolled_back = five();
    rolled_back[0].standing = Standing::Free;
    rolled_back[2].standing = Standing::Current;
    assert_eq!(numbers(&decided(rolled_back, policy.clone())), [1, 2, 4, 5]);
    // Without a pointer, the newest stands in for it.
    let mut no_pointer = five();
    no_pointer[0].standing = Standing::Free;
    let decisions = decided(no_pointer, policy);
    assert_eq!(numbers(&decisions), [2, 3, 4, 5]);
    assert_eq!(why(&decisions, 1), Why::Last);
}

#[test]
fn age_comes_before_count_and_the_oldest_go_first() {
    let policy = Policy { max_age: Some(days(3)), max_count: Some(2), ..Policy::default() };
    let decisions = decided(five(), policy);
    assert_eq!(
        removed(&decisions),
        [
            (3, Rule::MaxCount { most: 2, place: 3 }),
            (4, Rule::MaxCount { most: 2, place: 4 }),
            (5, Rule::MaxAge { days: 3, age_days: 4 })
        ]
    );
}

#[test]
fn each_reason_may_have_a_rule_of_its_own() {
    let mut all = five();
    for (snapshot, reason) in all[1..].iter_mut().zip([Reason::RunEnd, Reason::Commit, Reason::RunEnd]) {
        snapshot.reason = reason;
    }
    let of_reason = vec![(Reason::RunEnd, 1), (Reason::Commit, 1)];
    let policy = Policy { of_reason, ..Policy::default() };
    assert!(policy.removes());
    let decisions = decided(all, policy);
    let rule = Rule::OfReason { reason: "run_end", most: 1, place: 2 };
    assert_eq!((removed(&decisions), rule.word()), (vec![(4, rule)], "run_end"));
}

#[test]
fn what_nobody_asked_for_rolls_and_checkpoints_stay() {
    let mut all = five();
    all[1].reason = Reason::Manual;
    all[4].reason = Reason::Manual;
    let policy = Policy { auto: Some(2), manual: Some(9), max_count: Some(1), ..Policy::default() };
    let decisions = decided(all.clone(), Policy { max_count: None, ..policy.clone() });
    assert_eq!(removed(&decisions), [(4, Rule::Auto { most: 2, place: 3 })]);
    assert_eq!(why(&decisions, 5), Why::Checkpoint);
    // The pool of those that were asked for is out of reach of every other rule too.
    assert_eq!(numbers(&decided(all.clone(), policy.clone())), [3, 4]);
    // Without such a pool they are like others.
    assert_eq!(numbers(&decided(all, Policy { manual: None, ..policy })), [2, 3, 4, 5]);
}

#[test]
fn the_oldest_go_until_the_rest_fits() {
    let policy = Policy { max_bytes: Some(250), ..Policy::default() };
    let decisions = decided(five(), policy.clone());
    let rule = Rule::MaxBytes { most: 250, were: 500 };
    assert_eq!(removed(&decisions), [(3, rule), (4, rule), (5, rule)]);
    // What several need of one pack counts once.
    let mut sharing = five();
    for snapshot in &mut sharing {
        snapshot.packs = vec![uses(9, 200)];
    }
    assert_eq!(removed(&decided(sharing, policy)), []);
}

#[test]
fn a_tenants_limits_take_the_oldest_of_any_profile() {
    let mut all = five();
    for n in [2, 4] {
        let snapshot = &mut all[n - 1];
        snapshot.lineage = at("bob");
    }
    all[1].standing = Standing::Current;
    let limits = Limits { max_count: Some(3), max_bytes: None };
    let decisions = plan(now(all.clone()), |_| Policy::default(), limits);
    let rule = Rule::TenantMaxCount { most: 3, were: 5 };
    assert_eq!(removed(&decisions), [(4, rule), (5, rule)]);
    let limits = Limits { max_count: None, max_bytes: Some(0) };
    let decisions = plan(now(all), |_| Policy::default(), limits);
    assert_eq!(numbers(&decisions), [3, 4, 5], "what is current stays");
}

#[test]
fn what_is_needed_never_goes() {
    let greedy = Policy {
        keep: Some(Keep::One),
        max_age: Some(days(0)),
        max_count: Some(1),
        auto: Some(1),
        max_bytes: Some(1),
        ..Policy::default()
    };
    let limits = Limits { max_count: Some(0), max_bytes: Some(0) };
    let mut all = five();
    all[1].standing = Standing::Mounted;
    all[2].tags = vec![("keep".to_owned(), 0)];
    let decisions = plan(now(all), |_| greedy.clone(), limits);
    assert_eq!(numbers(&decisions), [4, 5]);
    let mut foreign = five();
    foreign.iter_mut().for_each(|snapshot| snapshot.standing = Standing::Disputed);
    assert_eq!(numbers(&plan(now(foreign), |_| greedy.clone(), limits)), Vec::<u8>::new());
    let last = plan(now(vec![snapshot(1, 900)]), |_| greedy.clone(), limits);
    assert_eq!(why(&last, 1), Why::Last);
}

/// Every combination of rules over every standing: what must stay stays, each snapshot is
/// decided once, and what a looser rule removes, a stricter one removes too.
#[test]
fn every_combination_keeps_what_must_be_kept() {
    let mut lot = 7_u64;
    let mut draw = |most: u64| {
        lot ^= lot << 13;
        lot ^= lot >> 7;
        lot ^= lot << 17;
        lot % most
    };
    for _ in 0..3000 {
        let count = 1 + draw(8) as u8;
        let mut all: Vec<Snapshot> = (1..=count).map(|n| snapshot(n, draw(40))).collect();
        for snapshot in &mut all {
            snapshot.reason = Reason::KNOWN[draw(8) as usize].clone();
            if draw(4) == 0 {
                snapshot.tags = vec![("t".to_owned(), NOW - draw(40) * DAY_MS)];
            }
            if draw(6) == 0 {
                snapshot.standing = Standing::Mounted;
            }
        }
        if draw(4) > 0 {
            let current = draw(count.into()) as usize;
            all[current].standing = Standing::Current;
        }
        let mut maybe = |most: u64| (draw(2) == 0).then(|| 1 + draw(most));
        let policy = Policy {
            keep: maybe(6).map(|n| if n == 1 { Keep::One } else { Keep::Newest(n) }),
            tagged_for: maybe(40).map(days),
            max_age: maybe(40).map(days),
            max_count: maybe(6),
            auto: maybe(4),
            of_reason: maybe(4).map(|most| (Reason::RunEnd, most)).into_iter().collect(),
            manual: maybe(4),
            max_bytes: maybe(600),
        };
        let decisions = decided(all.clone(), policy.clone());
        assert_eq!(decisions.len(), all.len());
        assert!(decisions.iter().any(|decision| matches!(decision.verdict, Verdict::Keep(_))));
        for Decision { snapshot, verdict } in &decisions {
            let tagged = snapshot
                .tags
                .iter()
                .any(|(_, at)| policy.tagged_for.is_none_or(|term| NOW - at <= term.as_millis() as u64));
            let needed = snapshot.standing != Standing::Free || tagged;
            assert!(!needed || matches!(verdict, Verdict::Keep(_)), "{snapshot:?} {verdict:?}");
        }
        if !policy.removes() {
            assert_eq!(removed(&decisions), []);
        }
    }
}
