//! `pstore list`

use serde_json::{Value, json};
use store::{
    format::record::{Mode, Record},
    ops::find::{self, Listing},
};

use super::Context;
use crate::{
    answer::Answer,
    args::{ListArgs, reason},
    failure::Failure,
    size,
    table::{
        Align::{Left, Right},
        Table,
    },
    time,
};

pub(super) async fn run(context: Context, args: &ListArgs) -> Result<Answer, Failure> {
    let (tenant, lineage) = context.lineage(&args.lineage).await?;
    let listing = find::list(&tenant, &lineage).await?;
    if let Some(prefix) = &listing.foreign {
        context.console.warn(&format!(
            "another program has moved the pointer of {lineage} to the archive {prefix}, which is not listed here"
        ));
    }
    let document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "active_sha256_prefix": active(&listing),
        "foreign": listing.foreign.is_some(),
        "snapshots": listing.records.iter().map(|record| line(record, &listing)).collect::<Vec<Value>>(),
    });
    Ok(Answer::new(document, table(&listing)))
}

fn active(listing: &Listing) -> String {
    let latest = listing.records.iter().find(|record| Some(record.record) == listing.latest);
    listing.foreign.clone().or_else(|| latest.map(Record::sha256_prefix)).unwrap_or_default()
}

fn line(record: &Record, listing: &Listing) -> Value {
    json!({
        "snapshot_id": record.content.as_ref().map(|content| content.snapshot_id),
        "record": record.record,
        "sha256_prefix": record.sha256_prefix(),
        "latest": Some(record.record) == listing.latest,
        "archive_sha256": record.archive_sha256,
        "captured_at_ms": record.captured_at_ms,
        "chrome_major_version": record.chrome_major_version,
        "uncompressed_size_bytes": record.uncompressed_size_bytes,
        "new_bytes": record.counts.new_bytes,
        "stored_bytes": record.counts.stored_bytes,
        "files": record.counts.files,
        "mode": record.mode,
        "reason": record.reason,
        "labels": record.labels,
        "notes": record.notes,
        "complete": record.complete,
    })
}

fn table(listing: &Listing) -> String {
    let mut table = Table::new(&[
        (" ", Left),
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("NEW", Right),
        ("STORED", Right),
        ("MODE", Left),
        ("CHROME", Right),
        ("REASON", Left),
        ("LABELS", Left),
    ]);
    for record in &listing.records {
        let latest = Some(record.record) == listing.latest;
        let labels: Vec<String> = record.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        table.row(vec![
            if latest { "*" } else { " " }.to_owned(),
            time::utc(record.captured_at_ms),
            record.sha256_prefix(),
            size::bytes(record.uncompressed_size_bytes),
            size::bytes(record.counts.new_bytes),
            size::bytes(record.counts.stored_bytes),
            mode(record.mode).to_owned(),
            record.chrome_major_version.to_string(),
            reason(record.reason).to_owned(),
            labels.join(" "),
        ]);
    }
    table.render()
}

pub(super) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Cold => "cold",
        Mode::Hot => "hot",
    }
}
