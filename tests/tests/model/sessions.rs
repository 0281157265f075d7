//! These tests kill the daemons of sessions beside deletions, retention, moves and collections: what the sessions
//! build on is there when they are rescued. And without their roots it is not.

use store::catalog::rules::Rules;
use tests::explorer::{Bounds, Packs, Program, Scenario, exhaust, sample};

/// Nobody is taken for dead, and nothing fails.
const CALM: Bounds = Bounds {
    faults: 0,
    faulty: None,
    refused: true,
    failing_reads: false,
    expiries: 0,
    crashes: 0,
    preemptions: Some(2),
    reorder: false,
    faults_first: false,
    lots: false,
    changes_first: false,
};
const SESSION: Program = Program::Session { target: 0 };
const DELETER: Program = Program::Deleter { target: 0 };
const COLLECTOR: Program = Program::Collector { runs: 2, forgets: false };

#[track_caller]
fn never(scenario: Scenario, most: u64) {
    let explored = exhaust(&scenario, most);
    assert!(explored.found.is_none(), "{}", explored.found.unwrap());
}

#[test]
fn a_session_a_deletion_and_a_collection() {
    never(Scenario::of([SESSION, DELETER, COLLECTOR]).with(Packs::Needed).within(CALM), 300);
}

#[test]
fn by_lot_sessions_retention_moves_and_collections() {
    // A session that dies for good, or whose root arrives late, keeps its snapshot until that is over.
    let bounds = Bounds { preemptions: None, expiries: 2, ..CALM };
    let scenario =
        Scenario::of([SESSION, Program::Mover { target: 0 }, Program::Retention, DELETER, COLLECTOR])
            .with(Packs::Needed);
    let explored = sample(&scenario.within(bounds), 0..150);
    assert!(explored.found.is_none(), "{}", explored.found.unwrap());
}

#[test]
fn without_a_root_a_session_that_was_killed_loses_what_it_builds_on() {
    let scenario = Scenario::of([SESSION, DELETER]).with(Packs::Needed).within(CALM);
    let broken = exhaust(&scenario.clone().under(Rules { root_sessions: false, ..Rules::ALL }), 3000);
    let found = broken.found.expect("nothing goes wrong");
    assert!(found.violation.contains("which is deleted"), "{found}");
    never(scenario, broken.runs);
}

#[test]
fn without_a_look_after_it_a_root_comes_too_late() {
    let scenario = Scenario::of([SESSION, DELETER]).with(Packs::Needed).within(CALM);
    let broken = exhaust(&scenario.clone().under(Rules { look_after_pinning: false, ..Rules::ALL }), 3000);
    let found = broken.found.expect("nothing goes wrong");
    assert!(found.violation.contains("cannot read its snapshot"), "{found}");
    never(scenario, broken.runs);
}
