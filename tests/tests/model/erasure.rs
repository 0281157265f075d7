//! These tests delete a profile beside those who run it, store in it and read it: each of them is refused, or its
//! snapshot goes with the others, whole. And every rule is needed: without it the profile is there again, in runs
//! in which it is not with it.
//!
//! `PSTORE_MODEL_EFFORT` multiplies how much is tried, and `PSTORE_MODEL_SEED` is where the
//! drawing starts.

use store::catalog::rules::Rules;
use tests::explorer::{Bounds, Packs, Program, Scenario, exhaust};

use crate::lot::hardly;

const ALL: Rules = Rules::ALL;
const ERASER: Program = Program::Eraser { times: 2 };
const RUN: Program = Program::Run { shares: 1 };
const WRITER: Program = Program::Writer { shares: 1, flips: true };

fn bounds(faults: u32, expiries: u32) -> Bounds {
    Bounds { faults, expiries, crashes: 1, ..Bounds::default() }
}

#[test]
fn by_lot_runs_and_writers_beside_a_deletion() {
    let scenario = Scenario::of([ERASER, RUN, WRITER, ERASER]).with(Packs::Needed);
    hardly(scenario.within(bounds(1, 1)), 150);
}

#[test]
fn by_lot_readers_collections_and_holders_beside_a_deletion() {
    let holder = Program::Holder { flips: vec![1, 0], renewals: 1, release: true };
    let reader = Program::Reader { target: 1, renewals: 0 };
    let collector = Program::Collector { runs: 2, forgets: false };
    let scenario = Scenario::of([ERASER, holder, reader, collector]).with(Packs::Needed);
    hardly(scenario.within(bounds(0, 1)), 150);
}

/// Goes through at most `most` runs, which are enough to find what goes wrong under `rules`.
#[track_caller]
fn is_needed(rules: Rules, most: u64) {
    let bounds = Bounds { faults: 0, expiries: 0, preemptions: Some(2), ..Bounds::default() };
    let scenario = Scenario::of([Program::Eraser { times: 1 }, RUN]).with(Packs::Needed).within(bounds);
    let broken = exhaust(&scenario.clone().under(rules), most);
    let Some(found) = broken.found else { panic!("nothing goes wrong in {} runs", broken.runs) };
    eprintln!("after {} runs: {found}", broken.runs);
    assert!(found.violation.contains("had deleted the profile"), "{found}");
    let sound = exhaust(&scenario.under(ALL), broken.runs.max(50));
    assert!(sound.found.is_none(), "{}", sound.found.unwrap());
}

#[test]
fn without_a_look_for_the_tombstone_a_run_begins_the_profile_again() {
    is_needed(Rules { look_for_tombstone: false, ..ALL }, 3000);
}

#[test]
fn without_the_tombstone_first_a_run_that_looked_before_begins_it_again() {
    is_needed(Rules { tombstone_first: false, ..ALL }, 5000);
}
