//! Reads some files of a snapshot without the others: how they begin, or all of them into a directory.
//!
//! Chunks that lie together are fetched together; every byte is verified.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{DirBuilder, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use futures::{StreamExt, stream};

use super::{locate::followed, open::Opened};
use crate::{
    Error, Result,
    catalog::rules::Rules,
    content::{
        TenantStore,
        chunk::Piece,
        reader::{Verified, Want, plan},
        workers::blocking,
    },
    error::IoContext,
    format::tree::{Entry, Extent, Kind},
};

const REQUESTS_AT_ONCE: usize = 8;

/// The files of a snapshot, by path.
pub fn files(opened: &Opened) -> impl Iterator<Item = (usize, PathBuf)> + '_ {
    let is_file = |entry: &Entry| matches!(entry.kind, Kind::File { .. });
    opened
        .entries
        .iter()
        .enumerate()
        .filter(move |(_, entry)| is_file(entry))
        .map(|(at, entry)| (at, path(entry)))
}

/// The first `most` bytes of these entries, by number; of a file that starts with a hole, none.
pub async fn heads(
    store: &TenantStore,
    opened: &Opened,
    entries: &[usize],
    most: usize,
) -> Result<HashMap<usize, Vec<u8>>> {
    let cut = move |bytes: &[u8]| bytes[..bytes.len().min(most)].to_vec();
    let pieces: Vec<Vec<Piece>> = opened.pieces().collect();
    let (mut found, mut wanted) = (HashMap::new(), Vec::new());
    for at in entries {
        let Kind::File { extents, .. } = &opened.entries[*at].kind else { continue };
        match extents.first() {
            Some(Extent::Inline(bytes)) => drop(found.insert(*at, cut(bytes))),
            Some(Extent::Chunk { .. }) => wanted.extend(pieces[*at].first().map(|piece| want(piece, *at))),
            _ => drop(found.insert(*at, Vec::new())),
        }
    }
    let found = Arc::new(Mutex::new(found));
    let finding = Arc::clone(&found);
    let note = move |at, bytes: &[u8]| {
        finding.lock().insert(at, cut(bytes));
        Ok(())
    };
    each(store, opened, wanted, note).await?;
    let mut found = found.lock();
    Ok(std::mem::take(&mut *found))
}

/// How much has to be fetched for these entries.
pub fn stored_bytes(opened: &Opened, entries: &[usize]) -> u64 {
    let pieces: Vec<Vec<Piece>> = opened.pieces().collect();
    let stored = |at: &usize| pieces[*at].iter().map(|piece| u64::from(piece.location.stored_len));
    entries.iter().flat_map(stored).sum()
}

/// Writes these entries, which are files, below `folder`, which nobody else sees.
pub async fn extract(store: &TenantStore, opened: &Opened, entries: &[usize], folder: &Path) -> Result<()> {
    let chosen: Vec<Entry> = entries.iter().map(|at| opened.entries[*at].clone()).collect();
    let root = folder.to_owned();
    let places = blocking(move || chosen.iter().map(|entry| make(&root, entry)).collect::<Result<Vec<_>>>());
    let places: HashMap<usize, PathBuf> = entries.iter().copied().zip(places.await?).collect();
    let pieces: Vec<Vec<Piece>> = opened.pieces().collect();
    let mut wanted = Vec::new();
    for at in entries {
        let Kind::File { extents, .. } = &opened.entries[*at].kind else { continue };
        let (mut offset, mut pieces) = (0, pieces[*at].iter());
        for extent in extents {
            if matches!(extent, Extent::Chunk { .. }) {
                wanted.extend(pieces.next().map(|piece| want(piece, (*at, offset))));
            }
            offset += extent.len();
        }
    }
    let write = move |(at, offset): (usize, u64), bytes: &[u8]| {
        let to = &places[&at];
        let file = File::options().write(true).open(to).at("cannot write", to)?;
        file.write_all_at(bytes, offset).at("cannot write", to)
    };
    each(store, opened, wanted, write).await
}

/// Has `work` done with every chunk, in the order in which they lie.
async fn each<T: Copy + Send + 'static>(
    store: &TenantStore,
    opened: &Opened,
    wanted: Vec<Want<T>>,
    work: impl Fn(T, &[u8]) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let (relocator, work) = (followed(store, &opened.record, Rules::ALL), Arc::new(work));
    let mut fetched =
        stream::iter(plan(wanted)).map(|fetch| relocator.fetch(store, fetch)).buffered(REQUESTS_AT_ONCE);
    while let Some(fetched) = fetched.next().await {
        let (fetched, work, key) = (fetched?, Arc::clone(&work), *store.key());
        blocking(move || {
            for (fetch, bytes) in fetched {
                for want in &fetch.wants {
                    let stored = fetch.stored(want, &bytes);
                    let chunk = Verified::check(&key, &want.id, want.location.codec, stored, want.raw_len)
                        .map_err(|error| Error::damaged(format!("pack {}", fetch.pack), error))?;
                    work(want.purpose, &chunk)?;
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(())
}

fn want<T>(piece: &Piece, purpose: T) -> Want<T> {
    Want { id: piece.id, raw_len: piece.raw_len, location: piece.location, purpose }
}

fn path(entry: &Entry) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(entry.path.as_bytes()))
}

/// Makes a file of the right size, with the content that the tree itself holds. Returns its path.
fn make(folder: &Path, entry: &Entry) -> Result<PathBuf> {
    let to = folder.join(path(entry));
    if let Some(parent) = to.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).at("cannot make", parent)?;
    }
    let options = File::options().read(true).write(true).create_new(true).mode(0o600).open(&to);
    let file = options.at("cannot make", &to)?;
    if let Kind::File { size, extents } = &entry.kind {
        file.set_len(*size).at("cannot write", &to)?;
        let mut offset = 0;
        for extent in extents {
            if let Extent::Inline(bytes) = extent {
                file.write_all_at(bytes, offset).at("cannot write", &to)?;
            }
            offset += extent.len();
        }
    }
    Ok(to)
}
