//! Takes expired locks away, of all profiles of a tenant.

use std::time::Duration;

use futures::{StreamExt, stream};

use crate::{
    Error, ErrorKind, Result,
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Eviction, Reaped},
        records,
    },
    content::TenantStore,
    format::event::Actor,
    name::Lineage,
};

const LOCKS_AT_ONCE: usize = 16;

/// The findings of a sweep.
#[derive(Debug, Default)]
pub struct Report {
    /// The locks that were taken away.
    pub evicted: Vec<(Lineage, Eviction)>,
    /// Held, or expired for less than the grace.
    pub left: u64,
    /// Locks that nobody held.
    pub free: u64,
    /// Locks that could not be judged, with the reason.
    pub failed: Vec<(Lineage, Error)>,
}

/// Sweeps all profiles of a tenant; without an `actor`, only tells what would be swept. One lock that cannot
/// be read stops no other.
pub async fn reap(store: &TenantStore, actor: Option<&Actor>, grace: Duration) -> Result<Report> {
    let mut report = Report::default();
    let lineages = records::all_lineages(store).await?;
    let mut swept = stream::iter(lineages)
        .map(|lineage| async move {
            let by = actor.cloned().unwrap_or_default();
            let handle = LineageHandle::new(store.clone(), lineage.clone(), by);
            let reaped = match actor {
                Some(_) => handle.reap(grace).await,
                None => handle.would_reap(grace).await,
            };
            (lineage, reaped)
        })
        .buffer_unordered(LOCKS_AT_ONCE);
    while let Some((lineage, reaped)) = swept.next().await {
        match reaped {
            Ok(Reaped::Evicted(eviction)) => report.evicted.push((lineage, eviction)),
            Ok(Reaped::Left | Reaped::Lost) => report.left += 1,
            Ok(Reaped::Free) => report.free += 1,
            Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
            Err(error) => report.failed.push((lineage, error)),
        }
    }
    report.evicted.sort_by(|(a, _), (b, _)| a.cmp(b));
    report.failed.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(report)
}
