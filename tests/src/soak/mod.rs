//! `soak` does everything at once, for any time: hosts snapshot, mount, commit, crash, restart, collect and roll back
//! at random, with real processes on a real server, and a judge outside.
//!
//! After every step: no pointer has moved but by a step that moves it. Of every snapshot that becomes
//! current: each file is one that a writer had completed, and none is older than what was done before
//! the commit began. Of every session that was cut short: what was written is there after the end of
//! its daemon, what was synced after the end of its host. `docs/soak.md` says how to run it.

mod catalog;
pub mod content;
mod fleet;
mod host;
pub mod ledger;
mod lot;
mod sessions;
mod steps;
pub mod writer;

use std::{
    env,
    time::{Duration, Instant},
};

use fleet::Fleet;
pub use steps::Kind;

use crate::server::SeaweedFs;

/// How long, from which seed, and which steps.
#[derive(Debug)]
pub struct Plan {
    pub seed: u64,
    pub time: Duration,
    pub kinds: Vec<Kind>,
}

impl Plan {
    /// As `PSTORE_SOAK_SEED`, `PSTORE_SOAK_SECONDS` and `PSTORE_SOAK_STEPS` say.
    pub fn from_environment() -> Self {
        let number = |name: &str, default| env::var(name).map_or(default, |text| text.parse().expect(name));
        let wanted = env::var("PSTORE_SOAK_STEPS").unwrap_or_default();
        let named = |kind: &Kind| wanted.is_empty() || wanted.split(',').any(|word| word == kind.name());
        Self {
            seed: number("PSTORE_SOAK_SEED", 1),
            time: Duration::from_secs(number("PSTORE_SOAK_SECONDS", 120)),
            kinds: Kind::ALL.into_iter().filter(named).collect(),
        }
    }
}

/// Panics at the first thing that must not be, with the seed; the steps before it have been printed.
pub async fn run(plan: &Plan) {
    let mut server = SeaweedFs::start_unguarded().await;
    let (mut fleet, began) =
        (Fleet::new(plan.seed, &server.config(), plan.kinds.contains(&Kind::Retention)), Instant::now());
    let mut taken = 0;
    while began.elapsed() < plan.time {
        if let Err(reason) = steps::take(&mut fleet, &plan.kinds) {
            fleet.fail(&reason);
        }
        taken += 1;
    }
    if let Err(reason) = sessions::settle_all(&mut fleet).and_then(|()| fleet.end()) {
        fleet.fail(&reason);
    }
    server.stop();
    println!("{taken} steps from seed {}", plan.seed);
}
