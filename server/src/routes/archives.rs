//! `archives` sends snapshots as archives, or tells where they can be fetched.

use std::{io, ops::Range, time::Duration};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Method, Response, StatusCode, header},
};
use engine::{
    failure::Failure,
    names::SnapshotChoice,
    verbs::export::{ExportDestination, ExportRequest},
};
use futures::TryStreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use store::{name::ChromeMajor, ops::archive::published::PublishedArchive};

use crate::{
    call::{Answer, Call},
    openapi::ARCHIVE,
    problem::Refusal,
    ranges::{RequestedRange, wanted},
    route::{Access::Tenant, Route, Sent::Archive},
    schemas::received,
    stream,
    tokens::Role,
};

/// How long an archive can be fetched from the store itself.
const LINK_TIME: Duration = Duration::from_secs(300);

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[Route::new(
    "archive",
    Method::GET,
    profile!("/{sha_prefix}/archive"),
    Tenant(Role::Run),
    "Sends a snapshot as an archive (tar in zstd), or tells where it can be fetched",
    Archive,
    |call| Box::pin(archive(call)),
)
.query(received::<ArchiveQuery>)];

/// How an archive is sent.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveQuery {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// Send it, even if it can be fetched from the store itself.
    #[serde(default)]
    pub stream: bool,
}

async fn archive(call: Call) -> Answer {
    let query: ArchiveQuery = call.query()?;
    let choice = call.snapshot(query.chrome_major_version)?;
    match call.engine.published_archive(&choice).await? {
        Some(archive) => published(&call, archive, query.stream).await,
        None => made(&call, choice).await,
    }
}

/// One that lies in the store: its digest is its entity tag, and any part of it can be had.
async fn published(call: &Call, archive: PublishedArchive, is_streamed: bool) -> Answer {
    let (tag, size) = (format!("\"{}\"", archive.sha256), archive.size_bytes);
    let wanted = wanted(&call.headers, &tag, size);
    // A link is good for GET alone, and the bucket has tags of its own, to which `If-Range` would mean nothing.
    let may_link = call.method == Method::GET && !call.headers.contains_key(header::IF_RANGE);
    if !is_streamed
        && may_link
        && matches!(wanted, RequestedRange::Whole | RequestedRange::Part(_))
        && let Some(link) = archive.link(LINK_TIME).await.map_err(Failure::from)?
    {
        let mut response = answered(StatusCode::TEMPORARY_REDIRECT, &tag, Body::empty())?;
        set(&mut response, header::LOCATION, &link)?;
        return Ok(response);
    }
    let (status, range) = match wanted {
        RequestedRange::Nothing => return answered(StatusCode::NOT_MODIFIED, &tag, Body::empty()),
        RequestedRange::Beyond => return beyond(call, size),
        RequestedRange::Whole => (StatusCode::OK, 0..size),
        RequestedRange::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
    };
    let body = match call.method == Method::HEAD {
        true => Body::empty(),
        false => {
            let room = call.server.downloads.take_for(&call.profile()?.tenant)?;
            Body::from_stream(archive.pieces(range.clone()).map_err(broken_off).inspect_ok(move |_| {
                // It is taken until the last byte is sent.
                let _ = &room;
            }))
        }
    };
    let mut response = answered(status, &tag, body)?;
    if status == StatusCode::PARTIAL_CONTENT {
        let Range { start, end } = range;
        set(&mut response, header::CONTENT_RANGE, &format!("bytes {start}-{}/{size}", end - 1))?;
    }
    response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    Ok(response)
}

/// One that is made while it is sent: neither its length nor its digest is known before its end.
async fn made(call: &Call, choice: SnapshotChoice) -> Answer {
    let body = match call.method == Method::HEAD {
        true => Body::empty(),
        false => {
            let room = call.server.made.take_for(&call.profile()?.tenant)?;
            let (engine, (writer, reading)) = (call.engine.clone(), stream::channel());
            let writing = async move {
                let request = ExportRequest::new(choice, ExportDestination::Stream);
                engine.export_stream(&request, writer, "the caller").await.map(drop)
            };
            Body::from_stream(reading.begun(room, writing).await?)
        }
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(ARCHIVE));
    response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("none"));
    Ok(response)
}

fn answered(status: StatusCode, tag: &str, body: Body) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if status.is_success() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(ARCHIVE));
    }
    set(&mut response, header::ETAG, tag)?;
    Ok(response)
}

fn set(response: &mut Response<Body>, name: HeaderName, value: &str) -> Result<(), Failure> {
    let value = HeaderValue::from_str(value);
    let value = value.map_err(|error| Failure::internal(format!("{name} cannot be sent: {error}")))?;
    response.headers_mut().insert(name, value);
    Ok(())
}

fn beyond(call: &Call, size: u64) -> Answer {
    let failure = Failure::usage(format!("the archive has {size} bytes, and none of those asked for"));
    let mut response = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, failure).response(&call.request_id);
    set(&mut response, header::CONTENT_RANGE, &format!("bytes */{size}"))?;
    Ok(response)
}

fn broken_off(error: store::Error) -> io::Error {
    tracing::error!("an archive broke off: {error}");
    io::Error::other(error.to_string())
}
