//! `feed` reads a tree and its chunks for the writer of an archive: entries in order, each before its chunks.

use std::sync::Arc;

use futures::{FutureExt, Stream, StreamExt, TryStreamExt, future::Either, stream};

use super::{
    chunk_stream::{self, WINDOWS_AHEAD, Window},
    members::Members,
};
use crate::{
    Error, Result,
    archive::members::{END, Times},
    content::{
        TenantStore,
        chunk::Piece,
        relocator::Relocator,
        snapshot_tree::{
            SnapshotTree,
            stream::{LocatedEntry, TreeStream},
        },
    },
    format::tree::Entry,
};

/// How much memory the entries take that are told together, about: all of an ordinary profile.
const ENTRIES_BYTES: usize = 4 << 20;

/// The next part of the tree.
#[derive(Debug)]
pub(super) enum Next {
    /// Entries, in order.
    Entries(Vec<Entry>),
    /// Chunks of the entries that came before, in order.
    Chunks(Window),
    /// There is nothing more.
    End,
}

/// The next thing to tell or to fetch.
enum Step {
    Tell(Next),
    Fetch(Vec<Piece>),
}

/// How long the tar stream of a tree is.
pub(super) async fn measure(tree: &Arc<SnapshotTree>, times: Times) -> Result<u64> {
    let mut stream = TreeStream::new(Arc::clone(tree)).await?;
    let (mut members, mut bytes) = (Members::new(stream.linked(), times), END.len() as u64);
    while let Some(entries) = stream.next().await? {
        bytes += entries.iter().map(|found| members.bytes(&found.entry)).sum::<u64>();
    }
    Ok(bytes)
}

/// A whole tree with its content, a bounded way ahead of the consumer.
pub(super) fn feed(
    (store, relocator): (TenantStore, Arc<Relocator>),
    tree: TreeStream,
) -> impl Stream<Item = Result<Next>> {
    let tell = move |step| match step {
        Ok(Step::Fetch(pieces)) => {
            let window = chunk_stream::begin((store.clone(), Arc::clone(&relocator)), pieces);
            Either::Left(window.map(|window| window.map(Next::Chunks)))
        }
        Ok(Step::Tell(next)) => Either::Right(std::future::ready(Ok(next))),
        Err(error) => Either::Right(std::future::ready(Err(error))),
    };
    steps(tree).map(tell).buffered(WINDOWS_AHEAD)
}

fn steps(tree: TreeStream) -> impl Stream<Item = Result<Step>> {
    let next = |tree: Option<TreeStream>| async move {
        let Some(mut tree) = tree else { return Ok::<_, Error>(None) };
        let Some(found) = tree.next_within(ENTRIES_BYTES).await? else {
            return Ok(Some((vec![Ok(Step::Tell(Next::End))], None)));
        };
        Ok(Some((of_entries(found), Some(tree))))
    };
    stream::try_unfold(Some(tree), next).map_ok(stream::iter).try_flatten()
}

fn of_entries(found: Vec<LocatedEntry>) -> Vec<Result<Step>> {
    let windows: Vec<Vec<Piece>> = chunk_stream::cut(found.iter().flat_map(LocatedEntry::pieces)).collect();
    let entries = found.into_iter().map(|found| found.entry).collect();
    let told = [Step::Tell(Next::Entries(entries))];
    told.into_iter().chain(windows.into_iter().map(Step::Fetch)).map(Ok).collect()
}
