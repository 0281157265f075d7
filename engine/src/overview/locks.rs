//! `locks` lists the locks of many profiles, with their holders and the time that is left.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    facts::{LockFacts, TenantOverview},
    page_of::PageOf,
};
use crate::{outcome::LineageFields, verbs::lock::LockState};

/// A lock that is not free.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OverviewLock {
    /// The run that holds it.
    pub holder_run_id: String,
    /// The host of the run.
    pub holder_host: String,
    /// Which run of the host it is.
    pub holder_host_run_id: String,
    /// When it was taken, by the holder's clock.
    pub acquired_at_ms: u64,
    /// How often it was renewed.
    pub renewal_count: u64,
    /// `held`, or `expired` if nobody has renewed it in time.
    pub state: LockState,
    /// When it ends unless it is renewed, by the store's clock.
    pub expires_at_ms: u64,
    /// How long it holds unless it is renewed.
    pub remaining_ms: u64,
}

/// A lock, and whose it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeldLock {
    /// The profile of the lock.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The lock.
    #[serde(flatten)]
    pub lock: OverviewLock,
}

/// The locks of many profiles.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LockPage {
    /// When the store was listed, by the server's clock: that of the tenant that was listed first.
    pub as_of_ms: u64,
    /// Whether every tenant was listed at least once.
    pub complete: bool,
    /// How many locks there are.
    pub total: u64,
    /// The locks, those that end first before the others.
    pub locks: Vec<HeldLock>,
    /// Asks for the rows that follow, as `skip`; none if these are the last.
    pub next: Option<u64>,
}

impl LockPage {
    /// Of these tenants.
    pub fn of(tenants: &[Arc<TenantOverview>], complete: bool, page: PageOf, now_ms: u64) -> Self {
        let mut locks: Vec<(&TenantOverview, &LockFacts)> = tenants
            .iter()
            .flat_map(|tenant| tenant.locks.iter().map(move |lock| (&**tenant, lock)))
            .collect();
        locks.sort_by_key(|(_, lock)| lock.expires_at_ms());
        let total = locks.len() as u64;
        let (shown, next) = page.cut(locks);
        Self {
            as_of_ms: tenants.iter().map(|tenant| tenant.looked_at_ms).min().unwrap_or(now_ms),
            complete,
            total,
            locks: shown.into_iter().map(|(tenant, lock)| lock.told(tenant, now_ms)).collect(),
            next,
        }
    }
}

impl LockFacts {
    fn expires_at_ms(&self) -> u64 {
        self.written_at_ms.saturating_add(self.lock.ttl_ms)
    }

    fn told(&self, tenant: &TenantOverview, now_ms: u64) -> HeldLock {
        let lineage = LineageFields {
            tenant_id: tenant.tenant.clone(),
            profile_id: self.profile.clone(),
            chrome_major_version: self.chrome_major,
        };
        HeldLock { lineage, lock: self.fields(now_ms) }
    }

    pub(super) fn fields(&self, now_ms: u64) -> OverviewLock {
        let expires_at_ms = self.expires_at_ms();
        OverviewLock {
            holder_run_id: self.lock.holder_run_id.to_string(),
            holder_host: self.lock.holder_host.to_string(),
            holder_host_run_id: self.lock.holder_host_run_id.to_string(),
            acquired_at_ms: self.lock.acquired_at_ms,
            renewal_count: self.lock.renewal_count,
            state: if expires_at_ms < now_ms { LockState::Expired } else { LockState::Held },
            expires_at_ms,
            remaining_ms: expires_at_ms.saturating_sub(now_ms),
        }
    }
}
