//! Looks into a snapshot without restoring it: its names, and the bytes of one file.
//!
//! The snapshot is pinned while it is read. Of its content only the requested parts are fetched.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use futures::StreamExt;
use tokio::sync::mpsc;

use super::{
    locate::followed,
    open::{Kept, check_tree_size, kept_tree, release},
};
use crate::{
    Error, Result,
    catalog::rules::Rules,
    content::{
        TenantStore,
        chunk::Piece,
        snapshot_tree::{
            Below, Children, SnapshotTree, TreeFile,
            stream::{LocatedEntry, TreeStream},
        },
        workers::blocking,
    },
    error::IoContext,
    format::{
        record::Record,
        segment::covered,
        tree::{Entry, Extent, Kind, Linked, TreePath},
    },
    ops::archive::export::chunk_stream::{self, Window},
};

/// Windows of chunks that wait to be written, beside those that are being fetched.
const WINDOWS_WAITING: usize = 1;
/// How much of a hole is written at a time.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A tree that is read by need while its snapshot is pinned. The pin of one that is dropped instead of closed expires.
#[derive(Debug)]
pub struct PinnedTree {
    /// The tree.
    pub tree: Arc<SnapshotTree>,
    kept: Option<Kept>,
}

impl PinnedTree {
    /// Pins a snapshot.
    pub async fn open(store: &TenantStore, record: &Record) -> Result<Self> {
        let (kept, (_, tree)) = kept_tree(store, record).await?;
        Ok(Self { tree, kept })
    }

    /// Lets the snapshot go.
    pub async fn close(self) {
        release(self.kept).await;
    }
}

/// The entries of a snapshot at some paths, files with all their extents. Only the parts of the tree that have them are read.
pub async fn named(
    store: &TenantStore,
    record: &Record,
    paths: impl IntoIterator<Item = TreePath>,
) -> Result<BTreeMap<TreePath, Entry>> {
    let (kept, (_, tree)) = kept_tree(store, record).await?;
    let found = at_paths(&tree, paths).await;
    release(kept).await;
    found
}

async fn at_paths(
    tree: &SnapshotTree,
    paths: impl IntoIterator<Item = TreePath>,
) -> Result<BTreeMap<TreePath, Entry>> {
    let mut found = BTreeMap::new();
    for path in paths {
        let Some(entry) = tree.entry(&path).await? else { continue };
        let file = match entry.kind {
            Kind::File { .. } => tree.file(&path).await?.map(|file| file.entry),
            _ => None,
        };
        found.insert(path, file.unwrap_or(entry));
    }
    Ok(found)
}

/// Tells `each` every entry of a snapshot, in order, with the file behind it: a hard link's is the one it links to. Of the
/// tree, no more is held than the files that hard links lead to.
pub async fn each(
    store: &TenantStore,
    record: &Record,
    each: impl FnMut(&Entry, Option<&Entry>),
) -> Result<()> {
    let (kept, (record, tree)) = kept_tree(store, record).await?;
    let told = match check_tree_size(&record, &tree) {
        Ok(()) => tell(tree, each).await,
        Err(error) => Err(error),
    };
    release(kept).await;
    told
}

async fn tell(tree: Arc<SnapshotTree>, mut each: impl FnMut(&Entry, Option<&Entry>)) -> Result<()> {
    let mut stream = TreeStream::new(tree).await?;
    let (linked, mut behind) = (stream.linked(), HashMap::new());
    while let Some(entries) = stream.next().await? {
        for LocatedEntry { entry, .. } in entries {
            match &entry.kind {
                Kind::File { .. } => each(&entry, Some(&entry)),
                Kind::HardLink { target } => each(&entry, behind.get(target)),
                _ => each(&entry, None),
            }
            if linked.holds(&entry.path) {
                behind.insert(entry.path.clone(), without_content(&entry));
            }
        }
    }
    Ok(())
}

/// A directory of a snapshot, or all below it; of anything else, that alone. Only the part of the tree that has
/// them is read, segment by segment, and no more entries are held than one segment has. The snapshot is pinned until the
/// listing is closed; the pin of one that is dropped instead expires.
#[derive(Debug)]
pub struct Listing {
    tree: Arc<SnapshotTree>,
    kept: Option<Kept>,
    rest: Rest,
}

/// What was not listed yet.
#[derive(Debug)]
enum Rest {
    Named(Option<Entry>),
    Children(Children),
    Below(Below),
}

/// One entry of a listing; files may lack their extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// The entry.
    pub entry: Entry,
    /// Of a hard link, the file behind it.
    behind: Option<Entry>,
}

impl ListedEntry {
    /// The file behind it: a hard link's is the one it links to.
    pub fn file(&self) -> Option<&Entry> {
        match self.entry.kind {
            Kind::File { .. } => Some(&self.entry),
            _ => self.behind.as_ref(),
        }
    }
}

impl Listing {
    /// Of what is at this path; `None` if there is nothing.
    pub async fn open(
        store: &TenantStore,
        record: &Record,
        path: &TreePath,
        is_recursive: bool,
    ) -> Result<Option<Self>> {
        let (kept, (_, tree)) = kept_tree(store, record).await?;
        let rest = match tree.entry(path).await {
            Ok(Some(named)) => match (&named.kind, is_recursive) {
                (Kind::Directory, true) => Rest::Below(Below::of(&tree, path)),
                (Kind::Directory, false) => Rest::Children(Children::of(&tree, path)),
                _ => Rest::Named(Some(named)),
            },
            missing => {
                release(kept).await;
                return missing.map(|_| None);
            }
        };
        Ok(Some(Self { tree, kept, rest }))
    }

    /// The next entries, in order; `None` after the last ones.
    pub async fn next(&mut self) -> Result<Option<Vec<ListedEntry>>> {
        let found = match &mut self.rest {
            Rest::Named(named) => named.take().map(|named| vec![named]),
            Rest::Children(children) => children.next().await?,
            Rest::Below(below) => below.next().await?,
        };
        let Some(found) = found else { return Ok(None) };
        let mut listed = Vec::with_capacity(found.len());
        for entry in found {
            let behind = match entry.kind {
                Kind::HardLink { .. } => self.tree.behind(&entry).await?,
                _ => None,
            };
            listed.push(ListedEntry { entry, behind });
        }
        Ok(Some(listed))
    }

    /// Lets the snapshot go.
    pub async fn close(self) {
        release(self.kept).await;
    }
}

/// What lies at a path and below it, in order, after the directories on the way to it. Hard links
/// are the files behind them, and files have all their extents. Only the part of the tree that has these is read.
pub async fn part(store: &TenantStore, record: &Record, top: &TreePath) -> Result<Vec<Entry>> {
    let (kept, (record, tree)) = kept_tree(store, record).await?;
    let found = match check_tree_size(&record, &tree) {
        Ok(()) => part_below(&tree, top).await,
        Err(error) => Err(error),
    };
    release(kept).await;
    found
}

/// All entries of a snapshot as a stream: hard links are the files behind them, and files have all their extents. The
/// snapshot is pinned until the stream is closed; the pin of one that is dropped instead expires.
#[derive(Debug)]
pub struct WholeTree {
    stream: TreeStream,
    kept: Option<Kept>,
    linked: Arc<Linked>,
    /// The files that hard links lead to, as far as they have come.
    behind: HashMap<TreePath, Entry>,
}

impl WholeTree {
    /// Begins at the root.
    pub async fn open(store: &TenantStore, record: &Record) -> Result<Self> {
        let (kept, (record, tree)) = kept_tree(store, record).await?;
        let begun = match check_tree_size(&record, &tree) {
            Ok(()) => TreeStream::new(tree).await,
            Err(error) => Err(error),
        };
        match begun {
            Ok(stream) => Ok(Self { linked: stream.linked(), stream, kept, behind: HashMap::new() }),
            Err(error) => {
                release(kept).await;
                Err(error)
            }
        }
    }

    /// The next entries, in order; `None` after the last ones.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        let Some(entries) = self.stream.next().await? else { return Ok(None) };
        let mut found = Vec::with_capacity(entries.len());
        for LocatedEntry { entry, .. } in entries {
            if self.linked.holds(&entry.path) {
                self.behind.insert(entry.path.clone(), entry.clone());
            }
            let file = match &entry.kind {
                Kind::HardLink { target } => self.behind.get(target).cloned(),
                _ => None,
            };
            found.push(match file {
                Some(file) => Entry { path: entry.path, ..file },
                None => entry,
            });
        }
        Ok(Some(found))
    }

    /// Lets the snapshot go.
    pub async fn close(self) {
        release(self.kept).await;
    }
}

async fn part_below(tree: &SnapshotTree, top: &TreePath) -> Result<Vec<Entry>> {
    let bytes = top.as_bytes();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut found = Vec::new();
    for end in ends {
        let above = TreePath::new(&bytes[..end]).map_err(|error| error.of("the path"))?;
        found.extend(tree.entry(&above).await?);
    }
    let Some(named) = tree.entry(top).await? else { return Ok(found) };
    let is_directory = named.kind == Kind::Directory;
    found.push(named);
    if is_directory {
        tree.below(top, |entry| found.push(entry.clone())).await?;
    }
    for entry in &mut found {
        let behind = match &entry.kind {
            Kind::HardLink { target } => target,
            Kind::File { size, .. } if covered(entry) < *size => &entry.path,
            _ => continue,
        };
        if let Some(file) = tree.file(behind).await? {
            *entry = Entry { path: entry.path.clone(), ..file.entry };
        }
    }
    Ok(found)
}

/// The other names of those files among these that have several. Only the part of the tree that has them is read.
pub async fn other_names(
    store: &TenantStore,
    record: &Record,
    paths: &[TreePath],
) -> Result<HashMap<TreePath, Vec<TreePath>>> {
    let (kept, (_, tree)) = kept_tree(store, record).await?;
    let found = other_names_in(&tree, paths).await;
    release(kept).await;
    found
}

async fn other_names_in(tree: &SnapshotTree, paths: &[TreePath]) -> Result<HashMap<TreePath, Vec<TreePath>>> {
    let (links, mut found) = (tree.links().await?, HashMap::new());
    if links.is_empty() {
        return Ok(found);
    }
    for path in paths {
        let file = match tree.entry(path).await?.map(|entry| entry.kind) {
            Some(Kind::HardLink { target }) => target,
            Some(Kind::File { .. }) => path.clone(),
            _ => continue,
        };
        let all = std::iter::once(&file).chain(links.to(&file));
        let others: Vec<TreePath> = all.filter(|name| *name != path).cloned().collect();
        if !others.is_empty() {
            found.insert(path.clone(), others);
        }
    }
    Ok(found)
}

/// An entry as it is listed.
fn without_content(entry: &Entry) -> Entry {
    let kind = match &entry.kind {
        Kind::File { size, .. } => Kind::File { size: *size, extents: Vec::new() },
        kind => kind.clone(),
    };
    Entry { path: entry.path.clone(), meta: entry.meta.clone(), kind }
}

/// The error for a path that the snapshot does not have.
pub fn missing(record: &Record, path: &TreePath) -> Error {
    Error::NotFound { what: format!("{path} in snapshot {}", record.sha256_prefix()) }
}

/// Writes a file to `out`, which messages call `shown`; how long it is.
pub async fn write<W: Write + Send + 'static>(
    store: &TenantStore,
    record: &Record,
    path: &TreePath,
    out: (W, PathBuf),
) -> Result<u64> {
    OpenFile::open(store, record, path).await?.write(out).await
}

/// A file whose size is known and whose bytes are not fetched yet. Its snapshot is pinned until it is
/// written; the pin of one that is dropped instead expires.
#[derive(Debug)]
pub struct OpenFile {
    store: TenantStore,
    record: Record,
    kept: Option<Kept>,
    extents: Vec<Extent>,
    pieces: Vec<Piece>,
}

impl OpenFile {
    /// Finds a file of a snapshot.
    pub async fn open(store: &TenantStore, record: &Record, path: &TreePath) -> Result<Self> {
        let (kept, (record, tree)) = kept_tree(store, record).await?;
        match content(&tree, &record, path).await {
            Ok(TreeFile { entry, pieces }) => {
                let extents = match entry.kind {
                    Kind::File { extents, .. } => extents,
                    _ => Vec::new(),
                };
                Ok(Self { store: store.clone(), record, kept, extents, pieces })
            }
            Err(error) => {
                release(kept).await;
                Err(error)
            }
        }
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.extents.iter().map(Extent::len).sum()
    }

    /// Writes it to `out`, which messages call `shown`; how long it is.
    pub async fn write<W: Write + Send + 'static>(self, (out, shown): (W, PathBuf)) -> Result<u64> {
        let size = self.size();
        let Self { store, record, kept, extents, pieces } = self;
        let written = write_content(&store, &record, (extents, pieces), (out, shown)).await;
        release(kept).await;
        written.map(|()| size)
    }
}

async fn write_content<W: Write + Send + 'static>(
    store: &TenantStore,
    record: &Record,
    (extents, pieces): (Vec<Extent>, Vec<Piece>),
    out: (W, PathBuf),
) -> Result<()> {
    let relocator = Arc::new(followed(store, record, Rules::ALL));
    let (sender, receiver) = mpsc::channel(WINDOWS_WAITING);
    let writer = blocking(move || write_extents(&extents, receiver, out));
    let mut windows = std::pin::pin!(chunk_stream::windows((store.clone(), relocator), pieces.into_iter()));
    let feeder = async {
        while let Some(window) = windows.next().await {
            // The writer has stopped; its error says why.
            if sender.send(window).await.is_err() {
                break;
            }
        }
        drop(sender);
    };
    futures::future::join(feeder, writer).await.1
}

/// The parts of a file, and the locations of its chunks.
async fn content(tree: &SnapshotTree, record: &Record, path: &TreePath) -> Result<TreeFile> {
    let named = tree.entry(path).await?.ok_or_else(|| missing(record, path))?;
    let file = match tree.behind(&named).await? {
        Some(file) => tree.file(&file.path).await?,
        None => None,
    };
    file.ok_or_else(|| {
        let what = match &named.kind {
            Kind::Directory => "a directory".to_owned(),
            Kind::Symlink { target } => format!("a symbolic link to {}", target.escape_ascii()),
            _ => "no regular file".to_owned(),
        };
        Error::InvalidInput { what: format!("{path} is {what}") }
    })
}

fn write_extents<W: Write>(
    extents: &[Extent],
    mut windows: mpsc::Receiver<Result<Window>>,
    (mut out, shown): (W, PathBuf),
) -> Result<()> {
    let mut chunks = Vec::new().into_iter();
    for extent in extents {
        match extent {
            Extent::Hole(len) => zeros(*len, &mut out).at("cannot write", &shown)?,
            Extent::Inline(bytes) => out.write_all(bytes).at("cannot write", &shown)?,
            Extent::Chunk { .. } => {
                let chunk = loop {
                    match chunks.next() {
                        Some(chunk) => break chunk,
                        None => {
                            let ended = || Error::Internal { what: "chunks ended early".to_owned() };
                            chunks = windows.blocking_recv().ok_or_else(ended)??.chunks.into_iter();
                        }
                    }
                };
                out.write_all(&chunk.raw).at("cannot write", &shown)?;
            }
        }
    }
    out.flush().at("cannot write", &shown)
}

fn zeros(len: u64, out: &mut impl Write) -> io::Result<()> {
    let mut left = len;
    while left > 0 {
        let part = left.min(ZEROS.len() as u64) as usize;
        out.write_all(&ZEROS[..part])?;
        left -= part as u64;
    }
    Ok(())
}
