//! `activity` answers with the events of a profile, and with the statistics of a tenant.

use axum::http::Method;
use engine::{
    failure::Failure,
    verbs::{
        log::{LogOutcome, LogRequest},
        stats::{StatsRequest, TenantStats},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::name::{ChromeMajor, InvalidName};

use crate::{
    call::{Answer, Call, answer},
    route::{Access::Tenant, Route, Sent::Document},
    schemas::{received, sent},
    tokens::Role,
};

/// How many events are told, if nothing is said.
const EVENTS: usize = 50;
const MAX_EVENTS: usize = 1000;

/// Chooses which events are told.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// How many, the newest, from 1 to 1000; 50 if it is not said.
    pub last: Option<usize>,
}

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "events",
        Method::GET,
        profile!("/events"),
        Tenant(Role::Read),
        "Tells what has happened to the pointer and the lock of a profile",
        Document(sent::<LogOutcome>),
        |call| Box::pin(events(call)),
    )
    .query(received::<EventsQuery>),
    Route::new(
        "stats",
        Method::GET,
        "/v1/tenants/{tenant_id}/stats",
        Tenant(Role::Read),
        "Counts what a tenant has stored, and what it stands for",
        Document(sent::<TenantStats>),
        |call| Box::pin(stats(call)),
    ),
];

async fn events(call: Call) -> Answer {
    let query: EventsQuery = call.query()?;
    let last = query.last.unwrap_or(EVENTS);
    if !(1..=MAX_EVENTS).contains(&last) {
        return Err(Failure::usage(format!("last takes a number from 1 to {MAX_EVENTS}")).into());
    }
    let request = LogRequest { lineage: call.lineage(query.chrome_major_version)?, last: Some(last) };
    answer(&call.engine.log(&request).await?)
}

/// The numbers of the tenant in the path, and of no other.
async fn stats(call: Call) -> Answer {
    let tenant = call.segment("tenant_id")?.parse();
    let tenant = tenant.map_err(|error: InvalidName| Failure::usage(error.to_string()))?;
    let outcome = call.engine.stats(&StatsRequest { tenant: Some(tenant) }).await?;
    match outcome.tenants.first() {
        Some(stats) => answer(stats),
        None => Err(Failure::internal("the stats of a tenant were asked for").into()),
    }
}
