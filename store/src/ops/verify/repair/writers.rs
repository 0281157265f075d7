//! Revokes writes that are under way when damage is found.
//!
//! A write looks at its base, and at the indexes it has used, once its lease exists, and refers to nothing
//! that is marked, or was taken out of the indexes, by then. So the lease of a write whose look came before
//! the mark is there when the marks are written; it is revoked here, and the write starts again. If it has
//! become a snapshot instead, that is marked like any other. One of the two always comes first, for both are
//! replacements of its record.

use crate::{
    Result,
    catalog::{lease::revocation, records, rules::Rules},
    content::TenantStore,
    format::record::State,
};

/// Revokes every write of the tenant that stores a snapshot. Says whether there was one. Those that move
/// chunks go on: they copy no damaged frame.
pub async fn revoke_writes(store: &TenantStore) -> Result<bool> {
    let mut found = false;
    for lineage in records::all_lineages(store).await? {
        for record in records::list(store, &lineage).await?.into_iter().flatten() {
            if record.state != State::Writing || !record.updates.is_empty() {
                continue;
            }
            found = true;
            // One that has changed meanwhile was renewed, or is a snapshot now, or has ended.
            while !revocation::revoke(store, &lineage, record.record, Rules::ALL).await? {
                let now = records::find(store, &lineage, record.record).await?;
                if now.is_none_or(|(now, ..)| now.state != State::Writing) {
                    break;
                }
            }
            tracing::info!(record = %record.record, %lineage, "a write that may refer to what is lost starts again");
        }
    }
    Ok(found)
}
