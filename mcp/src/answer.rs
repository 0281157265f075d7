//! `answer` turns outcomes and failures into what an agent reads.

use engine::failure::Failure;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::Value;

use crate::page::shortened;

/// The outcome of a tool, as a document and as the same document in text, for clients that hand on only that.
#[derive(Clone, Debug)]
pub(crate) struct ToolAnswer {
    document: Value,
    /// In the order of the fields, which begins with what matters.
    text: String,
}

impl ToolAnswer {
    pub(crate) fn new(outcome: &impl Serialize) -> Result<Self, Failure> {
        let unwritable = |error| Failure::internal(format!("the outcome cannot be written: {error}"));
        let document = serde_json::to_value(outcome).map_err(unwritable)?;
        let text = serde_json::to_string(outcome).map_err(unwritable)?;
        Ok(Self { document, text })
    }
}

impl From<ToolAnswer> for CallToolResult {
    fn from(told: ToolAnswer) -> Self {
        let mut result = Self::success(vec![ContentBlock::text(told.text)]);
        result.structured_content = Some(told.document);
        result
    }
}

/// A failure that an agent can do something about: a result of the tool, which its model reads.
pub(crate) fn failed(failure: &Failure) -> CallToolResult {
    let kind = engine::failure::codes::name(failure.kind);
    // A message repeats what was typed, however long that is.
    let mut text = format!("{} ({kind})", shortened(&failure.message));
    if let Some(hint) = &failure.hint {
        text.push_str("\nNext: ");
        text.push_str(&shortened(hint));
    }
    CallToolResult::error(vec![ContentBlock::text(text)])
}
