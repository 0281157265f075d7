//! `pstore retention`, and what a snapshot removes after it.

use engine::{
    Engine,
    failure::Failure,
    names::Scope,
    text::{size::plural, time},
    turns::Turns,
};
use serde_json::{Value, json};
use store::{
    content::TenantStore,
    format::event::Actor,
    name::{Lineage, Tenant},
    ops::{
        retention::{self, Applied, Decision, Limits, Snapshot, Verdict},
        write::snapshot::Report,
    },
};

use crate::{
    answer::Answer,
    args::{RetentionArgs, RetentionVerb},
    table::{Align::Left, Table},
};

pub(super) async fn run(engine: Engine, args: &RetentionArgs) -> Result<Answer, Failure> {
    let (scope, actor) = match &args.verb {
        RetentionVerb::Plan(args) => (&args.scope, None),
        RetentionVerb::Apply(args) => (&args.scope, Some(engine.actor(&args.actor.name()))),
    };
    let named = scope.as_ref().map(|scope| match scope {
        Scope::Tenant(tenant) => tenant,
        Scope::Profile(name) => &name.tenant,
    });
    let mut turns = Turns::of(&engine, named, "retention plan").await?;
    let mut lines = Vec::new();
    for tenant in turns.tenants() {
        let decided = of_tenant(&engine, &tenant, scope.as_ref(), actor.as_ref()).await;
        lines.extend(turns.took(&tenant, decided)?.into_iter().flatten());
    }
    let count = |decision: &str| lines.iter().filter(|line| line.decision == decision).count() as u64;
    let document = json!({
        "outcome": if actor.is_some() { "applied" } else { "planned" },
        "snapshots": lines.iter().map(Line::json).collect::<Vec<Value>>(),
        "kept": lines.len() as u64 - count("remove") - count("removed"),
        "removed": count("remove") + count("removed"),
        "failed": turns.failed(),
    });
    let mut table = Table::new(&[
        ("PROFILE", Left),
        ("SNAPSHOT", Left),
        ("STORED (UTC)", Left),
        ("DECISION", Left),
        ("BECAUSE", Left),
    ]);
    lines.iter().for_each(|line| table.row(line.cells()));
    let removed = count("remove") + count("removed");
    let done = if actor.is_some() { "removed" } else { "would be removed" };
    let text = format!("{}\n{} {done}\n", table.render(), plural(removed, "snapshot", "snapshots"));
    Ok(Answer {
        verdict: turns.verdict().map(|failure| (failure.kind, failure.message)),
        ..Answer::new(document, text)
    })
}

struct Line {
    snapshot: Snapshot,
    decision: &'static str,
    rule: &'static str,
    because: String,
}

impl Line {
    fn of(decision: &Decision) -> Self {
        let (word, rule, because) = match &decision.verdict {
            Verdict::Keep(why) => ("keep", why.word(), why.to_string()),
            Verdict::Remove(rule) => ("remove", rule.word(), rule.to_string()),
        };
        Self { snapshot: decision.snapshot.clone(), decision: word, rule, because }
    }

    fn json(&self) -> Value {
        let Snapshot { lineage, record, sha256_prefix, captured_at_ms, stored_at_ms, .. } = &self.snapshot;
        json!({
            "tenant_id": lineage.name.tenant,
            "profile_id": lineage.name.profile,
            "chrome_major_version": lineage.chrome_major,
            "record": record,
            "sha256_prefix": sha256_prefix,
            "captured_at_ms": captured_at_ms,
            "stored_at_ms": stored_at_ms,
            "decision": self.decision,
            "rule": self.rule,
            "because": self.because,
        })
    }

    fn cells(&self) -> Vec<String> {
        let Snapshot { lineage, sha256_prefix, stored_at_ms, .. } = &self.snapshot;
        vec![
            lineage.to_string(),
            sha256_prefix.clone(),
            time::utc(*stored_at_ms),
            self.decision.to_owned(),
            self.because.clone(),
        ]
    }
}

/// Plans for a tenant or one profile of it, and does it if there is somebody to do it.
async fn of_tenant(
    engine: &Engine,
    tenant: &Tenant,
    scope: Option<&Scope>,
    actor: Option<&Actor>,
) -> Result<Vec<Line>, Failure> {
    let store = match actor {
        Some(_) => engine.tenant_to_change(tenant).await?,
        None => engine.tenant(tenant).await?,
    };
    if let Some(Scope::Profile(name)) = scope {
        engine.require_profile(&store, name).await?;
    }
    let survey = retention::survey(&store).await?;
    let limits = engine.settings.tenant(tenant).retention.limits;
    let policy = |lineage: &Lineage| engine.settings.retention(&lineage.name).policy;
    let decisions = retention::plan(survey, policy, limits);
    let meant = |decision: &Decision| match scope {
        Some(Scope::Profile(name)) => decision.snapshot.lineage.name == *name,
        _ => true,
    };
    let decisions: Vec<Decision> = decisions.into_iter().filter(meant).collect();
    let mut lines: Vec<Line> = decisions.iter().map(Line::of).collect();
    let Some(actor) = actor else { return Ok(lines) };
    for (snapshot, applied) in retention::apply(&store, actor, &decisions).await? {
        let Some(line) = lines.iter_mut().find(|line| line.snapshot.record == snapshot.record) else {
            continue;
        };
        (line.decision, line.because) = match applied {
            Applied::Removed => ("removed", std::mem::take(&mut line.because)),
            Applied::Kept(needed) => ("kept", needed.to_string()),
            Applied::Changed => ("kept", "somebody changed it at the same time".to_owned()),
        };
    }
    Ok(lines)
}

/// Removes what the profile's rules no longer keep, now that a new snapshot is durable and
/// current. What fails here is only told: the next snapshot, or `pstore retention apply`,
/// does it.
pub(super) async fn prune(engine: &Engine, store: &TenantStore, lineage: &Lineage, report: &Report) {
    let policy = engine.settings.retention(&lineage.name).policy;
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
        Ok(count) => engine.say(&format!(
            "{} removed, as the retention rules say; `pstore gc` frees the space",
            plural(count as u64, "older snapshot", "older snapshots")
        )),
        Err(error) => engine.warn(&format!("old snapshots could not be removed: {error}")),
    }
}
