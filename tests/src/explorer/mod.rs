//! `explorer` tries every order of the calls of several processes, one after the other.
//!
//! The real code of several processes runs on one thread against one bucket in memory. No
//! call of theirs is answered until the explorer says so: it chooses whose call is next
//! and how it ends (answered; under way while the sender is told that nobody answers;
//! applied, but refused because something on the way has sent it twice), when the store's
//! clock passes every lock's time, and who dies. After each step an oracle that has seen
//! everything that was applied compares it with what the processes believe.
//!
//! A run is repeated from its list of choices alone, so all of them can be gone through
//! ([`exhaust`]), or some drawn by lot ([`sample`]). States that were met before are not
//! explored again; a process's state is known by the answers it was given.

mod archives;
mod call;
mod choice;
mod contract;
mod erasure;
mod gate;
mod host;
mod machine;
mod marks;
mod notes;
mod oracle;
mod pack_oracle;
mod program;
mod reading;
mod repair;
mod resumed;
mod run;
mod scenario;
mod session;
mod trace;
mod writing;

pub use program::Program;
pub use scenario::{Bounds, Packs, Scenario};

use std::{
    collections::HashSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use choice::Choices;

/// The outcome of an exploration.
#[derive(Debug)]
pub struct Explored {
    pub runs: u64,
    pub states: usize,
    /// Whether nothing within the bounds was left out.
    pub complete: bool,
    pub found: Option<Found>,
}

/// A run in which something went wrong, in words.
#[derive(Debug)]
pub struct Found {
    pub violation: String,
    pub seed: Option<u64>,
    pub choices: Vec<usize>,
    pub trace: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        if let Some(seed) = self.seed {
            writeln!(f, "seed {seed}")?;
        }
        writeln!(f, "choices {:?}", self.choices)?;
        self.trace.iter().enumerate().try_for_each(|(step, line)| writeln!(f, "{:3}. {line}", step + 1))
    }
}

/// Goes through all runs within the scenario's bounds, but no more than `most`.
pub fn exhaust(scenario: &Scenario, most: u64) -> Explored {
    let runtime = run::runtime();
    let mut seen = HashSet::new();
    let mut prefix = Vec::new();
    let mut runs = 0;
    loop {
        runs += 1;
        let mut choices = Choices::along(prefix);
        let violation = run::run(&runtime, scenario, &mut choices, Some(&mut seen), None);
        let states = seen.len();
        if let Some(violation) = violation {
            let found = Some(replay(&runtime, scenario, violation, choices.chosen(), None));
            return Explored { runs, states, complete: false, found };
        }
        let Some(next) = choices.next() else {
            return Explored { runs, states, complete: true, found: None };
        };
        if runs == most {
            return Explored { runs, states, complete: false, found: None };
        }
        prefix = next;
    }
}

/// Draws one run by lot for each seed, until something goes wrong.
pub fn sample(scenario: &Scenario, seeds: impl IntoIterator<Item = u64>) -> Explored {
    let mut scenario = scenario.clone();
    (scenario.bounds.lots, scenario.bounds.reorder) = (true, true);
    let scenario = &scenario;
    let runtime = run::runtime();
    let mut runs = 0;
    for seed in seeds {
        runs += 1;
        let mut choices = Choices::by_lot(seed);
        if let Some(violation) = run::run(&runtime, scenario, &mut choices, None, None) {
            let found = Some(replay(&runtime, scenario, violation, choices.chosen(), Some(seed)));
            return Explored { runs, states: 0, complete: false, found };
        }
    }
    Explored { runs, states: 0, complete: false, found: None }
}

fn replay(
    runtime: &tokio::runtime::Runtime,
    scenario: &Scenario,
    violation: String,
    chosen: Vec<usize>,
    seed: Option<u64>,
) -> Found {
    let mut trace = Vec::new();
    let mut choices = Choices::along(chosen.clone());
    let again = run::run(runtime, scenario, &mut choices, None, Some(&mut trace));
    if again.as_ref() != Some(&violation) {
        trace.push(format!("the same choices came to something else: {again:?}"));
    }
    Found { violation, seed, choices: chosen, trace }
}

/// Stands for a state, in the record of those that were met.
fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
