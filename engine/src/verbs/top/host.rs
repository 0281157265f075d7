//! `HostView` looks at this host: its mounts and sessions, what its commands have counted, and the locks of the store.

use std::time::{Duration, Instant};

use store::{ErrorKind, catalog::clock, name::Tenant};

use super::{
    TopOutcome, TopPart,
    locks::LockWatch,
    rates::{self, Rates},
    rows::{MountFields, TopLock, TopMount, TopRate, TopSession},
};
use crate::{
    Engine,
    failure::Failure,
    settings::Settings,
    verbs::{
        metrics::MetricsRequest,
        mounts::{self, MountsRequest},
        sessions::{self, SessionsRequest},
    },
};

/// See the module header.
#[derive(Debug)]
pub struct HostView {
    settings: Settings,
    /// The locks, or why there is no store to look for them in.
    locks: Result<LockWatch, Failure>,
    /// How long the store may take to answer.
    patience: Duration,
    counted: Rates,
    fetched: Rates,
}

impl HostView {
    /// Of this host, and of the locks of all tenants or of one. A look waits for the store for at most `patience`.
    pub fn new(
        settings: &Settings,
        engine: Result<Engine, Failure>,
        tenant: Option<Tenant>,
        patience: Duration,
    ) -> Self {
        Self {
            settings: settings.clone(),
            locks: engine.map(|engine| LockWatch::new(engine, tenant)),
            patience,
            counted: Rates::default(),
            fetched: Rates::default(),
        }
    }

    pub(super) async fn look(&mut self) -> TopOutcome {
        let source = self.settings.host_name().unwrap_or_else(|| "this host".to_owned());
        let mut seen = TopOutcome::new(source, clock::unix_ms());
        let (locks, problem) = match &mut self.locks {
            Ok(watch) => {
                let (page, problem) = watch.locks(self.patience).await;
                (Some(page), problem)
            }
            Err(failure) => (None, Some(failure.clone())),
        };
        problem.into_iter().for_each(|failure| seen.lacks(TopPart::Locks, failure));
        seen.total_locks = locks.as_ref().map_or(0, |page| page.total);
        seen.locks = locks.into_iter().flat_map(|page| page.locks).map(TopLock::from).collect();
        let mounts = mounts::mounts(&self.settings, &MountsRequest {}).await;
        let mounts = seen.took(TopPart::Mounts, mounts.map(|outcome| outcome.mounts));
        seen.mounts = mounts.into_iter().map(|mount| TopMount::from(MountFields::from(mount))).collect();
        let sessions = sessions::list(&self.settings, &SessionsRequest {});
        if let Some(left) = seen.took(TopPart::Sessions, sessions.map(Some)) {
            seen.sessions = left.sessions.iter().map(TopSession::from).collect();
            seen.sessions.extend(left.copies.iter().map(TopSession::from));
        }
        let (rates, problem) = self.rates(&seen.mounts);
        seen.rates = rates;
        problem.into_iter().for_each(|failure| seen.lacks(TopPart::Rates, failure));
        seen
    }

    /// What the mounts fetch is known at any time; what commands count is kept only where the settings say so.
    fn rates(&mut self, mounts: &[TopMount]) -> (Vec<TopRate>, Option<Failure>) {
        let now = Instant::now();
        let fetched: u64 = mounts.iter().filter_map(|mount| mount.fetched_bytes).sum();
        let mut told = self.fetched.grown(vec![("fetched by mounts".to_owned(), true, fetched as f64)], now);
        let metrics = self.settings.show_metrics(&MetricsRequest {});
        if metrics.textfile.is_none() {
            let message = "nothing is kept of what commands count: metrics_textfile is not set";
            let failure = Failure::new(ErrorKind::NotFound, message).hint("docs/metrics.md says more");
            return (told, Some(failure));
        }
        told.extend(self.counted.of(&rates::of_metrics(&metrics.metrics), now));
        (told, None)
    }
}
