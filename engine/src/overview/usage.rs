//! `usage` tells how many bytes each tenant stores, day by day.
//!
//! A day has the bytes that were stored for its snapshots and for those before, as far as the snapshots still exist.
//! What a collection is still to free is not part of it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use store::name::Tenant;

use super::{
    facts::{TenantFacts, TenantOverview},
    page_of::PageOf,
};

const DAY_MS: u64 = 86_400_000;

/// Chooses the days.
#[derive(Clone, Copy, Debug)]
pub struct UsageQuery {
    /// How many days, the last of them today.
    pub days: u64,
    /// Which part of the tenants.
    pub page: PageOf,
    /// By this host's clock.
    pub now_ms: u64,
}

/// The stored bytes of a tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TenantUsage {
    /// The tenant.
    pub tenant_id: Tenant,
    /// How many profiles have snapshots.
    pub profiles: u64,
    /// How many snapshots there are.
    pub snapshots: u64,
    /// The bytes that were stored for them.
    pub stored_bytes: u64,
    /// The bytes of all their files.
    pub uncompressed_size_bytes: u64,
    /// The stored bytes at the end of each day, the oldest first.
    pub daily_stored_bytes: Vec<u64>,
}

/// The stored bytes of many tenants.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UsagePage {
    /// When the store was listed, by the server's clock: that of the tenant that was listed first.
    pub as_of_ms: u64,
    /// Whether every tenant was listed at least once.
    pub complete: bool,
    /// When the first of the days began.
    pub first_day_ms: u64,
    /// The stored bytes of all tenants at the end of each day, the oldest first.
    pub daily_stored_bytes: Vec<u64>,
    /// The bytes that all tenants store.
    pub stored_bytes: u64,
    /// The bytes of all files of their snapshots.
    pub uncompressed_size_bytes: u64,
    /// How many tenants there are.
    pub total: u64,
    /// The tenants, those that store most first.
    pub tenants: Vec<TenantUsage>,
    /// Asks for the rows that follow, as `skip`; none if these are the last.
    pub next: Option<u64>,
}

impl UsagePage {
    /// Of these tenants.
    pub fn of(tenants: &[Arc<TenantOverview>], complete: bool, query: &UsageQuery) -> Self {
        let last = query.now_ms / DAY_MS;
        let first = last.saturating_sub(query.days.saturating_sub(1));
        let days = usize::try_from(last - first + 1).unwrap_or(1);
        let mut total = vec![0; days];
        let mut sum = TenantFacts::default();
        for tenant in tenants {
            sum.stored_bytes += tenant.totals.stored_bytes;
            sum.size_bytes += tenant.totals.size_bytes;
            total.iter_mut().zip(daily(tenant, first, days)).for_each(|(total, own)| *total += own);
        }
        let mut sorted: Vec<&Arc<TenantOverview>> = tenants.iter().collect();
        sorted.sort_by_key(|tenant| std::cmp::Reverse(tenant.totals.stored_bytes));
        let (shown, next) = query.page.cut(sorted);
        Self {
            as_of_ms: tenants.iter().map(|tenant| tenant.looked_at_ms).min().unwrap_or(query.now_ms),
            complete,
            first_day_ms: first * DAY_MS,
            daily_stored_bytes: total,
            stored_bytes: sum.stored_bytes,
            uncompressed_size_bytes: sum.size_bytes,
            total: tenants.len() as u64,
            tenants: shown.into_iter().map(|tenant| told(tenant, first, days)).collect(),
            next,
        }
    }
}

fn told(tenant: &TenantOverview, first: u64, days: usize) -> TenantUsage {
    TenantUsage {
        tenant_id: tenant.tenant.clone(),
        profiles: tenant.totals.profiles,
        snapshots: tenant.totals.snapshots,
        stored_bytes: tenant.totals.stored_bytes,
        uncompressed_size_bytes: tenant.totals.size_bytes,
        daily_stored_bytes: daily(tenant, first, days),
    }
}

/// The sum at the end of each day.
fn daily(tenant: &TenantOverview, first: u64, days: usize) -> Vec<u64> {
    let before: u64 = tenant.days.range(..first).map(|(_, day)| day.stored_bytes).sum();
    let mut sums = Vec::with_capacity(days);
    let mut sum = before;
    for day in first..first + days as u64 {
        sum += tenant.days.get(&day).map_or(0, |day| day.stored_bytes);
        sums.push(sum);
    }
    sums
}
