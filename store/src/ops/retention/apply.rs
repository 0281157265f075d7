//! Carries out the decisions: deletes the snapshots that no rule keeps.

use super::{Decision, Rule, Snapshot, Verdict, tags};
use crate::{
    Error, Result,
    catalog::lineage_handle::LineageHandle,
    content::TenantStore,
    error::Needed,
    format::{event::Actor, record::Record},
};

/// The outcome for a snapshot that was to go.
#[derive(Debug)]
pub enum Applied {
    /// It is gone.
    Removed,
    /// Somebody needs it after all.
    Kept(Needed),
    /// Somebody changed it meanwhile, or it is gone.
    Changed,
}

/// Removes the snapshots that the plan removes, oldest first, and tells each outcome. A snapshot
/// that was tagged after the plan was made stays.
pub async fn apply<'a>(
    store: &TenantStore,
    actor: &Actor,
    decisions: &'a [Decision],
) -> Result<Vec<(&'a Snapshot, Applied)>> {
    let mut removals: Vec<(&Snapshot, Rule)> = decisions
        .iter()
        .filter_map(|decision| match decision.verdict {
            Verdict::Remove(rule) => Some((&decision.snapshot, rule)),
            Verdict::Keep(_) => None,
        })
        .collect();
    removals.sort_by_key(|(snapshot, _)| snapshot.place);
    let mut applied = Vec::with_capacity(removals.len());
    for (snapshot, rule) in removals {
        applied.push((snapshot, remove(store, actor, snapshot, rule).await?));
    }
    Ok(applied)
}

async fn remove(store: &TenantStore, actor: &Actor, snapshot: &Snapshot, rule: Rule) -> Result<Applied> {
    let handle = LineageHandle::new(store.clone(), snapshot.lineage.clone(), actor.clone());
    let reason = format!("retention: {rule}");
    let unchanged = |record: &Record| tags(&record.tags) == snapshot.tags;
    match handle.delete_while(snapshot.record, &reason, unchanged).await {
        Ok(_) => Ok(Applied::Removed),
        Err(Error::SnapshotNeeded { needed, .. }) => Ok(Applied::Kept(needed)),
        Err(Error::Conflict { .. } | Error::NotFound { .. }) => Ok(Applied::Changed),
        Err(error) => Err(error),
    }
}
