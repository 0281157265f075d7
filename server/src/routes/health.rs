//! `health` answers those who watch the server: whether it runs, and whether it reaches its store.

use std::time::Duration;

use axum::http::Method;
use engine::{failure::Failure, location::Purpose};
use schemars::JsonSchema;
use serde::Serialize;
use store::ErrorKind;

use crate::{
    call::{Answer, Call, answer},
    route::{Access::Open, Route, Sent::Document},
    schemas::sent,
};

/// How the server is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HealthOutcome {
    /// `ok`, whenever anything is answered but a problem.
    pub status: &'static str,
    /// The version of pstore.
    pub version: &'static str,
}

const FINE: HealthOutcome = HealthOutcome { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// How long the store may take to answer.
const LOOK_TIME: Duration = Duration::from_secs(10);

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "alive",
        Method::GET,
        "/healthz",
        Open,
        "Tells whether the server runs",
        Document(sent::<HealthOutcome>),
        |call| Box::pin(alive(call)),
    ),
    Route::new(
        "ready",
        Method::GET,
        "/readyz",
        Open,
        "Tells whether the server reaches its store, and whether its files are in order",
        Document(sent::<HealthOutcome>),
        |call| Box::pin(ready(call)),
    ),
];

async fn alive(_: Call) -> Answer {
    answer(&FINE)
}

/// Everybody may ask, so that nobody is told where the store is or what is wrong with it: the log is.
async fn ready(call: Call) -> Answer {
    let unready = |message: &str| Err(Failure::new(ErrorKind::Unavailable, message).into());
    if !call.server.tokens.is_in_order() {
        return unready("the token file cannot be read");
    }
    if call.server.tls.as_ref().is_some_and(|tls| !tls.is_in_order()) {
        return unready("the certificates cannot be read");
    }
    match call.server.readiness.verdict(reaches_store(&call)).await {
        true => answer(&FINE),
        false => unready("the store cannot be reached"),
    }
}

/// Reads one small object of the store.
async fn reaches_store(call: &Call) -> bool {
    let look = async {
        let store = call.engine.store(Purpose::Read).await?;
        let config = store.config().await.map_err(Failure::from)?;
        config.map(drop).ok_or_else(|| call.engine.location.no_store())
    };
    let seen = tokio::time::timeout(LOOK_TIME, look).await.unwrap_or_else(|_| {
        let message = format!("the store did not answer within {} s", LOOK_TIME.as_secs());
        Err(Failure::new(ErrorKind::Unavailable, message))
    });
    if let Err(failure) = &seen {
        tracing::error!(request_id = call.request_id, "the server is not ready: {}", failure.message);
    }
    seen.is_ok()
}
