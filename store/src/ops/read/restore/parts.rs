//! `Parts` reads a tree part by part, and makes the entries that need no content: directories, empty files.
//!
//! Links and the attributes of directories come last, so those entries are held until then, and no others.

use std::sync::{Arc, atomic::AtomicU32};

use parking_lot::Mutex;

use super::{
    selection::Selection,
    target::{FilePosition, RestorePart, Target},
};
use crate::{
    Error, Result,
    content::{
        reader::{Fetch, Want, plan},
        snapshot_tree::stream::LocatedEntry,
        workers::blocking,
    },
    format::tree::{Entry, Extent, Kind},
    tree::write::Keeping,
};

/// The approximate memory of a part: ordinary profiles are one part, so that neighbours are fetched together.
const PART_BYTES: usize = 4 << 20;

/// The counts of all entries so far, and the entries to make at the end.
#[derive(Debug, Default)]
pub(super) struct EntryTally {
    /// Regular files, by all their names.
    pub files: u64,
    /// Sockets, FIFOs and devices.
    pub skipped: u64,
    /// Entries of which something special is left out.
    pub made_plain: u64,
    /// Bytes to fetch for them.
    pub fetched_bytes: u64,
    /// Symbolic and hard links.
    pub links: Vec<Entry>,
    pub directories: Vec<Entry>,
}

/// The parts of a tree, one after another.
#[derive(Debug)]
pub(super) struct Parts {
    selection: Selection,
    target: Arc<Target>,
    keeping: Keeping,
    seen: Arc<Mutex<EntryTally>>,
}

impl Parts {
    pub fn new(
        selection: Selection,
        target: Arc<Target>,
        keeping: Keeping,
        seen: Arc<Mutex<EntryTally>>,
    ) -> Self {
        Self { selection, target, keeping, seen }
    }

    /// The next part, and its fetches; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<(Arc<RestorePart>, Vec<Fetch<FilePosition>>)>> {
        let Some(found) = self.selection.next_within(PART_BYTES).await? else { return Ok(None) };
        let (target, keeping, seen) = (Arc::clone(&self.target), self.keeping, Arc::clone(&self.seen));
        let (part, fetches) = blocking(move || prepare(&target, keeping, &mut seen.lock(), found)).await?;
        Ok(Some((Arc::new(part), fetches)))
    }
}

/// Makes a part of some entries, and those of them that need no content.
fn prepare(
    target: &Target,
    keeping: Keeping,
    seen: &mut EntryTally,
    found: Vec<LocatedEntry>,
) -> Result<(RestorePart, Vec<Fetch<FilePosition>>)> {
    check_owners(&found, keeping)?;
    let fetches = plan(wants(&found));
    let remaining = found.iter().map(|found| AtomicU32::new(found.locations.len() as u32)).collect();
    let part = RestorePart { entries: found.into_iter().map(|found| found.entry).collect(), remaining };
    seen.fetched_bytes += fetches.iter().map(|fetch| fetch.end - fetch.start).sum::<u64>();
    for entry in &part.entries {
        seen.made_plain += u64::from(!keeping.special && entry.meta.is_special());
        match entry.kind {
            Kind::File { .. } => seen.files += 1,
            Kind::HardLink { .. } => {
                seen.files += 1;
                seen.links.push(entry.clone());
            }
            Kind::Symlink { .. } => seen.links.push(entry.clone()),
            Kind::Directory => seen.directories.push(entry.clone()),
            Kind::Fifo | Kind::Socket | Kind::CharDevice { .. } | Kind::BlockDevice { .. } => {
                seen.skipped += 1;
            }
        }
    }
    target.staging.make_directories(&part.entries)?;
    for entry in part.without_chunks() {
        let file = target.staging.open_file(entry)?;
        target.finish_file(entry, &file)?;
    }
    Ok((part, fetches))
}

fn wants(found: &[LocatedEntry]) -> impl Iterator<Item = Want<FilePosition>> + '_ {
    found.iter().enumerate().flat_map(|(at, LocatedEntry { entry, locations })| {
        let extents = match &entry.kind {
            Kind::File { extents, .. } => extents.as_slice(),
            _ => &[],
        };
        let mut offset = 0;
        let chunks = extents.iter().filter_map(move |extent| {
            let place = FilePosition { entry: at, offset };
            offset += extent.len();
            match extent {
                Extent::Chunk { id, len } => Some((*id, *len, place)),
                _ => None,
            }
        });
        let wanted = chunks.zip(locations);
        wanted.map(|((id, raw_len, purpose), location)| Want { id, raw_len, location: *location, purpose })
    })
}

/// Refuses to lend another owner's rights: a special mode lends those of the file's owner.
fn check_owners(found: &[LocatedEntry], keeping: Keeping) -> Result<()> {
    if keeping.owner || !keeping.special {
        return Ok(());
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let stranger = |entry: &&Entry| entry.meta.is_special() && (entry.meta.uid, entry.meta.gid) != (uid, gid);
    let mut entries = found.iter().map(|found| &found.entry);
    let Some(Entry { path, meta, .. }) = entries.find(stranger) else { return Ok(()) };
    let what = format!(
        "{path} has special attributes and belonged to {}:{}; they would lend the rights of {uid}:{gid}. \
         As root, --same-owner with --preserve-special keeps both; without --preserve-special neither is kept",
        meta.uid, meta.gid
    );
    Err(Error::InvalidInput { what })
}
