//! `TreePath` is a path of a tree, checked: it never leads out of the tree.

use std::{cmp::Ordering, fmt};

use crate::format::{FormatError, Result};

/// The longest path.
pub const MAX_PATH_BYTES: usize = 32 * 1024;
/// The longest name in a path.
pub const MAX_NAME_BYTES: usize = 255;

/// A path below the snapshot's root: names joined by slashes, empty for the root.
///
/// No name is empty, `.`, `..`, longer than 255 bytes, or holds a NUL.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TreePath(pub(super) Vec<u8>);

impl TreePath {
    /// The path of the captured directory itself, which is empty.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Checks a path: relative, with `/` between its names, and with no name that would leave the tree.
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

    /// The path of something in this directory.
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

    /// The path as it is spelt below the captured directory.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether this is the captured directory itself.
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

    /// Whether this is `directory`, or lies somewhere in it.
    pub fn is_within(&self, directory: &Self) -> bool {
        let rest = self.0.strip_prefix(directory.as_bytes());
        rest.is_some_and(|rest| directory.is_root() || rest.is_empty() || rest.starts_with(b"/"))
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

/// Compares two paths byte by byte, level by level, so that a directory's content follows it directly: a slash
/// sorts before every other byte.
pub(crate) fn in_order(a: &[u8], b: &[u8]) -> Ordering {
    let level = |b: &u8| if *b == b'/' { 0 } else { *b };
    a.iter().map(level).cmp(b.iter().map(level))
}

impl Ord for TreePath {
    fn cmp(&self, other: &Self) -> Ordering {
        in_order(&self.0, &other.0)
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
