//! Writes a snapshot as a canonical archive: a tar stream in zstd, and its manifest.
//!
//! Every chunk is verified before it goes in; memory is bounded, however large the profile.
//! Two exports of one tree are the same tar stream, however they are compressed.

mod atomic_file;
pub(in crate::ops) mod chunk_stream;
mod digest;
mod feed;
mod framing;
mod members;
mod seal;
mod stream;

pub use framing::Framing;
pub use seal::Seal;

use std::{
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::StreamExt;
use tokio::sync::mpsc;

use self::members::Members;
pub use crate::archive::members::Times;
use crate::{
    Error, Result,
    catalog::{records, rules::Rules},
    content::{
        TenantStore,
        snapshot_tree::{SnapshotTree, stream::TreeStream},
        workers::blocking,
    },
    error::IoContext,
    format::{layout, manifest::Manifest, record::Record},
    id::Sha256,
    name::Lineage,
    ops::read::{
        locate::followed,
        open::{check_tree_size, kept_tree, release},
    },
    progress::Progress,
};

/// Windows of chunks, or entries, that wait to be written, beside those that are being fetched.
const FED_AHEAD: usize = 1;
const WRITE_BYTES: usize = 1 << 20;

/// How to write an archive.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// How the stream is cut into frames.
    pub framing: Framing,
    /// The times of its members.
    pub times: Times,
    /// Of an archive that is to be published.
    pub seal: Option<Seal>,
    /// The most that its files may have: the zeros of holes are in the stream.
    pub max_bytes: u64,
}

/// An archive that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Of the archive as it is: compressed. Its first digits are its name.
    pub sha256: Sha256,
    /// How long the compressed archive is.
    pub size_bytes: u64,
    /// Of the stream in it, which depends on the tree alone.
    pub tar_sha256: Sha256,
    /// How long the stream in it is.
    pub tar_size_bytes: u64,
    /// Regular files in it.
    pub files: u64,
    /// FIFOs, sockets and devices, which an archive does not hold.
    pub skipped: u64,
    /// Bytes that were fetched from the store for it.
    pub fetched_bytes: u64,
}

/// An archive and its manifest in a directory.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The archive itself.
    pub archive: Archive,
    /// The manifest beside it.
    pub manifest: Manifest,
    /// Where the archive is.
    pub archive_path: PathBuf,
    /// Where the manifest is.
    pub manifest_path: PathBuf,
}

/// Writes the archive to `out`, which messages call `shown`. The snapshot is pinned meanwhile.
pub async fn write<W: Write + Send + 'static>(
    store: &TenantStore,
    record: &Record,
    request: Request,
    (out, shown): (W, PathBuf),
    progress: Arc<dyn Progress>,
) -> Result<(Archive, W)> {
    let (kept, (record, tree)) = kept_tree(store, record).await?;
    let written = write_snapshot(store, (record, tree), request, (out, shown), progress).await;
    release(kept).await;
    written
}

async fn write_snapshot<W: Write + Send + 'static>(
    store: &TenantStore,
    (record, tree): (Record, Arc<SnapshotTree>),
    request: Request,
    (out, shown): (W, PathBuf),
    progress: Arc<dyn Progress>,
) -> Result<(Archive, W)> {
    check_tree_size(&record, &tree)?;
    let bytes = record.uncompressed_size_bytes;
    if bytes > request.max_bytes {
        let path = format!("snapshot {}", record.sha256_prefix()).into();
        return Err(Error::ProfileTooLarge { path, bytes, limit: request.max_bytes, largest: Vec::new() });
    }
    let tar_bytes = match request.framing {
        Framing::Solid { .. } => Some(feed::measure(&tree, request.times).await?),
        Framing::Splice => None,
    };
    let stream = TreeStream::new(Arc::clone(&tree)).await?;
    let members = Members::new(stream.linked(), request.times);
    progress.begin("export", tree.len(), tree.content_bytes());
    let (sender, receiver) = mpsc::channel(FED_AHEAD);
    let writer =
        blocking(move || stream::write(members, (receiver, tar_bytes), request, (out, shown), &progress));
    let relocator = Arc::new(followed(store, &record, Rules::ALL));
    let mut fed = std::pin::pin!(feed::feed((store.clone(), relocator), stream));
    let feeder = async {
        while let Some(next) = fed.next().await {
            // The writer has stopped; its error says why.
            if sender.send(next).await.is_err() {
                break;
            }
        }
        drop(sender);
    };
    futures::future::join(feeder, writer).await.1
}

/// Writes archive and manifest to a directory, which is made if it is not there: the archive
/// first, each under its name when it is whole.
pub async fn to_directory(
    store: &TenantStore,
    lineage: &Lineage,
    record: &Record,
    request: Request,
    directory: &Path,
    progress: Arc<dyn Progress>,
) -> Result<Exported> {
    fs::create_dir_all(directory).at("cannot make", directory)?;
    let unnamed = atomic_file::Unnamed::create(directory)?;
    let file = unnamed.file.try_clone().at("cannot write", &unnamed.path)?;
    let out = (BufWriter::with_capacity(WRITE_BYTES, file), unnamed.path.clone());
    let (archive, _) = write(store, record, request, out, progress).await?;
    let manifest = manifest(store, lineage, record, &archive).await?;
    let (directory, written) = (directory.to_owned(), manifest.encode());
    let prefix = archive.sha256.prefix();
    let (archive_path, manifest_path) = blocking(move || {
        let archive = unnamed.name(&layout::archive_name(&prefix))?;
        let manifest = atomic_file::write(&directory, &layout::manifest_name(&prefix), &written)?;
        atomic_file::settle(&directory)?;
        Ok((archive, manifest))
    })
    .await?;
    Ok(Exported { archive, manifest, archive_path, manifest_path })
}

/// The manifest of a snapshot's archive. Its predecessor is called by its archive where it has
/// one, even if it has got that only later.
pub async fn manifest(
    store: &TenantStore,
    lineage: &Lineage,
    record: &Record,
    archive: &Archive,
) -> Result<Manifest> {
    let predecessor = match record.parent {
        None => None,
        Some(parent) => match records::get(store, lineage, parent).await {
            Ok((parent, _)) => parent.archive_sha256.and_then(|sha| sha.parse().ok()),
            // It may be gone: then the record itself says what it was called.
            Err(error) => {
                tracing::debug!(%error, "the predecessor cannot be read");
                None
            }
        },
    };
    Ok(Manifest::of(record, archive.sha256, archive.size_bytes, predecessor))
}
