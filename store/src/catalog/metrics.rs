//! `metrics` keeps the counts of programs: reports that they put into the store, and the totals that one
//! server at a time folds them into.
//!
//! A report is counted once. The totals name the reports that they hold, and are replaced by compare-and-swap; a report
//! is deleted only once the totals that name it are stored. So a server that dies between the two leaves a report that
//! the next one deletes without counting it again.

use super::{cas, clock, records::list_all, store::Store};
use crate::{
    Error, Result,
    bucket::{Bucket, BucketError, Depth, Version, Write, put_unique_once},
    format::{
        layout, limits,
        metrics::{MetricsReport, MetricsTotals},
    },
    id::{self, ReportId},
};

/// The totals as the store has them.
#[derive(Clone, Debug)]
pub struct StoredTotals {
    /// The document.
    pub totals: MetricsTotals,
    /// The version that a replacement must name; `None` if there is no document yet.
    version: Option<Version>,
}

/// An id for a new report; ids that are made later sort later.
pub fn new_id() -> ReportId {
    ReportId::from_parts(clock::unix_ms(), id::random())
}

/// Puts a report into the store. Sent once: a program that reports has better things to do than to wait.
pub async fn put_report(bucket: &dyn Bucket, report: &MetricsReport) -> Result<()> {
    let key = layout::metrics_report(report.id);
    Ok(put_unique_once(bucket, &key, report.encode().into()).await?)
}

/// The reports that are there, the oldest first.
pub async fn reports(store: &Store) -> Result<Vec<ReportId>> {
    let (entries, _) = list_all(&**store.bucket(), &layout::metrics_reports(), Depth::All).await?;
    let mut ids: Vec<ReportId> =
        entries.iter().filter_map(|entry| layout::metrics_report_of(&entry.key)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// One report; `None` if it is gone.
pub async fn report(store: &Store, id: ReportId) -> Result<Option<MetricsReport>> {
    let key = layout::metrics_report(id);
    let object = match store.bucket().get(&key, limits::METRICS_REPORT).await {
        Ok(object) => object,
        Err(BucketError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let report = MetricsReport::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if report.id != id {
        return Err(Error::damaged(&key, "it is another report"));
    }
    Ok(Some(report))
}

/// Removes a report that is counted, or that nobody can read.
pub async fn forget_report(store: &Store, id: ReportId) -> Result<()> {
    Ok(store.bucket().delete(&layout::metrics_report(id)).await?)
}

/// The counts of all programs so far.
pub async fn totals(store: &Store) -> Result<StoredTotals> {
    let key = layout::metrics_totals();
    match store.bucket().get(&key, limits::METRICS_TOTALS).await {
        Ok(object) => {
            let totals = MetricsTotals::decode(&object.bytes).map_err(|error| error.of(&key))?;
            Ok(StoredTotals { totals, version: Some(object.version) })
        }
        Err(BucketError::NotFound { .. }) => {
            Ok(StoredTotals { totals: MetricsTotals::default(), version: None })
        }
        Err(error) => Err(error.into()),
    }
}

/// Replaces the totals; `false` if somebody else has done so meanwhile.
pub async fn replace_totals(store: &Store, seen: &StoredTotals, mut next: MetricsTotals) -> Result<bool> {
    let key = layout::metrics_totals();
    next.revision = seen.totals.revision + 1;
    let bytes = next.encode();
    match &seen.version {
        Some(version) => {
            let written = cas::replace(&**store.bucket(), &key, bytes.into(), version.clone()).await?;
            Ok(written.is_some())
        }
        None => match store.bucket().put(&key, bytes.into(), Write::Create).await {
            Ok(_) => Ok(true),
            Err(BucketError::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        bucket::MemoryBucket,
        format::metrics::{Series, SeriesValue},
    };

    #[tokio::test]
    async fn reports_are_put_listed_and_removed() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        let series = Series { name: "a_total".to_owned(), labels: vec![], value: SeriesValue::Counter(1) };
        let later = MetricsReport::new(ReportId::from_parts(2, [0; 10]), vec![series.clone()]);
        let earlier = MetricsReport::new(ReportId::from_parts(1, [9; 10]), vec![series]);
        for report in [&later, &earlier, &later] {
            put_report(&**store.bucket(), report).await.unwrap();
        }
        assert_eq!(reports(&store).await.unwrap(), [earlier.id, later.id]);
        assert_eq!(report(&store, later.id).await.unwrap(), Some(later.clone()));
        forget_report(&store, later.id).await.unwrap();
        assert_eq!(report(&store, later.id).await.unwrap(), None);
    }

    #[tokio::test]
    async fn of_two_who_fold_at_once_one_replaces_the_totals() {
        let store = Store::new(Arc::new(MemoryBucket::new()), None);
        let empty = totals(&store).await.unwrap();
        assert!(replace_totals(&store, &empty, MetricsTotals::default()).await.unwrap());
        assert!(!replace_totals(&store, &empty, MetricsTotals::default()).await.unwrap());
        let first = totals(&store).await.unwrap();
        assert_eq!(first.totals.revision, 1);
        let named = |id| MetricsTotals {
            folded: vec![crate::format::metrics::FoldedReport { id, at_ms: 1 }],
            ..MetricsTotals::default()
        };
        assert!(replace_totals(&store, &first, named(new_id())).await.unwrap());
        assert!(!replace_totals(&store, &first, named(new_id())).await.unwrap());
        assert_eq!(totals(&store).await.unwrap().totals.revision, 2);
    }
}
