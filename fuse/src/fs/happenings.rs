//! `happenings` answers with the file events that the chronicle has noted, page by page.

use std::{io, path::Path};

use super::{Fs, State, errno};
use crate::{
    Result,
    overlay::chronicle::{Chronicle, Happened},
};

/// What has happened to files, a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happenings {
    /// Tells this chronicle from those of other mounts: its numbers are its own.
    pub chronicle: u32,
    pub happenings: Vec<Happening>,
    /// The number of the last that is told here, or of the one asked from if there is nothing after it.
    pub last: u64,
    /// Whether there are others after it.
    pub has_more: bool,
}

/// What has happened to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub happened: Happened,
    pub path: Vec<u8>,
    /// How large the file is now.
    pub size: Option<u64>,
}

impl Fs {
    /// Notes what happens to files from now on, in a file at `path`. Whoever did so before goes on.
    pub fn begin_chronicle(&self, path: &Path) -> io::Result<()> {
        let mut state = self.write_state();
        if state.chronicle.is_none() {
            state.chronicle = Some(Chronicle::open(path, &state.nodes)?);
        }
        Ok(())
    }

    /// Up to `most` of what happened after `after`, of the chronicle with this id, and not after `until`; all that there is
    /// if another is asked for. What came before is forgotten: whoever asks has it. `None` if nothing is noted.
    pub fn happenings(
        &self,
        (chronicle, after): (u32, u64),
        until: u64,
        most: usize,
    ) -> Result<Option<Happenings>> {
        let mut state = self.write_state();
        let State { nodes, chronicle: noted, .. } = &mut *state;
        let Some(noted) = noted else { return Ok(None) };
        let after = if noted.id() == chronicle { after } else { 0 };
        noted.forget_through(after).map_err(errno)?;
        let notes = noted.after(after, until, most);
        let last = notes.last().map_or(after, |note| note.number);
        let has_more = last < until.min(noted.last());
        if last == noted.last() {
            noted.ask();
        }
        let is_excluded = |path: &[u8]| self.exclusions.iter().any(|excluded| excluded.as_bytes() == path);
        let happenings = notes
            .into_iter()
            .filter(|note| !is_excluded(&note.path))
            .map(|note| {
                let file = nodes.table.get(note.ino).and_then(|node| node.file());
                let size = file.map(|file| file.size).filter(|_| note.happened != Happened::Deleted);
                Happening { happened: note.happened, path: note.path, size }
            })
            .collect();
        Ok(Some(Happenings { chronicle: noted.id(), happenings, last, has_more }))
    }
}
