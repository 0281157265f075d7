//! `sessions` lists the sessions, mounted or not, of all hosts that keep snapshots of the caller's tenants.

use axum::http::Method;
use engine::{
    failure::Failure,
    verbs::sessions::remote::{RemoteSession, RemoteSessionsRequest},
};
use futures::{StreamExt, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{ErrorKind, name::Tenant};

use crate::{
    call::{Answer, Call, answer},
    route::{Access::Token, Route, Sent::Document},
    schemas::{received, sent},
    tokens::{Role, Tenants},
};

/// How many tenants are looked at at once.
const TENANTS_AT_ONCE: usize = 8;

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[Route::new(
    "list_sessions",
    Method::GET,
    "/v1/sessions",
    Token(Role::Read),
    "Lists the sessions of all hosts that keep snapshots of the token's tenants",
    Document(sent::<SessionList>),
    |call| Box::pin(sessions(call)),
)
.query(received::<SessionsQuery>)];

/// Chooses among sessions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionsQuery {
    /// Of this tenant alone.
    pub tenant_id: Option<Tenant>,
}

/// Sessions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SessionList {
    /// Each session, tenant by tenant.
    pub sessions: Vec<RemoteSession>,
}

async fn sessions(call: Call) -> Answer {
    let query: SessionsQuery = call.query()?;
    let names = match (query.tenant_id, &call.tenants) {
        (Some(tenant), _) => {
            call.require_tenant(Some(&tenant))?;
            vec![tenant]
        }
        (None, Some(Tenants::Named(names))) => names.clone(),
        (None, _) => call.engine.tenants().await?,
    };
    let _room = call.server.browsed.take_as(call.caller.clone().unwrap_or_default())?;
    let engine = &call.engine;
    let found: Vec<Result<Vec<RemoteSession>, Failure>> = stream::iter(names)
        .map(|tenant| async move {
            match engine.remote_sessions(&RemoteSessionsRequest { tenant }).await {
                Ok(found) => Ok(found.kept),
                // A token may be for a tenant that is still to come, or that is gone.
                Err(failure) if matches!(failure.kind, ErrorKind::NotFound | ErrorKind::Deleted) => {
                    Ok(Vec::new())
                }
                Err(failure) => Err(failure),
            }
        })
        .buffered(TENANTS_AT_ONCE)
        .collect()
        .await;
    let mut sessions = Vec::new();
    for found in found {
        sessions.extend(found?);
    }
    answer(&SessionList { sessions })
}
