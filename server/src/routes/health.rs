//! `health` tells monitors whether the server runs, and whether it reaches its store.

use std::time::Duration;

use axum::http::Method;
use engine::{failure::Failure, location::Purpose};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    ErrorKind,
    catalog::{clock, store::Store},
};

use crate::{
    call::{Answer, Call, answer},
    readiness::Verdict,
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

/// That the server can do its work.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReadyOutcome {
    /// `ok`, whenever anything is answered but a problem.
    pub status: &'static str,
    /// The version of pstore.
    pub version: &'static str,
    /// The end of the name that this server has in jobs and schedules. Where it runs is not for everybody.
    pub server: String,
    /// The same for all servers with the same settings, and different for others.
    pub configuration: String,
    /// How far the clocks of this host and of the store are apart, as far as that can be told.
    pub clock_skew_ms: u64,
}

/// Clocks that are further apart make events and the ends of tokens misleading.
const MAX_SKEW_MS: u64 = 30_000;

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
        "Tells whether the server reaches its store, whether their clocks agree, and whether its files are in order",
        Document(sent::<ReadyOutcome>),
        |call| Box::pin(ready(call)),
    ),
];

async fn alive(_: Call) -> Answer {
    answer(&FINE)
}

/// Everybody may ask, so the answer tells neither the store's place nor the fault: the log does.
async fn ready(call: Call) -> Answer {
    let unready = |message: &str| Err(Failure::new(ErrorKind::Unavailable, message).into());
    if !call.server.tokens.is_in_order() {
        return unready("the token file cannot be read");
    }
    if call.server.tls.as_ref().is_some_and(|tls| !tls.is_in_order()) {
        return unready("the certificates cannot be read");
    }
    match call.server.readiness.verdict(looked(&call)).await {
        Ok(clock_skew_ms) => answer(&ReadyOutcome {
            status: FINE.status,
            version: FINE.version,
            server: call.server.name.rsplit('/').next().unwrap_or_default().to_owned(),
            configuration: call.server.configuration.clone(),
            clock_skew_ms,
        }),
        Err(problem) => unready(problem),
    }
}

/// Reads one small object of the store, and compares the clocks by the answer.
async fn looked(call: &Call) -> Verdict {
    let look = async {
        // Whoever may change a store is told the time by it; who may only read a directory has the host's.
        let store = match call.engine.store(Purpose::Change).await {
            Ok(store) => store,
            Err(_) => call.engine.store(Purpose::Read).await?,
        };
        let config = store.config().await.map_err(Failure::from)?;
        config.ok_or_else(|| call.engine.location.no_store())?;
        Ok(skew_ms(&store).await)
    };
    let seen: Result<u64, Failure> = tokio::time::timeout(LOOK_TIME, look).await.unwrap_or_else(|_| {
        let message = format!("the store did not answer within {} s", LOOK_TIME.as_secs());
        Err(Failure::new(ErrorKind::Unavailable, message))
    });
    match seen {
        Ok(skew) if skew <= MAX_SKEW_MS => Ok(skew),
        Ok(skew) => {
            let seconds = skew / 1000;
            tracing::error!(
                request_id = call.request_id,
                "the clocks of this host and of the store are {seconds} s apart"
            );
            Err("the clocks of this host and of the store differ")
        }
        Err(failure) => {
            tracing::error!(request_id = call.request_id, "the server is not ready: {}", failure.message);
            Err("the store cannot be reached")
        }
    }
}

/// How far the clocks are apart. The store told the time at some moment between asking and hearing; a server tells
/// whole seconds.
async fn skew_ms(store: &Store) -> u64 {
    let before = clock::unix_ms();
    let Some(told) = store.now().await else { return 0 };
    let (told, after) = (clock::to_unix_ms(told), clock::unix_ms());
    let early = before.saturating_sub(told + 999);
    early.max(told.saturating_sub(after))
}
