//! These tests collect beside writers, readers, deletions and other collections.
//!
//! Of each scenario every run is tried in which at most one
//! process is put aside for another and nobody is taken for dead, or in which one dies and none is put aside; then
//! a few hundred of those with more of that, in a fixed order, which is not all of them; and others are drawn by lot. No
//! snapshot ever lacks a pack, and two quiet collections leave nothing that is not needed. And every rule is shown to be
//! needed: without it something is lost, in runs in which nothing is with it. (Of `pins_after_records` `gc.rs` shows
//! that, in one run: it takes three processes that stop at just the right places.)
//!
//! `PSTORE_MODEL_EFFORT` multiplies how much is tried, and `PSTORE_MODEL_SEED` is where the
//! drawing starts.

use store::catalog::rules::Rules;
use tests::explorer::{Bounds, Packs, Program, Scenario, exhaust, sample};

use crate::lot::{hardly, number};

const ALL: Rules = Rules::ALL;
const CALM: Bounds = Bounds { preemptions: Some(2), ..Bounds::CALM };

const WRITER: Program = Program::Writer { shares: 0, flips: false };
const KEEPER: Program = Program::Keeper { keeps: 0 };
const SAVER: Program = Program::Saver { saved: 0 };
const DELETER: Program = Program::Deleter { target: 0 };
const READER: Program = Program::Reader { target: 0, renewals: 0 };
const RENEWING_READER: Program = Program::Reader { target: 0, renewals: 1 };

const fn collector(runs: u32) -> Program {
    Program::Collector { runs, forgets: false }
}

/// Does not keep the documents of what is gone.
const fn forgetful(runs: u32) -> Program {
    Program::Collector { runs, forgets: true }
}

/// More runs than any scenario has in which hardly anything happens.
const MOST: u64 = 5000;

/// All runs of a scenario in which hardly anything happens, and then the first so many of the others.
#[track_caller]
fn never(scenario: Scenario, most: u64) {
    let preemptions = if scenario.bounds.crashes > 0 { 0 } else { 1 };
    let few = Bounds { expiries: 0, preemptions: Some(preemptions), ..scenario.bounds };
    let all = exhaust(&scenario.clone().within(few), MOST);
    eprintln!("{} runs, {} states", all.runs, all.states);
    assert!(all.found.is_none(), "{}", all.found.unwrap());
    assert!(all.complete, "there are more runs than {MOST}");
    let explored = exhaust(&scenario, most * number("PSTORE_MODEL_EFFORT", 1));
    eprintln!("{} runs, {} states, complete: {}", explored.runs, explored.states, explored.complete);
    assert!(explored.found.is_none(), "{}", explored.found.unwrap());
}

/// Draws at most so many runs, which are enough to find what goes wrong under `rules`. In
/// those very runs nothing does under all of them.
#[track_caller]
fn is_needed(rules: Rules, scenario: Scenario, most: u64, expected: &str) {
    let bounds = Bounds { preemptions: None, ..scenario.bounds };
    let scenario = scenario.within(bounds);
    let broken = sample(&scenario.clone().under(rules), 0..most);
    let Some(found) = broken.found else { panic!("nothing goes wrong in {} runs", broken.runs) };
    eprintln!("after {} runs: {found}", broken.runs);
    assert!(found.violation.contains(expected), "{found}");
    let sound = sample(&scenario.under(ALL), 0..broken.runs);
    assert!(sound.found.is_none(), "{}", sound.found.unwrap());
}

/// As [`is_needed`], for what goes wrong only if somebody sleeps for long at the right
/// moment: all runs with few changes between processes, one after the other.
#[track_caller]
fn is_needed_by_sleepers(rules: Rules, scenario: Scenario, most: u64, expected: &str) {
    let broken = exhaust(&scenario.clone().under(rules), most);
    let Some(found) = broken.found else {
        panic!("nothing goes wrong in {} runs (complete: {})", broken.runs, broken.complete);
    };
    eprintln!("after {} runs: {found}", broken.runs);
    assert!(found.violation.contains(expected), "{found}");
    let sound = exhaust(&scenario.under(ALL), broken.runs);
    assert!(sound.found.is_none(), "{}", sound.found.unwrap());
}

#[test]
fn a_writer_that_finds_garbage_worth_sharing_and_a_collection() {
    never(Scenario::of([WRITER, collector(2)]).with(Packs::Orphan).within(CALM), 400);
}

#[test]
fn a_deletion_and_a_collection() {
    never(Scenario::of([DELETER, collector(3)]).with(Packs::Needed).within(CALM), 400);
}

#[test]
fn a_writer_a_deletion_and_a_collection() {
    never(Scenario::of([WRITER, DELETER, collector(2)]).with(Packs::Needed).within(CALM), 400);
}

#[test]
fn two_collections_and_a_writer() {
    never(Scenario::of([collector(2), collector(2), WRITER]).with(Packs::Orphan).within(CALM), 400);
}

#[test]
fn a_writer_and_a_collection_that_forgets_what_is_gone() {
    never(Scenario::of([forgetful(3), WRITER]).with(Packs::Orphan).within(CALM), 400);
    never(Scenario::of([WRITER, DELETER, forgetful(2)]).with(Packs::Pardonable).within(CALM), 400);
}

#[test]
fn a_writer_that_keeps_segments_and_a_collection() {
    never(Scenario::of([KEEPER, collector(2)]).with(Packs::Orphan).within(CALM), 400);
    never(Scenario::of([forgetful(3), KEEPER]).with(Packs::Orphan).within(CALM), 400);
    never(Scenario::of([KEEPER, DELETER, forgetful(2)]).with(Packs::Pardonable).within(CALM), 400);
}

#[test]
fn work_in_progress_that_is_stored_again_beside_a_collection() {
    never(Scenario::of([SAVER, DELETER, collector(2)]).with(Packs::Needed).within(CALM), 400);
    never(Scenario::of([SAVER, DELETER, forgetful(2)]).with(Packs::Pardonable).within(CALM), 400);
    never(
        Scenario::of([SAVER, Program::Mover { target: 0 }, collector(2)]).with(Packs::Needed).within(CALM),
        400,
    );
}

#[test]
fn by_lot_writers_and_collections_that_forget_what_is_gone() {
    let bounds = Bounds { expiries: 2, crashes: 1, preemptions: None, ..CALM };
    let scenario =
        Scenario::of([WRITER, Program::Writer { shares: 1, flips: true }, forgetful(3), forgetful(3)]);
    hardly(scenario.with(Packs::Orphan).within(bounds), 250);
    let scenario = Scenario::of([WRITER, DELETER, forgetful(3), forgetful(2)]);
    hardly(scenario.with(Packs::Pardonable).within(bounds), 250);
}

#[test]
fn a_collection_that_dies_anywhere_is_continued_by_the_next() {
    let bounds = Bounds { crashes: 1, preemptions: Some(1), ..CALM };
    never(Scenario::of([collector(2), collector(2)]).with(Packs::Orphan).within(bounds), 400);
}

#[test]
fn a_writer_that_dies_anywhere_leaves_nothing_behind() {
    let bounds = Bounds { crashes: 1, preemptions: Some(1), ..CALM };
    never(Scenario::of([WRITER, collector(1)]).with(Packs::Orphan).within(bounds), 400);
}

#[test]
fn by_lot_answers_that_are_lost() {
    let bounds = Bounds { faults: 3, expiries: 2, crashes: 1, failing_reads: false, ..CALM };
    let scenario = Scenario::of([WRITER, collector(2), collector(2)]).with(Packs::Orphan);
    hardly(scenario.within(Bounds { preemptions: None, ..bounds }), 250);
}

#[test]
fn by_lot_writers_readers_a_deletion_and_two_collections() {
    let bounds = Bounds { faults: 1, expiries: 2, crashes: 1, preemptions: None, ..CALM };
    let flipping = Program::Writer { shares: 1, flips: true };
    let scenario = Scenario::of([WRITER, flipping, READER, DELETER, collector(3), collector(2)]);
    hardly(scenario.with(Packs::Needed).within(bounds), 250);
}

#[test]
fn by_lot_retention_beside_writers_that_move_the_pointer() {
    let bounds = Bounds { faults: 1, expiries: 2, crashes: 1, preemptions: None, ..CALM };
    let flipping = |shares| Program::Writer { shares, flips: true };
    let scenario =
        Scenario::of([flipping(0), flipping(1), Program::Retention, Program::Retention, collector(3)]);
    hardly(scenario.with(Packs::Needed).within(bounds), 250);
}

#[test]
fn by_lot_somebody_who_moves_packs_beside_readers_and_collections() {
    let bounds = Bounds { expiries: 2, preemptions: None, ..CALM };
    let mover = Program::Mover { target: 0 };
    let scenario = Scenario::of([mover.clone(), READER, WRITER, collector(2), collector(2)]);
    hardly(scenario.with(Packs::Needed).within(bounds), 150);
    let scenario = Scenario::of([mover, READER, collector(2)]).with(Packs::Pardonable);
    hardly(scenario.within(bounds), 150);
}

/// Two of one host: the second finds what the first has noted, dead or alive.
const CAPTURE: Program = Program::Capture;

#[test]
fn a_capture_that_goes_on_from_what_another_has_left_beside_a_collection() {
    let killed = Bounds { crashes: 1, preemptions: Some(1), ..CALM };
    never(Scenario::of([CAPTURE, CAPTURE, collector(2)]).with(Packs::Needed).within(killed), 400);
    never(Scenario::of([CAPTURE, CAPTURE, forgetful(2)]).with(Packs::Needed).within(CALM), 400);
    never(Scenario::of([CAPTURE, forgetful(3)]).with(Packs::Left).within(CALM), 400);
}

#[test]
fn by_lot_captures_that_go_on_from_what_others_have_left() {
    let bounds = Bounds { faults: 1, expiries: 2, crashes: 2, preemptions: None, ..CALM };
    let scenario = Scenario::of([CAPTURE, CAPTURE, CAPTURE, collector(2), forgetful(3)]);
    hardly(scenario.with(Packs::Needed).within(bounds), 250);
}

const REPACKER: Program = Program::Repacker;
/// The snapshot that needs a part of what is emptied.
const READER_OF_HALF: Program = Program::Reader { target: 1, renewals: 0 };
const RENEWING_READER_OF_HALF: Program = Program::Reader { target: 1, renewals: 1 };

#[test]
fn a_repack_and_a_collection() {
    never(Scenario::of([REPACKER, collector(2)]).with(Packs::Half).within(CALM), 300);
}

#[test]
fn two_repacks_of_the_same_pack_and_a_collection() {
    never(Scenario::of([REPACKER, REPACKER, collector(2)]).with(Packs::Half).within(CALM), 200);
}

/// It moves one in the first write and the other in the second.
#[test]
fn a_repack_of_what_two_snapshots_share_a_deletion_and_a_collection() {
    let scenario = Scenario::of([Program::LateRepacker, collector(2)]).with(Packs::Shared);
    never(scenario.within(CALM), 200);
}

#[test]
fn by_lot_repacks_of_what_two_snapshots_share() {
    let bounds = Bounds { faults: 1, expiries: 2, crashes: 1, preemptions: None, ..CALM };
    let deleter = Program::Deleter { target: 1 };
    let scenario = Scenario::of([REPACKER, REPACKER, deleter, READER_OF_HALF, collector(2), collector(2)]);
    hardly(scenario.with(Packs::Shared).within(bounds), 100);
}

#[test]
fn a_repack_that_dies_anywhere_leaves_nothing_behind() {
    let bounds = Bounds { crashes: 1, preemptions: Some(1), ..CALM };
    never(Scenario::of([REPACKER, collector(1)]).with(Packs::Half).within(bounds), 300);
}

#[test]
fn by_lot_repacks_beside_readers_and_collections() {
    let bounds = Bounds { expiries: 2, preemptions: None, ..CALM };
    let scenario = Scenario::of([REPACKER, REPACKER, RENEWING_READER_OF_HALF, collector(2), collector(2)]);
    hardly(scenario.with(Packs::Half).within(bounds), 100);
    let scenario = Scenario::of([REPACKER, REPACKER, Program::Follower, collector(2), collector(2)]);
    hardly(scenario.with(Packs::Half).within(Bounds { faults: 1, crashes: 1, ..bounds }), 100);
}

const LOST: &str = "which is gone";
/// Nobody is taken for dead.
const AWAKE: Bounds = Bounds { expiries: 0, ..CALM };

#[test]
fn without_a_lease_before_it_looks_a_writer_refers_to_what_goes() {
    let scenario = Scenario::of([WRITER, collector(2)]).with(Packs::Orphan).within(AWAKE);
    is_needed(Rules { lease_before_condemned: false, ..ALL }, scenario, 3000, LOST);
}

#[test]
fn without_a_look_at_what_is_condemned_a_writer_refers_to_what_goes() {
    let scenario = Scenario::of([collector(2), WRITER]).with(Packs::Orphan).within(AWAKE);
    is_needed(Rules { bar_condemned: false, ..ALL }, scenario, 3000, LOST);
}

#[test]
fn without_asking_for_it_a_writer_refers_to_what_has_long_been_gone() {
    let scenario = Scenario::of([forgetful(3), WRITER]).with(Packs::Orphan).within(AWAKE);
    is_needed_by_sleepers(Rules { ask_for_packs: false, ..ALL }, scenario, 20_000, LOST);
}

#[test]
fn without_asking_for_its_packs_a_writer_keeps_a_segment_that_goes() {
    let scenario = Scenario::of([collector(2), KEEPER]).with(Packs::Orphan).within(AWAKE);
    is_needed(Rules { ask_for_kept: false, ..ALL }, scenario, 3000, LOST);
}

#[test]
fn without_asking_late_a_writer_refers_to_what_goes_meanwhile() {
    let scenario = Scenario::of([WRITER, forgetful(3)]).with(Packs::Orphan).within(AWAKE);
    is_needed_by_sleepers(Rules { ask_after_condemned: false, ..ALL }, scenario, 20_000, LOST);
}

/// What is pardoned for the snapshot is deleted with it, and forgotten, before the writer reads what
/// is condemned.
#[test]
fn without_a_late_look_at_its_base_a_writer_refers_to_what_goes_meanwhile() {
    let scenario = Scenario::of([WRITER, DELETER, forgetful(2)]).with(Packs::Pardonable).within(AWAKE);
    is_needed_by_sleepers(Rules { base_after_condemned: false, ..ALL }, scenario, 20_000, LOST);
}

#[test]
fn without_a_late_look_at_what_it_has_saved_before_a_writer_refers_to_what_goes_meanwhile() {
    let scenario = Scenario::of([SAVER, DELETER, forgetful(2)]).with(Packs::Pardonable).within(AWAKE);
    is_needed_by_sleepers(Rules { earlier_after_condemned: false, ..ALL }, scenario, 20_000, LOST);
}

#[test]
fn without_a_look_at_writers_after_condemning_one_is_missed() {
    let scenario = Scenario::of([collector(2), WRITER]).with(Packs::Orphan).within(AWAKE);
    is_needed(Rules { blockers_after_condemned: false, ..ALL }, scenario, 3000, LOST);
}

#[test]
fn without_revoking_it_a_writer_that_slept_publishes_what_is_gone() {
    let scenario = Scenario::of([WRITER, collector(2)]).with(Packs::Orphan).within(CALM);
    is_needed(Rules { revoke_blockers: false, ..ALL }, scenario, 3000, LOST);
}

#[test]
fn without_marking_again_what_a_writer_has_shared_meanwhile_goes() {
    let scenario = Scenario::of([WRITER, collector(2)]).with(Packs::Orphan).within(AWAKE);
    is_needed(Rules { mark_again: false, ..ALL }, scenario, 3000, LOST);
}

/// One pardons what a snapshot needs, which is deleted then; the other, who looks later,
/// does not pardon it; and a third party has shared it in between, because it was pardoned.
#[test]
fn without_one_decision_two_collections_disagree_about_a_pardon() {
    let scenario = Scenario::of([collector(1), collector(1), DELETER, WRITER]).with(Packs::Pardonable);
    is_needed(Rules { decide_by_swap: false, ..ALL }, scenario.within(AWAKE), 10_000, LOST);
}

/// It asks for the pack between the removal of the document and that of the pack, and finds it.
#[test]
fn without_barring_packs_until_they_are_gone_a_writer_refers_to_them() {
    let scenario = Scenario::of([collector(2), WRITER]).with(Packs::Orphan);
    let bounds = Bounds { preemptions: Some(1), ..AWAKE };
    is_needed_by_sleepers(Rules { bar_until_swept: false, ..ALL }, scenario.within(bounds), 20_000, LOST);
}

#[test]
fn without_a_look_at_pins_after_trashing_a_reader_loses_its_snapshot() {
    let scenario = Scenario::of([DELETER, READER]).with(Packs::Needed).within(AWAKE);
    is_needed(Rules { pins_after_trash: false, ..ALL }, scenario, 3000, "which is deleted");
}

#[test]
fn without_a_second_look_a_reader_pins_what_is_being_deleted() {
    let scenario = Scenario::of([READER, DELETER]).with(Packs::Needed).within(AWAKE);
    is_needed(Rules { look_after_pinning: false, ..ALL }, scenario, 3000, "a reader has pinned");
}

/// Its pin is too old while it sleeps, so the snapshot may be deleted; what it pins then is gone.
#[test]
fn without_a_second_look_a_renewal_pins_what_is_deleted() {
    let scenario = Scenario::of([RENEWING_READER, DELETER]).with(Packs::Needed).within(CALM);
    is_needed(Rules { look_after_pinning: false, ..ALL }, scenario, 3000, "and reader 0 relies on it");
}

/// It sleeps between its look at the lease and the record; meanwhile it is taken for dead, and
/// what it has stored goes.
#[test]
fn without_a_look_at_its_lease_after_the_record_a_repack_refers_to_what_is_gone() {
    let scenario = Scenario::of([REPACKER, collector(3)]).with(Packs::Half);
    let bounds = Bounds { preemptions: Some(1), ..CALM };
    is_needed_by_sleepers(Rules { lease_after_record: false, ..ALL }, scenario.within(bounds), 20_000, LOST);
}

#[test]
fn without_touching_what_a_revoked_repack_was_to_replace_it_refers_to_what_is_gone() {
    let scenario = Scenario::of([REPACKER, collector(3)]).with(Packs::Half);
    let bounds = Bounds { preemptions: Some(1), ..CALM };
    is_needed_by_sleepers(
        Rules { touch_after_revoking: false, ..ALL },
        scenario.within(bounds),
        20_000,
        LOST,
    );
}

/// The first of two snapshots is deleted before it is moved, so nothing needs what was copied when the
/// repack is taken for dead; and the lease for the second comes after what was copied is gone.
#[test]
fn without_a_look_at_the_lease_of_the_copies_a_later_write_refers_to_what_is_gone() {
    let scenario = Scenario::of([Program::LateRepacker, collector(3)]).with(Packs::Shared);
    let bounds = Bounds { preemptions: Some(1), ..CALM };
    is_needed_by_sleepers(Rules { lease_of_copies: false, ..ALL }, scenario.within(bounds), 20_000, LOST);
}

#[test]
fn without_keeping_what_an_earlier_generation_needed_a_reader_loses_what_it_pinned() {
    let scenario = Scenario::of([READER_OF_HALF, REPACKER, collector(2)]).with(Packs::Half);
    let bounds = Bounds { preemptions: Some(1), ..AWAKE };
    let rules = Rules { keep_pinned_generations: false, ..ALL };
    is_needed_by_sleepers(rules, scenario.within(bounds), 20_000, "a reader has pinned");
}

#[test]
fn without_following_what_was_moved_a_mount_loses_its_snapshot() {
    let scenario = Scenario::of([Program::Follower, REPACKER, collector(2)]).with(Packs::Half);
    let bounds = Bounds { preemptions: Some(1), ..AWAKE };
    let rules = Rules { follow_moved: false, ..ALL };
    is_needed_by_sleepers(rules, scenario.within(bounds), 20_000, "cannot read its snapshot");
}

/// The pin goes with the snapshot to its new packs, and then the old ones go.
#[test]
fn without_following_what_was_moved_a_reader_loses_what_it_pinned_anew() {
    let scenario = Scenario::of([RENEWING_READER_OF_HALF, REPACKER, collector(2)]).with(Packs::Half);
    let rules = Rules { follow_moved: false, ..ALL };
    let bounds = Bounds { changes_first: true, ..AWAKE };
    is_needed_by_sleepers(rules, scenario.within(bounds), 20_000, "cannot read its snapshot");
}

#[test]
fn without_a_look_at_what_is_condemned_a_capture_goes_on_from_what_goes() {
    let scenario = Scenario::of([collector(2), CAPTURE]).with(Packs::Left).within(AWAKE);
    is_needed(Rules { bar_condemned: false, ..ALL }, scenario, 3000, LOST);
}

#[test]
fn without_a_lease_before_it_looks_a_capture_goes_on_from_what_goes() {
    let scenario = Scenario::of([CAPTURE, collector(2)]).with(Packs::Left).within(AWAKE);
    is_needed(Rules { lease_before_condemned: false, ..ALL }, scenario, 3000, LOST);
}

#[test]
fn without_asking_for_it_a_capture_goes_on_from_what_has_long_been_gone() {
    let scenario = Scenario::of([forgetful(3), CAPTURE]).with(Packs::Left).within(AWAKE);
    is_needed_by_sleepers(Rules { ask_for_packs: false, ..ALL }, scenario, 20_000, LOST);
}

#[test]
fn without_revoking_it_a_capture_that_slept_goes_on_from_what_is_gone() {
    let scenario = Scenario::of([CAPTURE, collector(2)]).with(Packs::Left).within(CALM);
    is_needed(Rules { revoke_blockers: false, ..ALL }, scenario, 3000, LOST);
}
