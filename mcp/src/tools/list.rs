//! `snapshots_list` lists the checkpoints.

use engine::{failure::Failure, workspace::Origin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    call::Call,
    checkpoint::{self, Checkpoint},
    page::{self, Page},
    tool::{Effect, Tool},
};

const USUAL: u32 = 15;
const MOST: u32 = 50;

/// Which part of the list.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// So many checkpoints at most: 15 if it is not said, 50 at most.
    #[serde(default)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// The checkpoints.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// How many there are of both pools.
    total: u64,
    /// How many are kept until they are deleted.
    manual: u64,
    /// How many of those there can be.
    manual_max: u64,
    /// How many were taken by themselves.
    auto: u64,
    /// How many of those there can be: the oldest makes room for the next.
    auto_max: u64,
    /// The checkpoints of this page, the newest first.
    checkpoints: Vec<Checkpoint>,
    /// Ask for the next page with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "snapshots_list",
        "List the checkpoints",
        "List the checkpoints of the workspace, the newest first: those that you took (`manual`) and those that were taken by \
         themselves every few minutes (`auto`).",
        Effect::Reads,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let (limit, offset) = (page::limit(input.limit, USUAL, MOST)?, page::offset(input.cursor.as_deref())?);
    let known = checkpoint::all(&call).await?;
    let total = known.checkpoints.len() as u64;
    let manual = known.checkpoints.iter().filter(|fields| fields.origin == Origin::Manual).count() as u64;
    let Page { items, next_cursor } =
        page::page(known.checkpoints.into_iter().map(Checkpoint::from), offset, limit);
    Ok(Output {
        total,
        manual,
        manual_max: known.manual_max,
        auto: total - manual,
        auto_max: known.auto_max,
        checkpoints: items,
        next_cursor,
    })
}
