//! `description` serves the description of the routes, for programs and for people.

use std::sync::LazyLock;

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, header},
};
use serde_json::{Value, json};

use super::all;
use crate::{
    api_page,
    call::{Answer, Call, answer},
    openapi,
    route::{
        Access::Open,
        Route,
        Sent::{Document, Page},
    },
};

/// Neither changes while the program runs.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| openapi::document(all()));
static PAGE: LazyLock<String> = LazyLock::new(|| api_page::page(&DOCUMENT));

/// Lets the page have its own style, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "openapi",
        Method::GET,
        "/openapi.json",
        Open,
        "Describes all routes to programs",
        Document(schema),
        |call| Box::pin(document(call)),
    ),
    Route::new("docs", Method::GET, "/docs", Open, "Describes all routes to people", Page, |call| {
        Box::pin(page(call))
    }),
];

fn schema() -> Value {
    json!({ "type": "object", "description": "An OpenAPI 3.1 document." })
}

async fn document(_: Call) -> Answer {
    answer(&*DOCUMENT)
}

async fn page(_: Call) -> Answer {
    let mut response = Response::new(Body::from(PAGE.as_str()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}
