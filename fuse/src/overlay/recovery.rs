//! `recovery` rebuilds a session from its journal, after the daemon or the machine has ended.
//!
//! After the end of the daemon alone, the kernel has everything that was handed to it, and
//! every change in the journal counts. After the end of the machine, bytes that were not
//! synced may be missing from the data files though their journal record is there: such a
//! write counts only if its bytes are the ones that were written. What was synced always
//! counts.

use std::{collections::HashMap, fs::File, io, os::unix::fs::FileExt, sync::Arc};

use store::{Error, Result, content::snapshot_tree::SnapshotTree};

use super::{
    change::{Change, Intent},
    checkpoint::{Below, Checkpoint, drop_unreachable},
    inode_table::InodeTable,
    journal::{Journal, JournalContents},
    node::Ino,
    nodes::{Nodes, Unmade},
    session::SessionDir,
    spans::Bytes,
    upper::Upper,
};

/// A journal that was read, before the snapshot it is about is known.
#[derive(Debug)]
pub struct Unfinished {
    base: Checkpoint,
    found: JournalContents,
    same_boot: bool,
}

/// A session as it was.
#[derive(Debug)]
pub struct Recovered {
    pub nodes: Nodes,
    pub journal: Journal,
    pub upper: Upper,
    pub intent: Option<Intent>,
    /// The nodes that the snapshot it was to make was to have.
    pub intended: Option<Nodes>,
    /// Writes that were lost with the machine: nobody was told that they were safe.
    pub lost_writes: u64,
}

impl Unfinished {
    pub fn read(session: &SessionDir, same_boot: bool) -> Result<Self> {
        let path = session.journal();
        let damaged = |reason: String| Error::damaged(path.display(), reason);
        let found = Journal::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => damaged(error.to_string()),
            _ => Error::io("cannot read", &path, error),
        })?;
        let base = Checkpoint::decode(&found.base).map_err(|error| error.of(path.display()))?;
        Ok(Self { base, found, same_boot })
    }

    /// The snapshot it is about.
    pub fn below(&self) -> Option<&Below> {
        self.base.below.as_ref()
    }

    /// How many bytes were written, each as often as it was.
    pub fn written_bytes(&self) -> u64 {
        let writes = self.found.changes.iter().filter_map(|(_, change)| match change {
            Change::Write { len, .. } => Some(*len),
            _ => None,
        });
        writes.sum::<u64>() + self.base.data_bytes()
    }

    /// The commit that was under way.
    pub fn intent(&self) -> Option<Intent> {
        self.found.changes.iter().rev().find_map(|(_, change)| match change {
            Change::Intent(intent) => Some(Some(*intent)),
            Change::NoIntent | Change::Epoch { .. } => Some(None),
            _ => None,
        })?
    }

    /// Whether it holds any change, as far as the journal alone can tell.
    pub fn has_changes(&self) -> bool {
        self.found.changes.iter().any(|(_, change)| {
            !matches!(change, Change::Sync { .. } | Change::Epoch { .. } | Change::NoIntent)
        }) || self.base.has_changes()
    }

    /// Brings it back above the snapshot with this tree. Blocks for as long as its data files are looked at.
    pub async fn recover(self, session: &SessionDir, tree: Option<Arc<SnapshotTree>>) -> Result<Recovered> {
        let Self { base, found, same_boot } = self;
        let path = session.journal();
        let damaged = |reason: &dyn ToString| Error::damaged(path.display(), reason.to_string());
        let mut nodes = base.nodes(tree).await?;
        let upper = Upper::new(session.data());
        let synced = synced(&found);
        let (mut intended, mut intent) = (None, None);
        let mut lost_writes = 0;
        for (number, change) in &found.changes {
            if let Change::Write { ino, generation, offset, len, crc, .. } = change
                && !same_boot
                && synced.get(ino).is_none_or(|synced| number > synced)
                && !is_there(&upper, *ino, *generation, *offset, *len, *crc)
            {
                lost_writes += 1;
                continue;
            }
            match change {
                Change::Epoch { .. } => {
                    intended = Some(nodes.clone());
                    // What files were when it was meant is no longer known.
                    intent = None;
                }
                Change::Intent(meant) => intent = Some(*meant),
                Change::NoIntent => intent = None,
                _ => {}
            }
            while let Err(unmade) = nodes.apply(change) {
                match unmade {
                    Unmade::Missing(missing) => missing.load().await?,
                    Unmade::Misfit(misfit) => return Err(damaged(&misfit)),
                }
            }
        }
        drop_unreachable(&mut nodes.table);
        let journal =
            Journal::resume(&path, &found).map_err(|error| Error::io("cannot open", &path, error))?;
        // Whoever moved it to its place may have ended before that was on disk.
        let flushed = File::open(session.path()).and_then(|folder| folder.sync_all());
        flushed.map_err(|error| Error::io("cannot flush", session.path(), error))?;
        // Only now is the journal on disk that has no use for them: one that was shortened, or
        // replaced by the one before it, when the machine stops after this would name them still.
        drop_unused(&nodes.table, &upper).map_err(|error| Error::io("cannot read", upper.folder(), error))?;
        Ok(Recovered { nodes, journal, upper, intent, intended, lost_writes })
    }
}

/// For each node, the last write that is known to be on disk.
fn synced(found: &JournalContents) -> HashMap<Ino, u64> {
    let mut synced = HashMap::new();
    for (_, change) in &found.changes {
        if let Change::Sync { ino, number } = change {
            let known = synced.entry(*ino).or_insert(0);
            *known = (*known).max(*number);
        }
    }
    synced
}

/// Whether the data file holds the bytes that were written.
fn is_there(upper: &Upper, ino: Ino, generation: u32, offset: u64, len: u64, crc: u32) -> bool {
    let read = || -> io::Result<bool> {
        let file = upper.existing(ino, generation)?;
        let mut buffer = vec![0; len.min(1 << 20) as usize];
        let (mut at, end) = (offset, offset.saturating_add(len));
        let mut found = 0;
        while at < end {
            let part = &mut buffer[..(end - at).min(1 << 20) as usize];
            file.read_exact_at(part, at)?;
            found = crc32c::crc32c_append(found, part);
            at += part.len() as u64;
        }
        Ok(found == crc)
    };
    read().unwrap_or(false)
}

/// Removes data files that hold nothing of any file.
fn drop_unused(table: &InodeTable, upper: &Upper) -> io::Result<()> {
    for (ino, generation) in upper.list()? {
        let file = table.get(ino).and_then(|node| node.file());
        let used = file.is_some_and(|file| {
            file.generation == generation && !file.stale
                || file.spans.iter().any(|(_, bytes, _)| bytes == Bytes::Data { generation })
        });
        if !used {
            upper.remove(ino, generation);
        }
    }
    Ok(())
}
