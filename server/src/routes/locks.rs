//! `locks` takes, renews, gives back and shows the lock of a profile, for runs elsewhere. The routes call it a lease.

use std::time::Duration;

use axum::http::Method;
use engine::{
    failure::Failure,
    names::ActorName,
    verbs::lock::{
        AcquireLockOutcome, AcquireLockRequest, HeldLockRequest, ReleaseLockOutcome, RenewLockOutcome,
        ShowLockOutcome,
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{ErrorKind, catalog::clock, id::Nonce, name::ChromeMajor};

use super::snapshots::LineageQuery;
use crate::{
    call::{Answer, Call, answer},
    problem::{Refusal, WaitingFields},
    route::{Access::Tenant, Route, Sent::Document},
    schemas::{received, sent},
    tokens::{CallerKind, Role},
};

/// How long a request may wait for another holder.
const MAX_WAIT_SECONDS: u64 = 60;
/// How long a lock may hold without being renewed: who took it over a network may be gone.
const MAX_TTL_SECONDS: u64 = 3600;

/// How long to wait for another holder.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireQuery {
    /// How many seconds to wait for another holder, from 0 to 60; 0 if it is not said.
    #[serde(default)]
    pub wait: u64,
}

/// The body of a request for a lock.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcquireBody {
    /// Of this major version of Chrome; of the newest there is if it is not said. A profile that does
    /// not exist yet needs it.
    pub chrome_major_version: Option<ChromeMajor>,
    /// The name of the run.
    pub holder_run_id: String,
    /// The host that it is on.
    #[serde(default)]
    pub holder_host: String,
    /// The run of that host.
    #[serde(default)]
    pub holder_host_run_id: String,
    /// How long the lock holds without being renewed, from 5 to 3600; as the server's settings say if it
    /// is not said.
    pub ttl_seconds: Option<u64>,
}

/// Proves that one holds a lock.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeldBody {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// The token that was answered when the lock was taken.
    pub token: Nonce,
}

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "show_lease",
        Method::GET,
        profile!("/leases"),
        Tenant(Role::Read),
        "Tells who holds the lock of a profile",
        Document(sent::<ShowLockOutcome>),
        |call| Box::pin(show(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "acquire_lease",
        Method::POST,
        profile!("/leases"),
        Tenant(Role::Run),
        "Takes the lock of a profile, and waits for another holder if asked to",
        Document(sent::<AcquireLockOutcome>),
        |call| Box::pin(acquire(call)),
    )
    .query(received::<AcquireQuery>)
    .body(received::<AcquireBody>)
    .replayed_while(|call, answer| Box::pin(is_held(call, answer))),
    Route::new(
        "renew_lease",
        Method::PUT,
        profile!("/leases"),
        Tenant(Role::Run),
        "Renews the lock of a profile",
        Document(sent::<RenewLockOutcome>),
        |call| Box::pin(renew(call)),
    )
    .body(received::<HeldBody>),
    Route::new(
        "release_lease",
        Method::DELETE,
        profile!("/leases"),
        Tenant(Role::Run),
        "Gives the lock of a profile back",
        Document(sent::<ReleaseLockOutcome>),
        |call| Box::pin(release(call)),
    )
    .body(received::<HeldBody>),
];

async fn show(call: Call) -> Answer {
    let query: LineageQuery = call.query()?;
    answer(&call.engine.show_lock(&call.lineage(query.chrome_major_version)?).await?)
}

async fn acquire(call: Call) -> Answer {
    let (query, body): (AcquireQuery, AcquireBody) = (call.query()?, call.document()?);
    if query.wait > MAX_WAIT_SECONDS {
        return Err(Failure::usage(format!("wait takes a number from 0 to {MAX_WAIT_SECONDS}")).into());
    }
    if body.ttl_seconds.is_some_and(|ttl| ttl > MAX_TTL_SECONDS) {
        return Err(Failure::usage(format!("ttl_seconds takes at most {MAX_TTL_SECONDS}")).into());
    }
    for name in [&body.holder_run_id, &body.holder_host, &body.holder_host_run_id] {
        if is_own_name(name) {
            let message = format!("{name:?} is a name that only the server gives");
            return Err(Failure::usage(message).hint("choose one that begins otherwise").into());
        }
    }
    let actor = ActorName {
        run_id: Some(body.holder_run_id).filter(|id| !id.is_empty()),
        host: Some(body.holder_host),
        host_run_id: body.holder_host_run_id,
    };
    actor.check()?;
    if actor.run_id.is_none() {
        return Err(Failure::usage("holder_run_id is empty").hint("say which run holds the lock").into());
    }
    let room = match query.wait {
        0 => None,
        _ => Some(call.server.waiting.take_for(&call.profile()?.tenant)?),
    };
    let lineage = call.lineage(body.chrome_major_version)?;
    let profile = lineage.profile.clone();
    let ttl = body.ttl_seconds.map(Duration::from_secs);
    let place = (query.wait > 0).then(|| {
        let fields = WaitingFields {
            holder_run_id: actor.run_id.clone().unwrap_or_default(),
            holder_host: actor.host.clone().unwrap_or_default(),
            since_ms: clock::unix_ms(),
        };
        let ttl = ttl.unwrap_or_else(|| call.engine.settings.tenant(&profile.tenant).lock_ttl);
        call.server.queues.enter(profile.clone(), fields, ttl)
    });
    let request = AcquireLockRequest {
        lineage: lineage.clone(),
        actor: actor.clone(),
        wait: Duration::from_secs(query.wait),
        ttl,
    };
    let taken = call.engine.acquire_lock(&request).await.map_err(|failure| {
        let left = failure.holder.as_ref().map(|holder| holder.remaining);
        let queue = left.map(|left| match &place {
            Some(place) => place.ahead(left),
            None => call.server.queues.of(&profile, left),
        });
        Refusal { queue: queue.map(Box::new), ..failure.into() }
    })?;
    drop((room, place));
    if call.engine.interrupt.is_raised() {
        // Nobody is left to be told its token.
        let held = HeldLockRequest { lineage, actor, token: Some(taken.token) };
        call.engine.release_lock(&held).await?;
        return Err(Failure::new(ErrorKind::Interrupted, "the caller went away").into());
    }
    answer(&taken)
}

/// The part of an earlier answer that finds its lock again.
#[derive(Deserialize)]
struct TakenBefore {
    chrome_major_version: ChromeMajor,
    token: Nonce,
}

/// Whether a lock is still held that was taken with this answer.
async fn is_held(call: &Call, answer: &[u8]) -> Result<bool, Refusal> {
    let taken: TakenBefore = serde_json::from_slice(answer)
        .map_err(|error| Failure::internal(format!("the answer cannot be read again: {error}")))?;
    let lineage = call.lineage(Some(taken.chrome_major_version))?;
    let held = HeldLockRequest { lineage, actor: call.actor(), token: Some(taken.token) };
    Ok(call.engine.holds_lock(&held).await?)
}

/// Whether it is a name that the server gives to callers, to requests, or to itself, in events.
fn is_own_name(name: &str) -> bool {
    let first = name.trim_start().split_once(char::is_whitespace).map(|(first, _)| first);
    first.is_some_and(|first| {
        matches!(first, "request" | "schedule") || CallerKind::ALL.iter().any(|kind| kind.word() == first)
    })
}

async fn renew(call: Call) -> Answer {
    answer(&call.engine.renew_lock(&held(&call)?).await?)
}

async fn release(call: Call) -> Answer {
    answer(&call.engine.release_lock(&held(&call)?).await?)
}

fn held(call: &Call) -> Result<HeldLockRequest, Failure> {
    let body: HeldBody = call.document()?;
    Ok(HeldLockRequest {
        lineage: call.lineage(body.chrome_major_version)?,
        actor: call.actor(),
        token: Some(body.token),
    })
}
