//! `OverviewReads` paces the reads that keep the overview up to date, so that they leave the store to others.
//!
//! A server reads this host's cache when it starts, and the store only once somebody asks. A question
//! never waits long: it is answered with the summaries at hand, and their time.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use engine::{
    Engine,
    interrupt::Interrupt,
    overview::{OverviewKeeper, OverviewScope, TenantOverview},
};
use parking_lot::Mutex;
use store::{bucket::request_id, catalog::clock, name::Tenant};
use tokio::sync::{Notify, watch};

use crate::observer::RequestObserver;

/// A look that is younger than this is fresh.
const FRESH: Duration = Duration::from_secs(2);
/// How long a question waits for something fresh, if that is likely to come in time.
const PATIENCE: Duration = Duration::from_millis(60);
/// How long the first question waits for the cache.
const CACHE_PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a look, as a multiple of the time that it took: a look takes at most a twentieth of the time.
const PAUSE_TIMES: u32 = 20;

/// See the module header.
#[derive(Debug)]
pub(crate) struct OverviewReads {
    keeper: OverviewKeeper,
    wanted: Mutex<Wanted>,
    asked: Notify,
    /// Counts the looks; 1 once the cache was read.
    looks: watch::Sender<u64>,
    /// How long the last look at all tenants took; none before the first.
    all_took: Mutex<Option<Duration>>,
}

/// The tenants that callers have asked for since the last look.
#[derive(Debug, Default)]
struct Wanted {
    all: bool,
    names: BTreeSet<Tenant>,
}

impl Default for OverviewReads {
    fn default() -> Self {
        Self {
            keeper: OverviewKeeper::default(),
            wanted: Mutex::default(),
            asked: Notify::new(),
            looks: watch::Sender::new(0),
            all_took: Mutex::default(),
        }
    }
}

impl OverviewReads {
    /// The tenants of this scope as they are known now, and whether all of them are. A look is asked for unless
    /// they are fresh.
    pub(crate) async fn tenants(&self, scope: &OverviewScope) -> (Vec<Arc<TenantOverview>>, bool) {
        let mut looks = self.looks.subscribe();
        let _ = tokio::time::timeout(CACHE_PATIENCE, looks.wait_for(|looks| *looks > 0)).await;
        if self.keeper.age(scope).is_none_or(|age| age > FRESH) {
            self.want(scope);
            let fresh = async {
                while self.keeper.age(scope).is_none_or(|age| age > FRESH) {
                    if looks.changed().await.is_err() {
                        break;
                    }
                }
            };
            let all_took = *self.all_took.lock();
            // Before the first look, what the cache tells is good enough if it tells of all.
            let is_slow = *scope == OverviewScope::All
                && all_took.map_or_else(|| self.keeper.tenants(scope).1, |took| took > PATIENCE);
            if !is_slow {
                let _ = tokio::time::timeout(PATIENCE, fresh).await;
            }
        }
        self.keeper.tenants(scope)
    }

    /// Reads the cache, and then the tenants that callers ask for, until the server stops.
    pub(crate) fn begin(self: &Arc<Self>, engine: &Engine, stopping: Interrupt) {
        // What it asks the store for has a name of its own there, and in the log.
        let name = clock::new_record_id().to_string();
        let observer = Arc::new(RequestObserver { request_id: name.clone() });
        let (reads, engine) = (Arc::clone(self), engine.for_request(observer, Interrupt::new()));
        tokio::spawn(async move {
            tokio::select! {
                () = request_id::for_request(name, reads.keep(&engine)) => {}
                () = stopping.raised() => {}
            }
        });
    }

    async fn keep(&self, engine: &Engine) {
        if let Err(failure) = self.keeper.load(engine).await {
            tracing::debug!("the overview begins with nothing: {}", failure.message);
        }
        self.looks.send_modify(|looks| *looks += 1);
        let mut all_due = Instant::now();
        loop {
            let is_waiting = self.wanted.lock().all;
            tokio::select! {
                () = self.asked.notified() => {}
                () = tokio::time::sleep_until(all_due.into()), if is_waiting => {}
            }
            // Few tenants are looked at soon, also while others wait for all.
            let names = std::mem::take(&mut self.wanted.lock().names);
            if !names.is_empty() {
                let took = self.look(engine, &OverviewScope::Named(names)).await;
                tokio::time::sleep(took * PAUSE_TIMES).await;
            }
            if Instant::now() >= all_due && std::mem::take(&mut self.wanted.lock().all) {
                let took = self.look(engine, &OverviewScope::All).await;
                *self.all_took.lock() = Some(took);
                all_due = Instant::now() + took * PAUSE_TIMES;
            }
        }
    }

    /// Looks at these tenants, and tells how long that took.
    async fn look(&self, engine: &Engine, scope: &OverviewScope) -> Duration {
        let began = Instant::now();
        if let Err(failure) = self.keeper.refresh(engine, scope).await {
            tracing::warn!("a part of the overview stays as it was: {}", failure.message);
        }
        self.looks.send_modify(|looks| *looks += 1);
        began.elapsed()
    }

    fn want(&self, scope: &OverviewScope) {
        let mut wanted = self.wanted.lock();
        match scope {
            OverviewScope::All => wanted.all = true,
            OverviewScope::Named(names) => wanted.names.extend(names.iter().cloned()),
        }
        drop(wanted);
        self.asked.notify_one();
    }
}

/// The tenants of a caller, or one of them.
pub(crate) fn scope(all: bool, names: impl Iterator<Item = Tenant>) -> OverviewScope {
    match all {
        true => OverviewScope::All,
        false => OverviewScope::Named(names.collect::<BTreeSet<Tenant>>()),
    }
}
