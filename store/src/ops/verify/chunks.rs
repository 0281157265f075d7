//! Checks the chunks of a snapshot: whether they are there, and whole.

use std::{mem, sync::Arc};

use futures::{StreamExt, stream};

use super::{Check, REQUESTS_AT_ONCE, directories::EntryPlace, findings::is_loss, packs::changed};
use crate::{
    Result,
    content::{
        TenantStore,
        chunk::Piece,
        damage::DamagedFrames,
        reader::{Fetch, Verified, Want, plan},
        snapshot_tree::{
            SnapshotTree,
            stream::{LocatedEntry, TreeStream},
        },
        workers::blocking,
    },
    format::{layout, record::Record, tree::Entry},
    progress::Tick,
};

/// How many chunks are planned together, so that neighbours are read together: all of an ordinary profile.
const READ_TOGETHER: usize = 16 << 10;

/// The expected checksum of a chunk's stored bytes.
type Crc = u32;

/// A fetch whose chunks were checked: how many bytes were read, and the faults of damaged chunks, by
/// their offset.
type Checked = (Fetch<Crc>, Result<(u64, Vec<(u64, String)>)>);

impl Check<'_> {
    /// Looks whether each chunk is where it should be, and reads those that were not read yet.
    /// Names every file that needs a damaged one.
    pub(super) async fn chunks(
        &mut self,
        record: &Record,
        tree: &Arc<SnapshotTree>,
        name: &str,
    ) -> Result<()> {
        let marked = record.damage.as_ref().map(DamagedFrames::from).unwrap_or_default();
        let mut wants = Vec::new();
        let mut stream = TreeStream::new(Arc::clone(tree)).await?;
        while let Some(entries) = stream.next().await? {
            for (piece, entry) in uses(&entries) {
                let Some((place, crc)) = self.placed(&piece, name, entry) else { continue };
                self.directories.check(place);
                let Piece { id, raw_len, location } = piece;
                // Not due for one snapshot, it may be for another, whose mark names it.
                let is_due = |sample: super::Sample| sample.holds(location.pack) || marked.holds(&location);
                if self.options.read_data
                    && self.options.sample.is_none_or(is_due)
                    && self.directories.see(place)
                {
                    wants.push(Want { id, raw_len, location, purpose: crc });
                }
            }
            if wants.len() >= READ_TOGETHER {
                self.read(mem::take(&mut wants)).await?;
            }
        }
        if !wants.is_empty() {
            self.read(wants).await?;
        }
        if !self.wrong.is_empty() {
            self.name_files(tree, name).await?;
        }
        Ok(())
    }

    /// Names the files that need a faulty object.
    async fn name_files(&mut self, tree: &Arc<SnapshotTree>, name: &str) -> Result<()> {
        let mut stream = TreeStream::new(Arc::clone(tree)).await?;
        while let Some(entries) = stream.next().await? {
            for (Piece { location, .. }, entry) in uses(&entries) {
                if let Some(reason) = self.wrong.get(&(location.pack, location.offset)) {
                    let pack = layout::pack(&self.store.tenant, location.pack);
                    self.findings.find(pack, reason, name, Some(&entry.path.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Reads and checks chunks, as many fetches at a time as are under way; each holds a few
    /// megabytes.
    async fn read(&mut self, wants: Vec<Want<Crc>>) -> Result<()> {
        let fetches = plan(wants);
        self.progress.begin("verify", 0, fetches.iter().map(|fetch| fetch.end - fetch.start).sum());
        let store = self.store;
        let mut checked = stream::iter(fetches).map(|fetch| check(store, fetch)).buffered(REQUESTS_AT_ONCE);
        while let Some((fetch, result)) = checked.next().await {
            let (len, damaged) = match result {
                Err(error) if is_loss(&error) => {
                    let all = fetch.wants.iter().map(|want| (want.location.offset, error.to_string()));
                    (0, all.collect())
                }
                checked => checked?,
            };
            for (offset, reason) in damaged {
                self.lost.add_frame(fetch.pack, offset);
                self.wrong.insert((fetch.pack, offset), reason);
            }
            self.report.read_bytes += len;
            self.progress.tick(Tick { bytes: len, transferred_bytes: len, ..Tick::default() });
        }
        Ok(())
    }

    /// Where the chunk is, and the checksum of its stored bytes, if the pack's own directory has it there.
    fn placed(&mut self, piece: &Piece, name: &str, entry: &Entry) -> Option<(EntryPlace, Crc)> {
        let Piece { id, raw_len, location } = piece;
        let pack = || layout::pack(&self.store.tenant, location.pack);
        if !self.directories.is_readable(&location.pack) {
            self.findings.find(pack(), "it cannot be used", name, Some(&entry.path.to_string()));
            return None;
        }
        let there = self.directories.at(location.pack, location.offset);
        let found = there.filter(|(_, entry)| {
            entry.id == *id
                && entry.raw_len == *raw_len
                && entry.stored_len == location.stored_len
                && entry.codec == location.codec
        });
        if found.is_none() {
            let reason = format!("chunk {id} is not where the snapshot says it is");
            self.findings.find(pack(), reason, name, Some(&entry.path.to_string()));
            // If something else is there, the snapshot is wrong and not the pack: others may need
            // what is there.
            if there.is_none_or(|(_, there)| there.id == *id) {
                self.lost.add_frame(location.pack, location.offset);
            }
        }
        found.map(|(place, entry)| (place, entry.crc))
    }
}

/// Every chunk of some entries, with the entry that needs it.
fn uses(entries: &[LocatedEntry]) -> impl Iterator<Item = (Piece, &Entry)> {
    entries.iter().flat_map(|found| found.pieces().map(|piece| (piece, &found.entry)))
}

/// Fetches some chunks and checks each, away from the threads that wait.
async fn check(store: &TenantStore, fetch: Fetch<Crc>) -> Checked {
    let bytes = match store.pack_range(fetch.pack, fetch.start, fetch.end).await {
        Ok(bytes) => bytes,
        Err(error) => return (fetch, Err(error)),
    };
    let (key, fetch) = (*store.key(), Arc::new(fetch));
    let shared = Arc::clone(&fetch);
    let checked = blocking(move || {
        let wrong = |want: &Want<Crc>| {
            let stored = shared.stored(want, &bytes);
            let checked = Verified::check(&key, &want.id, want.location.codec, stored, want.raw_len);
            let reason = match checked {
                Err(error) => error.to_string(),
                // Some bits of a frame may change without changing what it holds.
                Ok(_) if crc32c::crc32c(stored) != want.purpose => changed(want.location.offset),
                Ok(_) => return None,
            };
            Some((want.location.offset, reason))
        };
        Ok((bytes.len() as u64, shared.wants.iter().filter_map(wrong).collect()))
    });
    let checked = checked.await;
    (Arc::unwrap_or_clone(fetch), checked)
}
