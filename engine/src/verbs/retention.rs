//! `retention` decides which snapshots stay, by the rules of the settings, and removes the others.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    content::TenantStore,
    format::event::Actor,
    id::RecordId,
    name::{Lineage, Tenant},
    ops::{
        retention::{self, Applied, Decision, Limits, Verdict},
        write::snapshot::Report,
    },
};

use crate::{
    Engine,
    each_tenant::{EachTenant, FailedTurn},
    failure::Failure,
    names::{ActorName, Scope},
    outcome::{LineageFields, Outcome},
    text::size::plural,
};

/// Decides about the snapshots of a tenant, of one profile, or of all.
#[derive(Clone, Debug, Default)]
pub struct RetentionRequest {
    /// A tenant or a profile; without it, all tenants.
    pub scope: Option<Scope>,
    /// Who removes the snapshots that the rules do not keep; without anybody, nothing is removed.
    pub apply: Option<ActorName>,
}

/// Whether snapshots were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// The rules were applied.
    Applied,
    /// The rules were only evaluated.
    Planned,
}

/// The decision about a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It would stay.
    Keep,
    /// It would be deleted.
    Remove,
    /// It was deleted.
    Removed,
    /// It was to be deleted, and stayed.
    Kept,
}

impl Fate {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Remove => "remove",
            Self::Removed => "removed",
            Self::Kept => "kept",
        }
    }

    fn is_gone(self) -> bool {
        matches!(self, Self::Remove | Self::Removed)
    }
}

/// A snapshot and what is decided about it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DecidedSnapshot {
    /// The profile of the snapshot.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// Its record.
    pub record: RecordId,
    /// The first digits of its id.
    pub sha256_prefix: String,
    /// When it was captured, by the clock of the host.
    pub captured_at_ms: u64,
    /// When it was stored, by the clock of the store.
    pub stored_at_ms: u64,
    /// The decision.
    pub decision: Fate,
    /// The rule that decided.
    pub rule: String,
    /// Why, in words.
    pub because: String,
}

/// The decision about each snapshot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RetentionOutcome {
    /// Whether snapshots were removed.
    pub outcome: Retention,
    /// Each snapshot.
    pub snapshots: Vec<DecidedSnapshot>,
    /// How many stay.
    pub kept: u64,
    /// How many are deleted.
    pub removed: u64,
    /// Tenants that failed.
    pub failed: Vec<FailedTurn>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for RetentionOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}

impl Engine {
    /// Decides which snapshots stay, and removes the others if that is wanted.
    #[crate::boxed]
    pub async fn retention(&self, request: &RetentionRequest) -> Result<RetentionOutcome, Failure> {
        let actor = request.apply.as_ref().map(|name| self.actor(name));
        let named = request.scope.as_ref().map(|scope| match scope {
            Scope::Tenant(tenant) => tenant,
            Scope::Profile(name) => &name.tenant,
        });
        let mut turns = EachTenant::of(self, named, "retention plan").await?;
        let mut snapshots = Vec::new();
        for tenant in turns.tenants() {
            let decided = self.decide(&tenant, request.scope.as_ref(), actor.as_ref()).await;
            snapshots.extend(turns.took(&tenant, decided)?.into_iter().flatten());
        }
        let removed = snapshots.iter().filter(|snapshot| snapshot.decision.is_gone()).count() as u64;
        Ok(RetentionOutcome {
            outcome: if actor.is_some() { Retention::Applied } else { Retention::Planned },
            kept: snapshots.len() as u64 - removed,
            removed,
            snapshots,
            verdict: turns.verdict(),
            failed: turns.into_failed(),
        })
    }

    /// Plans for a tenant or one profile of it, and does it if there is somebody to do it.
    async fn decide(
        &self,
        tenant: &Tenant,
        scope: Option<&Scope>,
        actor: Option<&Actor>,
    ) -> Result<Vec<DecidedSnapshot>, Failure> {
        let store = match actor {
            Some(_) => self.tenant_to_change(tenant).await?,
            None => self.tenant(tenant).await?,
        };
        if let Some(Scope::Profile(name)) = scope {
            self.require_profile(&store, name).await?;
        }
        let survey = retention::survey(&store).await?;
        let limits = self.settings.tenant(tenant).retention.limits;
        let policy = |lineage: &Lineage| self.settings.retention(&lineage.name).policy;
        let decisions = retention::plan(survey, policy, limits);
        let meant = |decision: &Decision| match scope {
            Some(Scope::Profile(name)) => decision.snapshot.lineage.name == *name,
            _ => true,
        };
        let decisions: Vec<Decision> = decisions.into_iter().filter(meant).collect();
        let mut snapshots: Vec<DecidedSnapshot> = decisions.iter().map(DecidedSnapshot::from).collect();
        let Some(actor) = actor else { return Ok(snapshots) };
        for (snapshot, applied) in retention::apply(&store, actor, &decisions).await? {
            let Some(line) = snapshots.iter_mut().find(|line| line.record == snapshot.record) else {
                continue;
            };
            (line.decision, line.because) = match applied {
                Applied::Removed => (Fate::Removed, std::mem::take(&mut line.because)),
                Applied::Kept(needed) => (Fate::Kept, needed.to_string()),
                Applied::Changed => (Fate::Kept, "somebody changed it at the same time".to_owned()),
            };
        }
        Ok(snapshots)
    }

    /// Removes what the profile's rules no longer keep, now that a new snapshot is durable and
    /// current. A failure is only told: the next snapshot, or `pstore retention apply`, does it.
    #[crate::boxed]
    pub async fn prune(&self, store: &TenantStore, lineage: &Lineage, report: &Report) {
        let policy = self.settings.retention(&lineage.name).policy;
        if !policy.removes() || report.held_back.is_some() {
            return;
        }
        let actor = Actor { run_id: "retention".to_owned(), ..Actor::default() };
        let pruned = async {
            let survey = retention::lineage(store, lineage).await?;
            let decisions = retention::plan(survey, |_| policy.clone(), Limits::default());
            let applied = retention::apply(store, &actor, &decisions).await?;
            Ok::<_, store::Error>(applied.iter().filter(|(_, done)| matches!(done, Applied::Removed)).count())
        };
        match pruned.await {
            Ok(0) => {}
            Ok(count) => self.say(&format!(
                "{} removed, as the retention rules say; `pstore gc` frees the space",
                plural(count as u64, "older snapshot", "older snapshots")
            )),
            Err(error) => self.warn(&format!("old snapshots could not be removed: {error}")),
        }
    }
}

impl From<&Decision> for DecidedSnapshot {
    fn from(decision: &Decision) -> Self {
        let snapshot = &decision.snapshot;
        let (fate, rule, because) = match &decision.verdict {
            Verdict::Keep(why) => (Fate::Keep, why.word(), why.to_string()),
            Verdict::Remove(rule) => (Fate::Remove, rule.word(), rule.to_string()),
        };
        Self {
            lineage: (&snapshot.lineage).into(),
            record: snapshot.record,
            sha256_prefix: snapshot.sha256_prefix.clone(),
            captured_at_ms: snapshot.captured_at_ms,
            stored_at_ms: snapshot.stored_at_ms,
            decision: fate,
            rule: rule.to_owned(),
            because,
        }
    }
}
