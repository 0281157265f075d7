//! `schemas` makes the JSON Schemas of the documents that commands of this crate return.

use engine::{schemas::of, verbs::delete::DeleteOutcome};
use serde_json::Value;

use crate::{
    container::{
        ContainerListOutcome, ContainerRestoreOutcome, ContainerShowOutcome, ContainerSnapshotOutcome,
        ContainerStatsOutcome,
    },
    project::{delete, list, restore, save},
};

/// Every document by its name, which is that of the verb, and its schema.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("container-delete", of::<DeleteOutcome>("container delete")),
        ("container-list", of::<ContainerListOutcome>("container list")),
        ("container-restore", of::<ContainerRestoreOutcome>("container restore")),
        ("container-show", of::<ContainerShowOutcome>("container show")),
        ("container-snapshot", of::<ContainerSnapshotOutcome>("container snapshot")),
        ("container-stats", of::<ContainerStatsOutcome>("container stats")),
        ("project-delete", of::<delete::ProjectDeleteOutcome>("project delete")),
        ("project-list", of::<list::ProjectListOutcome>("project list")),
        ("project-restore", of::<restore::ProjectRestoreOutcome>("project restore")),
        ("project-save", of::<save::SaveOutcome>("project save")),
        ("project-show", of::<list::ProjectShowOutcome>("project show")),
    ]
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
