//! Reads the files of a directory into chunks, and says which must be read once more.

use std::sync::Arc;

use super::DirectorySource;
use crate::{
    Error, Result,
    content::{
        chunk_fetcher::startup::First,
        ingest::Ingested,
        meta::NewTree,
        snapshot_tree::SnapshotTree,
        tree_editor::{Edited, TreeEditor},
        workers::blocking,
    },
    format::tree::TreePath,
    ops::write::snapshot::{
        Request,
        captured::{Edit, Reads},
        reading::{Directory, before_reading},
        snapshot_id,
    },
    tree::{read::OnChange, walk::FoundFile},
};

impl DirectorySource<'_> {
    /// Reads files into chunks: those of the plan, or then those that must be read `again`.
    pub(super) async fn read(&mut self, again: Vec<(TreePath, FoundFile)>) -> Result<Ingested> {
        let before = match self.before.take() {
            Some(before) => Some(before),
            None if again.is_empty() => None,
            None => before_reading(&self.captured.plan, &again).await?,
        };
        let (plan, reads) = (Arc::clone(&self.captured.plan), std::mem::take(&mut self.captured.reads));
        let planned = if again.is_empty() { plan.to_read[0] + plan.to_read[1] } else { again.len() };
        self.read_files += planned as u64;
        let (ingest, progress) = (self.writer.ingest(), Arc::clone(&self.capture.progress));
        let Request { threads, guess, .. } = *self.capture.request;
        let (first_reads, round) = (self.first_reads.clone(), self.rounds.len());
        let on_change = self.capture.on_change();
        let (reads, ingested) = blocking(move || {
            if planned == 0 {
                return Ok((reads, ingest.flush()?));
            }
            let first = First::of(&first_reads, guess, &plan.top);
            let mut now = Reads::below(plan.aside.as_deref());
            let Reads { runs, again: read_again } = &mut now;
            let is_again = !again.is_empty();
            let files: Box<dyn Iterator<Item = _> + Send> =
                if is_again { Box::new(again.into_iter().map(Ok)) } else { plan.files() };
            let directory = Directory::new(
                (&plan.root, on_change),
                &first,
                &*progress,
                (planned, files),
                Box::new(|at, path, file| match is_again {
                    true => drop(read_again.insert(path, (file, round))),
                    false => runs[usize::from(at >= plan.to_read[0])].push(&file),
                }),
            );
            ingest.run_with(&directory, threads, &|at, extents| directory.done(at, extents))?;
            drop(directory);
            let ingested = ingest.flush()?;
            Ok((Arc::new(if is_again { earlier(reads, now)? } else { now }), ingested))
        })
        .await?;
        self.captured.reads = reads;
        if let Some(before) = before {
            // Nothing waits for this but what is remembered in the end.
            self.rounds.push(tokio::task::spawn_blocking(move || before.after_reading()));
        }
        Ok(ingested)
    }

    /// The tree as it was read.
    pub(super) async fn tree(&self) -> Result<NewTree> {
        match self.edited().await {
            Ok(Some(tree)) => return Ok(tree),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "the current snapshot cannot be edited; all of the tree is cut anew");
                self.captured.forget_changes();
            }
        }
        let (store, captured) = (self.capture.store.clone(), self.captured.clone());
        let base = self.writer.base_tree();
        blocking(move || captured.tree(&store, base.as_deref().map(SnapshotTree::root))).await
    }

    /// The same, if little has changed since the base, and the directory was that.
    async fn edited(&self) -> Result<Option<NewTree>> {
        let (Some(base), Some(tree)) = (self.writer.base(), self.writer.base_tree()) else { return Ok(None) };
        let before = self.captured.plan.changes.as_ref().map(|(before, _)| *before);
        if before.is_none() || snapshot_id(base) != before {
            return Ok(None);
        }
        let Some(edits) = self.captured.edits()? else { return Ok(None) };
        let mut editor = TreeEditor::new(self.capture.store, Some(tree));
        for edit in edits {
            match edit {
                Edit::Gone(path) => editor.remove(&path).await?,
                Edit::Put(taken) => editor.put(&taken.entry).await?,
            }
        }
        let Edited { tree, counts: changed, .. } = editor.finish().await?;
        let mut counts = base.counts.clone();
        changed.apply(&mut counts);
        if self.captured.plan.has_found(&counts) {
            return Ok(Some(tree));
        }
        tracing::warn!("what this host remembers of the directory is wrong; all of the tree is cut anew");
        self.captured.forget_changes();
        Ok(None)
    }

    /// Whether the directory is still as it was read, or need not be.
    pub(super) async fn check_unchanged(&self) -> Result<()> {
        let captured = self.captured.clone();
        match blocking(move || captured.check_unchanged()).await {
            Err(Error::SourceChanged { path, .. }) if self.capture.on_change() == OnChange::TakeAsRead => {
                *self.capture.changed_meanwhile.lock() = Some(path);
                Ok(())
            }
            checked => checked,
        }
    }

    /// The files that must be read again, as they are now.
    pub(super) async fn read_again(&mut self, tree: &mut NewTree) -> Result<Vec<(TreePath, FoundFile)>> {
        self.base_parts.learn_left(&self.writer, tree).await;
        let lacking = self.writer.unresolved(tree).await?;
        if lacking.is_empty() {
            return Ok(Vec::new());
        }
        let captured = self.captured.clone();
        let (files, reused) = blocking(move || {
            let found = captured.with_chunks(&lacking)?;
            let reused = found.iter().filter(|(_, was_read)| !was_read).count();
            let files = found.into_iter().map(|(path, _)| Ok((captured.plan.find(&path)?, path)));
            let files = files.map(|file: Result<_>| file.map(|(found, path)| (path, found)));
            Ok((files.collect::<Result<Vec<_>>>()?, reused))
        })
        .await?;
        self.reused_files = self.reused_files.saturating_sub(reused as u64);
        Ok(files)
    }
}

/// The files that were read before, with the newly read ones in their place.
fn earlier(reads: Arc<Reads>, now: Reads) -> Result<Reads> {
    let used = || Error::Internal { what: "what was read is still used".to_owned() };
    let mut all = Arc::into_inner(reads).ok_or_else(used)?;
    all.again.extend(now.again);
    Ok(all)
}
