//! `browse` looks into snapshots: their names, their files, what led to one, and how two differ.

use std::{ffi::OsString, path::PathBuf};

use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use engine::{
    failure::Failure,
    names::SnapshotName,
    verbs::{cat::CatRequest, diff::DiffRequest, history::HistoryRequest, ls::LsRequest},
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::name::ChromeMajor;

use super::snapshots::LineageQuery;
use crate::{
    call::{Answer, Call, answer},
    stream,
};

/// Chooses what is listed of a snapshot.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeQuery {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// The directory, or the file; the whole profile if it is not said.
    #[serde(default)]
    pub path: String,
    /// Whether directories are listed however deep they are.
    #[serde(default)]
    pub recursive: bool,
}

/// Chooses how much is told of a difference.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiffQuery {
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major_version: Option<ChromeMajor>,
    /// Whether only the totals are told.
    #[serde(default)]
    pub stat: bool,
}

pub(super) async fn history(call: Call) -> Answer {
    let query: LineageQuery = call.query()?;
    let snapshot = call.snapshot(query.chrome_major_version)?;
    answer(&call.engine.history(&HistoryRequest { snapshot }).await?)
}

pub(super) async fn tree(call: Call) -> Answer {
    let query: TreeQuery = call.query()?;
    let request = LsRequest {
        snapshot: call.snapshot(query.chrome_major_version)?,
        path: OsString::from(query.path),
        is_recursive: query.recursive,
    };
    answer(&call.engine.ls(&request).await?)
}

/// The bytes of one file. Each chunk is verified before it is sent.
pub(super) async fn file(call: Call) -> Answer {
    let query: LineageQuery = call.query()?;
    let request = CatRequest {
        snapshot: call.snapshot(query.chrome_major_version)?,
        path: OsString::from(call.segment("path")?),
        is_for_terminal: false,
    };
    let (writer, reading) = stream::channel();
    let engine = call.engine.clone();
    let writing = async move { engine.cat(&request, (writer, PathBuf::from("the caller"))).await.map(drop) };
    let mut response = Response::new(Body::from_stream(reading.begun(writing).await?));
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

pub(super) async fn diff(call: Call) -> Answer {
    let query: DiffQuery = call.query()?;
    let name = format!("{}@{}", call.profile()?, call.segment("sha_prefix")?);
    let name: SnapshotName = name.parse().map_err(Failure::usage)?;
    let request = DiffRequest {
        name,
        further: vec![call.segment("other_sha_prefix")?.parse().map_err(Failure::usage)?],
        chrome_major: query.chrome_major_version,
        with_paths: !query.stat,
        with_profile: false,
    };
    answer(&call.engine.diff(&request).await?)
}
