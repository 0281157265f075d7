//! `Audit` writes the line of the log that says who asked for what, and what came of it.

use std::time::Instant;

use axum::{
    body::Body,
    http::{Method, Request},
};
use store::catalog::clock;

use crate::{call::Answer, peer::Peer};

/// What is known of a request before there is an outcome.
#[derive(Debug)]
pub(crate) struct Audit {
    /// Names the request in logs and events.
    pub(crate) request_id: String,
    /// Who calls, as events name it, once it is known.
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
            request_id: clock::new_record_id().to_string(),
            caller: None,
            peer: request.extensions().get().cloned(),
            method: method.clone(),
            path: request.uri().path().to_owned(),
            began: Instant::now(),
        }
    }

    /// Writes the line. Whatever changes something, or was to, is told to everybody who keeps the log.
    pub(crate) fn tell(&self, answer: &Answer) {
        let status = match answer {
            Ok(response) => response.status().as_u16(),
            Err(refusal) => refusal.status.as_u16(),
        };
        let Self { request_id, method, path, .. } = self;
        let caller = self.caller.as_deref().unwrap_or_default();
        let peer = self.peer.as_ref().map(Peer::to_string).unwrap_or_default();
        let ms = self.began.elapsed().as_millis() as u64;
        if *method == Method::GET {
            tracing::debug!(request_id, caller, peer, status, ms, "GET {path}");
        } else {
            tracing::info!(request_id, caller, peer, status, ms, "audit: {method} {path}");
        }
    }
}
