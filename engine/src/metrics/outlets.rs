//! `outlets` leaves what a process has counted, while it works and when it ends: in the textfile, and in a report.

use std::time::Duration;

use super::{gauges, textfile::Textfile};
use crate::{Engine, interrupt::Interrupt};

/// How long after something happened it is left: what happens together is left together.
const SOON: Duration = Duration::from_secs(2);
/// How often counts are left though nothing worth mentioning happened.
const EVERY: Duration = Duration::from_secs(60);

impl Engine {
    /// Leaves what was counted since the last time, where the settings say. Never fails: no work depends on it.
    #[crate::boxed]
    pub async fn leave_metrics(&self) {
        if self.metrics.outlets().textfile {
            let engine = self.clone();
            // Another process may be writing.
            let _ = tokio::task::spawn_blocking(move || engine.write_textfile()).await;
        }
        if self.metrics.outlets().reports {
            self.report_metrics().await;
        }
    }

    /// Leaves counts while the process works, until `stopped` is raised. The caller that raises it leaves the rest.
    #[crate::boxed]
    pub async fn keep_leaving_metrics(self, stopped: Interrupt) {
        let outlets = self.metrics.outlets();
        if !outlets.textfile && !outlets.reports {
            return;
        }
        let mut until = std::pin::pin!(stopped.raised());
        self.begin_textfile();
        loop {
            tokio::select! {
                () = &mut until => return,
                () = self.metrics.changed() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
            tokio::select! {
                () = &mut until => return,
                () = tokio::time::sleep(SOON) => {}
            }
            self.leave_metrics().await;
        }
    }

    /// Makes the textfile if it is not there: everything begins at zero, before it is counted.
    fn begin_textfile(&self) {
        let directory = self.settings.metrics_textfile();
        if directory.is_some_and(|directory| Textfile::new(&directory).is_missing()) {
            self.write_textfile();
        }
    }

    fn write_textfile(&self) {
        let Some(directory) = self.settings.metrics_textfile() else { return };
        let (counts, gauges) = (self.metrics.take_for_textfile(), gauges::of_host(&self.settings));
        let textfile = Textfile::new(&directory);
        let written = textfile.add(&counts, &gauges, self.metrics.host(), &self.metrics.bounds());
        if let Err(error) = written {
            self.metrics.give_back_for_textfile(&counts);
            let shown = directory.display();
            tracing::warn!(
                "metrics cannot be left in {shown}: {error}; `pstore config show` tells where metrics_textfile is set"
            );
        }
    }
}
