//! `Directory` gives the files of a directory to the chunk pipeline.

use std::{fs::File, ops::Range, sync::Arc};

use super::plan::Plan;
use crate::{
    Result,
    content::{
        chunk_fetcher::startup::First,
        ingest::{Cutter, Files},
        workers::blocking,
    },
    progress::{Progress, Tick},
    tree::{
        read::{Content, ContentSink},
        stat_trust::StatTrust,
    },
};

/// Prepares for reading files, if there are any to read.
pub(super) async fn before_reading(plan: &Plan) -> Result<Option<StatTrust>> {
    if plan.to_read.is_empty() {
        return Ok(None);
    }
    let root = Arc::clone(&plan.root);
    let files: Vec<_> = plan.to_read.iter().map(|file| plan.walk.entries[file.entry].path.clone()).collect();
    blocking(move || StatTrust::before_reading(&root, &files).map(Some)).await
}

/// The files of a directory as the chunk pipeline wants them.
pub(super) struct Directory<'a> {
    pub content: &'a Content<'a>,
    pub first: &'a First,
    pub progress: &'a dyn Progress,
}

impl Files for Directory<'_> {
    fn len(&self) -> usize {
        self.content.len()
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()> {
        self.content.read(at, &mut CutterSink(cutter))?;
        self.progress.tick(Tick { files: 1, ..Tick::default() });
        Ok(())
    }

    fn is_first(&self, at: usize, part: Range<u64>) -> bool {
        let (path, size) = self.content.file(at);
        self.first.has(path, size, part)
    }
}

struct CutterSink<'a, 'b>(&'a mut Cutter<'b>);

impl ContentSink for CutterSink<'_, '_> {
    fn data(&mut self, file: &mut File, most: u64) -> std::io::Result<Result<u64>> {
        self.0.read_from(file, most)
    }

    fn hole(&mut self, len: u64) -> Result<()> {
        self.0.hole(len)
    }

    fn restart(&mut self) {
        self.0.restart();
    }
}
