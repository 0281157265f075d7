//! `overview` tells of many profiles at once which need somebody, who holds their locks, and how much they store.

use axum::http::Method;
use engine::{
    failure::Failure,
    overview::{
        AttentionKind, AttentionTerms, LockPage, OverviewScope, PageOf, ProfilePage, ProfilesQuery,
        UsagePage, UsageQuery,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{catalog::clock, name::Tenant};

use crate::{
    call::{Answer, Call, answer},
    overview_reads::scope,
    problem::Refusal,
    route::{Access::Token, Route, Sent::Document},
    schemas::{received, sent},
    tokens::{Role, Tenants},
};

/// How many rows a page has, if nothing is said.
const PAGE: usize = 50;
const MAX_PAGE: usize = 500;
/// A current snapshot that is older is stale, if nothing is said.
const STALE_AFTER_SECONDS: u64 = 7 * 86_400;
/// A login that ends sooner is lapsing, if nothing is said.
const LAPSING_WITHIN_SECONDS: u64 = 3 * 86_400;
/// How many days are told, if nothing is said.
const DAYS: u64 = 30;
const MAX_DAYS: u64 = 400;

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "list_profiles",
        Method::GET,
        "/v1/profiles",
        Token(Role::Read),
        "Lists the profiles of the token's tenants, those that need somebody first",
        Document(sent::<ProfilePage>),
        |call| Box::pin(profiles(call)),
    )
    .query(received::<OverviewQuery>),
    Route::new(
        "list_locks",
        Method::GET,
        "/v1/locks",
        Token(Role::Read),
        "Lists the locks of the token's tenants, those that end first before the others",
        Document(sent::<LockPage>),
        |call| Box::pin(locks(call)),
    )
    .query(received::<PageQuery>),
    Route::new(
        "usage",
        Method::GET,
        "/v1/usage",
        Token(Role::Read),
        "Tells how many bytes each of the token's tenants stores, day by day",
        Document(sent::<UsagePage>),
        |call| Box::pin(usage(call)),
    )
    .query(received::<DaysQuery>),
];

/// Chooses among profiles.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverviewQuery {
    /// Of this tenant alone.
    pub tenant_id: Option<Tenant>,
    /// Only those that need somebody.
    #[serde(default)]
    pub attention: bool,
    /// Only those that need somebody for this reason.
    pub kind: Option<AttentionKind>,
    /// Only those with this text in `TENANT/PROFILE`.
    pub search: Option<String>,
    /// The age in seconds of a current snapshot that is stale; 604800, a week, if it is not said.
    pub stale_after_seconds: Option<u64>,
    /// How many seconds before its end a login is lapsing; 259200, three days, if it is not said.
    pub lapsing_within_seconds: Option<u64>,
    /// How many rows are passed over: the `next` of the page before.
    #[serde(default)]
    pub skip: usize,
    /// How many rows at most, from 1 to 500; 50 if it is not said.
    pub limit: Option<usize>,
}

/// Chooses a part of a list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Of this tenant alone.
    pub tenant_id: Option<Tenant>,
    /// How many rows are passed over: the `next` of the page before.
    #[serde(default)]
    pub skip: usize,
    /// How many rows at most, from 1 to 500; 50 if it is not said.
    pub limit: Option<usize>,
}

/// Chooses days.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DaysQuery {
    /// Of this tenant alone.
    pub tenant_id: Option<Tenant>,
    /// How many days, the last of them today, from 1 to 400; 30 if it is not said.
    pub days: Option<u64>,
    /// How many rows are passed over: the `next` of the page before.
    #[serde(default)]
    pub skip: usize,
    /// How many rows at most, from 1 to 500; 50 if it is not said.
    pub limit: Option<usize>,
}

async fn profiles(call: Call) -> Answer {
    let query: OverviewQuery = call.query()?;
    let page = part(query.skip, query.limit)?;
    let now_ms = clock::unix_ms();
    let terms = AttentionTerms {
        now_ms,
        stale_after_ms: query.stale_after_seconds.unwrap_or(STALE_AFTER_SECONDS).saturating_mul(1000),
        lapsing_within_ms: query
            .lapsing_within_seconds
            .unwrap_or(LAPSING_WITHIN_SECONDS)
            .saturating_mul(1000),
    };
    let asked = ProfilesQuery {
        only_attention: query.attention,
        kind: query.kind,
        search: query.search,
        page,
        terms,
    };
    let (tenants, complete) = call.server.overview.tenants(&wanted(&call, query.tenant_id)?).await;
    answer(&ProfilePage::of(&tenants, complete, &asked))
}

async fn locks(call: Call) -> Answer {
    let query: PageQuery = call.query()?;
    let page = part(query.skip, query.limit)?;
    let (tenants, complete) = call.server.overview.tenants(&wanted(&call, query.tenant_id)?).await;
    answer(&LockPage::of(&tenants, complete, page, clock::unix_ms()))
}

async fn usage(call: Call) -> Answer {
    let query: DaysQuery = call.query()?;
    let page = part(query.skip, query.limit)?;
    let days = query.days.unwrap_or(DAYS);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(Failure::usage(format!("days takes a number from 1 to {MAX_DAYS}")).into());
    }
    let (tenants, complete) = call.server.overview.tenants(&wanted(&call, query.tenant_id)?).await;
    answer(&UsagePage::of(&tenants, complete, &UsageQuery { days, page, now_ms: clock::unix_ms() }))
}

fn part(skip: usize, limit: Option<usize>) -> Result<PageOf, Failure> {
    let limit = limit.unwrap_or(PAGE);
    match (1..=MAX_PAGE).contains(&limit) {
        true => Ok(PageOf { skip, limit }),
        false => Err(Failure::usage(format!("limit takes a number from 1 to {MAX_PAGE}"))),
    }
}

/// The tenants that the caller wants to see, and may.
fn wanted(call: &Call, tenant: Option<Tenant>) -> Result<OverviewScope, Refusal> {
    if let Some(tenant) = tenant {
        call.require_tenant(Some(&tenant))?;
        return Ok(scope(false, std::iter::once(tenant)));
    }
    Ok(match &call.tenants {
        Some(Tenants::All) => scope(true, std::iter::empty()),
        Some(Tenants::Named(names)) => scope(false, names.iter().cloned()),
        None => scope(false, std::iter::empty()),
    })
}
