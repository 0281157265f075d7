//! `LockWatch` looks at the locks of a store again and again, seldom enough to leave the store to others.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use store::{ErrorKind, catalog::clock, name::Tenant, ops::read::survey::Survey};
use tokio::task::{JoinError, JoinHandle};

use crate::{
    Engine,
    failure::Failure,
    overview::{LockPage, PageOf, TenantOverview},
};

/// How many tenants are looked at at once.
const TENANTS_AT_ONCE: usize = 4;
/// The pause after a look, as a multiple of the time that it took.
const PAUSE_TIMES: u32 = 20;
/// How many locks are told at most.
const MAX_LOCKS: usize = 500;

/// What was seen of each tenant.
type Surveys = BTreeMap<Tenant, Survey>;

/// A look that has ended, and how long it took.
struct Looked {
    surveys: Surveys,
    overviews: Vec<Arc<TenantOverview>>,
    /// Why a part was not seen, or all.
    failed: Option<Failure>,
    took: Duration,
}

/// See the module header.
pub(super) struct LockWatch {
    engine: Engine,
    /// Of this tenant alone.
    tenant: Option<Tenant>,
    surveys: Surveys,
    looking: Option<(Instant, JoinHandle<Looked>)>,
    due: Instant,
    seen: Vec<Arc<TenantOverview>>,
    failed: Option<Failure>,
}

impl std::fmt::Debug for LockWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockWatch").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl LockWatch {
    pub(super) fn new(engine: Engine, tenant: Option<Tenant>) -> Self {
        Self {
            engine: engine.serving(),
            tenant,
            surveys: Surveys::new(),
            looking: None,
            due: Instant::now(),
            seen: Vec::new(),
            failed: None,
        }
    }

    /// The locks as they are known, after a wait of at most `patience` for a look that is under way; and why they are
    /// not known better, if they are not.
    pub(super) async fn locks(&mut self, patience: Duration) -> (LockPage, Option<Failure>) {
        if self.looking.is_none() && Instant::now() >= self.due {
            let (engine, tenant) = (self.engine.clone(), self.tenant.clone());
            let surveys = std::mem::take(&mut self.surveys);
            self.looking = Some((Instant::now(), tokio::spawn(look(engine, tenant, surveys))));
        }
        let late = match &mut self.looking {
            None => None,
            Some((began, looking)) => match tokio::time::timeout(patience, looking).await {
                Ok(looked) => {
                    self.looking = None;
                    self.took(looked)
                }
                Err(_) => {
                    let (waited, shown) = (began.elapsed().as_secs(), self.engine.location.shown());
                    let message = format!("{shown} has not answered for {waited} s");
                    Some(Failure::new(ErrorKind::Unavailable, message))
                }
            },
        };
        let all = PageOf { skip: 0, limit: MAX_LOCKS };
        (LockPage::of(&self.seen, true, all, clock::unix_ms()), late.or_else(|| self.failed.clone()))
    }

    /// Takes over what a look has come to.
    fn took(&mut self, looked: Result<Looked, JoinError>) -> Option<Failure> {
        match looked {
            Ok(looked) => {
                self.due = Instant::now() + looked.took * PAUSE_TIMES;
                (self.surveys, self.failed) = (looked.surveys, looked.failed);
                // What was seen before is better than nothing.
                if self.failed.is_none() || !looked.overviews.is_empty() {
                    self.seen = looked.overviews;
                }
                None
            }
            Err(error) => Some(Failure::internal(format!("the look at the locks ended early: {error}"))),
        }
    }
}

impl Drop for LockWatch {
    fn drop(&mut self) {
        if let Some((_, looking)) = &self.looking {
            looking.abort();
        }
    }
}

async fn look(engine: Engine, tenant: Option<Tenant>, mut before: Surveys) -> Looked {
    let began = Instant::now();
    let names = match tenant {
        Some(tenant) => Ok(vec![tenant]),
        None => engine.tenants().await,
    };
    let names = match names {
        Ok(names) => names,
        Err(failure) => {
            let (overviews, failed) = (Vec::new(), Some(failure));
            return Looked { surveys: before, overviews, failed, took: began.elapsed() };
        }
    };
    let known = names.into_iter().map(|name| {
        let survey = before.remove(&name).unwrap_or_else(Survey::of_locks);
        (name, survey)
    });
    let looked: Vec<(Tenant, Survey, Result<(), Failure>)> = stream::iter(known.collect::<Vec<_>>())
        .map(|(name, mut survey)| {
            let engine = &engine;
            async move {
                let looked = look_at(engine, &name, &mut survey).await;
                (name, survey, looked)
            }
        })
        .buffered(TENANTS_AT_ONCE)
        .collect()
        .await;
    let (mut surveys, mut overviews, mut failed) = (Surveys::new(), Vec::new(), None);
    for (name, survey, looked) in looked {
        match looked {
            Ok(()) => overviews.push(Arc::new(TenantOverview::of(&name, &survey))),
            Err(failure) if failure.kind == ErrorKind::Deleted => {}
            Err(failure) => failed = failed.or(Some(failure)),
        }
        surveys.insert(name, survey);
    }
    Looked { surveys, overviews, failed, took: began.elapsed() }
}

async fn look_at(engine: &Engine, tenant: &Tenant, survey: &mut Survey) -> Result<(), Failure> {
    let store = engine.tenant(tenant).await?;
    survey.look(&store).await?;
    Ok(())
}
