//! `health` answers those who watch the server: whether it runs, and whether it reaches its store.

use engine::{failure::Failure, location::Purpose};
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::{Answer, Call, answer};

/// How the server is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HealthOutcome {
    /// `ok`, whenever anything is answered but a problem.
    pub status: &'static str,
    /// The version of pstore.
    pub version: &'static str,
}

const FINE: HealthOutcome = HealthOutcome { status: "ok", version: env!("CARGO_PKG_VERSION") };

pub(super) async fn alive(_: Call) -> Answer {
    answer(&FINE)
}

/// Reads one small object of the store.
pub(super) async fn ready(call: Call) -> Answer {
    let store = call.engine.store(Purpose::Read).await?;
    if store.config().await.map_err(Failure::from)?.is_none() {
        return Err(call.engine.location.no_store().into());
    }
    answer(&FINE)
}
