//! `description` answers what the routes are, to programs and to people.

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use serde_json::{Value, json};

use super::ROUTES;
use crate::{
    call::{Answer, Call, answer},
    openapi, page,
};

/// Neither changes while the program runs.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| openapi::document(ROUTES));
static PAGE: LazyLock<String> = LazyLock::new(|| page::page(&DOCUMENT));

/// Lets the page have its own style, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(super) fn schema() -> Value {
    json!({ "type": "object", "description": "An OpenAPI 3.1 document." })
}

pub(super) async fn document(_: Call) -> Answer {
    answer(&*DOCUMENT)
}

pub(super) async fn page(_: Call) -> Answer {
    let mut response = Response::new(Body::from(PAGE.as_str()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}
