//! `OverviewKeeper` keeps the summaries of all tenants in memory, and brings those up to date that somebody asks for.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use parking_lot::RwLock;
use store::{ErrorKind, content::TenantStore, name::Tenant, ops::read::survey::Survey};

use super::facts::TenantOverview;
use crate::{Engine, failure::Failure};

/// How many tenants are looked at at once. Each has a few requests under way.
const TENANTS_AT_ONCE: usize = 4;
/// A summary that has changed is left in the cache at most this often.
const SAVE_AFTER: Duration = Duration::from_secs(60);

/// The tenants that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverviewScope {
    /// All there are.
    All,
    /// These.
    Named(BTreeSet<Tenant>),
}

/// See the module header.
#[derive(Debug, Default)]
pub struct OverviewKeeper {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    tenants: BTreeMap<Tenant, KeptTenant>,
    /// When all tenants of the store were known and looked at.
    all_looked: Option<Instant>,
}

#[derive(Debug, Default)]
struct KeptTenant {
    /// None of a tenant that does not exist, or was deleted.
    overview: Option<Arc<TenantOverview>>,
    /// None while somebody brings it up to date.
    survey: Option<Survey>,
    /// When it was brought up to date last; none if it is from the cache.
    looked: Option<Instant>,
    saved: Option<Instant>,
}

impl OverviewKeeper {
    /// The tenants of this scope, as far as they are known, and whether each was looked at, or is from the cache.
    pub fn tenants(&self, scope: &OverviewScope) -> (Vec<Arc<TenantOverview>>, bool) {
        let state = self.state.read();
        match scope {
            OverviewScope::All => {
                let known = state.tenants.values().filter_map(|kept| kept.overview.clone()).collect();
                let is_complete =
                    state.tenants.values().all(|kept| kept.overview.is_some() || kept.looked.is_some());
                (known, is_complete && !state.tenants.is_empty() || state.all_looked.is_some())
            }
            OverviewScope::Named(names) => {
                let kept: Vec<_> = names.iter().map(|name| state.tenants.get(name)).collect();
                let is_complete = kept
                    .iter()
                    .all(|kept| kept.is_some_and(|kept| kept.overview.is_some() || kept.looked.is_some()));
                (kept.into_iter().flatten().filter_map(|kept| kept.overview.clone()).collect(), is_complete)
            }
        }
    }

    /// How long ago the last of them was brought up to date; `None` if that never happened.
    pub fn age(&self, scope: &OverviewScope) -> Option<Duration> {
        let state = self.state.read();
        let looked = match scope {
            OverviewScope::All => state.all_looked,
            OverviewScope::Named(names) => {
                let looked = |name| state.tenants.get(name).and_then(|kept: &KeptTenant| kept.looked);
                names.iter().map(looked).min().flatten()
            }
        };
        looked.map(|looked| looked.elapsed())
    }

    /// Takes what this host has in its cache, without a listing.
    #[crate::boxed]
    pub async fn load(&self, engine: &Engine) -> Result<(), Failure> {
        let names = engine.tenants().await?;
        stream::iter(names)
            .for_each_concurrent(TENANTS_AT_ONCE, |name| async move {
                let Ok(store) = engine.tenant(&name).await else { return };
                let known = move || {
                    let survey = Survey::load(&store)?;
                    Some((Arc::new(TenantOverview::of(&store.tenant, &survey)), survey))
                };
                let known = tokio::task::spawn_blocking(known).await.ok().flatten();
                let mut state = self.state.write();
                let kept = state.tenants.entry(name).or_default();
                if let Some((overview, survey)) = known.filter(|_| kept.overview.is_none()) {
                    (kept.overview, kept.survey) = (Some(overview), Some(survey));
                }
            })
            .await;
        Ok(())
    }

    /// Brings the tenants of this scope up to date. A tenant that fails stays as it was, and the first failure is told.
    #[crate::boxed]
    pub async fn refresh(&self, engine: &Engine, scope: &OverviewScope) -> Result<(), Failure> {
        let names: Vec<Tenant> = match scope {
            OverviewScope::All => engine.tenants().await?,
            OverviewScope::Named(names) => names.iter().cloned().collect(),
        };
        if *scope == OverviewScope::All {
            let present: BTreeSet<&Tenant> = names.iter().collect();
            let mut state = self.state.write();
            state.tenants.retain(|name, _| present.contains(name));
            // So that nobody takes a part of them for all.
            for name in &names {
                state.tenants.entry(name.clone()).or_default();
            }
        }
        let looked: Vec<Result<(), Failure>> = stream::iter(names)
            .map(|name| async move { self.refresh_one(engine, &name).await })
            .buffer_unordered(TENANTS_AT_ONCE)
            .collect()
            .await;
        if *scope == OverviewScope::All {
            self.state.write().all_looked = Some(Instant::now());
        }
        looked.into_iter().collect()
    }

    async fn refresh_one(&self, engine: &Engine, name: &Tenant) -> Result<(), Failure> {
        let store = match engine.tenant(name).await {
            Ok(store) => store,
            Err(failure) if matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Deleted) => {
                let gone = KeptTenant { looked: Some(Instant::now()), ..KeptTenant::default() };
                self.state.write().tenants.insert(name.clone(), gone);
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let survey = self.state.write().tenants.entry(name.clone()).or_default().survey.take();
        let mut survey = survey.unwrap_or_default();
        let changed = survey.look(&store).await;
        let is_new = matches!(changed, Ok(true)) || survey.looked_at_ms() == 0;
        let overview = changed.is_ok().then(|| Arc::new(TenantOverview::of(name, &survey)));
        let survey = self.saved(name, &store, survey, is_new).await;
        let mut state = self.state.write();
        let kept = state.tenants.entry(name.clone()).or_default();
        kept.survey = survey;
        if let Some(overview) = overview {
            kept.overview = Some(overview);
            kept.looked = Some(Instant::now());
        }
        drop(state);
        changed.map(drop).map_err(Failure::from)
    }

    /// Leaves a summary in the cache, unless that was done a moment ago.
    async fn saved(
        &self,
        name: &Tenant,
        store: &TenantStore,
        survey: Survey,
        is_new: bool,
    ) -> Option<Survey> {
        let due = {
            let mut state = self.state.write();
            let kept = state.tenants.entry(name.clone()).or_default();
            let due = is_new && kept.saved.is_none_or(|saved| saved.elapsed() >= SAVE_AFTER);
            if due {
                kept.saved = Some(Instant::now());
            }
            due
        };
        if !due {
            return Some(survey);
        }
        let store = store.clone();
        let saving = tokio::task::spawn_blocking(move || {
            survey.save(&store);
            survey
        });
        saving.await.ok()
    }
}
