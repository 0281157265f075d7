//! `Diff` lists the differences between two snapshots, path by path.

use crate::format::tree::TreePath;

/// The change at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Only the later snapshot has it.
    Added,
    /// Only the earlier snapshot has it.
    Removed,
    /// Its content, or the target of a symbolic link; perhaps its metadata too.
    Content,
    /// Nothing but its metadata.
    Metadata,
    /// It is something else now.
    Type,
}

/// A path that is not the same in both snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it is.
    pub path: TreePath,
    /// The kind of the difference.
    pub change: Change,
    /// As the earlier snapshot has it.
    pub before: Option<Side>,
    /// As the later snapshot has it.
    pub after: Option<Side>,
    /// The metadata that differs, if both have it.
    pub metadata: Fields,
}

/// A path as one of the two snapshots has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its kind: a word for people and programs.
    pub kind: &'static str,
    /// Of a file; of a hard link the size of the file.
    pub size: u64,
    /// Bytes of the file in chunks that the other snapshot has nowhere, or in none. Those of
    /// a hard link are told with its file.
    pub unshared_bytes: u64,
}

/// The metadata that differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Permissions.
    pub mode: bool,
    /// Owner or group.
    pub owner: bool,
    /// When the content was changed last.
    pub mtime: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// Whether it is another name of a file, and of which.
    pub links: bool,
    /// Additions of a later version of the format.
    pub extensions: bool,
}

impl Fields {
    /// Whether anything differs.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// The names of those that differ.
    pub fn names(&self) -> Vec<&'static str> {
        let Self { mode, owner, mtime, xattrs, links, extensions } = *self;
        let all = [
            (mode, "mode"),
            (owner, "owner"),
            (mtime, "mtime"),
            (xattrs, "xattrs"),
            (links, "links"),
            (extensions, "extensions"),
        ];
        all.into_iter().filter(|(differs, _)| *differs).map(|(_, name)| name).collect()
    }
}

/// How many paths differ, and how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Paths that only the later one has.
    pub added: u64,
    /// Paths that only the earlier one has.
    pub removed: u64,
    /// Paths with other content.
    pub changed: u64,
    /// Paths with other metadata alone.
    pub metadata_changed: u64,
    /// Paths that are something else now.
    pub type_changed: u64,
    /// Paths that are the same in both.
    pub unchanged: u64,
    /// Sizes of all files, each counted once however many names it has.
    pub bytes_before: u64,
    /// Bytes of the files of the later one.
    pub bytes_after: u64,
    /// In chunks only the later snapshot has, each counted once, and in tiny files.
    pub new_bytes: u64,
    /// The same of the earlier one.
    pub gone_bytes: u64,
}

/// The differences between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// In the order of paths.
    pub lines: Vec<Line>,
    /// The sums of all lines.
    pub totals: Totals,
}

impl Totals {
    /// Counts a path that differs.
    pub(super) fn count(&mut self, change: Change) {
        let counter = match change {
            Change::Added => &mut self.added,
            Change::Removed => &mut self.removed,
            Change::Content => &mut self.changed,
            Change::Metadata => &mut self.metadata_changed,
            Change::Type => &mut self.type_changed,
        };
        *counter += 1;
    }
}
