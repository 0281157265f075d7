//! `page` serves the page for people who operate a store, and the files that it consists of.

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, StatusCode, header},
};
use engine::failure::Failure;
use store::ErrorKind;

use crate::{
    call::{Answer, Call},
    page::{self, PageFile},
    problem::Refusal,
    route::{
        Access::Open,
        Route,
        Sent::{Page, PageFile as File},
    },
};

/// Lets the page have its own files, and nothing from elsewhere and nothing within itself. No text becomes markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for \
                      'script'; trusted-types 'none'";

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new("page", Method::GET, "/", Open, "Shows people what needs them", Page, |call| {
        Box::pin(index(call))
    }),
    Route::new("page_file", Method::GET, "/page/{file}", Open, "Sends a file of the page", File, |call| {
        Box::pin(file(call))
    }),
];

async fn index(_: Call) -> Answer {
    Ok(sent(&page::INDEX))
}

async fn file(call: Call) -> Answer {
    let name = call.segment("file")?;
    match page::FILES.iter().find(|file| file.name == name) {
        Some(file) => Ok(sent(file)),
        None => {
            let failure = Failure::new(ErrorKind::NotFound, "the page has no such file");
            Err(Refusal::new(StatusCode::NOT_FOUND, failure))
        }
    }
}

fn sent(file: &PageFile) -> Response<Body> {
    let mut response = Response::new(Body::from(file.text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    response
}
