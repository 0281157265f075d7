//! `metrics` counts what the engine observes, and leaves it where a Prometheus finds it: behind a server, in a textfile
//! of node_exporter, or in reports that a server folds.
//!
//! ```text
//! observations, requests ──> Metrics ──> Counts ──> exposition (the server's /metrics, pstore metrics)
//!                                          ├──────> textfile
//!                                          └──────> reports ──> fold ──> totals
//! ```
//!
//! Whichever door is used, [`Metrics`] counts. The door only decides where the counts go.

mod counts;
mod counts_file;
mod exposition;
mod family;
mod fold;
mod gauges;
mod outlets;
mod registry;
mod reports;
mod textfile;
mod words;

#[cfg(test)]
mod counts_tests;
#[cfg(test)]
mod outlets_tests;

pub use counts::{Bounds, Counts};
pub use exposition::{Format, text};
pub use family::{ALL as FAMILIES, Family, FamilyKind, Label, Unit, Values};
pub use gauges::{of_host, of_process};
pub use registry::{CountingObserver, Metrics, Outlets};
pub use textfile::Textfile;
