//! `ErrorDocument` is a failure as every front end returns it.

use schemars::JsonSchema;
use serde::Serialize;
use store::{ErrorKind, error::Holder};

use super::{Failure, codes};

/// The document of a failure, in place of an outcome.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorDocument {
    /// The failure.
    pub error: ErrorFields,
}

/// A failure, its code and what to do next.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorFields {
    /// The kind of failure.
    #[serde(serialize_with = "codes::serialize")]
    #[schemars(schema_with = "codes::schema")]
    pub kind: ErrorKind,
    /// The failure, in a sentence.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
    /// The exit code of a command that fails so.
    pub exit_code: u8,
    /// Who holds the lock, if that is what is wrong.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderFields>,
}

/// Who holds a lock, in the contract's words.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HolderFields {
    /// The run that holds it.
    pub holder_run_id: String,
    /// Its host.
    pub holder_host: String,
    /// Which run of the host it is.
    pub holder_host_run_id: String,
    /// Since when.
    pub acquired_at_ms: u64,
    /// How often it was renewed.
    pub renewal_count: u64,
    /// How long it holds unless it is renewed.
    pub remaining_ms: u64,
}

impl From<&Failure> for ErrorFields {
    fn from(failure: &Failure) -> Self {
        Self {
            kind: failure.kind,
            message: failure.message.clone(),
            hint: failure.hint.clone(),
            exit_code: failure.code(),
            holder: failure.holder.as_deref().map(HolderFields::from),
        }
    }
}

impl From<&Holder> for HolderFields {
    fn from(holder: &Holder) -> Self {
        Self {
            holder_run_id: holder.run_id.clone(),
            holder_host: holder.host.clone(),
            holder_host_run_id: holder.host_run_id.clone(),
            acquired_at_ms: holder.acquired_at_ms,
            renewal_count: holder.renewal_count,
            remaining_ms: holder.remaining.as_millis() as u64,
        }
    }
}
