//! What a snapshot did, told.

use std::fmt::Write;

use engine::text::size;
use serde_json::{Value, json};
use store::{
    catalog::pointer::Flip,
    name::Lineage,
    ops::write::snapshot::{Outcome, Report},
};

pub(in crate::verbs) fn document(lineage: &Lineage, report: &Report, warnings: &[String]) -> Value {
    let (pointer, from) = match &report.flip {
        Flip::Flipped { from, .. } => ("flipped", Some(from)),
        Flip::Unchanged => ("unchanged", None),
    };
    let counts = &report.counts;
    json!({
        "outcome": match report.outcome { Outcome::Stored => "stored", Outcome::Unchanged => "unchanged" },
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "snapshot_id": report.snapshot_id,
        "record": report.record,
        "pointer": pointer,
        "sha256_prefix": report.sha256_prefix,
        "active_sha256_prefix": report.held_back.is_none().then_some(&report.sha256_prefix),
        "flipped_from_sha256_prefix": from,
        "captured_at_ms": report.captured_at_ms,
        "held_back": report.held_back.as_ref().map(|held| held.word),
        "ended": report.health.as_ref().map(|health| &health.ended),
        "stop_ms": report.health.as_ref().map(|health| health.stop_ms),
        "databases_checked": report.health.as_ref().map(|health| health.checked),
        "databases_damaged": report.health.as_ref().map(|health| health.damaged.len()),
        "cookies": report.health.as_ref().and_then(|health| health.cookies.as_ref()).map(|cookies| cookies.rows),
        "uncompressed_size_bytes": report.uncompressed_bytes,
        "files": counts.files,
        "read_files": report.read_files,
        "reused_files": report.reused_files,
        "directories": counts.directories,
        "symlinks": counts.symlinks,
        "hard_links": counts.hard_links,
        "chunks": counts.chunks,
        "new_chunks": counts.new_chunks,
        "new_bytes": counts.new_bytes,
        "stored_bytes": counts.stored_bytes,
        "taken_over_packs": report.taken_over.packs,
        "taken_over_bytes": report.taken_over.bytes,
        "skipped": {
            "sockets": report.skipped.sockets,
            "fifos": report.skipped.fifos,
            "devices": report.skipped.devices,
        },
        "indexes": report.index.indexes,
        "indexes_left_out": report.index.left_out,
        "elapsed_ms": report.elapsed.as_millis() as u64,
        "warnings": warnings,
    })
}

pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    let skipped = &report.skipped;
    if skipped.total() > 0 {
        let kinds = [
            (skipped.sockets, "socket", "sockets"),
            (skipped.fifos, "FIFO", "FIFOs"),
            (skipped.devices, "device", "devices"),
        ];
        let kinds: Vec<String> =
            kinds.iter().filter(|kind| kind.0 > 0).map(|kind| size::plural(kind.0, kind.1, kind.2)).collect();
        warnings.push(format!("{} left out: only files, directories and links are stored", kinds.join(", ")));
    }
    if report.index.left_out > 0 {
        warnings.push(format!(
            "{} not looked at; some content may be stored twice",
            size::plural(report.index.left_out, "older index was", "older indexes were")
        ));
    }
    warnings
}

pub(in crate::verbs) fn text(lineage: &Lineage, report: &Report) -> String {
    let mut text = String::new();
    let elapsed = size::seconds(report.elapsed);
    let prefix = &report.sha256_prefix;
    let _ = match report.outcome {
        Outcome::Stored => writeln!(text, "Snapshot {prefix} of {lineage} stored in {elapsed}"),
        Outcome::Unchanged => writeln!(text, "Unchanged: {lineage} is snapshot {prefix} already ({elapsed})"),
    };
    let counts = &report.counts;
    let _ = writeln!(
        text,
        "  files    {} ({} reused, {} read), {}",
        size::count(counts.files),
        size::count(report.reused_files),
        size::count(report.read_files),
        size::bytes(report.uncompressed_bytes)
    );
    if report.outcome == Outcome::Stored {
        let _ = writeln!(
            text,
            "  new      {} in {} of {}",
            size::bytes(counts.new_bytes),
            size::count(counts.new_chunks),
            size::plural(counts.chunks, "chunk", "chunks")
        );
        let _ = writeln!(text, "  stored   {}{}", size::bytes(counts.stored_bytes), saving(report));
        if report.taken_over.packs > 0 {
            let _ = writeln!(
                text,
                "  resumed  {} in {}, stored before by a write that was cut short",
                size::bytes(report.taken_over.bytes),
                size::plural(report.taken_over.packs, "pack", "packs")
            );
        }
    }
    let _ = match &report.flip {
        Flip::Flipped { from, .. } if from.is_empty() => writeln!(text, "  pointer  set to {prefix}"),
        Flip::Flipped { from, .. } => writeln!(text, "  pointer  moved from {from} to {prefix}"),
        Flip::Unchanged if report.held_back.is_some() => writeln!(text, "  pointer  not moved"),
        Flip::Unchanged => writeln!(text, "  pointer  still at {prefix}"),
    };
    text
}

fn saving(report: &Report) -> String {
    match size::ratio(report.uncompressed_bytes, report.counts.stored_bytes) {
        Some(ratio) if ratio >= 1.05 => format!(" ({ratio:.1} times less than the profile)"),
        _ => String::new(),
    }
}
