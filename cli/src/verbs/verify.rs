//! `pstore verify`

use std::fmt::Write;

use serde_json::{Value, json};
use store::{
    ErrorKind,
    catalog::clock,
    format::record::Record,
    name::Lineage,
    ops::verify::{self, Damage, Options, Report, Sample},
};

use super::Context;
use crate::{
    answer::Answer,
    args::VerifyArgs,
    failure::{self, Failure},
    plain, progress, size,
};

pub(super) async fn run(context: Context, args: &VerifyArgs) -> Result<Answer, Failure> {
    let reference = args.snapshot.named()?;
    if let Some(reference) = reference.filter(|_| args.repair) {
        let message = format!("--repair looks at all snapshots, and @{reference} names one");
        let hint = format!("`pstore verify {} --repair`", args.snapshot.name.profile);
        return Err(Failure::usage(message).hint(hint));
    }
    let (tenant, lineage) = match args.repair {
        true => context.lineage_to_change(&args.snapshot.lineage()).await?,
        false => context.lineage(&args.snapshot.lineage()).await?,
    };
    let chosen = match reference {
        Some(reference) => Some(context.snapshot(&tenant, &lineage, Some(reference)).await?),
        None => None,
    };
    let parts = args.read_data.filter(|parts| *parts > 1);
    let sample = parts.map(|parts| Sample::of_day(parts, clock::unix_ms()));
    let options = Options {
        only: chosen.as_ref().map(|record| record.record),
        read_data: !args.structure,
        sample,
        repair: args.repair,
        memory_bytes: verify::DEFAULT_MEMORY_BYTES,
    };
    let report = verify::verify(&tenant, &lineage, options, progress::watch(context.console)).await?;
    let document = json!({
        "outcome": match (report.damage.is_empty(), report.repaired.is_empty()) {
            (false, _) => "damaged",
            (true, false) => "repaired",
            (true, true) => "whole",
        },
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "read_data": options.read_data,
        "sample": sample.map(|Sample { part, of }| json!({ "part": part, "of": of })),
        "snapshots": report.snapshots,
        "packs": report.packs,
        "chunks": report.chunks,
        "read_bytes": report.read_bytes,
        "damage": report.damage.iter().map(line).collect::<Vec<Value>>(),
        "repaired": report.repaired.iter().map(line).collect::<Vec<Value>>(),
        "marked": report.marked,
    });
    let findings = |found: &[Damage]| size::plural(found.len() as u64, "finding", "findings");
    let verdict = match (&report.damage[..], &report.repaired[..]) {
        ([], []) => None,
        ([], repaired) => Some((
            ErrorKind::Repaired,
            format!("{lineage} was damaged and is whole again: {}", findings(repaired)),
        )),
        (damage, _) => Some((ErrorKind::Damaged, format!("{lineage} is damaged: {}", findings(damage)))),
    };
    Ok(Answer { verdict, ..Answer::new(document, text(&lineage, chosen.as_ref(), options, &report)) })
}

fn line(damage: &Damage) -> Value {
    let Damage { object, reason, snapshots, files, more_files } = damage;
    json!({ "object": object, "reason": reason, "snapshots": snapshots, "files": files, "more_files": more_files })
}

fn text(lineage: &Lineage, chosen: Option<&Record>, options: Options, report: &Report) -> String {
    let mut text = String::new();
    for Damage { object, reason, snapshots, files, more_files } in &report.damage {
        let _ = writeln!(text, "damaged: {}: {}", plain::line(object), plain::line(reason));
        if let Some(remedy) = failure::record_remedy(object) {
            let _ = writeln!(text, "  hint       {remedy}");
        }
        if !snapshots.is_empty() {
            let _ = writeln!(text, "  needed by  {}", plain::line(&snapshots.join(", ")));
        }
        for file in files {
            let _ = writeln!(text, "  file       {}", plain::line(file));
        }
        if *more_files > 0 {
            let _ = writeln!(text, "  and {} more files", size::count(*more_files));
        }
    }
    for Damage { object, reason, .. } in &report.repaired {
        let _ = writeln!(text, "repaired: {}: {}", plain::line(object), plain::line(reason));
    }
    if !report.marked.is_empty() {
        let _ = writeln!(text, "marked as damaged: {}", plain::line(&report.marked.join(", ")));
        if report.damage.is_empty() && !options.repair {
            let _ = writeln!(text, "  `pstore verify {} --repair` takes the mark away", lineage.name);
        }
    }
    if report.damage.is_empty() {
        let depth = match (options.read_data, options.sample) {
            (true, None) => "every byte".to_owned(),
            (true, Some(Sample { of, .. })) => format!("all metadata, and one part in {of} of the content"),
            (false, _) => "all metadata, but no content".to_owned(),
        };
        let of = chosen.map_or_else(String::new, |record| format!("snapshot {} of ", record.sha256_prefix()));
        let _ = writeln!(text, "No damage found in {of}{lineage} ({depth})");
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
