//! `Entry` describes one path of a tree, which is a sorted list of entries, parents before children.

mod path;

pub(crate) use path::in_order;
pub use path::{MAX_NAME_BYTES, MAX_PATH_BYTES, TreePath};

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use super::{FormatError, Result, pack::MAX_RAW_LEN};
use crate::id::ChunkId;

// Bounds that every reader enforces, and every writer keeps to.

/// The longest target of a symbolic link.
pub const MAX_TARGET_BYTES: usize = 32 * 1024;
/// The most extended attributes of one entry.
pub const MAX_XATTRS: usize = 1024;
/// The longest value of an extended attribute.
pub const MAX_XATTR_BYTES: usize = 64 * 1024;
/// Attributes and extensions of one entry together: an item must fit into a segment.
pub const MAX_META_BYTES: usize = 4 << 20;
pub(crate) const MAX_EXTENSIONS: usize = 1024;
pub(crate) const MAX_INLINE_BYTES: usize = 4096;
/// The encoding of an extent needs two bits beside its length.
pub const MAX_FILE_BYTES: u64 = (1 << 62) - 1;
pub(crate) const MODE_BITS: u32 = 0o7777;
/// The bits of a mode that lend nobody's rights: all but set-user-id and set-group-id.
pub const PLAIN_MODE_BITS: u32 = 0o1777;
/// How the attributes are called that are data and nothing else.
const PLAIN_XATTRS: &[u8] = b"user.";

/// A moment, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Below 1 000 000 000.
    pub nanos: u32,
}

/// A part of the encoding a later version may add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// An odd tag is critical: a reader that does not know it must refuse the tree.
    pub tag: u64,
    /// Its content, which only programs that know the tag understand.
    pub value: Vec<u8>,
}

/// The attributes that every kind of entry has.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// Permission bits with set-user-id, set-group-id and sticky.
    pub mode: u32,
    /// The number of the owner.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
    /// When the content was changed last.
    pub mtime: Time,
    /// Sorted by name, each name once.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Attributes of which this code knows nothing but that they are there.
    pub extensions: Vec<Extension>,
}

/// Whether an extended attribute is data and nothing else. Others lend rights, as capabilities do,
/// or say who has them, as access lists do.
pub fn is_plain_xattr(name: &[u8]) -> bool {
    name.starts_with(PLAIN_XATTRS)
}

/// Set-user-id and set-group-id bits, and extended attributes beside `user.*`, are *special*: they lend the
/// rights of the user who makes the file, and a tree may be anybody's.
impl Meta {
    /// Whether it has a mode or an attribute that lends rights.
    pub fn is_special(&self) -> bool {
        self.mode != self.plain_mode() || self.xattrs.iter().any(|(name, _)| !is_plain_xattr(name))
    }

    /// The mode without the bits that lend rights.
    pub fn plain_mode(&self) -> u32 {
        self.mode & PLAIN_MODE_BITS
    }

    /// Takes away the special mode bits and attributes.
    pub(crate) fn make_plain(&mut self) {
        self.mode = self.plain_mode();
        self.xattrs.retain(|(name, _)| is_plain_xattr(name));
    }

    /// Whether a tree can have these attributes.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |what: &str| Err(FormatError::malformed(what));
        if self.mode > MODE_BITS || self.mtime.nanos > 999_999_999 {
            return bad("an impossible mode or time");
        }
        if self.xattrs.len() > MAX_XATTRS || self.extensions.len() > MAX_EXTENSIONS {
            return bad("more attributes or extensions than are allowed");
        }
        let fits = |(name, value): &(Vec<u8>, Vec<u8>)| {
            (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(&0) && value.len() <= MAX_XATTR_BYTES
        };
        if !self.xattrs.iter().all(fits) {
            return bad("an extended attribute with an impossible name or a value that is too long");
        }
        if !self.xattrs.is_sorted_by(|a, b| a.0 < b.0) {
            return bad("extended attributes out of order");
        }
        if self.extensions.iter().any(|extension| extension.value.len() > MAX_XATTR_BYTES) {
            return bad("an extension that is too long");
        }
        if !self.extensions.is_sorted_by(|a, b| a.tag < b.tag) {
            return bad("extensions out of order");
        }
        let xattrs = self.xattrs.iter().map(|(name, value)| name.len() + value.len());
        let extensions = self.extensions.iter().map(|extension| extension.value.len());
        if xattrs.chain(extensions).sum::<usize>() > MAX_META_BYTES {
            return bad("more than 4 MiB of attributes and extensions");
        }
        Ok(())
    }
}

/// A run of a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Zeros that take no space.
    Hole(u64),
    /// A chunk of the store.
    Chunk {
        /// The chunk's id.
        id: ChunkId,
        /// How many bytes it has.
        len: u32,
    },
    /// The bytes themselves: the whole content of a tiny file.
    Inline(Vec<u8>),
}

impl Extent {
    /// How many bytes of the file it covers.
    pub fn len(&self) -> u64 {
        match self {
            Self::Hole(len) => *len,
            Self::Chunk { len, .. } => u64::from(*len),
            Self::Inline(bytes) => bytes.len() as u64,
        }
    }

    /// Whether it covers nothing; no valid extent does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn check(&self) -> Result<()> {
        let ok = match self {
            Self::Hole(len) => *len > 0 && *len <= MAX_FILE_BYTES,
            Self::Chunk { len, .. } => *len > 0 && *len <= MAX_RAW_LEN,
            Self::Inline(bytes) => !bytes.is_empty() && bytes.len() <= MAX_INLINE_BYTES,
        };
        if ok { Ok(()) } else { Err(FormatError::malformed("an extent of an impossible length")) }
    }

    /// Whether this may come after `before` in one file: equal files have equal extents.
    pub(super) fn check_after(&self, before: &Self) -> Result<()> {
        match (before, self) {
            (Self::Hole(_), Self::Hole(_)) => Err(FormatError::malformed("two holes side by side")),
            (Self::Inline(_), _) | (_, Self::Inline(_)) => {
                Err(FormatError::malformed("inline bytes beside another extent"))
            }
            _ => Ok(()),
        }
    }
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `extents` cover exactly `size` bytes.
    File {
        /// How many bytes the file has.
        size: u64,
        /// The content, from the first byte to the last.
        extents: Vec<Extent>,
    },
    /// A directory, whose entries follow it in the tree.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it leads, whether or not anything is there.
        target: Vec<u8>,
    },
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice {
        /// The device's number.
        device: u64,
    },
    /// A block device.
    BlockDevice {
        /// The device's number.
        device: u64,
    },
    /// Another name of the regular file at `target`, which comes earlier in the tree.
    HardLink {
        /// The path of that file.
        target: TreePath,
    },
}

impl Kind {
    /// Whether a link at `path` can have its target.
    pub(super) fn check_target(&self, path: &TreePath) -> Result<()> {
        match self {
            Self::Symlink { target }
                if target.is_empty() || target.len() > MAX_TARGET_BYTES || target.contains(&0) =>
            {
                Err(FormatError::malformed("an impossible symbolic link"))
            }
            Self::HardLink { target } if target >= path || target.is_root() => {
                Err(FormatError::malformed("a link to what does not come before it"))
            }
            _ => Ok(()),
        }
    }
}

/// One line of a tree. A hard link's `meta` is that of its target and is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: TreePath,
    /// Its owner, mode, time and other attributes.
    pub meta: Meta,
    /// Its kind, and its content.
    pub kind: Kind,
}

impl Entry {
    /// Whether a reader would accept this entry, its place in the tree aside.
    pub fn check(&self) -> Result<()> {
        self.meta.check()?;
        let (size, extents) = match &self.kind {
            Kind::File { size, extents } => (*size, extents),
            kind => return kind.check_target(&self.path),
        };
        extents.iter().try_for_each(Extent::check)?;
        extents.windows(2).try_for_each(|pair| pair[1].check_after(&pair[0]))?;
        let covered = extents.iter().fold(0u64, |sum, extent| sum.saturating_add(extent.len()));
        if size > MAX_FILE_BYTES || covered != size {
            return Err(FormatError::malformed(format!("a size of {size} with extents for {covered}")));
        }
        Ok(())
    }

    /// Gives a regular file this content.
    pub(crate) fn set_extents(&mut self, new: Vec<Extent>) {
        if let Kind::File { size, extents } = &mut self.kind {
            *size = new.iter().map(Extent::len).sum();
            *extents = new;
        }
    }

    /// Of a regular file; 0 of all else.
    pub fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size, .. } => size,
            _ => 0,
        }
    }

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

/// The files that the hard links of a tree lead to, found out before the tree is checked.
///
/// A digest for each, eight bytes instead of a path; their key is random, so that no tree can be made to fool them.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    digests: HashSet<u64>,
    hasher: RandomState,
}

impl Linked {
    /// Notes where a link leads.
    pub fn add(&mut self, target: &TreePath) {
        self.digests.insert(self.hasher.hash_one(target.as_bytes()));
    }

    /// Whether a link leads there.
    pub fn holds(&self, path: &TreePath) -> bool {
        !self.digests.is_empty() && self.digests.contains(&self.hasher.hash_one(path.as_bytes()))
    }
}

/// Checks, entry by entry, that a list of entries is a tree.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    previous: Option<TreePath>,
    /// Paths of the directories that are open: each the parent of the next.
    open: Vec<TreePath>,
    /// Digests of the paths of regular files, for hard links, as [`Linked`] has them.
    files: HashSet<u64>,
    hasher: RandomState,
    /// The only files that links lead to; if that is not known, any may be one.
    linked: Option<Arc<Linked>>,
    /// Whether parts of the tree are left out: then only the order of the others can be checked.
    is_partial: bool,
}

impl Checker {
    /// Of a tree whose links are known.
    pub fn knowing(linked: Arc<Linked>) -> Self {
        Self { linked: Some(linked), ..Self::default() }
    }

    /// Of some parts of a tree.
    pub fn of_parts() -> Self {
        Self { is_partial: true, ..Self::default() }
    }

    pub fn check(&mut self, entry: &Entry) -> Result<()> {
        let path = &entry.path;
        match &self.previous {
            None if !self.is_partial && (!path.is_root() || entry.kind != Kind::Directory) => {
                return Err(FormatError::malformed("its first entry is not the root directory"));
            }
            Some(previous) if previous >= path => {
                return Err(FormatError::malformed(format!("{path} does not come after {previous}")));
            }
            _ => {}
        }
        if !self.is_partial {
            self.check_place(entry)?;
        }
        // In the memory that it has already: there is one for every entry.
        match &mut self.previous {
            Some(previous) => previous.0.clone_from(&path.0),
            previous => *previous = Some(path.clone()),
        }
        Ok(())
    }

    /// An entry is in a directory, and a link leads to a file.
    fn check_place(&mut self, entry: &Entry) -> Result<()> {
        let path = &entry.path;
        if let Some(parent) = path.parent() {
            while self.open.last().is_some_and(|open| open.as_bytes() != parent) {
                self.open.pop();
            }
            if self.open.is_empty() {
                return Err(FormatError::malformed(format!("{path} has no directory to be in")));
            }
        }
        match &entry.kind {
            Kind::Directory => self.open.push(path.clone()),
            Kind::File { .. } if self.linked.as_ref().is_none_or(|linked| linked.holds(path)) => {
                self.files.insert(self.hasher.hash_one(path.as_bytes()));
            }
            Kind::HardLink { target } if !self.files.contains(&self.hasher.hash_one(target.as_bytes())) => {
                return Err(FormatError::malformed(format!("{path} links to {target}, which is no file")));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether all of it was a tree: one has a root at least.
    pub fn finish(&self) -> Result<()> {
        match self.previous {
            None if !self.is_partial => Err(FormatError::malformed("a tree without entries")),
            _ => Ok(()),
        }
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

    #[test]
    fn a_writer_refuses_what_a_reader_would() {
        let entry = |kind| Entry { path: path("a"), meta: Meta::default(), kind };
        let file = |size, extents| entry(Kind::File { size, extents });
        file(MAX_FILE_BYTES, vec![Extent::Hole(MAX_FILE_BYTES)]).check().unwrap();
        file(MAX_FILE_BYTES + 1, vec![Extent::Hole(MAX_FILE_BYTES + 1)]).check().unwrap_err();
        file(3, vec![Extent::Hole(1), Extent::Hole(2)]).check().unwrap_err();
        file(2, vec![Extent::Hole(1), Extent::Inline(vec![1])]).check().unwrap_err();
        file(2, vec![Extent::Hole(1)]).check().unwrap_err();
        entry(Kind::Symlink { target: vec![b'x'; MAX_TARGET_BYTES] }).check().unwrap();
        entry(Kind::Symlink { target: vec![b'x'; MAX_TARGET_BYTES + 1] }).check().unwrap_err();
        entry(Kind::HardLink { target: path("b") }).check().unwrap_err();
        let with = |count: usize, len: usize| {
            let xattrs = (0..count).map(|n| (format!("user.{n:05}").into_bytes(), vec![0; len])).collect();
            Entry { meta: Meta { xattrs, ..Meta::default() }, ..entry(Kind::Fifo) }
        };
        with(MAX_XATTRS, 4000).check().unwrap();
        with(MAX_XATTRS + 1, 0).check().unwrap_err();
        with(1, MAX_XATTR_BYTES + 1).check().unwrap_err();
        with(64, MAX_XATTR_BYTES).check().unwrap_err();
    }
}
