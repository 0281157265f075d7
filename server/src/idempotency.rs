//! `once` carries out a request with an `Idempotency-Key` once, however often it is sent.

use std::{sync::Arc, time::Instant};

use axum::http::{HeaderValue, Method, header};
use engine::failure::Failure;
use sha2::{Digest, Sha256};

use crate::{
    call::{Answer, Call, LEASE},
    kept_answers::{Begun, KEY, begin},
    route::Route,
};

/// A longer key is a mistake.
const MAX_KEY_BYTES: usize = 255;

/// Whether a request to `route` may name itself: if its answer is lost, nothing else tells whether it was carried out.
pub(crate) fn takes_key(route: &Route) -> bool {
    [Method::POST, Method::DELETE].contains(&route.method)
}

/// Carries a request out; one with a key only once.
pub(crate) async fn once(route: &'static Route, call: Call) -> Answer {
    let key = match takes_key(route) {
        true => call.header(KEY)?.map(str::to_owned),
        false => None,
    };
    let (Some(key), Some(caller)) = (key, call.caller.clone()) else { return (route.run)(call).await };
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(Failure::usage(format!("{KEY} takes 1 to {MAX_KEY_BYTES} bytes")).into());
    }
    let digest = digest(&route.method, &call);
    let replays = Arc::clone(&call.server.replays);
    let name = (caller, key);
    let mut begun = begin(&replays, name.clone(), digest, Instant::now())?;
    if let (Begun::Known(known), Some(still_true)) = (&begun, route.still_true)
        && !still_true(&call, &known.body).await?
    {
        replays.forget(&name, known);
        begun = begin(&replays, name, digest, Instant::now())?;
    }
    match begun {
        Begun::Known(known) => Ok(known.response()),
        Begun::New(ticket) => ticket.keep((route.run)(call).await?).await,
    }
}

/// The digest of all parts of a request that say its purpose. An archive is named by its digest in the query.
fn digest(method: &Method, call: &Call) -> [u8; 32] {
    let mut hasher = Sha256::new();
    let lease = call.headers.get(LEASE).map(HeaderValue::as_bytes).unwrap_or_default();
    let expected = call.headers.get(header::IF_MATCH).map(HeaderValue::as_bytes).unwrap_or_default();
    for part in [method.as_str().as_bytes(), call.uri.to_string().as_bytes(), lease, expected, &call.body] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}
