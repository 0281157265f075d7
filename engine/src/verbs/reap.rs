//! `reap` removes locks that expired some time ago.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use store::{format::event::Actor, name::Tenant, ops::reap};
use tokio::time::Instant;

use crate::{
    Engine,
    each_tenant::{EachTenant, FailedTurn},
    failure::Failure,
    names::ActorName,
    outcome::{LineageFields, Outcome},
};

/// Takes away the locks that expired longer ago than the grace.
#[derive(Clone, Debug)]
pub struct ReapRequest {
    /// Only this tenant's.
    pub tenant: Option<Tenant>,
    /// The actor.
    pub actor: ActorName,
    /// How long a lock must have been expired.
    pub grace: Duration,
    /// Whether it only tells what it would do.
    pub is_plan: bool,
}

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sweep {
    /// Every lock was checked.
    Swept,
    /// Every lock was checked, and none was removed.
    Planned,
}

/// A lock that was taken away, or would be.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EvictedLock {
    /// The profile of the lock.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The run that held it.
    pub holder_run_id: String,
    /// The host that held it.
    pub holder_host: String,
    /// Which run of the host it was.
    pub holder_host_run_id: String,
    /// Why it was taken away.
    pub reason: String,
    /// How long ago it expired.
    pub expired_for_ms: u64,
}

/// The locks that were checked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReapOutcome {
    /// How the sweep ended.
    pub outcome: Sweep,
    /// How many tenants were checked.
    pub tenants: u64,
    /// The locks that were taken away, or would be.
    pub evicted: Vec<EvictedLock>,
    /// How many are held.
    pub left: u64,
    /// How many are free.
    pub free: u64,
    /// Tenants and locks that failed.
    pub failed: Vec<FailedTurn>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for ReapOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}

impl Engine {
    /// Takes away locks that expired some time ago.
    #[crate::boxed]
    pub async fn reap(&self, request: &ReapRequest) -> Result<ReapOutcome, Failure> {
        let actor = (!request.is_plan).then(|| self.actor(&request.actor));
        let mut turns = EachTenant::of(self, request.tenant.as_ref(), "reap").await?;
        let mut report = reap::Report::default();
        for tenant in turns.tenants() {
            let swept = self.sweep(&tenant, actor.as_ref(), request.grace).await;
            let Some(swept) = turns.took(&tenant, swept)? else { continue };
            for (lineage, error) in swept.failed {
                turns.pass_over(&tenant, format!("the lock of {lineage}"), error.into());
            }
            report.evicted.extend(swept.evicted);
            report.left += swept.left;
            report.free += swept.free;
        }
        let evicted = report.evicted.iter().map(|(lineage, eviction)| EvictedLock {
            lineage: lineage.into(),
            holder_run_id: eviction.holder.run_id.clone(),
            holder_host: eviction.holder.host.clone(),
            holder_host_run_id: eviction.holder.host_run_id.clone(),
            reason: eviction.reason.as_str().to_owned(),
            expired_for_ms: eviction.expired_for.as_millis() as u64,
        });
        Ok(ReapOutcome {
            outcome: if request.is_plan { Sweep::Planned } else { Sweep::Swept },
            tenants: turns.tenants().len() as u64,
            evicted: evicted.collect(),
            left: report.left,
            free: report.free,
            verdict: turns.verdict(),
            failed: turns.into_failed(),
        })
    }

    /// Repeats the sweep at intervals of `every`, until `stop` ends; it finishes a sweep that has begun. It reports a
    /// sweep that fails, and goes on. Returns the outcome of the last one.
    pub async fn reap_every(
        &self,
        request: &ReapRequest,
        every: Duration,
        stop: impl Future<Output = ()>,
    ) -> Result<ReapOutcome, Failure> {
        let mut stop = std::pin::pin!(stop);
        loop {
            let next = Instant::now() + every;
            let swept = self.reap(request).await;
            for lock in swept.iter().flat_map(|outcome| &outcome.evicted) {
                let (of, holder) = (lock.lineage.lineage(), &lock.holder_run_id);
                self.say(&format!("evicted {of}: run {holder:?} on {:?}", lock.holder_host));
            }
            let problem = swept.as_ref().map_or_else(|failure| Some(failure.clone()), ReapOutcome::verdict);
            if let Some(failure) = problem {
                self.warn(&failure.message);
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = &mut stop => return swept,
            }
        }
    }

    /// Sweeps a tenant, or tells what somebody would.
    async fn sweep(
        &self,
        tenant: &Tenant,
        actor: Option<&Actor>,
        grace: Duration,
    ) -> Result<reap::Report, Failure> {
        let store = match actor {
            Some(_) => self.tenant_to_change(tenant).await?,
            None => self.tenant(tenant).await?,
        };
        Ok(reap::reap(&store, actor, grace).await?)
    }
}
