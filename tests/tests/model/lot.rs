//! `lot` says how many runs are drawn by lot, and from which seed on.

use std::env;

use tests::explorer::{Scenario, sample};

/// A number from the environment.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// Draws so many runs, times `PSTORE_MODEL_EFFORT`. Nothing goes wrong in any of them.
#[track_caller]
pub(crate) fn hardly(scenario: Scenario, runs: u64) {
    let first = number("PSTORE_MODEL_SEED", 0);
    let explored = sample(&scenario, first..first + runs * number("PSTORE_MODEL_EFFORT", 1));
    eprintln!("{} runs by lot", explored.runs);
    assert!(explored.found.is_none(), "{}", explored.found.unwrap());
}
