//! `browse` looks into snapshots: their names, their files, what led to one, and how two differ.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use engine::{
    contents,
    failure::Failure,
    names::SnapshotName,
    verbs::{diff::DiffRequest, history::HistoryRequest, ls::LsRequest},
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{ErrorKind, name::ChromeMajor, ops::read::browse::OpenFile};

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

/// The bytes of one file, and how many they are: who gets fewer knows that some are missing. Each chunk is
/// verified before it is sent.
pub(super) async fn file(call: Call) -> Answer {
    let query: LineageQuery = call.query()?;
    let choice = call.snapshot(query.chrome_major_version)?;
    let path = contents::path(OsStr::new(call.segment("path")?))?;
    let room = call.server.downloads.take()?;
    let (tenant, lineage) = call.engine.lineage_to_judge(&choice.lineage()).await?;
    let record = call.engine.resolve_snapshot(&tenant, &lineage, choice.reference()?).await?;
    let file = OpenFile::open(&tenant, &record, &path).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => contents::elsewhere(&record, error),
        _ => Failure::from(error),
    })?;
    let size = file.size();
    let (writer, reading) = stream::channel();
    let writing = async move {
        let written = file.write((writer, PathBuf::from("the caller"))).await;
        written.map(drop).map_err(Failure::from)
    };
    let mut response = Response::new(Body::from_stream(reading.begun(room, writing).await?));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
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
