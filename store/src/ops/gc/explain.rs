//! `explain` names the records, pins and documents that keep a pack or a snapshot.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, stream};

use super::{condemned_docs, inventory::Inventory, roots::Catalog, spill_map::Room};
use crate::{
    Error, Result,
    catalog::{pins, pointer, records},
    content::TenantStore,
    format::{
        condemned::Phase,
        pointer::Target,
        record::{Record, State},
    },
    id::{PackId, RecordId},
    name::Lineage,
};

const REQUESTS_AT_ONCE: usize = 16;

/// The subject of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One pack.
    Pack(PackId),
    /// By the beginning of its id, of its archive's digest, or its record's whole id.
    Snapshot(String),
}

/// A record that keeps packs.
#[derive(Clone, Debug)]
pub struct Root {
    /// The lineage of the snapshot.
    pub lineage: Lineage,
    /// The record.
    pub record: RecordId,
    /// The snapshot's short name.
    pub sha256_prefix: String,
    /// Where the record is in its life.
    pub state: State,
    /// The names that operators gave it.
    pub tags: Vec<String>,
    /// Whether the pointer names it.
    pub is_current: bool,
    /// Whether a reader or a session keeps it.
    pub is_pinned: bool,
    /// How many bytes it needs of the packs in question.
    pub live_bytes: u64,
}

/// The roots that keep something, and the bytes that would go with them.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// The packs in question, with their size; `None` for a pack that is not there.
    pub packs: Vec<(PackId, Option<u64>)>,
    /// The snapshot itself, if one was asked about; else all that need the pack.
    pub roots: Vec<Root>,
    /// Snapshots that share packs with the one that was asked about.
    pub sharing: Vec<Root>,
    /// Bytes that would be freed if only the roots went.
    pub freed_bytes: u64,
    /// Documents that name any of the packs.
    pub documents: Vec<(RecordId, Phase)>,
}

/// Names the roots that keep a pack or a snapshot, and the bytes that would go with them.
pub async fn explain(store: &TenantStore, subject: &Subject) -> Result<Explanation> {
    let inventory = Inventory::take(store, Room { bytes: u64::MAX, scratch: None }).await?;
    let catalog = Catalog::list(store).await?;
    let mut read = stream::iter(catalog.records)
        .map(|(id, lineage)| async move { (records::find(store, &lineage, id).await, lineage) })
        .buffered(REQUESTS_AT_ONCE);
    let mut all: Vec<(Lineage, Record)> = Vec::new();
    while let Some((found, lineage)) = read.next().await {
        if let Some((record, ..)) = found?
            && matches!(record.state, State::Live | State::Trashed)
        {
            all.push((lineage, record));
        }
    }
    drop(read);
    let meant: Vec<usize> = (0..all.len()).filter(|at| fits(subject, &all[*at].1)).collect();
    let packs: HashSet<PackId> = match subject {
        Subject::Pack(pack) => HashSet::from([*pack]),
        Subject::Snapshot(_) => meant.iter().flat_map(|at| uses(&all[*at].1)).map(|(pack, _)| pack).collect(),
    };
    if let Subject::Snapshot(prefix) = subject
        && meant.is_empty()
    {
        return Err(Error::NotFound { what: format!("a snapshot {prefix} of {}", store.tenant) });
    }
    let pinned: HashSet<RecordId> = pins::pinned(store).await?.into_iter().collect();
    let mut current: HashMap<Lineage, Option<RecordId>> = HashMap::new();
    let mut explanation = Explanation::default();
    let mut others: HashSet<PackId> = HashSet::new();
    for (at, (lineage, record)) in all.iter().enumerate() {
        let live_bytes: u64 =
            uses(record).filter(|(pack, _)| packs.contains(pack)).map(|(_, bytes)| bytes).sum();
        if live_bytes == 0 && !meant.contains(&at) {
            continue;
        }
        if !current.contains_key(lineage) {
            let target = match pointer::read(store, lineage).await?.map(|read| read.pointer) {
                Some(pointer) => match pointer.target() {
                    Target::Record(record) => Some(record),
                    Target::Nothing | Target::Foreign(_) => None,
                },
                None => None,
            };
            current.insert(lineage.clone(), target);
        }
        let root = Root {
            lineage: lineage.clone(),
            record: record.record,
            sha256_prefix: record.sha256_prefix(),
            state: record.state,
            tags: record.tags.keys().cloned().collect(),
            is_current: current.get(lineage).copied().flatten() == Some(record.record),
            is_pinned: pinned.contains(&record.record),
            live_bytes,
        };
        if meant.contains(&at) {
            explanation.roots.push(root);
        } else {
            others.extend(uses(record).map(|(pack, _)| pack));
            explanation.sharing.push(root);
        }
    }
    let mut named: Vec<PackId> = packs.iter().copied().collect();
    named.sort_unstable();
    for pack in named {
        let bytes = inventory.packs.get(&pack)?.map(|pack| pack.bytes);
        let is_shared = others.contains(&pack);
        explanation.freed_bytes += bytes.filter(|_| !is_shared).unwrap_or_default();
        explanation.packs.push((pack, bytes));
    }
    for filed in condemned_docs::all(store).await? {
        if filed.body.packs.iter().any(|pack| packs.contains(pack)) {
            explanation.documents.push((filed.id, filed.phase()));
        }
    }
    Ok(explanation)
}

fn fits(subject: &Subject, record: &Record) -> bool {
    match subject {
        Subject::Pack(pack) => uses(record).any(|(used, _)| used == *pack),
        Subject::Snapshot(prefix) => {
            let lower = prefix.to_ascii_lowercase();
            let id = record.content.as_ref().map(|content| content.snapshot_id.to_string());
            record.sha256().starts_with(&lower)
                || id.is_some_and(|id| id.starts_with(&lower))
                || record.record.to_string() == prefix.to_ascii_uppercase()
        }
    }
}

fn uses(record: &Record) -> impl Iterator<Item = (PackId, u64)> + '_ {
    record.content.iter().flat_map(|content| &content.packs).map(|used| (used.pack, used.live_bytes))
}
