//! `browse` answers questions about snapshots: their files, their history, and their differences.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, header},
};
use engine::{
    failure::Failure,
    names::SnapshotName,
    verbs::{
        diff::{DiffOutcome, DiffRequest},
        history::{HistoryOutcome, HistoryRequest},
        ls::{LsOutcome, LsRequest},
    },
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::name::ChromeMajor;

use super::snapshots::LineageQuery;
use crate::{
    call::{Answer, Call, answer},
    route::{
        Access::Tenant,
        Route,
        Sent::{Bytes, Document},
    },
    schemas::{received, sent},
    stream,
    tokens::Role,
};

/// Chooses the listed entries of a snapshot.
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

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "history",
        Method::GET,
        profile!("/{sha_prefix}/history"),
        Tenant(Role::Read),
        "Tells which snapshots led to one",
        Document(sent::<HistoryOutcome>),
        |call| Box::pin(history(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "tree",
        Method::GET,
        profile!("/{sha_prefix}/tree"),
        Tenant(Role::Run),
        "Lists a directory of a snapshot",
        Document(sent::<LsOutcome>),
        |call| Box::pin(tree(call)),
    )
    .query(received::<TreeQuery>),
    Route::new(
        "file",
        Method::GET,
        profile!("/{sha_prefix}/files/{*path}"),
        Tenant(Role::Run),
        "Sends one file of a snapshot, every byte verified",
        Bytes,
        |call| Box::pin(file(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "diff",
        Method::GET,
        profile!("/{sha_prefix}/diff/{other_sha_prefix}"),
        Tenant(Role::Run),
        "Tells which paths differ between two snapshots",
        Document(sent::<DiffOutcome>),
        |call| Box::pin(diff(call)),
    )
    .query(received::<DiffQuery>),
];

async fn history(call: Call) -> Answer {
    let query: LineageQuery = call.query()?;
    let snapshot = call.snapshot(query.chrome_major_version)?;
    answer(&call.engine.history(&HistoryRequest { snapshot }).await?)
}

async fn tree(call: Call) -> Answer {
    let query: TreeQuery = call.query()?;
    let request = LsRequest {
        snapshot: call.snapshot(query.chrome_major_version)?,
        path: OsString::from(query.path),
        is_recursive: query.recursive,
    };
    let _room = call.server.browsed.take_for(&request.snapshot.name.profile.tenant)?;
    answer(&call.engine.ls(&request).await?)
}

/// The bytes of one file, and how many they are: who gets fewer knows that some are missing. Each chunk is
/// verified before it is sent.
async fn file(call: Call) -> Answer {
    let query: LineageQuery = call.query()?;
    let choice = call.snapshot(query.chrome_major_version)?;
    let room = call.server.downloads.take_for(&call.profile()?.tenant)?;
    let file = call.engine.open_file(&choice, OsStr::new(call.segment("path")?)).await?.file;
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

async fn diff(call: Call) -> Answer {
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
    let _room = call.server.browsed.take_for(&call.profile()?.tenant)?;
    answer(&call.engine.diff(&request).await?)
}
