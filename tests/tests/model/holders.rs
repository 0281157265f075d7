//! These tests try the pointer and the lock in every order of events within bounds, and in many orders beyond them
//! drawn by lot. What must hold is written in `tests::explorer`.
//!
//! `PSTORE_MODEL_EFFORT` multiplies how much is tried, and `PSTORE_MODEL_SEED` is where the
//! drawing starts.

use tests::explorer::{Bounds, Program, Scenario, exhaust};

use crate::lot::{hardly, number};

/// Everything within the bounds; `most` runs, times the effort, must be enough for that
/// where `whole` says so.
#[track_caller]
fn never(scenario: Scenario, most: u64, whole: bool) {
    let explored = exhaust(&scenario, most * number("PSTORE_MODEL_EFFORT", 1));
    eprintln!("{} runs, {} states, complete: {}", explored.runs, explored.states, explored.complete);
    assert!(explored.found.is_none(), "{}", explored.found.unwrap());
    assert!(explored.complete || !whole, "not everything was tried in {} runs", explored.runs);
}

fn holder(flips: &[usize]) -> Program {
    Program::Holder { flips: flips.to_vec(), renewals: 0, release: true }
}

fn renewing(flips: &[usize]) -> Program {
    Program::Holder { flips: flips.to_vec(), renewals: 1, release: true }
}

const OPERATOR: Program = Program::Operator { target: 3, force: true };
const DELETER: Program = Program::Deleter { target: 1 };
/// No snapshot of ours has this name.
const FOREIGN: Program = Program::ContractWriter { prefix: "0123456789ab", locks: false };
/// Another archive: two programs that store the same one could not be told apart by anybody.
const FOREIGN_WITH_LOCK: Program = Program::ContractWriter { prefix: "ba9876543210", locks: true };
const CALM: Bounds = Bounds::CALM;
/// Beside programs of the contract.
const FOREIGN_BOUNDS: Bounds = Bounds { refused: false, ..CALM };

#[test]
fn one_holder_whose_answers_are_lost_twice() {
    let bounds = Bounds { faults: 2, expiries: 0, ..CALM };
    never(Scenario::of([holder(&[1])]).within(bounds), 5000, true);
}

#[test]
fn the_first_holder_of_a_profile() {
    let bounds = Bounds { faults: 1, ..CALM };
    let scenario = Scenario { with_pointer: false, ..Scenario::of([holder(&[1])]) };
    never(scenario.within(bounds), 3000, true);
}

#[test]
fn two_holders() {
    never(Scenario::of([holder(&[1]), holder(&[2])]).within(CALM), 5000, true);
}

#[test]
fn two_holders_whose_answers_are_lost() {
    let bounds = Bounds { faults: 1, preemptions: Some(2), ..CALM };
    never(Scenario::of([holder(&[1]), holder(&[2])]).within(bounds), 3000, false);
}

#[test]
fn two_twins_whose_answers_are_lost() {
    let bounds = Bounds { faults: 1, expiries: 0, ..CALM };
    never(Scenario::of([Program::Twin { flip: 1 }, Program::Twin { flip: 2 }]).within(bounds), 5000, true);
}

#[test]
fn a_holder_and_an_operator() {
    let bounds = Bounds { faults: 1, expiries: 0, ..CALM };
    never(Scenario::of([holder(&[1]), OPERATOR]).within(bounds), 5000, false);
}

#[test]
fn a_holder_and_a_deleter() {
    let bounds = Bounds { expiries: 0, ..CALM };
    never(Scenario::of([holder(&[1]), DELETER]).within(bounds), 5000, true);
}

#[test]
fn a_holder_that_renews_and_a_reaper() {
    never(Scenario::of([renewing(&[1]), Program::Reaper]).within(CALM), 5000, true);
}

#[test]
fn a_holder_and_a_program_of_the_contract() {
    never(Scenario::of([holder(&[1]), FOREIGN]).within(FOREIGN_BOUNDS), 5000, true);
}

/// The daemon of a mount is killed anywhere in its commit, and somebody goes on with its session.
const COMMIT: Program = Program::Commit { target: 1, resumes: false };
const ROLLBACK: Program = Program::Operator { target: 0, force: true };

#[test]
fn a_commit_that_is_cut_short_and_an_operator() {
    let bounds = Bounds { crashes: 1, preemptions: Some(2), ..CALM };
    never(Scenario::of([COMMIT, ROLLBACK]).within(bounds), 3000, true);
}

#[test]
fn a_commit_and_a_deleter() {
    let bounds = Bounds { expiries: 0, ..CALM };
    never(Scenario::of([COMMIT, DELETER]).within(bounds), 5000, true);
}

#[test]
fn a_commit_and_another_holder() {
    never(Scenario::of([COMMIT, holder(&[2])]).within(Bounds { preemptions: Some(3), ..CALM }), 5000, true);
}

#[test]
fn a_commit_that_is_cut_short_twice_while_answers_are_lost() {
    let bounds = Bounds { crashes: 2, expiries: 2, faults: 1, preemptions: Some(1), ..CALM };
    never(Scenario::of([COMMIT, ROLLBACK]).within(bounds), 500, false);
}

#[test]
fn the_first_commit_of_a_profile_that_is_cut_short() {
    let scenario = Scenario { with_pointer: false, ..Scenario::of([COMMIT, OPERATOR]) };
    never(scenario.within(Bounds { crashes: 1, preemptions: Some(2), ..CALM }), 3000, true);
}

#[test]
fn by_lot_commits_that_are_cut_short_beside_others() {
    let bounds = Bounds { faults: 2, expiries: 3, crashes: 2, ..CALM };
    let scenario = Scenario::of([COMMIT, ROLLBACK, OPERATOR, renewing(&[2]), DELETER, Program::Reaper]);
    hardly(scenario.within(bounds), 700);
}

#[test]
fn by_lot_commits_that_are_cut_short_beside_programs_of_the_contract() {
    let bounds = Bounds { faults: 2, expiries: 2, crashes: 1, ..FOREIGN_BOUNDS };
    hardly(Scenario::of([COMMIT, FOREIGN, ROLLBACK, FOREIGN_WITH_LOCK]).within(bounds), 700);
}

#[test]
fn by_lot_three_holders_an_operator_and_a_reaper() {
    let bounds = Bounds { faults: 2, expiries: 2, failing_reads: true, ..CALM };
    let scenario = Scenario::of([renewing(&[1, 2]), holder(&[2]), holder(&[4]), OPERATOR, Program::Reaper])
        .within(bounds);
    hardly(Scenario { ahead_ms: vec![3_600_000, 0, -3_600_000], ..scenario }, 1500);
}

#[test]
fn by_lot_holders_and_deleters() {
    let bounds = Bounds { faults: 2, expiries: 2, ..CALM };
    let scenario = Scenario::of([
        holder(&[1]),
        renewing(&[2]),
        DELETER,
        DELETER,
        Program::Operator { target: 1, force: true },
    ]);
    hardly(scenario.within(bounds), 1000);
}

#[test]
fn by_lot_programs_of_the_contract_beside_holders() {
    let bounds = Bounds { faults: 1, expiries: 1, ..FOREIGN_BOUNDS };
    let scenario =
        Scenario::of([renewing(&[1, 2]), holder(&[2]), FOREIGN, FOREIGN_WITH_LOCK, Program::ContractReaper]);
    hardly(Scenario { ahead_ms: vec![0, 0, 0, 3_600_000], ..scenario }.within(bounds), 1500);
}

#[test]
fn by_lot_a_deleter_beside_a_program_of_the_contract() {
    let scenario = Scenario::of([FOREIGN, Program::Deleter { target: 2 }, holder(&[1])]);
    hardly(scenario.within(FOREIGN_BOUNDS), 500);
}

#[test]
fn by_lot_locks_that_are_taken_away() {
    let bounds = Bounds { faults: 2, expiries: 2, ..CALM };
    let scenario = Scenario::of([
        renewing(&[1, 2]),
        renewing(&[3]),
        Program::Reaper,
        Program::Reaper,
        Program::ForceUnlock,
        Program::ContractReaper,
    ]);
    hardly(scenario.within(bounds), 1500);
}

#[test]
fn by_lot_no_event_is_lost_when_somebody_dies() {
    let bounds = Bounds { faults: 1, expiries: 2, crashes: 2, ..CALM };
    let scenario =
        Scenario::of([holder(&[1]), renewing(&[2]), OPERATOR, Program::Reaper, Program::ForceUnlock]);
    hardly(Scenario { events_wait: true, ..scenario }.within(bounds), 1500);
}
