//! `pstore history`

use engine::{
    failure::Failure,
    text::{size, time},
};
use serde_json::{Value, json};
use store::{
    format::record::{Record, State},
    id::RecordId,
    name::Lineage,
    ops::read::history::{self, End},
};

use super::Engine;
use crate::{
    answer::Answer,
    args::HistoryArgs,
    table::{
        Align::{Left, Right},
        Table,
    },
};

const PREFIX_CHARS: usize = 12;

pub(super) async fn run(engine: Engine, args: &HistoryArgs) -> Result<Answer, Failure> {
    let reference = args.snapshot.reference()?;
    let (tenant, lineage) = engine.lineage(&args.snapshot.lineage()).await?;
    let start = engine.snapshot(&tenant, &lineage, reference).await?;
    let history = history::history(&tenant, &lineage, start).await?;
    let document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "snapshots": history.records.iter().map(line).collect::<Vec<Value>>(),
        "end": end(&lineage, &history.end),
    });
    let text = format!("{}{}\n", table(&history.records), message(&lineage, &history.end));
    Ok(Answer::new(document, text))
}

fn line(record: &Record) -> Value {
    json!({
        "snapshot_id": record.content.as_ref().map(|content| content.snapshot_id),
        "record": record.record,
        "parent": record.parent,
        "sha256_prefix": record.sha256_prefix(),
        "state": record.state,
        "captured_at_ms": record.captured_at_ms,
        "captured_by": record.captured_by,
        "uncompressed_size_bytes": record.uncompressed_size_bytes,
        "new_bytes": record.counts.new_bytes,
        "stored_bytes": record.counts.stored_bytes,
        "mode": record.mode,
        "reason": record.reason,
        "labels": record.labels,
        "notes": record.notes,
    })
}

fn table(records: &[Record]) -> String {
    let mut table = Table::new(&[
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("NEW", Right),
        ("MODE", Left),
        ("REASON", Left),
        ("BY", Left),
        ("LABELS", Left),
    ]);
    for record in records {
        let by = &record.captured_by;
        let by = [by.host.as_str(), by.host_run_id.as_str()].into_iter().filter(|part| !part.is_empty());
        let deleted = (record.state != State::Live).then(|| "(deleted)".to_owned());
        let labels = record.labels.iter().map(|(key, value)| format!("{key}={value}"));
        table.row(vec![
            time::utc(record.captured_at_ms),
            record.sha256_prefix(),
            size::bytes(record.uncompressed_size_bytes),
            size::bytes(record.counts.new_bytes),
            record.mode.as_str().to_owned(),
            record.reason.as_str().to_owned(),
            by.collect::<Vec<_>>().join("/"),
            deleted.into_iter().chain(labels).collect::<Vec<_>>().join(" "),
        ]);
    }
    table.render()
}

fn end(lineage: &Lineage, end: &End) -> Value {
    let (reason, record, sha256): (&str, Option<&RecordId>, Option<&String>) = match end {
        End::First => ("first", None, None),
        End::Foreign { sha256 } => ("foreign", None, Some(sha256)),
        End::Deleted { record, sha256 } => ("deleted", Some(record), Some(sha256)),
        End::Unreadable { record, sha256, .. } => ("unreadable", Some(record), Some(sha256)),
        End::Cycle { record } => ("cycle", Some(record), None),
    };
    json!({
        "reason": reason,
        "record": record,
        "sha256_prefix": sha256.map(|sha| prefix(sha)),
        "message": message(lineage, end),
    })
}

fn message(lineage: &Lineage, end: &End) -> String {
    match end {
        End::First => format!("nothing came before it: it is the first snapshot of {lineage}"),
        End::Foreign { sha256 } => {
            format!("before it came {}, an archive of another program", prefix(sha256))
        }
        End::Deleted { sha256, .. } => format!("before it came {}, which was deleted", prefix(sha256)),
        End::Unreadable { sha256, reason, .. } => {
            format!("before it came {}, which cannot be read: {reason}", prefix(sha256))
        }
        End::Cycle { record } => format!("before it comes record {record} again, which is no history"),
    }
}

fn prefix(sha256: &str) -> String {
    sha256.chars().take(PREFIX_CHARS).collect()
}
