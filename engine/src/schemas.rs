//! `schemas` makes the JSON Schemas of the documents that every front end returns, from the types of the outcomes.

use schemars::{JsonSchema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, json};

use crate::{
    failure::{codes, document::ErrorDocument},
    outcome::Outcome,
    verbs, workspace,
};

/// Every document by its name, which is that of the verb, and its schema.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("checkpoint", of::<workspace::CheckpointOutcome>("checkpoint")),
        ("commit", of::<verbs::commit::CommitOutcome>("commit")),
        ("config-show", of::<verbs::config::ConfigShowOutcome>("config show")),
        ("delete", of::<verbs::delete::DeleteOutcome>("delete")),
        ("diff", of::<verbs::diff::DiffOutcome>("diff")),
        ("doctor", of::<verbs::doctor::DoctorOutcome>("doctor")),
        ("error", document::<ErrorDocument>("What a command prints with --json if it fails".to_owned())),
        ("expect", of::<verbs::expect::ExpectOutcome>("expect")),
        ("export", of::<verbs::export::ExportOutcome>("export")),
        ("find", of::<verbs::find::FindOutcome>("find")),
        ("force-unlock", of::<verbs::force_unlock::ForceUnlockOutcome>("force-unlock")),
        ("gc", of::<verbs::gc::GcOutcome>("gc")),
        ("history", of::<verbs::history::HistoryOutcome>("history")),
        ("import", of::<verbs::import::ImportOutcome>("import")),
        ("init", of::<verbs::init::InitOutcome>("init")),
        ("list", of::<verbs::list::ListOutcome>("list")),
        ("lock-acquire", of::<verbs::lock::AcquireLockOutcome>("lock acquire")),
        ("lock-hold", of::<verbs::lock::hold::HoldLockOutcome>("lock hold")),
        ("lock-release", of::<verbs::lock::ReleaseLockOutcome>("lock release")),
        ("lock-renew", of::<verbs::lock::RenewLockOutcome>("lock renew")),
        ("lock-show", of::<verbs::lock::ShowLockOutcome>("lock show")),
        ("log", of::<verbs::log::LogOutcome>("log")),
        ("ls", of::<verbs::ls::LsOutcome>("ls")),
        ("metrics", of::<verbs::metrics::MetricsOutcome>("metrics")),
        ("mount", of::<verbs::mount::MountOutcome>("mount")),
        ("mounts", of::<verbs::mounts::MountsOutcome>("mounts")),
        ("reap", of::<verbs::reap::ReapOutcome>("reap")),
        ("restore", of::<verbs::restore::RestoreOutcome>("restore")),
        ("retention-apply", of::<verbs::retention::RetentionOutcome>("retention apply")),
        ("retention-plan", of::<verbs::retention::RetentionOutcome>("retention plan")),
        ("rollback", of::<verbs::rollback::RollbackOutcome>("rollback")),
        ("run", of::<verbs::run::RunOutcome>("run")),
        ("sessions", of::<verbs::sessions::SessionsOutcome>("sessions")),
        ("sessions-discard", of::<verbs::sessions::DiscardOutcome>("sessions discard")),
        ("sessions-remote", of::<verbs::sessions::remote::RemoteSessionsOutcome>("sessions --remote")),
        ("sessions-rescue", of::<verbs::sessions::RescueOutcome>("sessions rescue")),
        ("sessions-set-aside", of::<verbs::sessions::SetAsideOutcome>("sessions set-aside")),
        ("show", of::<verbs::show::ShowOutcome>("show")),
        ("snapshot", of::<verbs::snapshot::SnapshotOutcome>("snapshot")),
        ("stats", of::<verbs::stats::StatsOutcome>("stats")),
        ("tag", of::<verbs::tag::TagOutcome>("tag")),
        ("top", of::<verbs::top::TopOutcome>("top")),
        ("unmount", of::<verbs::unmount::UnmountOutcome>("unmount")),
        ("verify", of::<verbs::verify::VerifyOutcome>("verify")),
        ("workspace-changes", of::<workspace::ChangesOutcome>("workspace changes")),
        ("workspace-delete", of::<workspace::DeletedCheckpointOutcome>("workspace delete")),
        ("workspace-events", of::<workspace::EventsOutcome>("workspace events")),
        ("workspace-fork", of::<workspace::ForkOutcome>("workspace fork")),
        ("workspace-history", of::<workspace::PathHistoryOutcome>("workspace history")),
        ("workspace-list", of::<workspace::CheckpointsOutcome>("workspace list")),
        ("workspace-promote", of::<workspace::RevertOutcome>("workspace promote")),
        ("workspace-revert", of::<workspace::RevertOutcome>("workspace revert")),
        ("workspace-start", of::<workspace::WorkspaceOutcome>("workspace start")),
        ("workspace-status", of::<workspace::WorkspaceOutcome>("workspace status")),
        ("workspace-stop", of::<workspace::WorkspaceOutcome>("workspace stop")),
    ]
}

/// The schema of a verb's document. One whose work can end with a bad result has an error, too.
pub fn of<T: Outcome>(verb: &str) -> Value {
    let mut schema = document::<T>(format!("What `pstore {verb} --json` prints"));
    if T::HAS_VERDICT {
        if schema.get("anyOf").is_none() {
            schema["properties"]["error"] = verdict();
        }
        // Of one that has several forms, each may have it.
        for form in schema.get_mut("anyOf").and_then(Value::as_array_mut).into_iter().flatten() {
            form["properties"]["error"] = verdict();
        }
    }
    schema
}

/// The schema of an error beside an outcome.
fn verdict() -> Value {
    json!({
        "type": "object",
        "properties": {
            "kind": { "enum": codes::names() },
            "message": { "type": "string" },
            "hint": { "type": ["string", "null"] },
            "exit_code": { "type": "integer" },
        },
        "required": ["exit_code", "hint", "kind", "message"],
        "additionalProperties": false,
    })
}

/// The schema of a document that is handed out.
pub fn document<T: JsonSchema>(title: String) -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    settings.transforms.push(Box::new(RecursiveTransform(closed)));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    schema["title"] = json!(title);
    schema
}

/// An object has the fields that are listed and no others; numbers are described as JSON has them.
fn closed(schema: &mut schemars::Schema) {
    schema.remove("format");
    schema.remove("minimum");
    schema.remove("maximum");
    // A document that is handed out has its values.
    schema.remove("default");
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
}
