//! `pstore stats`

use engine::{Engine, failure::Failure, text::size, turns::Turns};
use serde_json::{Value, json};
use store::{
    name::Tenant,
    ops::stats::{self, Stats, Tally},
};

use crate::{
    answer::Answer,
    args::StatsArgs,
    table::{
        Align::{Left, Right},
        Table,
    },
};

pub(super) async fn run(engine: Engine, args: &StatsArgs) -> Result<Answer, Failure> {
    let mut all: Vec<(Tenant, Stats)> = Vec::new();
    let mut turns = Turns::of(&engine, args.tenant.as_ref(), "stats").await?;
    for tenant in turns.tenants() {
        let counted = count(&engine, &tenant).await;
        all.extend(turns.took(&tenant, counted)?.map(|stats| (tenant, stats)));
    }
    let total: Stats = all.iter().map(|(_, stats)| *stats).sum();
    if total.unreadable_records > 0 {
        let what = size::plural(total.unreadable_records, "record", "records");
        engine.warn(&format!("{what} could not be read; `pstore verify` says why"));
    }
    let tenants = all.iter().map(|(tenant, stats)| {
        let mut line = numbers(stats);
        line["tenant_id"] = json!(tenant);
        line
    });
    let document = json!({
        "store": engine.location.shown(),
        "tenants": tenants.collect::<Vec<Value>>(),
        "total": numbers(&total),
        "failed": turns.failed(),
    });
    Ok(Answer { verdict: turns.verdict(), ..Answer::new(document, text(&all, &total)) })
}

async fn count(engine: &Engine, tenant: &Tenant) -> Result<Stats, Failure> {
    Ok(stats::stats(&engine.tenant(tenant).await?).await?)
}

fn kinds(stats: &Stats) -> [(&'static str, &'static str, Tally); 5] {
    [
        ("packs", "content", stats.packs),
        ("meta_packs", "trees and tables", stats.meta_packs),
        ("indexes", "indexes", stats.indexes),
        ("records", "records", stats.records),
        ("other", "other", stats.other),
    ]
}

fn numbers(stats: &Stats) -> Value {
    let objects: serde_json::Map<String, Value> = kinds(stats)
        .into_iter()
        .map(|(name, _, tally)| (name.to_owned(), json!({ "objects": tally.objects, "bytes": tally.bytes })))
        .collect();
    json!({
        "profiles": stats.profiles,
        "snapshots": stats.snapshots,
        "uncompressed_size_bytes": stats.logical_bytes,
        "stored_bytes": stats.stored().bytes,
        "stored_objects": stats.stored().objects,
        "dedup_ratio": stats.dedup_ratio(),
        "unreadable_records": stats.unreadable_records,
        "kinds": objects,
    })
}

fn text(all: &[(Tenant, Stats)], total: &Stats) -> String {
    let mut table = Table::new(&[
        ("TENANT", Left),
        ("PROFILES", Right),
        ("SNAPSHOTS", Right),
        ("SIZE", Right),
        ("STORED", Right),
        ("RATIO", Right),
        ("OBJECTS", Right),
    ]);
    let mut row = |name: &str, stats: &Stats| {
        table.row(vec![
            name.to_owned(),
            size::count(stats.profiles),
            size::count(stats.snapshots),
            size::bytes(stats.logical_bytes),
            size::bytes(stats.stored().bytes),
            stats.dedup_ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")),
            size::count(stats.stored().objects),
        ]);
    };
    all.iter().for_each(|(tenant, stats)| row(tenant.as_str(), stats));
    if all.len() != 1 {
        row("total", total);
    }
    let mut parts = Table::new(&[("KIND", Left), ("OBJECTS", Right), ("STORED", Right)]);
    for (_, name, tally) in kinds(total) {
        parts.row(vec![name.to_owned(), size::count(tally.objects), size::bytes(tally.bytes)]);
    }
    format!("{}\n{}", table.render(), parts.render())
}
