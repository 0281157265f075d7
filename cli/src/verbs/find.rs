//! `pstore find`

use std::os::unix::ffi::OsStrExt;

use engine::{
    failure::Failure,
    text::{glob::Glob, path, size, time},
};
use serde_json::{Value, json};
use store::{
    format::{record::Record, tree::Entry},
    name::Lineage,
    ops::read::{browse, resolve},
};

use super::{Engine, inside};
use crate::{
    answer::Answer,
    args::FindArgs,
    table::{
        Align::{Left, Right},
        Table,
    },
};

pub(super) async fn run(engine: Engine, args: &FindArgs) -> Result<Answer, Failure> {
    let named = args.snapshot.named()?;
    if let Some(reference) = named.filter(|_| args.all) {
        let message = format!("--all looks at all snapshots, and @{reference} names one");
        return Err(Failure::usage(message).hint("leave one of them out"));
    }
    let (tenant, lineage) = engine.lineage_to_judge(&args.snapshot.lineage()).await?;
    let records = match args.all {
        true => resolve::list(&tenant, &lineage).await?.records,
        false => vec![engine.snapshot(&tenant, &lineage, args.snapshot.reference()?).await?],
    };
    let glob = Glob::new(args.glob.as_bytes());
    let (mut table, mut matches, mut paths) = (heading(), Vec::new(), String::new());
    // One tree at a time, however many there are.
    for record in &records {
        let entries = browse::entries(&tenant, record).await?;
        for entry in
            entries.iter().filter(|entry| !entry.path.is_root() && glob.is_like(entry.path.as_bytes()))
        {
            table.row(row(record, &entries, entry));
            matches.push(document(record, &entries, entry));
            paths.push_str(&format!("{}\n", path::shown(entry.path.as_bytes())));
        }
    }
    if matches.is_empty() {
        engine.say(&format!(
            "nothing in {} is like {}",
            searched(&lineage, &records),
            path::shown(args.glob.as_bytes())
        ));
    }
    let text = match args.all {
        _ if matches.is_empty() => String::new(),
        true => table.render(),
        false => paths,
    };
    let document = json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "snapshots": records.len(),
        "matches": matches,
    });
    Ok(Answer::new(document, text))
}

fn searched(lineage: &Lineage, records: &[Record]) -> String {
    match records {
        [record] => format!("snapshot {} of {lineage}", record.sha256_prefix()),
        _ => format!("{} of {lineage}", size::plural(records.len() as u64, "snapshot", "snapshots")),
    }
}

fn heading() -> Table {
    Table::new(&[
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("MODIFIED (UTC)", Left),
        ("PATH", Left),
    ])
}

fn row(record: &Record, entries: &[Entry], entry: &Entry) -> Vec<String> {
    vec![
        time::utc(record.captured_at_ms),
        record.sha256_prefix(),
        inside::size(entries, entry).map(size::bytes).unwrap_or_default(),
        time::utc(inside::modified_at_ms(inside::meta(entries, entry))),
        path::shown(entry.path.as_bytes()),
    ]
}

fn document(record: &Record, entries: &[Entry], entry: &Entry) -> Value {
    let mut document = inside::document(entries, entry);
    document["sha256_prefix"] = json!(record.sha256_prefix());
    document["record"] = json!(record.record);
    document["captured_at_ms"] = json!(record.captured_at_ms);
    document
}
