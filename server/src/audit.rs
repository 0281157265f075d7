//! `Audit` records each request, its caller and its result: in the log, and in the store.

use std::time::Instant;

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use engine::{Engine, failure::Failure, location::Purpose, names::ActorName};
use store::{
    catalog::{clock, events},
    format::{
        Unknown,
        event::{self, Event, EventKind},
    },
    name::Tenant,
};

use crate::{call::Answer, peer::Peer};

/// The header that names a request, in requests and answers.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// The state of a request before its outcome.
#[derive(Debug)]
pub(crate) struct Audit {
    /// Names the request in logs and events.
    pub(crate) request_id: String,
    /// The name of the caller in events, once it is known.
    pub(crate) caller: Option<String>,
    peer: Option<Peer>,
    method: Method,
    path: String,
    began: Instant,
}

impl Audit {
    /// Of a request that has just arrived, for a route with this method.
    pub(crate) fn new(method: &Method, request: &Request<Body>) -> Self {
        Self {
            request_id: named(request).unwrap_or_else(|| clock::new_record_id().to_string()),
            caller: None,
            peer: request.extensions().get().cloned(),
            method: method.clone(),
            path: request.uri().path().to_owned(),
            began: Instant::now(),
        }
    }

    /// Stores the same as an event of the tenant, unless the request was refused: then nothing was changed,
    /// and nobody can fill a store with refused requests. A failure to store it is only logged.
    pub(crate) async fn store(
        &self,
        engine: &Engine,
        tenant: &Tenant,
        actor: &ActorName,
        status: StatusCode,
    ) {
        if status.is_client_error() {
            return;
        }
        let request = event::Request {
            method: self.method.to_string(),
            path: self.path.clone(),
            peer: self.peer.as_ref().map(Peer::to_string).unwrap_or_default(),
            status: status.as_u16().into(),
            unknown: Unknown::new(),
        };
        let event = Event { request: Some(request), ..events::now(EventKind::Request, engine.actor(actor)) };
        let told = async {
            let store = engine.store(Purpose::Change).await?;
            Ok::<_, Failure>(events::tell(&store, Some(tenant), &event).await?)
        };
        if let Err(failure) = told.await {
            tracing::warn!(
                request_id = self.request_id,
                "the event of a change is not stored: {}",
                failure.message
            );
        }
    }

    /// Writes the line, at `info` if the request was to change something, and returns the status.
    pub(crate) fn tell(&self, answer: &Answer) -> StatusCode {
        let answered = match answer {
            Ok(response) => response.status(),
            Err(refusal) => refusal.status,
        };
        let status = answered.as_u16();
        let Self { request_id, method, path, .. } = self;
        let caller = self.caller.as_deref().unwrap_or_default();
        let peer = self.peer.as_ref().map(Peer::to_string).unwrap_or_default();
        let ms = self.began.elapsed().as_millis() as u64;
        if *method == Method::GET {
            tracing::debug!(request_id, caller, peer, status, ms, "GET {path}");
        } else {
            tracing::info!(request_id, caller, peer, status, ms, "audit: {method} {path}");
        }
        answered
    }
}

/// The name that the caller, or a proxy before the server, has given to the request, if it is one that fits
/// into logs.
fn named(request: &Request<Body>) -> Option<String> {
    let name = request.headers().get(REQUEST_ID)?.to_str().ok()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    ((1..=64).contains(&name.len()) && name.bytes().all(fits)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_if_it_fits_into_a_log() {
        let of = |name: &str| {
            let request = Request::builder().header(REQUEST_ID, name).body(Body::empty()).unwrap();
            named(&request)
        };
        assert_eq!(of("trace-01.A_b"), Some("trace-01.A_b".to_owned()));
        let long = "x".repeat(65);
        for wrong in ["", "two words", "a\"b", "a/b", &long] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
