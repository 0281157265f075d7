//! `profiles` lists the profiles of many tenants, those that need somebody first.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use store::name::{ChromeMajor, Profile, Tenant};

use super::{
    attention::{Attention, AttentionKind, AttentionTally, AttentionTerms},
    facts::{ProfileFacts, TenantFacts, TenantOverview},
    locks::OverviewLock,
    page_of::PageOf,
};

/// Chooses among profiles.
#[derive(Clone, Debug)]
pub struct ProfilesQuery {
    /// Only those that need somebody.
    pub only_attention: bool,
    /// Only those that need somebody for this reason.
    pub kind: Option<AttentionKind>,
    /// Only those with this text in their name.
    pub search: Option<String>,
    /// Which part of them.
    pub page: PageOf,
    /// What counts as stale and as lapsing.
    pub terms: AttentionTerms,
}

/// The current snapshot of a profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CurrentFields {
    /// The first digits of its id.
    pub sha256_prefix: String,
    /// When it was captured; of an archive of another program, when it became current.
    pub captured_at_ms: u64,
    /// The bytes of all its files; none of an archive of another program.
    pub uncompressed_size_bytes: Option<u64>,
    /// Whether it is an archive of another program.
    pub foreign: bool,
}

/// A profile, and why it needs somebody.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProfileOverview {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profile of the tenant.
    pub profile_id: Profile,
    /// The Chrome that commands choose by themselves.
    pub chrome_major_version: ChromeMajor,
    /// Why it needs somebody, the most urgent reason first; empty if it does not.
    pub attention: Vec<Attention>,
    /// The current snapshot.
    pub current: Option<CurrentFields>,
    /// When the newest snapshot was captured, current or not.
    pub newest_captured_at_ms: Option<u64>,
    /// How many snapshots it has, of every Chrome.
    pub snapshots: u64,
    /// The bytes that were stored for them.
    pub stored_bytes: u64,
    /// Its lock, unless it is free.
    pub lock: Option<OverviewLock>,
}

/// The profiles of many tenants.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProfilePage {
    /// When the store was listed, by the server's clock: that of the tenant that was listed first.
    pub as_of_ms: u64,
    /// Whether every tenant was listed at least once.
    pub complete: bool,
    /// How many tenants there are.
    pub tenants: u64,
    /// How many profiles they have.
    pub profiles: u64,
    /// How many snapshots they have.
    pub snapshots: u64,
    /// The bytes that were stored for them.
    pub stored_bytes: u64,
    /// How many profiles need somebody, and why.
    pub attention: AttentionTally,
    /// How many profiles fit the question.
    pub total: u64,
    /// The profiles, those that need somebody most first.
    pub rows: Vec<ProfileOverview>,
    /// Asks for the rows that follow, as `skip`; none if these are the last.
    pub next: Option<u64>,
}

impl ProfilePage {
    /// Of these tenants.
    pub fn of(tenants: &[Arc<TenantOverview>], complete: bool, query: &ProfilesQuery) -> Self {
        let mut tally = AttentionTally::default();
        let mut fitting: Vec<(Option<AttentionKind>, &TenantOverview, &ProfileFacts)> = Vec::new();
        let mut totals = TenantFacts::default();
        let search = query.search.as_ref().map(|text| text.to_lowercase());
        for tenant in tenants {
            totals.profiles += tenant.totals.profiles;
            totals.snapshots += tenant.totals.snapshots;
            totals.stored_bytes += tenant.totals.stored_bytes;
            for profile in &tenant.profiles {
                let kinds = profile.kinds(&query.terms);
                tally.count(&kinds);
                let is_wanted = match query.kind {
                    Some(kind) => kinds.contains(&kind),
                    None => !query.only_attention || !kinds.is_empty(),
                };
                if is_wanted && search.as_deref().is_none_or(|text| is_named(tenant, profile, text)) {
                    fitting.push((kinds.first().copied(), tenant, profile));
                }
            }
        }
        // No reason comes after every reason. The names of tenants and profiles are in order already.
        fitting.sort_by_key(|(kind, ..)| kind.map_or(usize::MAX, |kind| kind as usize));
        let total = fitting.len() as u64;
        let (shown, next) = query.page.cut(fitting);
        Self {
            as_of_ms: tenants.iter().map(|tenant| tenant.looked_at_ms).min().unwrap_or(query.terms.now_ms),
            complete,
            tenants: tenants.len() as u64,
            profiles: totals.profiles,
            snapshots: totals.snapshots,
            stored_bytes: totals.stored_bytes,
            attention: tally,
            total,
            rows: shown.into_iter().map(|(_, tenant, profile)| row(tenant, profile, &query.terms)).collect(),
            next,
        }
    }
}

fn is_named(tenant: &TenantOverview, profile: &ProfileFacts, text: &str) -> bool {
    format!("{}/{}", tenant.tenant, profile.profile).to_lowercase().contains(text)
}

fn row(tenant: &TenantOverview, facts: &ProfileFacts, terms: &AttentionTerms) -> ProfileOverview {
    ProfileOverview {
        tenant_id: tenant.tenant.clone(),
        profile_id: facts.profile.clone(),
        chrome_major_version: facts.chrome_major,
        attention: facts.attention(terms),
        current: facts.current.as_ref().map(|current| CurrentFields {
            sha256_prefix: current.sha256_prefix.to_string(),
            captured_at_ms: current.captured_at_ms,
            uncompressed_size_bytes: current.size_bytes,
            foreign: current.is_foreign,
        }),
        newest_captured_at_ms: facts.newest_captured_at_ms,
        snapshots: facts.snapshots,
        stored_bytes: facts.stored_bytes,
        lock: facts.lock.and_then(|at| tenant.locks.get(at)).map(|lock| lock.fields(terms.now_ms)),
    }
}
