//! These tests publish and remove archives at the same time, in many orders of events: no live snapshot ever names
//! one that is gone, however late a removal arrives. And every rule is needed: without it something is lost, in
//! runs in which nothing is with it.
//!
//! `PSTORE_MODEL_EFFORT` multiplies how much is tried, and `PSTORE_MODEL_SEED` is where the
//! drawing starts.

use store::catalog::rules::Rules;
use tests::explorer::{Bounds, Packs, Program, Scenario, sample};

use crate::lot::hardly;

const ALL: Rules = Rules::ALL;
/// Of the snapshot that has an archive, and goes on when an answer is lost.
const REMOVER: Program = Program::Remover { target: 0, times: 2 };

const fn publisher(target: usize) -> Program {
    Program::Publisher { target }
}

fn bounds(faults: u32) -> Bounds {
    Bounds { faults, expiries: 0, ..Bounds::default() }
}

/// Draws at most so many runs, which are enough to find what goes wrong under `rules`. In
/// those very runs nothing does under all of them.
#[track_caller]
fn is_needed(rules: Rules, scenario: Scenario, most: u64) {
    let broken = sample(&scenario.clone().under(rules), 0..most);
    let Some(found) = broken.found else { panic!("nothing goes wrong in {} runs", broken.runs) };
    eprintln!("after {} runs: {found}", broken.runs);
    assert!(found.violation.contains("which is gone"), "{found}");
    let sound = sample(&scenario.under(ALL), 0..broken.runs);
    assert!(sound.found.is_none(), "{}", sound.found.unwrap());
}

/// Two deleters, of which one may find that a reader needs the snapshot.
fn deletions() -> Scenario {
    let scenario = Scenario::of([REMOVER, REMOVER, Program::Reader { target: 0, renewals: 0 }]);
    scenario.with(Packs::Needed).with_archives()
}

/// A snapshot is published while its publication is taken for dead.
fn given_up(faults: u32) -> Scenario {
    let scenario = Scenario::of([publisher(1), publisher(1), Program::Abandoner { target: 1 }]);
    scenario.with_archives().within(bounds(faults))
}

#[test]
fn by_lot_publishers_and_removers_of_the_same_content() {
    let scenario = Scenario::of([REMOVER, publisher(2), publisher(3), REMOVER]);
    hardly(scenario.with_archives().within(bounds(3)), 400);
}

#[test]
fn by_lot_a_snapshot_that_is_published_while_it_is_deleted() {
    let remover = Program::Remover { target: 2, times: 2 };
    let scenario = Scenario::of([publisher(2), remover.clone(), remover, publisher(2)]);
    hardly(scenario.with_archives().within(Bounds { crashes: 1, ..bounds(2) }), 400);
}

#[test]
fn by_lot_publications_that_are_given_up() {
    hardly(given_up(3), 400);
}

#[test]
fn by_lot_deletions_that_are_taken_back() {
    // A pin that arrives late keeps packs, as it should, but not for ever.
    let bounds = Bounds { faulty: Some((0, ".tar.zst")), ..bounds(2) };
    hardly(deletions().within(bounds), 300);
}

#[test]
fn without_names_of_their_own_a_late_removal_hits_an_archive_that_was_published_anew() {
    let scenario = Scenario::of([REMOVER, publisher(2)]).with_archives().within(bounds(1));
    is_needed(Rules { fresh_archive_names: false, ..ALL }, scenario, 3000);
}

#[test]
fn without_a_word_in_the_record_a_deletion_that_was_taken_back_has_removed_the_archive() {
    let scenario = deletions().within(bounds(0));
    is_needed(Rules { removal_in_record: false, ..ALL }, scenario, 5000);
}

#[test]
fn without_a_word_in_the_record_a_slow_publisher_names_what_was_removed() {
    is_needed(Rules { abandoned_in_record: false, ..ALL }, given_up(0), 5000);
}
