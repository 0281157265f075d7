//! Snapshots that another program has stored: archives that no record of ours names.

use serde_json::{Value, json};
use store::{
    Error, ErrorKind,
    catalog::{controls::Controls, foreign},
    content::TenantStore,
    error::Needed,
    format::{manifest::Manifest, record::Record},
    name::Lineage,
    ops::find::{self, Reference},
};

use super::Context;
use crate::{answer::Answer, failure::Failure, plain, progress, size, time};

/// What a person means by a name.
pub(super) enum Meant {
    Ours(Box<Record>),
    Anothers(Box<Manifest>),
}

impl Context {
    /// The snapshot or the archive of another program that is meant; if nothing is said, the current one.
    pub(super) async fn meant(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        reference: Option<&Reference>,
    ) -> Result<Meant, Failure> {
        let prefix = match find::snapshot(tenant, lineage, reference).await {
            Ok(record) => return Ok(Meant::Ours(Box::new(record))),
            Err(Error::Foreign { sha256_prefix, .. }) => Some(sha256_prefix),
            Err(Error::NotFound { .. }) => match reference {
                Some(Reference::Digits(digits) | Reference::Word(digits)) => Some(digits.clone()),
                _ => None,
            },
            Err(_) => None,
        };
        let found = match prefix {
            Some(prefix) => foreign::find(tenant, lineage, &prefix).await?,
            None => None,
        };
        match found {
            Some(manifest) => Ok(Meant::Anothers(Box::new(manifest))),
            // Asked once more for what helps.
            None => {
                self.snapshot(tenant, lineage, reference).await.map(|record| Meant::Ours(Box::new(record)))
            }
        }
    }

    /// Stores the archive of another program as a snapshot. The pointer stays.
    pub(super) async fn take_in(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        manifest: Manifest,
    ) -> Result<Record, Failure> {
        let prefix = manifest.archive_sha256.prefix();
        self.console.say(&format!("{prefix} is an archive of another program; taking it in"));
        let adoption = self.adoption(&lineage.name.tenant);
        Ok(adoption.take_in(tenant, lineage, manifest, progress::watch(self.console)).await?)
    }
}

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
    Ok(Answer { brief, ..Answer::new(document, plain::fields(&lines)) })
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
    let change = plain::fields(&[("profile", lineage.to_string()), ("from", from.to_owned()), ("to", to)]);
    let text =
        format!("{change}nothing was written; add --confirm to take the archive in and move the pointer\n");
    Answer::new(document, text)
}

/// Removes an archive of another program.
pub(super) async fn delete(
    controls: &Controls,
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
