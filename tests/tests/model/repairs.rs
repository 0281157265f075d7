//! These tests repair a loss beside writers that know the lost chunk from the indexes. Every order of their steps
//! is tried in which at most one of them is put aside. No snapshot is left that lacks something and is not marked;
//! and both rules that keep this so are shown to be needed.

use store::catalog::rules::Rules;
use tests::explorer::{Bounds, Packs, Program, Scenario, exhaust, sample};

const MOST: u64 = 3000;

fn scenario(programs: impl IntoIterator<Item = Program>, preemptions: u32) -> Scenario {
    let bounds = Bounds { faults: 0, expiries: 0, preemptions: Some(preemptions), ..Bounds::default() };
    Scenario::of(programs).with(Packs::Needed).within(bounds)
}

#[track_caller]
fn is_needed(rules: Rules) {
    let scenario = scenario([Program::Sharer, Program::Repair], 1);
    let found = exhaust(&scenario.under(rules), MOST).found.expect("nothing goes wrong");
    assert!(found.violation.contains("which is lost, and is not marked"), "{found}");
}

#[test]
fn no_writer_refers_to_what_a_repair_has_found_lost_unless_it_is_marked() {
    let explored = exhaust(&scenario([Program::Sharer, Program::Repair], 1), MOST);
    eprintln!("{} runs, {} states", explored.runs, explored.states);
    assert!(explored.found.is_none(), "{}", explored.found.unwrap());
    assert!(explored.complete, "there are more runs than {MOST}");
    let three = scenario([Program::Sharer, Program::Repair, Program::Sharer], 3);
    let drawn = sample(&three, 0..60);
    assert!(drawn.found.is_none(), "{}", drawn.found.unwrap());
}

#[test]
fn no_writer_refers_to_what_a_repair_has_found_lost_of_what_it_has_saved_before() {
    let saver = Program::Saver { saved: 0 };
    let explored = exhaust(&scenario([saver.clone(), Program::Repair], 2), MOST);
    assert!(explored.found.is_none(), "{}", explored.found.unwrap());
    assert!(explored.complete, "there are more runs than {MOST}");
    let careless = Rules { earlier_after_condemned: false, ..Rules::ALL };
    let found = exhaust(&scenario([saver, Program::Repair], 1).under(careless), MOST).found;
    assert!(found.expect("nothing goes wrong").violation.contains("which is lost, and is not marked"));
}

#[test]
fn without_another_look_at_the_indexes_a_writer_refers_to_what_was_lost_before_its_lease() {
    is_needed(Rules { index_after_lease: false, ..Rules::ALL });
}

#[test]
fn without_a_revocation_a_writer_refers_to_what_was_lost_after_it_looked() {
    is_needed(Rules { revoke_after_loss: false, ..Rules::ALL });
}
