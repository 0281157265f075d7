//! Snapshots that another program has stored: archives that no record of ours names.

use engine::{
    failure::Failure,
    text::{escape, size, time},
};
use serde_json::{Value, json};
use store::format::manifest::Manifest;

use crate::answer::Answer;

/// An archive as its manifest tells of it.
pub(super) fn show(manifest: &Manifest) -> Result<Answer, Failure> {
    let mut document: Value =
        serde_json::from_slice(&manifest.encode()).map_err(|error| Failure::internal(error.to_string()))?;
    document["foreign"] = json!(true);
    let by = &manifest.captured_by;
    let mut lines = vec![
        ("archive", format!("{}, {}", manifest.archive_sha256, size::bytes(manifest.archive_size_bytes))),
        ("stored by", "another program; a rollback to it, or a load of it, takes it in".to_owned()),
        ("profile", format!("{}/{}", manifest.tenant_id, manifest.profile_id)),
        ("chrome", manifest.chrome_major_version.to_string()),
        ("captured", format!("{} UTC, {}", time::utc(manifest.captured_at_ms), manifest.mode.as_str())),
        ("by", format!("{}, {}, {}", by.host, by.host_run_id, by.writer_version)),
        ("size", size::bytes(manifest.uncompressed_size_bytes)),
    ];
    if let Some(place) = &manifest.captured_in {
        lines.extend(super::show::region(place));
    }
    if !manifest.predecessor_sha256.is_empty() {
        lines.push(("follows", manifest.predecessor_sha256.clone()));
    }
    if !manifest.notes.is_empty() {
        lines.push(("notes", manifest.notes.clone()));
    }
    let brief = Some(format!("{}\n", manifest.archive_sha256));
    Ok(Answer { brief, ..Answer::new(document, escape::fields(&lines)) })
}
