//! `stats` turns the arguments of `pstore stats` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::size,
    verbs::stats::{ObjectKinds, StatsOutcome, StatsRequest, StoredFields},
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
    let outcome = engine.stats(&StatsRequest { tenant: args.tenant.clone() }).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &StatsOutcome) -> String {
    let mut table = Table::new(&[
        ("TENANT", Left),
        ("PROFILES", Right),
        ("SNAPSHOTS", Right),
        ("SIZE", Right),
        ("STORED", Right),
        ("RATIO", Right),
        ("OBJECTS", Right),
    ]);
    let mut row = |name: &str, stored: &StoredFields| {
        table.row(vec![
            name.to_owned(),
            size::count(stored.profiles),
            size::count(stored.snapshots),
            size::bytes(stored.uncompressed_size_bytes),
            size::bytes(stored.stored_bytes),
            stored.dedup_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")),
            size::count(stored.stored_objects),
        ]);
    };
    outcome.tenants.iter().for_each(|tenant| row(tenant.tenant_id.as_str(), &tenant.stored));
    if outcome.tenants.len() != 1 {
        row("total", &outcome.total);
    }
    format!("{}\n{}", table.render(), kinds(&outcome.total.kinds))
}

fn kinds(kinds: &ObjectKinds) -> String {
    let mut table = Table::new(&[("KIND", Left), ("OBJECTS", Right), ("STORED", Right)]);
    for (name, count) in [
        ("content", kinds.packs),
        ("trees and tables", kinds.meta_packs),
        ("indexes", kinds.indexes),
        ("records", kinds.records),
        ("other", kinds.other),
    ] {
        table.row(vec![name.to_owned(), size::count(count.objects), size::bytes(count.bytes)]);
    }
    table.render()
}
