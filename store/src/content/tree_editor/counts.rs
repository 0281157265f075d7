//! `CountChange` counts entries that come and go, kind by kind.

use crate::format::{record::Counts, tree::Kind};

/// How many entries of each kind there are more, or fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountChange {
    files: i64,
    directories: i64,
    symlinks: i64,
    hard_links: i64,
}

impl CountChange {
    /// There is one more of this kind.
    pub fn add(&mut self, kind: &Kind) {
        self.change(kind, 1);
    }

    /// There is one fewer of this kind.
    pub fn take(&mut self, kind: &Kind) {
        self.change(kind, -1);
    }

    /// Changes earlier counts.
    pub fn apply(&self, counts: &mut Counts) {
        for (count, change) in [
            (&mut counts.files, self.files),
            (&mut counts.directories, self.directories),
            (&mut counts.symlinks, self.symlinks),
            (&mut counts.hard_links, self.hard_links),
        ] {
            *count = count.saturating_add_signed(change);
        }
    }

    fn change(&mut self, kind: &Kind, by: i64) {
        match kind {
            Kind::File { .. } => self.files += by,
            Kind::Directory => self.directories += by,
            Kind::Symlink { .. } => self.symlinks += by,
            Kind::HardLink { .. } => self.hard_links += by,
            Kind::Fifo | Kind::Socket | Kind::CharDevice { .. } | Kind::BlockDevice { .. } => {}
        }
    }
}
