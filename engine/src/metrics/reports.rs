//! `reports` puts what a process has counted into the store, for a server to fold; or keeps it on this host until
//! the store can be reached.

use std::{fs, io, time::Duration};

use sha2::{Digest, Sha256};
use store::{catalog::metrics, format::metrics::MetricsReport};

use super::{counts::Counts, counts_file::CountsFile};
use crate::{Engine, failure::Failure, location::Purpose};

/// How long a program waits for the store before it keeps its report to itself.
const PATIENCE: Duration = Duration::from_secs(5);

impl Engine {
    /// Reports what was counted since the last report. Never fails: what cannot be reported is kept on this host, and
    /// the next program on it reports it.
    pub(super) async fn report_metrics(&self) {
        let mut counts = self.metrics.take_for_report();
        // A server keeps in memory what it could not report: it tells of it meanwhile.
        let stays = self.metrics.serves_totals();
        let spool = if stays { None } else { self.spool() };
        if let Some(spool) = &spool {
            match spool.hold().and_then(|held| held.take()) {
                Ok(spooled) => counts.add(&spooled, &self.metrics.bounds()),
                Err(error) => tracing::debug!("earlier counts stay where they are: {error}"),
            }
        }
        if counts.is_empty() {
            return;
        }
        let report = MetricsReport::new(metrics::new_id(), counts.to_series());
        let put = tokio::time::timeout(PATIENCE, self.put_report(&report)).await;
        let failure = match put {
            Ok(Ok(())) => {
                if stays {
                    self.metrics.reported(report.id, counts);
                }
                return;
            }
            Ok(Err(failure)) => failure.message,
            Err(_) => format!("the store did not answer within {} s", PATIENCE.as_secs()),
        };
        tracing::info!("metrics could not be reported: {failure}");
        self.keep(spool.as_ref(), &counts);
    }

    async fn put_report(&self, report: &MetricsReport) -> Result<(), Failure> {
        // A report about requests would be the next one's cause.
        let bucket = self.location.unmetered().bucket(Purpose::Change).await?;
        Ok(metrics::put_report(&*bucket, report).await?)
    }

    fn keep(&self, spool: Option<&CountsFile>, counts: &Counts) {
        match spool {
            None => self.metrics.give_back_for_report(counts),
            Some(spool) => {
                let kept = spool.hold().and_then(|held| held.add(counts, &self.metrics.bounds()));
                if let Err(error) = kept {
                    tracing::info!("they are lost, because they cannot be kept on this host either: {error}");
                }
            }
        }
    }

    /// Where this host keeps what could not be reported to this store.
    fn spool(&self) -> Option<CountsFile> {
        let directory = self.cache_root.as_ref()?.join("metrics");
        if let Err(error) = fs::create_dir_all(&directory)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            tracing::debug!("{} cannot be made: {error}", directory.display());
            return None;
        }
        let digest = Sha256::digest(self.location.shown());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Some(CountsFile::new(&directory, &format!("{name}.counts")))
    }
}
