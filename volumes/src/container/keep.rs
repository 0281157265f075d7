//! `keep` removes the snapshots of containers beyond the limits: by age first, then by count, the oldest first.

use std::time::Duration;

use engine::{Engine, failure::Failure};
use store::{
    ErrorKind,
    catalog::records,
    content::TenantStore,
    format::event::Actor,
    name::{Lineage, LineageKind, Tenant},
    ops::retention::{self, Applied, Limits, Policy, Survey},
};

use super::list::of_tenant;

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
pub(super) fn limits(engine: &Engine, tenant: &Tenant) -> Limits {
    let configured = engine.settings.tenant(tenant).retention.limits;
    Limits {
        max_count: configured.max_count.or(Some(TENANT_MAX_COUNT)),
        max_bytes: configured.max_bytes.or(Some(TENANT_MAX_BYTES)),
    }
}

/// Fails if these would be the first snapshots of a name, and the tenant has as many names as it may have snapshots: each name keeps
/// its current one, whatever the limits say.
pub(super) async fn require_room(
    engine: &Engine,
    tenant: &TenantStore,
    lineage: &Lineage,
) -> Result<(), Failure> {
    let Some(most) = limits(engine, &lineage.name.tenant).max_count else { return Ok(()) };
    // All names are looked at only for a new one.
    if records::lineages(tenant, &lineage.name).await?.contains(lineage) {
        return Ok(());
    }
    let count = of_tenant(tenant).await?.len() as u64;
    if count < most {
        return Ok(());
    }
    let message = format!(
        "{} has snapshots of containers under {count} names, and may have {most}: {} is not one of them",
        tenant.tenant, lineage.name
    );
    Err(Failure::new(ErrorKind::QuotaExceeded, message)
        .hint("give one of these names; the setting `retention.tenant_max_count` of the tenant allows more"))
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
    let decisions =
        retention::plan(survey, |lineage| policy(engine, lineage), limits(engine, &of.name.tenant));
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
