//! What became of an export.

use std::{fmt::Write, time::Duration};

use engine::text::{size, time};
use serde_json::{Value, json};
use store::{
    format::record::Record,
    id::Sha256,
    ops::archive::{
        export::{Archive, Exported, Framing},
        publish::Published,
    },
};

use crate::answer::Answer;

pub(super) fn exported(
    record: &Record,
    exported: &Exported,
    framing: Framing,
    elapsed: Duration,
    warnings: &[String],
) -> Answer {
    let Exported { archive, manifest, archive_path, manifest_path } = exported;
    let mut document = document("exported", record, Some((archive, framing)), elapsed, warnings);
    document["archive_sha256"] = json!(archive.sha256);
    document["archive_size_bytes"] = json!(archive.size_bytes);
    document["predecessor_sha256"] = json!(manifest.predecessor_sha256);
    document["archive"] = json!(archive_path);
    document["manifest"] = json!(manifest_path);
    let mut text = text("Exported", record, archive.sha256, archive.size_bytes, elapsed);
    let _ = writeln!(text, "            {}", archive_path.display());
    let _ = writeln!(text, "  manifest  {}", manifest_path.display());
    let brief = Some(format!("{}\n", archive_path.display()));
    Answer { brief, ..Answer::new(document, text) }
}

pub(super) fn published(
    record: &Record,
    published: &Published,
    framing: Framing,
    elapsed: Duration,
    warnings: &[String],
) -> Answer {
    let Published { archive_sha256, archive_size_bytes, archive_key, manifest_key, written, current } =
        published;
    let (outcome, word) = match written {
        Some(_) => ("published", "Published"),
        None => ("unchanged", "Published before:"),
    };
    let written = written.as_ref().map(|archive| (archive, framing));
    let mut document = document(outcome, record, written, elapsed, warnings);
    document["archive_sha256"] = json!(archive_sha256);
    document["archive_size_bytes"] = json!(archive_size_bytes);
    document["archive"] = json!(archive_key.as_str());
    document["manifest"] = json!(manifest_key.as_str());
    document["current"] = json!(current);
    let mut text = text(word, record, *archive_sha256, *archive_size_bytes, elapsed);
    let _ = writeln!(text, "            {archive_key}");
    let _ = writeln!(text, "  manifest  {manifest_key}");
    let names = if *current { "names it" } else { "names another snapshot" };
    let _ = writeln!(text, "  pointer   {names}");
    let brief = Some(format!("{archive_key}\n"));
    Answer { brief, ..Answer::new(document, text) }
}

fn document(
    outcome: &str,
    record: &Record,
    written: Option<(&Archive, Framing)>,
    elapsed: Duration,
    warnings: &[String],
) -> Value {
    let (framing, level) = match written {
        Some((_, Framing::Solid { level, .. })) => (Some("solid"), Some(level)),
        Some((_, Framing::Splice)) => (Some("splice"), None),
        None => (None, None),
    };
    let archive = written.map(|(archive, _)| archive);
    json!({
        "outcome": outcome,
        "tenant_id": record.tenant_id,
        "profile_id": record.profile_id,
        "chrome_major_version": record.chrome_major_version,
        "snapshot_id": record.content.as_ref().map(|content| content.snapshot_id),
        "record": record.record,
        "captured_at_ms": record.captured_at_ms,
        "uncompressed_size_bytes": record.uncompressed_size_bytes,
        "archive_sha256": null,
        "archive_size_bytes": null,
        "tar_sha256": archive.map(|archive| archive.tar_sha256).or(record.tar_sha256),
        "tar_size_bytes": archive.map(|archive| archive.tar_size_bytes),
        "predecessor_sha256": record.predecessor_sha256,
        "framing": framing,
        "level": level,
        "archive": null,
        "manifest": null,
        "current": null,
        "files": archive.map(|archive| archive.files),
        "skipped": archive.map(|archive| archive.skipped),
        "fetched_bytes": archive.map(|archive| archive.fetched_bytes),
        "elapsed_ms": elapsed.as_millis() as u64,
        "warnings": warnings,
    })
}

fn text(word: &str, record: &Record, sha: Sha256, bytes: u64, elapsed: Duration) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{word} {} of {}/{} in {}",
        record.sha256_prefix(),
        record.tenant_id,
        record.profile_id,
        size::seconds(elapsed)
    );
    let captured = time::utc(record.captured_at_ms);
    let _ = writeln!(text, "  captured  {captured} UTC, Chrome {}", record.chrome_major_version);
    let uncompressed = size::bytes(record.uncompressed_size_bytes);
    let _ = writeln!(text, "  files     {}, {uncompressed}", size::count(record.counts.files));
    let _ = writeln!(text, "  archive   {}, SHA-256 {sha}", size::bytes(bytes));
    text
}
