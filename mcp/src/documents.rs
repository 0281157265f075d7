//! `documents` lists the `--json` documents of this crate's command, each with its schema.

use engine::schemas;
use serde_json::Value;

use crate::stdio::McpOutcome;

/// Every document by its name, and its schema.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![("mcp", schemas::document::<McpOutcome>("What `pstore mcp --json` prints".to_owned()))]
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// After a change that is meant, `PSTORE_WRITE_DOCUMENTS=1` writes the schemas anew.
    #[test]
    fn the_schemas_of_the_manual_are_those_of_the_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas");
        for (name, schema) in all() {
            let path = folder.join(format!("{name}.json"));
            let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
            if std::env::var_os("PSTORE_WRITE_DOCUMENTS").is_some() {
                fs::write(&path, &text).unwrap();
            }
            let kept = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(kept, text, "docs/schemas/{name}.json is not what the types say");
        }
    }
}
