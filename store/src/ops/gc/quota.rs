//! `advice` lists the garbage and the snapshots that a tenant beyond its quota could do without.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};

use super::{Collector, Options};
use crate::{
    Result,
    catalog::{pointer, records},
    content::TenantStore,
    format::{pointer::Target, record::Record},
    id::PackId,
    name::Lineage,
};

const LINEAGES_AT_ONCE: usize = 8;

/// Ways to bring a tenant below its quota.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    /// Bytes that nothing needs any more.
    pub collectable_bytes: u64,
    /// Snapshots that are not current, with how much would go with each alone, most first.
    pub snapshots: Vec<(Lineage, String, u64)>,
}

/// Finds out how much each step would free.
pub async fn advice(store: &TenantStore) -> Result<Advice> {
    let plan = Collector::new(store.clone(), Options::default()).plan().await?;
    let going = plan.deleted.bytes + plan.condemned_total().bytes + plan.waiting().bytes;
    // What is needed of packs that are emptied is stored again.
    let collectable_bytes = going.saturating_sub(plan.repacked.kept_bytes);
    let lineages = records::all_lineages(store).await?;
    let found: Vec<Vec<(Lineage, Record, bool)>> = stream::iter(lineages)
        .map(|lineage| async move { of_lineage(store, lineage).await })
        .buffered(LINEAGES_AT_ONCE)
        .try_collect()
        .await?;
    let all: Vec<(Lineage, Record, bool)> = found.into_iter().flatten().collect();
    let uses = |record: &Record| -> Vec<(PackId, u64)> {
        let packs = record.content.iter().flat_map(|content| &content.packs);
        packs.map(|used| (used.pack, used.live_bytes)).collect()
    };
    let mut sharers: HashMap<PackId, u32> = HashMap::new();
    for (_, record, _) in &all {
        uses(record).into_iter().for_each(|(pack, _)| *sharers.entry(pack).or_default() += 1);
    }
    let mut snapshots: Vec<(Lineage, String, u64)> = all
        .iter()
        .filter(|(_, record, is_current)| !is_current && record.tags.is_empty())
        .map(|(lineage, record, _)| {
            let own = uses(record).into_iter().filter(|(pack, _)| sharers.get(pack) == Some(&1));
            (lineage.clone(), record.sha256_prefix(), own.map(|(_, bytes)| bytes).sum())
        })
        .collect();
    snapshots.sort_by_key(|(.., bytes)| std::cmp::Reverse(*bytes));
    Ok(Advice { collectable_bytes, snapshots })
}

async fn of_lineage(store: &TenantStore, lineage: Lineage) -> Result<Vec<(Lineage, Record, bool)>> {
    let live = records::live(store, &lineage).await?;
    let current = match pointer::read(store, &lineage).await?.as_ref().map(|read| read.pointer.target()) {
        Some(Target::Record(current)) => Some(current),
        _ => None,
    };
    let with = |record: Record| {
        let is_current = current == Some(record.record);
        (lineage.clone(), record, is_current)
    };
    Ok(live.into_iter().map(with).collect())
}
