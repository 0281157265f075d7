//! `containers_list` lists the snapshots of containers.

use std::cmp::Reverse;

use engine::{failure::Failure, names::Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::ErrorKind;
use volumes::container::{self, ContainerSnapshotRow};

use crate::{
    call::Call,
    containers::{snapshots_name, timestamp},
    page::{self, Page, shortened},
    tool::{Effect, Tool},
};

const USUAL: u32 = 15;
const MOST: u32 = 50;

/// Which part of the list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Only the snapshots of this name.
    #[serde(default)]
    name: Option<String>,
    /// So many snapshots at most: 15 if it is not said, 50 at most.
    #[serde(default)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// The snapshots.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// How many there are.
    total: u64,
    /// The snapshots of this page, the newest first.
    snapshots: Vec<Stored>,
    /// Ask for the next page with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A snapshot of a container.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Stored {
    /// The name of the container's snapshots.
    name: String,
    /// The snapshot.
    snapshot: String,
    /// Whether it is the current one of its name.
    latest: bool,
    /// When it was captured, in UTC.
    timestamp: String,
    /// The container.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
    /// The moment of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<String>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// Why, in the words of who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// The bytes of image and volumes.
    bytes: u64,
    /// Bytes that it added to the store.
    stored_bytes: u64,
}

impl From<ContainerSnapshotRow> for Stored {
    fn from(row: ContainerSnapshotRow) -> Self {
        Self {
            name: row.name,
            snapshot: row.sha256_prefix,
            latest: row.latest,
            timestamp: timestamp(row.captured_at_ms),
            container: row.container,
            trigger: row.trigger,
            run_id: row.run_id,
            description: Some(shortened(&row.description)).filter(|text| !text.is_empty()),
            bytes: row.uncompressed_size_bytes,
            stored_bytes: row.stored_bytes,
        }
    }
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "containers_list",
        "List the snapshots of containers",
        "List the snapshots of Docker containers, the newest first, each with its moment of a run. The oldest make room for new ones.",
        Effect::Reads,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let (limit, offset) = (page::limit(input.limit, USUAL, MOST)?, page::offset(input.cursor.as_deref())?);
    let tenant = call.tenant().await?;
    let scope = match &input.name {
        Some(name) => Scope::Profile(snapshots_name(&tenant, name)?),
        None => Scope::Tenant(tenant),
    };
    let mut rows = match container::list(&call.engine, &scope).await {
        Ok(listed) => listed.snapshots,
        // Nothing was stored for the tenant yet.
        Err(failure) if failure.kind == ErrorKind::NotFound && input.name.is_none() => Vec::new(),
        Err(failure) if failure.kind == ErrorKind::NotFound => {
            return Err(failure.hint("call containers_list without a name for the snapshots there are"));
        }
        Err(failure) => return Err(failure),
    };
    rows.sort_by_key(|row| Reverse(row.captured_at_ms));
    let total = rows.len() as u64;
    let Page { items, next_cursor } = page::page(rows.into_iter().map(Stored::from), offset, limit);
    Ok(Output { total, snapshots: items, next_cursor })
}
