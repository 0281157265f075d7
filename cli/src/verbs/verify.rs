//! `pstore verify`

use std::fmt::Write;

use serde_json::{Value, json};
use store::{
    ErrorKind,
    name::Lineage,
    ops::verify::{self, Damage, Options, Report},
};

use super::Context;
use crate::{answer::Answer, args::VerifyArgs, failure::Failure, progress, size};

pub(super) async fn run(context: Context, args: &VerifyArgs) -> Result<Answer, Failure> {
    let (tenant, lineage) = context.lineage(&args.lineage).await?;
    let options = Options { read_data: !args.structure };
    let report = verify::verify(&tenant, &lineage, options, progress::watch(context.console)).await?;
    let document = json!({
        "outcome": if report.damage.is_empty() { "whole" } else { "damaged" },
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "read_data": options.read_data,
        "snapshots": report.snapshots,
        "packs": report.packs,
        "chunks": report.chunks,
        "read_bytes": report.read_bytes,
        "damage": report.damage.iter().map(line).collect::<Vec<Value>>(),
    });
    let verdict = (!report.damage.is_empty()).then(|| {
        let findings = size::plural(report.damage.len() as u64, "finding", "findings");
        (ErrorKind::Damaged, format!("{lineage} is damaged: {findings}"))
    });
    Ok(Answer { verdict, ..Answer::new(document, text(&lineage, options, &report)) })
}

fn line(damage: &Damage) -> Value {
    let Damage { object, reason, snapshots, files, more_files } = damage;
    json!({ "object": object, "reason": reason, "snapshots": snapshots, "files": files, "more_files": more_files })
}

fn text(lineage: &Lineage, options: Options, report: &Report) -> String {
    let mut text = String::new();
    for Damage { object, reason, snapshots, files, more_files } in &report.damage {
        let _ = writeln!(text, "damaged: {object}: {reason}");
        if !snapshots.is_empty() {
            let _ = writeln!(text, "  needed by  {}", snapshots.join(", "));
        }
        for file in files {
            let _ = writeln!(text, "  file       {file}");
        }
        if *more_files > 0 {
            let _ = writeln!(text, "  and {} more files", size::count(*more_files));
        }
    }
    if report.damage.is_empty() {
        let depth = if options.read_data { "every byte" } else { "all metadata, but no content" };
        let _ = writeln!(text, "No damage found in {lineage} ({depth})");
    }
    let _ = writeln!(
        text,
        "Checked {}, {}, {}; read {}",
        size::plural(report.snapshots, "snapshot", "snapshots"),
        size::plural(report.packs, "pack", "packs"),
        size::plural(report.chunks, "chunk", "chunks"),
        size::bytes(report.read_bytes)
    );
    text
}
