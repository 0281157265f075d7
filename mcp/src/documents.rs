//! `documents` lists the `--json` documents of this crate's command, each with its schema.

use engine::schemas;
use serde_json::Value;

use crate::stdio::McpOutcome;

/// Every document by its name, and its schema.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![("mcp", schemas::document::<McpOutcome>("What `pstore mcp --json` prints".to_owned()))]
}
