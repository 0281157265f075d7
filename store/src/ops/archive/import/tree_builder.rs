//! `TreeBuilder` makes a tree of the members of an archive.
//!
//! An archive lists its members in any order; a tree is sorted, each path is there once,
//! and every entry below another is below a directory. So members are put aside and sorted, and looked at together when all
//! are there. What is held of them is the directories, the links, and the files that links lead to.
//!
//! Nothing here touches the file system that the archive is of,
//! so no path in the archive can lead anywhere: but an archive that would, unpacked by
//! another program, write elsewhere is refused all the same.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
};

use super::{
    sorted_members::{Listed, ListedKind, SortedMembers},
    sound_members::{SoundMembers, twice},
};
use crate::{
    archive::{
        problem::{Problem, Result},
        reader::{Limits, Member, What},
    },
    format::tree::{Entry, Extent, Kind, MAX_TARGET_BYTES, Meta, TreePath},
};

/// The memory of an entry beside its names and attributes.
const ENTRY_BYTES: usize = 256;
/// And that of an attribute.
const ATTRIBUTE_BYTES: usize = 64;
/// And that of a hole, with the part between it and the next one.
const HOLE_BYTES: usize = 512;
/// Of directories that an archive implies and does not list.
const IMPLIED_MODE: u32 = 0o700;
/// So many directories are known by path; beyond it they may be noted more than once.
const MOST_FOLDERS: usize = 1 << 17;

/// The members of an archive that were read so far.
#[derive(Debug)]
pub struct TreeBuilder {
    limits: Limits,
    members: SortedMembers,
    /// How many members there are.
    count: u64,
    /// Directories that are listed or implied.
    folders: HashSet<TreePath>,
    /// The members that are links, by path.
    links: BTreeMap<TreePath, Link>,
    metadata_bytes: usize,
    /// Of all files, also of those that are not stored.
    read_bytes: u64,
    /// Of all files that are stored, each once.
    pub bytes: u64,
    /// FIFOs that were left out.
    pub fifos: u64,
    /// Devices that were left out.
    pub devices: u64,
}

#[derive(Debug)]
struct Link {
    number: u64,
    meta: Meta,
    target: TreePath,
}

/// What a link turns out to be.
#[derive(Clone, Debug)]
enum Resolved {
    /// A name of the file that is listed at this path.
    File(TreePath),
    /// Two names of one symbolic link are two links alike: this is the path of the first.
    Symlink(TreePath),
    LeftOut,
}

/// The links of an archive, looked at when all of its members are there.
#[derive(Debug, Default)]
struct Links {
    resolved: HashMap<TreePath, Resolved>,
    /// Of each file with several names, the first in the order of a tree.
    first: HashMap<TreePath, TreePath>,
    /// The targets of symbolic links that have several names.
    symlinks: HashMap<TreePath, Vec<u8>>,
    /// The files whose first name is a link.
    files: HashMap<TreePath, (Meta, Vec<Extent>)>,
}

impl TreeBuilder {
    /// An empty tree that takes in no more than `limits` allow. What it does not hold is put into a file below `folder`.
    pub fn new(limits: Limits, folder: Option<PathBuf>) -> Self {
        Self {
            limits,
            members: SortedMembers::below(folder),
            count: 0,
            folders: HashSet::new(),
            links: BTreeMap::new(),
            metadata_bytes: 0,
            read_bytes: 0,
            bytes: 0,
            fifos: 0,
            devices: 0,
        }
    }

    /// Takes in a member, but for its content: that of a file is to be given to
    /// [`TreeBuilder::fill`] before the next member is added.
    pub fn add(&mut self, member: Member) -> Result<()> {
        let Member { path, mut meta, what } = member;
        // As a capture stores it: what would lend rights is not the archive's to give.
        meta.make_plain();
        if !matches!(what, What::Fifo | What::Device) {
            meta.check().map_err(|error| Problem::bad(format!("{path}: {error}")))?;
        }
        let what = match what {
            What::Symlink { target } if target.len() > MAX_TARGET_BYTES => {
                return Err(Problem::bad(format!("{path}: a symbolic link to {} bytes", target.len())));
            }
            What::Directory => ListedKind::Directory,
            What::File { size, holes } => {
                self.read(size)?;
                self.charge(holes.len() * HOLE_BYTES)?;
                self.bytes = self.bytes.saturating_add(size);
                ListedKind::File(Vec::new())
            }
            What::Symlink { target } => ListedKind::Symlink(target),
            What::HardLink { target } => {
                let link = Link { number: self.count, meta: meta.clone(), target: target.clone() };
                if self.links.insert(path.clone(), link).is_some() {
                    return Err(twice(&path));
                }
                ListedKind::Link(target)
            }
            What::Fifo => {
                self.fifos += 1;
                ListedKind::LeftOut
            }
            What::Device => {
                self.devices += 1;
                ListedKind::LeftOut
            }
        };
        self.insert(path, meta, what)
    }

    /// A member that is not to be stored, and nothing below it either.
    pub(super) fn leave_out(&mut self, path: TreePath, what: &What) -> Result<()> {
        if let What::File { size, .. } = what {
            self.read(*size)?;
        }
        self.insert(path, Meta::default(), ListedKind::LeftOut)
    }

    fn read(&mut self, size: u64) -> Result<()> {
        self.read_bytes = self.read_bytes.saturating_add(size);
        if self.read_bytes > self.limits.bytes {
            return Err(Problem::TooLarge(self.read_bytes));
        }
        Ok(())
    }

    /// Sets the content of the file that was added last.
    pub fn fill(&mut self, path: &TreePath, content: Vec<Extent>) {
        self.members.fill(path, content);
    }

    fn insert(&mut self, path: TreePath, meta: Meta, what: ListedKind) -> Result<()> {
        if path.is_root() && what != ListedKind::Directory {
            return Err(Problem::bad("its root is not a directory"));
        }
        let number = self.count;
        let mut above = path.parent().map(<[u8]>::to_vec);
        while let Some(bytes) = above {
            let parent = TreePath::new(bytes).map_err(|error| Problem::bad(error.to_string()))?;
            if self.folders.contains(&parent) {
                break;
            }
            above = parent.parent().map(<[u8]>::to_vec);
            // As its first member, but for what only its owner would say of it.
            let Meta { uid, gid, mtime, .. } = meta;
            let meta = Meta { mode: IMPLIED_MODE, uid, gid, mtime, ..Meta::default() };
            self.place(Listed { path: parent, number, meta, what: ListedKind::Implied })?;
        }
        self.place(Listed { path, number, meta, what })
    }

    fn place(&mut self, listed: Listed) -> Result<()> {
        let Listed { path, meta, what, .. } = &listed;
        let target = match what {
            ListedKind::Symlink(target) => target.len(),
            ListedKind::Link(file) => file.as_bytes().len(),
            _ => 0,
        };
        self.charge(ENTRY_BYTES + path.as_bytes().len() + target + attributes_bytes(meta))?;
        if matches!(what, ListedKind::Directory | ListedKind::Implied) {
            if self.folders.len() >= MOST_FOLDERS {
                self.folders.clear();
            }
            self.folders.insert(path.clone());
        }
        if *what != ListedKind::Implied {
            self.count += 1;
            self.check_count(self.count)?;
        }
        self.members.push(listed);
        Ok(())
    }

    fn check_count(&self, count: u64) -> Result<()> {
        if count > self.limits.entries as u64 {
            return Err(Problem::bad(format!("it holds more than {} entries", self.limits.entries)));
        }
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.metadata_bytes += bytes;
        self.require_room_for(self.metadata_bytes)
    }

    fn require_room_for(&self, metadata_bytes: usize) -> Result<()> {
        let most = self.limits.metadata_bytes;
        if metadata_bytes > most {
            return Err(Problem::bad(format!("its names and attributes take more than {most} bytes")));
        }
        Ok(())
    }

    /// Hands on all entries, in the order of a tree. A file with several names is a file where it
    /// comes first, and a link elsewhere.
    pub fn finish(mut self, each: &mut dyn FnMut(Entry) -> Result<()>) -> Result<()> {
        self.members.sort();
        let mut links = self.resolved()?;
        let mut members = SoundMembers::new(&self.members)?;
        let mut count = 0;
        while let Some(Listed { path, meta, what, .. }) = members.next()? {
            count += 1;
            self.check_count(count)?;
            let (meta, kind) = match what {
                ListedKind::Implied | ListedKind::Directory => (meta, Kind::Directory),
                ListedKind::Symlink(target) => (meta, Kind::Symlink { target }),
                ListedKind::LeftOut => continue,
                // Only where a link comes before its file do the two change places.
                ListedKind::File(extents) => match links.first.get(&path).filter(|first| **first != path) {
                    Some(first) => {
                        let own = self.links.get(first).map(|link| link.meta.clone()).unwrap_or_default();
                        (own, Kind::HardLink { target: first.clone() })
                    }
                    None => (meta, file(extents)),
                },
                ListedKind::Link(_) => match links.resolved.get(&path) {
                    Some(Resolved::File(of)) => match links.files.remove(&path) {
                        Some((meta, extents)) => (meta, file(extents)),
                        None => {
                            let first = links.first.get(of).unwrap_or(of);
                            (meta, Kind::HardLink { target: first.clone() })
                        }
                    },
                    Some(Resolved::Symlink(of)) => {
                        let target = links.symlinks.get(of).cloned().unwrap_or_default();
                        (meta, Kind::Symlink { target })
                    }
                    Some(Resolved::LeftOut) | None => continue,
                },
            };
            each(Entry { path, meta, kind })?;
        }
        Ok(())
    }

    /// Finds out what links lead to. A link names a member that was listed before it: a file, or a name of one.
    fn resolved(&self) -> Result<Links> {
        let mut links = Links::default();
        if self.links.is_empty() {
            return Ok(links);
        }
        let targets: HashSet<&TreePath> = self.links.values().map(|link| &link.target).collect();
        let mut listed: HashMap<TreePath, Listed> = HashMap::new();
        let mut members = SoundMembers::new(&self.members)?;
        while let Some(member) = members.next()? {
            if targets.contains(&member.path) {
                listed.insert(member.path.clone(), member);
            }
        }
        let mut spent = 0_usize;
        let mut by_number: Vec<(&TreePath, &Link)> = self.links.iter().collect();
        by_number.sort_unstable_by_key(|(_, link)| link.number);
        for (path, Link { number, target, .. }) in by_number {
            let Some(found) = listed.get(target).filter(|found| found.number < *number) else {
                let what = format!("{path} is a hard link to {target}, which is not there before it");
                return Err(Problem::bad(what));
            };
            let resolved = match &found.what {
                ListedKind::File(_) => Resolved::File(target.clone()),
                // It was listed before this one, so it is known.
                ListedKind::Link(_) => links.resolved.get(target).cloned().unwrap_or(Resolved::LeftOut),
                ListedKind::Symlink(to) => {
                    links.symlinks.entry(target.clone()).or_insert_with(|| to.clone());
                    Resolved::Symlink(target.clone())
                }
                ListedKind::LeftOut => Resolved::LeftOut,
                ListedKind::Directory | ListedKind::Implied => {
                    let what = format!("{path} is a hard link to {target}, which is a directory");
                    return Err(Problem::bad(what));
                }
            };
            // Each of its names becomes a link with the whole target.
            if let Resolved::Symlink(of) = &resolved {
                spent += links.symlinks.get(of).map_or(0, Vec::len);
                self.require_room_for(self.metadata_bytes.saturating_add(spent))?;
            }
            if let Resolved::File(file) = &resolved {
                let first = links.first.entry(file.clone()).or_insert_with(|| file.clone());
                if path < first {
                    first.clone_from(path);
                }
            }
            links.resolved.insert(path.clone(), resolved);
        }
        for (file, first) in links.first.iter().filter(|(file, first)| file != first) {
            if let Some(Listed { meta, what: ListedKind::File(extents), .. }) = listed.remove(file) {
                links.files.insert(first.clone(), (meta, extents));
            }
        }
        Ok(links)
    }
}

fn file(extents: Vec<Extent>) -> Kind {
    Kind::File { size: extents.iter().map(Extent::len).sum(), extents }
}

fn attributes_bytes(meta: &Meta) -> usize {
    meta.xattrs.iter().map(|(name, value)| ATTRIBUTE_BYTES + name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(path: &str, what: What, attribute: usize) -> Member {
        let meta = Meta { xattrs: vec![(b"user.a".to_vec(), vec![7; attribute])], ..Meta::default() };
        Member { path: TreePath::new(path.as_bytes().to_vec()).unwrap(), meta, what }
    }

    fn path(path: &str) -> TreePath {
        TreePath::new(path).unwrap()
    }

    fn entries(builder: TreeBuilder) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        builder.finish(&mut |entry| {
            entries.push(entry);
            Ok(())
        })?;
        Ok(entries)
    }

    /// Also those of a directory that is listed after its entries.
    #[test]
    fn all_attributes_count() {
        let limits = Limits { bytes: 0, entries: 100, metadata_bytes: 100_000 };
        let mut gathered = TreeBuilder::new(limits, None);
        let added = (0..10).try_for_each(|number| {
            let file = What::File { size: 0, holes: Vec::new() };
            gathered.add(member(&format!("{number}/file"), file, 1))?;
            gathered.add(member(&number.to_string(), What::Directory, 60_000))
        });
        assert!(matches!(added, Err(Problem::Bad(_))), "{added:?}");
    }

    /// In an order that is nobody's, with links before and behind their files: as if all were in memory.
    #[test]
    fn however_many_members_there_are_few_are_held_and_the_tree_is_sorted() {
        const FILES: usize = 100_000;
        let dir = tempfile::tempdir().unwrap();
        let mut builder = TreeBuilder::new(Limits::of(u64::MAX), Some(dir.path().to_owned()));
        let name = |number: usize| format!("{:03}/{:03}/{number}", number * 7919 % 1000, number % 13);
        let (mut most, mut expected) = (0, BTreeMap::new());
        for number in 0..FILES {
            let number = number * 7919 % FILES;
            let content = vec![Extent::Inline(number.to_le_bytes().to_vec())];
            let what = What::File { size: 8, holes: Vec::new() };
            builder.add(member(&name(number), what, number % 3)).unwrap();
            builder.fill(&path(&name(number)), content.clone());
            expected.insert(path(&name(number)), file(content));
            most = most.max(builder.members.in_memory());
        }
        for number in 0..100 {
            let (link, target) = (path(&format!("{:03}/link", number * 10)), path(&name(number * 900)));
            builder.add(member(&link.to_string(), What::HardLink { target: target.clone() }, 0)).unwrap();
            let (first, other) = if link < target { (link, target) } else { (target, link) };
            let content = expected.remove(&path(&name(number * 900))).unwrap();
            expected.insert(first.clone(), content);
            expected.insert(other, Kind::HardLink { target: first });
        }
        assert!(most < FILES / 3, "{most} members are in memory");
        let found = entries(builder).unwrap();
        assert!(found.is_sorted_by(|one, next| one.path < next.path));
        let others = found.into_iter().filter(|entry| entry.kind != Kind::Directory);
        let others: BTreeMap<TreePath, Kind> = others.map(|entry| (entry.path, entry.kind)).collect();
        assert!(others == expected, "{} and {}", others.len(), expected.len());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has no name");
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let file = || What::File { size: 0, holes: Vec::new() };
        let link = |target| What::HardLink { target: path(target) };
        let symlink = || What::Symlink { target: b"elsewhere".to_vec() };
        for (members, why) in [
            (vec![("a", file()), ("a", file())], "a is there twice"),
            (vec![("a", What::Directory), ("a", What::Directory)], "a is there twice"),
            (vec![("a", file()), ("b", file()), ("a/b", file())], "a/b is below a, which is no directory"),
            (vec![("a", symlink()), ("a/b/c", file())], "a/b is below a, which is a symbolic link"),
            (vec![("a/b", file()), ("a", file())], "a is no directory, though something is below it"),
            (vec![("a", link("b")), ("b", file())], "a is a hard link to b, which is not there before it"),
            (vec![("a", link("a"))], "a is a hard link to a, which is not there before it"),
            (vec![("b/c", file()), ("a", link("b"))], "a is a hard link to b, which is a directory"),
            (vec![("", file())], "its root is not a directory"),
        ] {
            let mut builder = TreeBuilder::new(Limits::of(0), None);
            let added = members.into_iter().try_for_each(|(path, what)| builder.add(member(path, what, 0)));
            let refused = added.and_then(|()| entries(builder).map(drop)).unwrap_err();
            assert!(matches!(&refused, Problem::Bad(told) if told == why), "{refused:?}, not {why}");
        }
    }

    #[test]
    fn a_link_to_a_link_is_a_name_of_its_file() {
        let mut builder = TreeBuilder::new(Limits::of(8), None);
        builder.add(member("m", What::File { size: 8, holes: Vec::new() }, 1)).unwrap();
        builder.fill(&path("m"), vec![Extent::Hole(8)]);
        builder.add(member("z", What::HardLink { target: path("m") }, 0)).unwrap();
        builder.add(member("a", What::HardLink { target: path("z") }, 0)).unwrap();
        builder.add(member("s", What::Symlink { target: b"to".to_vec() }, 0)).unwrap();
        builder.add(member("t", What::HardLink { target: path("s") }, 0)).unwrap();
        builder.add(member("f", What::Fifo, 0)).unwrap();
        builder.add(member("g", What::HardLink { target: path("f") }, 0)).unwrap();
        let found = entries(builder).unwrap();
        let link = || Kind::HardLink { target: path("a") };
        let symlink = || Kind::Symlink { target: b"to".to_vec() };
        let expected = [
            ("", Kind::Directory),
            ("a", file(vec![Extent::Hole(8)])),
            ("m", link()),
            ("s", symlink()),
            ("t", symlink()),
            ("z", link()),
        ];
        assert!(
            found.iter().map(|entry| (&entry.path, &entry.kind)).eq(expected
                .iter()
                .map(|(at, kind)| (path(at), kind))
                .collect::<Vec<_>>()
                .iter()
                .map(|(at, kind)| (at, *kind)))
        );
    }
}
