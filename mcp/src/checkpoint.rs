//! `checkpoint` describes checkpoints to agents, and finds the one that an agent names.

use engine::{
    failure::Failure,
    workspace::{CheckpointFields, CheckpointsOutcome, ListRequest, Origin},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::ErrorKind;

use crate::{call::Call, page::shortened};

/// Where an agent finds the names of checkpoints.
const WHERE: &str = "call snapshots_list for the checkpoints there are";

/// A checkpoint, as an agent sees it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Checkpoint {
    /// What to call it in other calls.
    pub(crate) checkpoint: String,
    /// Its name, if it has one; it can be used instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The pool: `manual` ones stay until they are deleted, `auto` ones make room for newer ones.
    pub(crate) origin: Origin,
    /// When it was taken, in UTC.
    pub(crate) timestamp: String,
    /// What led to it.
    pub(crate) trigger: &'static str,
    /// Why, in the words of who asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Files in it.
    pub(crate) files: u64,
    /// The bytes of its files.
    pub(crate) bytes: u64,
    /// The digest of its tree: equal digests mean equal trees. Only of `manual` ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<String>,
    /// What was wrong when it was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) warning: Option<String>,
}

impl From<CheckpointFields> for Checkpoint {
    fn from(fields: CheckpointFields) -> Self {
        Self {
            checkpoint: id(&fields),
            name: fields.name,
            origin: fields.origin,
            timestamp: fields.timestamp,
            trigger: fields.trigger.word(),
            description: Some(shortened(&fields.description)).filter(|text| !text.is_empty()),
            files: fields.files_count,
            bytes: fields.bytes,
            hash: fields.hash,
            warning: fields.warning.as_deref().map(shortened),
        }
    }
}

/// What an agent calls a checkpoint. A slot of the ring soon holds another one, so its id has the time as well.
pub(crate) fn id(fields: &CheckpointFields) -> String {
    match fields.origin {
        Origin::Manual => fields.checkpoint.clone(),
        Origin::Auto => format!("{}@{}", fields.checkpoint, fields.epoch_millis),
    }
}

/// All checkpoints, the newest first.
pub(crate) async fn all(call: &Call) -> Result<CheckpointsOutcome, Failure> {
    call.engine.workspace_list(&ListRequest { directory: call.directory.clone() }).await
}

/// The checkpoint that an agent names, as the engine calls it: an id, `cp-N`, or a name.
pub(crate) async fn named(call: &Call, typed: &str) -> Result<String, Failure> {
    let known = all(call).await?.checkpoints;
    let found = known.iter().find(|fields| {
        id(fields) == typed || fields.checkpoint == typed || fields.name.as_deref() == Some(typed)
    });
    if let Some(fields) = found {
        return Ok(fields.checkpoint.clone());
    }
    let not_found = |message| Failure::new(ErrorKind::NotFound, message).hint(WHERE);
    let slot = typed.split_once('@').map(|(slot, _)| slot);
    Err(match slot.filter(|slot| known.iter().any(|fields| fields.checkpoint == *slot)) {
        Some(slot) => not_found(format!(
            "the checkpoint {typed:?} has made room for a newer one, which is in {slot} now"
        )),
        None => not_found(format!("there is no checkpoint {typed:?}")),
    })
}

/// The same of a checkpoint that need not be named.
pub(crate) async fn named_if(call: &Call, typed: Option<&str>) -> Result<Option<String>, Failure> {
    match typed {
        Some(typed) => named(call, typed).await.map(Some),
        None => Ok(None),
    }
}

/// The same failure; where nothing says yet what to do about a checkpoint that is not there, that is said.
pub(crate) fn advised(failure: Failure) -> Failure {
    match failure.kind {
        ErrorKind::NotFound => failure.hint(WHERE),
        _ => failure,
    }
}
