//! Snapshots that another program has stored: archives that no record of ours names.

use engine::{
    failure::Failure,
    text::{escape, size, time},
};
use serde_json::{Value, json};
use store::{
    ErrorKind, catalog::lineage_handle::LineageHandle, error::Needed, format::manifest::Manifest,
    name::Lineage,
};

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

/// What a rollback to an archive would do.
pub(super) fn planned_rollback(lineage: &Lineage, manifest: &Manifest, active: &str, reason: &str) -> Answer {
    let prefix = manifest.archive_sha256.prefix();
    let document = json!({
        "outcome": "planned",
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "active_sha256_prefix": active,
        "flipped_from_sha256_prefix": active,
        "to_sha256_prefix": prefix,
        "record": null,
        "snapshot_id": null,
        "captured_at_ms": manifest.captured_at_ms,
        "reason": reason,
    });
    let to = format!(
        "{prefix}  captured {} UTC, {}, archive of another program",
        time::utc(manifest.captured_at_ms),
        size::bytes(manifest.uncompressed_size_bytes)
    );
    let from = if active.is_empty() { "nothing" } else { active };
    let change = escape::fields(&[("profile", lineage.to_string()), ("from", from.to_owned()), ("to", to)]);
    let text =
        format!("{change}nothing was written; add --confirm to take the archive in and move the pointer\n");
    Answer::new(document, text)
}

/// Removes an archive of another program.
pub(super) async fn delete(
    controls: &LineageHandle,
    manifest: &Manifest,
    reason: &str,
) -> Result<Answer, Failure> {
    let (lineage, prefix) = (controls.lineage(), manifest.archive_sha256.prefix());
    if let Some(needed) = controls.delete_foreign(manifest, reason).await? {
        let Lineage { name, chrome_major } = lineage;
        let why = match needed {
            Needed::Latest => "it is the current one",
            _ => "it is the only one",
        };
        let message = format!("the archive {prefix} of {lineage} is needed: {why}");
        return Err(Failure::new(ErrorKind::SnapshotNeeded, message).hint(match needed {
            Needed::Latest => format!(
                "`pstore list {name}` shows others; `pstore rollback {name} --chrome-major {chrome_major} --sha OTHER --confirm` makes one current"
            ),
            _ => "a profile keeps at least one snapshot".to_owned(),
        }));
    }
    let document = json!({
        "outcome": "deleted",
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "sha256_prefix": prefix,
        "record": null,
        "snapshot_id": null,
        "captured_at_ms": manifest.captured_at_ms,
        "reason": reason,
    });
    let text = format!(
        "deleted the archive {prefix} of {lineage}, which another program had stored, captured {} UTC\n",
        time::utc(manifest.captured_at_ms)
    );
    Ok(Answer::new(document, text))
}
