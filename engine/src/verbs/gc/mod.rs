//! `gc` deletes the packs that nothing needs, or explains why a pack or snapshot is kept.

mod collection;
mod explanation;

use std::{path::PathBuf, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error,
    catalog::feed,
    format::condemned::Phase,
    name::Tenant,
    ops::gc::{Collector, Options, Plan, Stopped},
};

pub use self::{
    collection::{
        CauseTally, Collection, CollectionStep, CondemnationCause, CondemnedDocument, PackTally,
        ProfileTally, RepackedTally, StrandedSession,
    },
    explanation::{ExplainedPack, Explanation, NamingDocument, Root, RootState},
};
use crate::{
    Engine,
    each_tenant::{EachTenant, FailedTurn},
    failure::{self, Failure},
    location::Purpose,
    observer::{Collected, Observation},
    outcome::Outcome,
    text::size,
};

/// Collects the garbage of one tenant or of all.
#[derive(Clone, Debug)]
pub struct GcRequest {
    /// Only this tenant.
    pub tenant: Option<Tenant>,
    /// Whether only a plan is made.
    pub is_plan: bool,
    /// How long a condemned pack waits.
    pub grace: Duration,
    /// How much of a pack may be of no use before the rest is moved.
    pub max_unused_percent: u64,
    /// How much memory it may take, about.
    pub memory_bytes: u64,
    /// Whether it waits until all is gone.
    pub waits: bool,
}

/// Asks why a pack or a snapshot of a tenant is still there.
#[derive(Clone, Debug)]
pub struct GcExplainRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// A pack, or the first digits of a snapshot's id.
    pub subject: String,
}

/// The words for what a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GcChange {
    /// Nothing was written.
    Planned,
    /// The garbage was collected.
    Collected,
    /// Only an explanation was asked for.
    Explained,
}

/// The phases of a document that condemns packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CondemnedPhase {
    /// Its packs are condemned.
    Condemned,
    /// The writers are listed that must end before it goes on.
    Armed,
    /// Its packs are being deleted.
    Sweep,
    /// Its packs are deleted.
    Swept,
}

impl CondemnedPhase {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Condemned => "condemned",
            Self::Armed => "armed",
            Self::Sweep => "sweep",
            Self::Swept => "swept",
        }
    }
}

impl From<Phase> for CondemnedPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Condemned => Self::Condemned,
            Phase::Armed => Self::Armed,
            Phase::Sweep => Self::Sweep,
            Phase::Swept => Self::Swept,
        }
    }
}

/// The garbage of each tenant, or an explanation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GcOutcome {
    /// Whether it was planned, done, or explained.
    pub outcome: GcChange,
    /// Each tenant.
    pub tenants: Vec<Collection>,
    /// Tenants that failed.
    pub failed: Vec<FailedTurn>,
    /// Why a pack or snapshot is kept, if that was asked for.
    pub explanation: Option<Explanation>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for GcOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}

impl Engine {
    /// Collects garbage, or plans to.
    #[crate::boxed(?Send)]
    pub async fn gc(&self, request: &GcRequest) -> Result<GcOutcome, Failure> {
        let mut turns = EachTenant::of(self, request.tenant.as_ref(), "gc").await?;
        let mut plans: Vec<Plan> = Vec::new();
        for tenant in turns.tenants() {
            let collected = self.collect(&tenant, request).await;
            if !request.is_plan {
                let freed_bytes = collected.as_ref().map_or(0, |plan| plan.deleted.bytes);
                let told = Collected { is_done: collected.is_ok(), freed_bytes };
                self.observer.observe(&Observation::Collected(told));
            }
            plans.extend(turns.took(&tenant, collected)?);
        }
        if request.tenant.is_none() && !request.is_plan {
            let store = self.store(Purpose::Change).await?;
            if let Some(now) = store.now().await {
                feed::sweep(store.bucket(), None, now).await?;
            }
        }
        Ok(GcOutcome {
            outcome: if request.is_plan { GcChange::Planned } else { GcChange::Collected },
            tenants: plans.iter().map(Collection::from).collect(),
            verdict: turns.verdict(),
            failed: turns.into_failed(),
            explanation: None,
        })
    }

    /// Tells why a pack or a snapshot is still there.
    #[crate::boxed(?Send)]
    pub async fn gc_explain(&self, request: &GcExplainRequest) -> Result<GcOutcome, Failure> {
        Ok(GcOutcome {
            outcome: GcChange::Explained,
            tenants: Vec::new(),
            failed: Vec::new(),
            explanation: Some(explanation::explain(self, request).await?),
            verdict: None,
        })
    }

    async fn collect(&self, tenant: &Tenant, request: &GcRequest) -> Result<Plan, Failure> {
        let options = Options {
            max_unused_percent: request.max_unused_percent,
            quota_bytes: self.settings.tenant(tenant).quota_bytes,
            memory_bytes: request.memory_bytes,
            ..Options::after(request.grace)
        };
        let scratch: PathBuf = self.cache_root.clone().unwrap_or_else(std::env::temp_dir);
        let purpose = if request.is_plan { Purpose::Read } else { Purpose::Change };
        let store = self.tenant_or_tombstone(tenant, purpose).await?;
        let events = (Arc::clone(&store.bucket), store.clock.now());
        let collector = Collector::new(store, options).with_scratch(scratch);
        if request.is_plan {
            return collector.plan().await.map_err(|error| stopped(tenant, error, 0));
        }
        let plan = if request.waits { collector.run_through().await } else { collector.run().await };
        if let (bucket, Some(now)) = events {
            feed::sweep(&bucket, Some(tenant), now).await.map_err(|error| stopped(tenant, error, 0))?;
        }
        plan.map_err(|Stopped { error, condemned }| stopped(tenant, error, condemned.packs))
    }
}

/// Why a tenant's collection ended before its time; it had condemned so many packs by then.
fn stopped(tenant: &Tenant, error: Error, condemned: u64) -> Failure {
    let remedy = match &error {
        Error::Damaged { object, .. } => failure::record_remedy(object),
        _ => None,
    };
    let remedy = remedy.unwrap_or_else(|| format!("`pstore verify {tenant}` says what is damaged"));
    let hint = format!("{}; {remedy}", done(tenant, condemned));
    Failure::from(error).hint(hint)
}

fn done(tenant: &Tenant, condemned: u64) -> String {
    match condemned {
        0 => format!("nothing was condemned in {tenant}"),
        packs => {
            let packs = size::plural(packs, "pack was", "packs were");
            format!("{packs} condemned in {tenant} before it stopped, and the next run goes on")
        }
    }
}
