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
