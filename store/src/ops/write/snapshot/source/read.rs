//! Reads the files of a directory into chunks, and says which must be read once more.

use std::sync::Arc;

use super::DirectorySource;
use crate::{
    Error, Result,
    content::{chunk_fetcher::startup::First, ingest::Ingested, meta::NewTree, workers::blocking},
    ops::write::snapshot::{
        Request,
        reading::{Directory, before_reading},
    },
    tree::read::Content,
};

impl DirectorySource<'_> {
    /// Reads the files that must be read into chunks.
    pub(super) async fn read(&mut self) -> Result<Ingested> {
        let before = match self.before.take() {
            Some(before) => Some(before),
            None => before_reading(&self.plan).await?,
        };
        let files = std::mem::take(&mut self.plan.to_read);
        self.read_files += files.len() as u64;
        let (root, entries) = (Arc::clone(&self.plan.root), std::mem::take(&mut self.plan.walk.entries));
        let (ingest, progress) = (self.writer.ingest(), Arc::clone(&self.capture.progress));
        let Request { threads, guess, .. } = *self.capture.request;
        let first_reads = self.first_reads.clone();
        let (entries, ingested, read) = blocking(move || {
            if files.is_empty() {
                return Ok((entries, ingest.flush()?, Vec::new()));
            }
            let content = Content::new(&root, &entries, files);
            let first = First::of(&first_reads, guess, &entries);
            let directory = Directory { content: &content, first: &first, progress: &*progress };
            let extents = ingest.run(&directory, threads)?;
            let ingested = ingest.flush()?;
            let read: Vec<_> = content.finish().into_iter().zip(extents).collect();
            Ok((entries, ingested, read))
        })
        .await?;
        if let Some(before) = before {
            let seen: Vec<_> =
                read.iter().filter_map(|((file, state), _)| Some((file.entry, (*state)?))).collect();
            // Nothing waits for this but what is remembered in the end.
            self.trusted.push(tokio::task::spawn_blocking(move || {
                let trust = before.after_reading();
                seen.into_iter().filter(|(_, state)| trust.allows(state)).collect()
            }));
        }
        self.plan.walk.entries = entries;
        for ((file, state), extents) in read {
            self.plan.fill(file, extents, state);
        }
        Ok(ingested)
    }

    /// The tree as it was read, and whether the directory is still what was read.
    pub(super) async fn tree(&mut self) -> Result<(NewTree, Result<()>)> {
        let (store, plan) = (self.capture.store.clone(), self.plan.move_out());
        let (plan, tree, unchanged) = blocking(move || {
            let (tree, unchanged) = std::thread::scope(|scope| {
                let looking = scope.spawn(|| plan.check_unchanged());
                let tree = plan.tree(&store);
                let panicked = || Err(Error::Internal { what: "looking again has failed".to_owned() });
                (tree, looking.join().unwrap_or_else(|_| panicked()))
            });
            Ok((plan, tree, unchanged))
        })
        .await?;
        self.plan = plan;
        Ok((tree?, unchanged))
    }

    /// Entries whose files must be read again.
    pub(super) async fn read_again(&mut self) -> Result<Vec<usize>> {
        let entries = Arc::new(std::mem::take(&mut self.plan.walk.entries));
        let unresolved = self.writer.unresolved(&entries).await?;
        self.plan.walk.entries = Arc::unwrap_or_clone(entries);
        let mut again: Vec<usize> = unresolved.into_iter().map(|chunk| chunk.entry).collect();
        again.dedup();
        Ok(again)
    }
}
