//! `metrics` answers a Prometheus.
//!
//! It needs a token for all tenants, because the series name tenants and profiles of all of them. Prometheus sends one
//! with `authorization: credentials_file`.

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, header},
};
use engine::metrics::{self, Format};

use crate::{
    call::{Answer, Call},
    route::{Access::Token, Route, Sent::Metrics},
    tokens::Role,
};

pub(super) static ROUTES: &[Route] = &[Route::new(
    "metrics",
    Method::GET,
    "/metrics",
    Token(Role::Read),
    "Tells a Prometheus what was counted, as OpenMetrics or in its older format; needs a token for all tenants",
    Metrics,
    |call| Box::pin(tell(call)),
)];

async fn tell(call: Call) -> Answer {
    call.require_tenant(None)?;
    let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept);
    let engine = &call.server.engine;
    let (mut told, bounds) = (engine.metrics.told(), engine.metrics.bounds());
    told.add(&metrics::of_host(&engine.settings), &bounds);
    told.add(&metrics::of_process(), &bounds);
    let mut response = Response::new(Body::from(metrics::text(&told, format)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    Ok(response)
}
