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

use super::locate::followed;
use crate::{
    Error, Result,
    catalog::rules::Rules,
    content::{
        TenantStore,
        chunk::Piece,
        reader::{Verified, Want, plan},
        snapshot_tree::stream::LocatedEntry,
        workers::blocking,
    },
    error::IoContext,
    format::{
        record::Record,
        tree::{Entry, Extent, Kind},
    },
};

const REQUESTS_AT_ONCE: usize = 8;

/// The first `most` bytes of these files, by path; of a file that starts with a hole, none.
pub async fn heads(
    store: &TenantStore,
    record: &Record,
    files: &[LocatedEntry],
    most: usize,
) -> Result<HashMap<PathBuf, Vec<u8>>> {
    let cut = move |bytes: &[u8]| bytes[..bytes.len().min(most)].to_vec();
    let (mut found, mut wanted) = (HashMap::new(), Vec::new());
    for (at, file) in files.iter().enumerate() {
        let Kind::File { extents, .. } = &file.entry.kind else { continue };
        match extents.first() {
            Some(Extent::Inline(bytes)) => drop(found.insert(at, cut(bytes))),
            Some(Extent::Chunk { .. }) => wanted.extend(file.pieces().next().map(|piece| want(&piece, at))),
            _ => drop(found.insert(at, Vec::new())),
        }
    }
    let found = Arc::new(Mutex::new(found));
    let finding = Arc::clone(&found);
    let note = move |at, bytes: &[u8]| {
        finding.lock().insert(at, cut(bytes));
        Ok(())
    };
    each(store, record, wanted, note).await?;
    let found = std::mem::take(&mut *found.lock());
    Ok(found.into_iter().map(|(at, head)| (path(&files[at].entry), head)).collect())
}

/// How much has to be fetched for a file.
pub fn stored_bytes(file: &LocatedEntry) -> u64 {
    file.locations.iter().map(|location| u64::from(location.stored_len)).sum()
}

/// Writes these files below `folder`, which nobody else sees.
pub async fn extract(
    store: &TenantStore,
    record: &Record,
    files: &[LocatedEntry],
    folder: &Path,
) -> Result<()> {
    let chosen: Vec<Entry> = files.iter().map(|file| file.entry.clone()).collect();
    let root = folder.to_owned();
    let places = blocking(move || chosen.iter().map(|entry| make(&root, entry)).collect::<Result<Vec<_>>>());
    let places = places.await?;
    let mut wanted = Vec::new();
    for (at, file) in files.iter().enumerate() {
        let Kind::File { extents, .. } = &file.entry.kind else { continue };
        let (mut offset, mut pieces) = (0, file.pieces());
        for extent in extents {
            if matches!(extent, Extent::Chunk { .. }) {
                wanted.extend(pieces.next().map(|piece| want(&piece, (at, offset))));
            }
            offset += extent.len();
        }
    }
    let write = move |(at, offset): (usize, u64), bytes: &[u8]| {
        let to = &places[at];
        let file = File::options().write(true).open(to).at("cannot write", to)?;
        file.write_all_at(bytes, offset).at("cannot write", to)
    };
    each(store, record, wanted, write).await
}

/// Has `work` done with every chunk, in the order in which they lie.
async fn each<T: Copy + Send + 'static>(
    store: &TenantStore,
    record: &Record,
    wanted: Vec<Want<T>>,
    work: impl Fn(T, &[u8]) -> Result<()> + Send + Sync + 'static,
) -> Result<()> {
    let (relocator, work) = (followed(store, record, Rules::ALL), Arc::new(work));
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

/// The path of an entry, from the top of its tree.
pub fn path(entry: &Entry) -> PathBuf {
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
