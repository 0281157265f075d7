//! These tests switch off one rule at a time: without it, something is lost in a run that is found here, and with
//! all of them nothing is, in the same runs.

use store::catalog::rules::Rules;
use tests::explorer::{Bounds, Program, Scenario, exhaust};

const ALL: Rules = Rules::ALL;

fn holder(flips: &[usize]) -> Program {
    Program::Holder { flips: flips.to_vec(), renewals: 0, release: true }
}

const OPERATOR: Program = Program::Operator { target: 3, force: true };

/// Goes through at most `most` runs, which are enough to find what goes wrong under `rules`.
#[track_caller]
fn is_needed(rules: Rules, scenario: Scenario, most: u64, expected: &str) {
    let broken = exhaust(&scenario.clone().under(rules), most);
    let Some(found) = broken.found else {
        panic!(
            "nothing goes wrong in {} runs ({} states, complete: {})",
            broken.runs, broken.states, broken.complete
        );
    };
    eprintln!("after {} runs: {found}", broken.runs);
    assert!(found.violation.contains(expected), "{found}");
    let sound = exhaust(&scenario.under(ALL), broken.runs.max(200));
    assert!(sound.found.is_none(), "{}", sound.found.unwrap());
}

fn holders(bounds: Bounds) -> Scenario {
    Scenario::of([holder(&[1]), holder(&[2])]).within(bounds)
}

#[test]
fn without_a_claim_a_holder_overwrites_what_it_never_loaded() {
    let bounds = Bounds { faults: 0, ..Bounds::default() };
    is_needed(Rules { claim: false, ..ALL }, holders(bounds), 3000, "that it never loaded");
}

#[test]
fn without_a_look_at_the_lock_a_stale_holder_claims_the_pointer_back() {
    let bounds = Bounds { faults: 0, ..Bounds::default() };
    is_needed(Rules { verify_after_read: false, ..ALL }, holders(bounds), 3000, "claims the pointer back");
}

/// The first attempt to take the lock arrives when somebody else has had it, and a program
/// of the contract has wiped out the claim.
#[test]
fn without_fresh_nonces_an_attempt_that_arrives_late_passes_for_the_lock() {
    let stays = Program::Holder { flips: vec![1], renewals: 0, release: false };
    let foreign = Program::ContractWriter { prefix: "0123456789ab", locks: false };
    let scenario = Scenario::of([stays, holder(&[2]), Program::ContractReaper, foreign]);
    let bounds = Bounds {
        faulty: Some((0, "lock.json")),
        refused: false,
        preemptions: Some(1),
        faults_first: true,
        ..Bounds::default()
    };
    is_needed(Rules { fresh_nonce: false, ..ALL }, scenario.within(bounds), 20_000, "that it never loaded");
}

#[test]
fn without_flip_ids_a_lost_answer_is_taken_for_a_lost_race() {
    let scenario = Scenario::of([holder(&[1])]);
    is_needed(Rules { resolve_by_flip_id: false, ..ALL }, scenario, 1000, "but it was");
}

#[test]
fn without_an_id_for_each_flip_a_loser_takes_the_winners_flip_for_its_own() {
    let scenario = Scenario::of([holder(&[1]), OPERATOR]).within(Bounds { faults: 0, ..Bounds::default() });
    is_needed(Rules { fresh_flip_id: false, ..ALL }, scenario, 3000, "reports a move that was not applied");
}

#[test]
fn without_a_memory_of_flips_one_that_was_built_upon_is_taken_for_lost() {
    let scenario = Scenario::of([holder(&[1]), OPERATOR]).within(Bounds { expiries: 0, ..Bounds::default() });
    is_needed(Rules { remember_flips: false, ..ALL }, scenario, 3000, "but it was");
}

/// The daemon of a mount is killed after its flip, and an operator rolls back before somebody goes
/// on with the session.
#[test]
fn without_a_look_at_what_was_meant_a_session_undoes_a_rollback() {
    let back = Program::Operator { target: 0, force: true };
    let scenario = Scenario::of([Program::Commit { target: 1, resumes: false }, back]);
    let bounds = Bounds { faults: 0, crashes: 1, preemptions: Some(2), ..Bounds::default() };
    is_needed(Rules { flip_once: false, ..ALL }, scenario.within(bounds), 3000, "has flipped twice for once");
}

#[test]
fn without_settling_the_event_of_a_writer_that_died_is_overwritten() {
    let bounds = Bounds { faults: 0, crashes: 1, preemptions: Some(0), ..Bounds::default() };
    let scenario = Scenario { events_wait: true, ..holders(bounds) };
    is_needed(Rules { settle_events: false, ..ALL }, scenario, 3000, "events of what was applied are lost");
}

#[test]
fn without_the_merged_document_first_a_merger_that_died_has_lost_events() {
    let bounds = Bounds { faults: 0, crashes: 1, expiries: 0, ..Bounds::default() };
    let mergers = [holder(&[1, 2]), Program::Merger { runs: 2 }, Program::Merger { runs: 1 }];
    let scenario = Scenario { events_wait: true, ..Scenario::of(mergers).within(bounds) };
    is_needed(
        Rules { merge_before_removing: false, ..ALL },
        scenario,
        5000,
        "events of what was applied are lost",
    );
}

fn deletion() -> Scenario {
    Scenario::of([holder(&[1]), Program::Deleter { target: 1 }]).within(Bounds {
        faults: 0,
        expiries: 0,
        ..Bounds::default()
    })
}

#[test]
fn without_a_look_at_the_record_a_flip_names_what_is_being_deleted() {
    is_needed(Rules { record_after_pointer: false, ..ALL }, deletion(), 3000, "names a tombstone");
}

#[test]
fn without_a_touch_a_flip_that_looked_before_the_deletion_goes_through() {
    is_needed(Rules { touch_on_delete: false, ..ALL }, deletion(), 3000, "names a tombstone");
}

/// A commit looks at the record and the lock before it flips.
fn commit_and_deletion() -> Scenario {
    Scenario::of([Program::Commit { target: 1, resumes: false }, Program::Deleter { target: 1 }])
        .within(Bounds { faults: 0, expiries: 0, ..Bounds::default() })
}

#[test]
fn without_a_look_at_the_record_a_commit_names_what_is_being_deleted() {
    is_needed(Rules { record_after_pointer: false, ..ALL }, commit_and_deletion(), 3000, "names a tombstone");
}

#[test]
fn without_a_touch_a_commit_that_looked_before_the_deletion_goes_through() {
    is_needed(Rules { touch_on_delete: false, ..ALL }, commit_and_deletion(), 3000, "names a tombstone");
}

#[test]
fn without_dropping_the_claim_a_holder_undoes_a_rollback() {
    let scenario = Scenario::of([holder(&[1]), OPERATOR]).within(Bounds { faults: 0, ..Bounds::default() });
    is_needed(Rules { drop_lease: false, ..ALL }, scenario, 3000, "over a move of operator 1");
}

#[test]
fn without_a_condition_a_release_frees_the_lock_of_the_next_holder() {
    let bounds = Bounds { faults: 0, ..Bounds::default() };
    is_needed(Rules { release_by_replacing: false, ..ALL }, holders(bounds), 3000, "without any right");
}

#[test]
fn without_a_fence_a_twin_overwrites_what_the_other_has_stored() {
    let bounds = Bounds { faults: 0, expiries: 0, ..Bounds::default() };
    let scenario = Scenario::of([Program::Twin { flip: 1 }, Program::Twin { flip: 2 }]).within(bounds);
    is_needed(Rules { fence_twins: false, ..ALL }, scenario, 3000, "that it never loaded");
}
