//! `Textfile` merges what processes of this host have counted into a file for node_exporter's textfile collector.
//!
//! Beside `pstore.prom` lies `pstore.counts`, with the same numbers in a form that can be added to, and the lock of
//! both. node_exporter reads neither: their names do not end in `.prom`.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    counts::{Bounds, Counts},
    counts_file::{self, CountsFile},
    exposition::{self, Format},
};

const PUBLIC: &str = "pstore.prom";
const KEPT: &str = "pstore.counts";

/// The file that node_exporter reads.
#[derive(Clone, Debug)]
pub struct Textfile {
    path: PathBuf,
    kept: CountsFile,
}

impl Textfile {
    /// In this directory, which exists.
    pub fn new(directory: &Path) -> Self {
        Self { path: directory.join(PUBLIC), kept: CountsFile::new(directory, KEPT) }
    }

    /// Whether it was never written.
    pub fn is_missing(&self) -> bool {
        !self.path.exists()
    }

    /// Adds what a process has counted to what all before it have. `gauges` are those of this host now.
    pub fn add(&self, more: &Counts, gauges: &Counts, host: &str, bounds: &Bounds) -> io::Result<()> {
        let held = self.kept.hold()?;
        let kept = held.add(more, bounds)?;
        let told = with_zeros(&kept, gauges, host, bounds);
        counts_file::replace(&self.path, exposition::text(&told, Format::Text).as_bytes())
    }

    /// What it holds, or would hold, with the gauges of this host now.
    pub fn told(&self, gauges: &Counts, host: &str, bounds: &Bounds) -> Counts {
        with_zeros(&self.kept.read(), gauges, host, bounds)
    }
}

fn with_zeros(kept: &Counts, gauges: &Counts, host: &str, bounds: &Bounds) -> Counts {
    let mut told = Counts::zeros(host);
    told.add(kept, bounds);
    told.add(gauges, bounds);
    told
}
