//! `keep` removes the snapshots of containers beyond the limits: by age first, then by count, the oldest first.

use std::time::Duration;

use engine::{Engine, failure::Failure};
use store::{
    content::TenantStore,
    format::event::Actor,
    name::{Lineage, LineageKind},
    ops::retention::{self, Applied, Limits, Policy, Survey},
};

/// How old a snapshot may be.
pub(super) const MAX_AGE_DAYS: u64 = 7;
/// How many snapshots a container may have.
pub(super) const MAX_COUNT: u64 = 10;
/// How many snapshots the containers of a tenant may have together.
pub(super) const TENANT_MAX_COUNT: u64 = 100;
/// How many bytes the snapshots of a tenant's containers may take in the store.
pub(super) const TENANT_MAX_BYTES: u64 = 10_000_000_000;

const DAY: Duration = Duration::from_secs(86_400);

/// The rules of a container's snapshots: those that the settings have for it, else the ordinary ones.
pub(super) fn policy(engine: &Engine, lineage: &Lineage) -> Policy {
    let configured = engine.settings.retention(&lineage.name).policy;
    match configured.removes() {
        true => configured,
        false => ordinary(),
    }
}

fn ordinary() -> Policy {
    let max_age = Some(DAY * u32::try_from(MAX_AGE_DAYS).unwrap_or(u32::MAX));
    Policy { max_age, max_count: Some(MAX_COUNT), ..Policy::default() }
}

/// The limits of all containers of a tenant: those of the settings, else the ordinary ones.
pub(super) fn limits(engine: &Engine, lineage: &Lineage) -> Limits {
    let configured = engine.settings.tenant(&lineage.name.tenant).retention.limits;
    Limits {
        max_count: configured.max_count.or(Some(TENANT_MAX_COUNT)),
        max_bytes: configured.max_bytes.or(Some(TENANT_MAX_BYTES)),
    }
}

/// Removes what the limits do not keep, now that a new snapshot is durable and current. Says what is gone. A failure is
/// only told: the next snapshot does it.
pub(super) async fn apply(engine: &Engine, tenant: &TenantStore, of: &Lineage) -> Vec<String> {
    match remove(engine, tenant, of).await {
        Ok(removed) => removed,
        Err(failure) => {
            engine.warn(&format!("old snapshots could not be removed: {}", failure.message));
            Vec::new()
        }
    }
}

async fn remove(engine: &Engine, tenant: &TenantStore, of: &Lineage) -> Result<Vec<String>, Failure> {
    let survey = of_containers(retention::survey(tenant).await?);
    let decisions = retention::plan(survey, |lineage| policy(engine, lineage), limits(engine, of));
    let actor = Actor { run_id: "retention".to_owned(), ..Actor::default() };
    let applied = retention::apply(tenant, &actor, &decisions).await?;
    let gone = applied.iter().filter(|(_, done)| matches!(done, Applied::Removed));
    Ok(gone.map(|(snapshot, _)| format!("{}@{}", snapshot.lineage.name, snapshot.sha256_prefix)).collect())
}

/// The snapshots of containers alone: others have rules of their own.
fn of_containers(survey: Survey) -> Survey {
    let is_container = |lineage: &Lineage| lineage.chrome_major.kind() == LineageKind::Container;
    let snapshots = survey.snapshots.into_iter().filter(|snapshot| is_container(&snapshot.lineage));
    Survey { snapshots: snapshots.collect(), ..survey }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_based_cleanup_is_by_seven_days_and_count_based_by_ten_of_a_container() {
        let policy = ordinary();
        assert_eq!(policy.max_age, Some(Duration::from_secs(7 * 86_400)));
        assert_eq!(policy.max_count, Some(10));
        // Nothing else removes anything: not by reason, and not those that somebody asked for.
        assert_eq!(policy, Policy { max_age: policy.max_age, max_count: Some(10), ..Policy::default() });
    }
}
