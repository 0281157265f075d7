//! `fold` adds the reports of all programs to the totals, and removes them. One server at a time does it.

use std::collections::BTreeSet;

use store::{
    ErrorKind,
    catalog::{clock, metrics, store::Store},
    format::metrics::{FoldedReport, MetricsTotals},
    id::ReportId,
};

use super::counts::Counts;
use crate::{Engine, failure::Failure};

/// So many reports are folded in one turn.
const MAX_REPORTS: usize = 1000;
/// For so long the totals name a report that is gone, so that its sender learns that it is counted.
const NAMED_FOR_MS: u64 = 3_600_000;

impl Engine {
    /// Reads what all programs have reported.
    #[crate::boxed]
    pub async fn read_metrics_totals(&self, store: &Store) -> Result<(), Failure> {
        let seen = metrics::totals(store).await.map_err(explained)?;
        self.metrics.know_totals(&seen.totals);
        Ok(())
    }

    /// Adds the reports that are there to the totals. How many were added; if another server is at it too, it is
    /// first, and none are.
    ///
    /// A host that nobody has heard of begins at zero: its reports are left for the next turn, so that a Prometheus
    /// sees its first failure as an increase.
    #[crate::boxed]
    pub async fn fold_metrics(&self, store: &Store) -> Result<usize, Failure> {
        let seen = metrics::totals(store).await.map_err(explained)?;
        let listed = metrics::reports(store).await?;
        let mut counts = Counts::of_series(seen.totals.series.clone());
        let (bounds, known) = (self.metrics.bounds(), counts.hosts());
        let mut gone: BTreeSet<ReportId> = BTreeSet::new();
        let (mut added, mut has_new_host) = (Vec::new(), false);
        for id in listed.iter().copied().take(MAX_REPORTS) {
            if seen.totals.has(id) {
                gone.insert(id);
                continue;
            }
            let report = match metrics::report(store, id).await {
                Ok(Some(report)) => report,
                Ok(None) => continue,
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Denied) => {
                    return Err(error.into());
                }
                Err(error) => {
                    tracing::warn!("the report {id} is left out: {error}");
                    gone.insert(id);
                    continue;
                }
            };
            let reported = Counts::of_series(report.series);
            let new_hosts: Vec<String> = reported.hosts().difference(&known).cloned().collect();
            if known_hosts_are_few(&known) && !new_hosts.is_empty() {
                new_hosts.iter().for_each(|host| counts.add(&Counts::zeros(host), &bounds));
                has_new_host = true;
                continue;
            }
            counts.add(&reported, &bounds);
            added.push(id);
        }
        if !added.is_empty() || has_new_host {
            let now_ms = clock::unix_ms();
            let there: BTreeSet<ReportId> = listed.into_iter().collect();
            let is_named =
                |folded: &&FoldedReport| there.contains(&folded.id) || folded.at_ms + NAMED_FOR_MS > now_ms;
            let mut folded: Vec<FoldedReport> = seen.totals.folded.iter().filter(is_named).cloned().collect();
            folded.extend(added.iter().map(|id| FoldedReport { id: *id, at_ms: now_ms }));
            let next = MetricsTotals { folded, series: counts.to_series(), ..seen.totals.clone() };
            if !metrics::replace_totals(store, &seen, next.clone()).await? {
                return Ok(0);
            }
            self.metrics.know_totals(&next);
        }
        let count = added.len();
        for id in gone.into_iter().chain(added) {
            metrics::forget_report(store, id).await?;
        }
        Ok(count)
    }
}

/// Many hosts share a series, which is there already.
fn known_hosts_are_few(known: &BTreeSet<String>) -> bool {
    known.len() < super::counts::MAX_HOSTS
}

/// The advice about totals that cannot be read.
fn explained(error: store::Error) -> Failure {
    match error.kind() {
        ErrorKind::Damaged => Failure::from(error)
            .hint("remove operations/metrics/totals.json from the store: counting then begins anew"),
        _ => error.into(),
    }
}
