//! What a snapshot is: a sorted list of entries, parents before children.

use std::{cmp::Ordering, fmt};

use super::{FormatError, Result, pack::MAX_RAW_LEN};
use crate::id::ChunkId;

/// Bounds that every reader enforces.
pub const MAX_PATH_BYTES: usize = 32 * 1024;
pub const MAX_NAME_BYTES: usize = 255;
pub const MAX_TARGET_BYTES: usize = 32 * 1024;
pub const MAX_XATTRS: usize = 1024;
pub const MAX_XATTR_BYTES: usize = 64 * 1024;
pub const MAX_INLINE_BYTES: usize = 4096;
pub const MODE_BITS: u32 = 0o7777;

/// A path below the snapshot's root: names joined by slashes, empty for the root.
///
/// No name is empty, `.`, `..`, longer than 255 bytes, or holds a NUL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.len() > MAX_PATH_BYTES {
            return Err(FormatError::malformed("a path longer than 32 KiB"));
        }
        if !bytes.is_empty() {
            bytes.split(|b| *b == b'/').try_for_each(check_name)?;
        }
        Ok(Self(bytes))
    }

    pub fn join(&self, name: &[u8]) -> Result<Self> {
        check_name(name)?;
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !self.0.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        if bytes.len() > MAX_PATH_BYTES {
            return Err(FormatError::malformed("a path longer than 32 KiB"));
        }
        Ok(Self(bytes))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path of the directory that holds this entry; `None` for the root.
    pub fn parent(&self) -> Option<&[u8]> {
        if self.is_root() {
            return None;
        }
        Some(self.0.iter().rposition(|b| *b == b'/').map_or(&[][..], |at| &self.0[..at]))
    }

    /// The last name; empty for the root.
    pub fn name(&self) -> &[u8] {
        self.0.rsplit(|b| *b == b'/').next().unwrap_or_default()
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name == b"." || name == b".." {
        return Err(FormatError::malformed("a path with an empty name, `.` or `..`"));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(FormatError::malformed("a name longer than 255 bytes"));
    }
    if name.iter().any(|b| matches!(b, 0 | b'/')) {
        return Err(FormatError::malformed("a name with a NUL or a slash"));
    }
    Ok(())
}

/// Names are compared byte by byte, level by level, so that a directory's content
/// follows it directly: a slash sorts before every other byte.
impl Ord for TreePath {
    fn cmp(&self, other: &Self) -> Ordering {
        let level = |b: &u8| if *b == b'/' { 0 } else { *b };
        self.0.iter().map(level).cmp(other.0.iter().map(level))
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TreePath({self})")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    pub seconds: i64,
    /// Below 1 000 000 000.
    pub nanos: u32,
}

/// A part of the encoding a later version may add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// An odd tag is critical: a reader that does not know it must refuse the tree.
    pub tag: u64,
    pub value: Vec<u8>,
}

/// What every kind of entry has.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// Permission bits with set-user-id, set-group-id and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Time,
    /// Sorted by name, each name once.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub extensions: Vec<Extension>,
}

/// A run of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Zeros that take no space.
    Hole(u64),
    Chunk {
        id: ChunkId,
        len: u32,
    },
    /// The bytes themselves: the whole content of a tiny file.
    Inline(Vec<u8>),
}

impl Extent {
    pub fn len(&self) -> u64 {
        match self {
            Self::Hole(len) => *len,
            Self::Chunk { len, .. } => u64::from(*len),
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn check(&self) -> Result<()> {
        let ok = match self {
            Self::Hole(len) => *len > 0,
            Self::Chunk { len, .. } => *len > 0 && *len <= MAX_RAW_LEN,
            Self::Inline(bytes) => !bytes.is_empty() && bytes.len() <= MAX_INLINE_BYTES,
        };
        if ok { Ok(()) } else { Err(FormatError::malformed("an extent of an impossible length")) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `extents` cover exactly `size` bytes.
    File {
        size: u64,
        extents: Vec<Extent>,
    },
    Directory,
    Symlink {
        target: Vec<u8>,
    },
    Fifo,
    Socket,
    CharDevice {
        device: u64,
    },
    BlockDevice {
        device: u64,
    },
    /// Another name of the regular file at `target`, which comes earlier in the tree.
    HardLink {
        target: TreePath,
    },
}

/// One line of a tree. A hard link's `meta` is that of its target and is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: TreePath,
    pub meta: Meta,
    pub kind: Kind,
}

impl Entry {
    /// The chunks of a regular file, in order, repeated as often as they occur.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkId, u32)> + '_ {
        let extents = match &self.kind {
            Kind::File { extents, .. } => extents.as_slice(),
            _ => &[],
        };
        extents.iter().filter_map(|extent| match extent {
            Extent::Chunk { id, len } => Some((*id, *len)),
            _ => None,
        })
    }
}

/// Checks, entry by entry, that a list of entries is a tree.
#[derive(Debug, Default)]
pub struct Checker {
    previous: Option<TreePath>,
    /// Paths of the directories that are open: each the parent of the next.
    open: Vec<TreePath>,
}

impl Checker {
    pub fn check(&mut self, entry: &Entry) -> Result<()> {
        let path = &entry.path;
        match &self.previous {
            None if !path.is_root() || entry.kind != Kind::Directory => {
                return Err(FormatError::malformed("its first entry is not the root directory"));
            }
            Some(previous) if previous >= path => {
                return Err(FormatError::malformed(format!("{path} does not come after {previous}")));
            }
            _ => {}
        }
        if let Some(parent) = path.parent() {
            while self.open.last().is_some_and(|open| open.as_bytes() != parent) {
                self.open.pop();
            }
            if self.open.is_empty() {
                return Err(FormatError::malformed(format!("{path} has no directory to be in")));
            }
        }
        if entry.kind == Kind::Directory {
            self.open.push(path.clone());
        }
        self.previous = Some(path.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn directory(text: &str) -> Entry {
        Entry { path: path(text), meta: Meta::default(), kind: Kind::Directory }
    }

    #[test]
    fn a_path_cannot_leave_the_root() {
        for bad in ["/a", "a/", "a//b", "..", "a/../b", ".", "a/.", "a\0b"] {
            TreePath::new(bad).unwrap_err();
        }
        TreePath::new(vec![b'x'; 256]).unwrap_err();
        TreePath::root().join(b"a/b").unwrap_err();
        path("a").join(b"..").unwrap_err();
        assert_eq!(path("a/b").parent(), Some(&b"a"[..]));
        assert_eq!(path("a").parent(), Some(&b""[..]));
        assert_eq!(TreePath::new(vec![0xff, b'\n']).unwrap().name(), [0xff, b'\n']);
    }

    #[test]
    fn a_directory_is_followed_by_its_content() {
        let mut sorted = vec![path("a b"), path("a/x"), path("a"), path("a!"), path("a/x/y"), path("")];
        sorted.sort();
        assert_eq!(sorted, [path(""), path("a"), path("a/x"), path("a/x/y"), path("a b"), path("a!")]);
    }

    #[test]
    fn only_trees_pass_the_checker() {
        let run = |paths: &[&str]| {
            let mut checker = Checker::default();
            paths.iter().try_for_each(|p| checker.check(&directory(p)))
        };
        run(&["", "a", "a/b", "a/b/c", "b"]).unwrap();
        run(&["a"]).unwrap_err();
        run(&["", "a/b"]).unwrap_err();
        run(&["", "b", "a"]).unwrap_err();
        run(&["", "a", "a"]).unwrap_err();
        run(&["", "a", "b", "a/c"]).unwrap_err();
    }
}
