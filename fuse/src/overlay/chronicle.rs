//! `Chronicle` is the log of file events of a mount: which files were created, written to and removed, in order.
//!
//! ```text
//! file  = "pstore/chronicle/1\n" id u32 · number of the note before the first u64 · frame*
//! frame = length u32 · crc32c of the rest u32 · what u8 · node varint · path
//! ```
//!
//! A note is in the kernel's hands before its change is answered, so the end of the daemon loses none. A file that is written
//! to is noted once, until somebody has asked. Directories are not noted: one that gets another name is as if each of
//! its files went and came.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use store::format::bytes::{Put, Reader};

use super::{
    base_tree::Now,
    change::{Change, NewKind},
    node::{Ino, Node, NodeKind},
    nodes::Nodes,
    places::Places,
};

const MAGIC: &[u8] = b"pstore/chronicle/1\n";
/// The file in a session's directory.
pub const NAME: &str = "chronicle";
/// So many notes are kept that nobody asks for.
const MOST: usize = 1 << 20;
/// So many that are known may stay in the file.
const MOST_USELESS: usize = 4096;
/// No path has more names.
const MOST_NAMES: usize = 1 << 15;

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    Created,
    Modified,
    Deleted,
}

/// Something that happened, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub number: u64,
    pub happened: Happened,
    pub ino: Ino,
    pub path: Vec<u8>,
}

/// A directory, and a name in it.
type Name = (Ino, Vec<u8>);

/// What a change is going to add.
#[derive(Debug, Default)]
pub struct Noted {
    notes: Vec<(Happened, Ino, Vec<u8>)>,
    /// The names that nodes have from then on.
    homes: Vec<(Ino, Name)>,
    /// The names that they have no more.
    lost: Vec<(Ino, Name)>,
    /// Whose writing is told by the notes.
    written: Vec<Ino>,
}

/// The notes of one session.
#[derive(Debug)]
pub struct Chronicle {
    path: PathBuf,
    file: File,
    /// Tells this chronicle from those of other sessions.
    id: u32,
    notes: VecDeque<Note>,
    /// The number of the last note that there was.
    last: u64,
    /// How many notes the file has that nobody needs.
    useless: usize,
    /// Files whose writing needs no other note.
    written: HashSet<Ino>,
    /// A name of each node that was made or moved, and the directory that has it.
    homes: HashMap<Ino, Name>,
}

/// A directory, and a name in it.
type NameOf<'a> = (Ino, &'a Vec<u8>);

impl Chronicle {
    /// Goes on with the one that is at `path`, or begins one.
    pub fn open(path: &Path, nodes: &Nodes) -> io::Result<Self> {
        let found = match fs::read(path) {
            Ok(bytes) => read(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let (id, before, notes) = found.unwrap_or_else(|| (new_id(), 0, Vec::new()));
        let mut homes = HashMap::new();
        for (ino, node) in nodes.table.iter() {
            let slots = node.directory().into_iter().flat_map(|directory| &directory.slots);
            homes.extend(slots.filter_map(|(name, slot)| Some((slot.ino?, (ino, name.clone())))));
        }
        let last = before + notes.len() as u64;
        let number =
            |(at, (happened, ino, path))| Note { number: before + 1 + at as u64, happened, ino, path };
        let notes: VecDeque<Note> = notes.into_iter().enumerate().map(number).collect();
        let file = rewritten(path, id, before, notes.iter())?;
        Ok(Self { path: path.to_owned(), file, id, notes, last, useless: 0, written: HashSet::new(), homes })
    }

    /// Whether one was begun in a session.
    pub fn is_at(path: &Path) -> bool {
        path.exists()
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// The number of the last note.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// From now on each write is noted once more.
    pub fn ask(&mut self) {
        self.written.clear();
    }

    /// Up to `most` notes after this number and not after `until`.
    pub fn after(&self, number: u64, until: u64, most: usize) -> Vec<Note> {
        let first = self.notes.partition_point(|note| note.number <= number);
        self.notes.iter().skip(first).take_while(|note| note.number <= until).take(most).cloned().collect()
    }

    /// Whoever asks has all notes up to this number.
    pub fn forget_through(&mut self, number: u64) -> io::Result<()> {
        let forgotten = self.notes.partition_point(|note| note.number <= number);
        if forgotten == 0 {
            return Ok(());
        }
        self.notes.drain(..forgotten);
        self.useless += forgotten;
        if self.useless > MOST_USELESS.max(self.notes.len()) {
            let before = self.last - self.notes.len() as u64;
            self.file = rewritten(&self.path, self.id, before, self.notes.iter())?;
            self.useless = 0;
        }
        Ok(())
    }

    /// What a change of `nodes` that is about to be made, and that can be made, is going to add.
    pub fn note(&self, nodes: &Nodes, change: &Change) -> Now<Noted> {
        let mut noted = Noted::default();
        match change {
            Change::Create { parent, name, ino, kind, .. } => {
                noted.homes.push((*ino, (*parent, name.clone())));
                if matches!(kind, NewKind::File | NewKind::Symlink { .. }) {
                    noted.written.push(*ino);
                    noted.add(Happened::Created, *ino, self.join(nodes, *parent, name)?);
                }
            }
            Change::Link { ino, parent, name, .. }
                if nodes.node(*ino)?.is_some_and(|node| is_told(&node)) =>
            {
                noted.add(Happened::Created, *ino, self.join(nodes, *parent, name)?);
            }
            Change::Unlink { parent, name, .. } => {
                let folder = nodes.node(*parent)?;
                let gone = folder.map(|folder| nodes.child(&folder, name)).transpose()?.flatten();
                noted.lost.extend(gone.map(|ino| (ino, (*parent, name.clone()))));
                if let Some(ino) = gone
                    && nodes.node(ino)?.is_some_and(|node| is_told(&node))
                {
                    noted.add(Happened::Deleted, ino, self.join(nodes, *parent, name)?);
                }
            }
            Change::Rename { parent, name, new_parent, new_name, exchange, .. } => {
                self.note_rename(nodes, &mut noted, ((*parent, name), (*new_parent, new_name)), *exchange)?;
            }
            Change::Write { ino, .. } | Change::Zero { ino, .. } | Change::Truncate { ino, .. }
                if !self.written.contains(ino) =>
            {
                noted.written.push(*ino);
                for path in self.paths(nodes, *ino)? {
                    noted.add(Happened::Modified, *ino, Some(path));
                }
            }
            _ => {}
        }
        Ok(noted)
    }

    /// The change was made.
    pub fn add(&mut self, noted: Noted) -> io::Result<()> {
        let Noted { notes, homes, lost, written } = noted;
        for (ino, name) in lost {
            if self.homes.get(&ino) == Some(&name) {
                self.homes.remove(&ino);
            }
        }
        self.homes.extend(homes);
        self.written.extend(written);
        if notes.is_empty() {
            return Ok(());
        }
        if self.notes.len() + notes.len() > MOST {
            // Nobody asks; whoever does later compares the trees.
            self.notes.clear();
            self.file = rewritten(&self.path, self.id, self.last, [].iter())?;
            self.useless = 0;
        }
        let mut frames = Vec::new();
        for (happened, ino, path) in notes {
            self.last += 1;
            let note = Note { number: self.last, happened, ino, path };
            frame(&mut frames, &note);
            self.notes.push_back(note);
        }
        self.file.write_all(&frames)
    }

    fn note_rename(
        &self,
        nodes: &Nodes,
        noted: &mut Noted,
        ((parent, name), (new_parent, new_name)): (NameOf<'_>, NameOf<'_>),
        exchange: bool,
    ) -> Now<()> {
        let child = |parent: Ino, name: &[u8]| -> Now<Option<Ino>> {
            let Some(folder) = nodes.node(parent)? else { return Ok(None) };
            nodes.child(&folder, name)
        };
        let Some(moved) = child(parent, name)? else { return Ok(()) };
        let there = child(new_parent, new_name)?;
        let (Some(from), Some(to)) =
            (self.join(nodes, parent, name)?, self.join(nodes, new_parent, new_name)?)
        else {
            return Ok(());
        };
        let gone = self.below(nodes, moved, &from)?;
        let replaced = there.map(|there| self.below(nodes, there, &to)).transpose()?.unwrap_or_default();
        let is_kept: HashSet<Vec<u8>> = replaced.iter().map(|(_, path)| path.clone()).collect();
        let moved_to = |path: &[u8], from: &[u8], to: &[u8]| [to, &path[from.len()..]].concat();
        let mut come: Vec<(Ino, Vec<u8>)> =
            gone.iter().map(|(ino, path)| (*ino, moved_to(path, &from, &to))).collect();
        noted.homes.push((moved, (new_parent, new_name.clone())));
        if exchange && let Some(there) = there {
            noted.homes.push((there, (parent, name.clone())));
            come.extend(replaced.iter().map(|(ino, path)| (*ino, moved_to(path, &to, &from))));
        }
        let has_come: HashSet<&Vec<u8>> = come.iter().map(|(_, path)| path).collect();
        for (ino, path) in gone.iter().chain(&replaced).filter(|(_, path)| !has_come.contains(path)) {
            noted.add(Happened::Deleted, *ino, Some(path.clone()));
        }
        let was_there: HashSet<&Vec<u8>> = gone.iter().map(|(_, path)| path).chain(&is_kept).collect();
        for (ino, path) in &come {
            let happened = if was_there.contains(path) { Happened::Modified } else { Happened::Created };
            noted.add(happened, *ino, Some(path.clone()));
        }
        Ok(())
    }

    /// The files that are at `path`, the node `ino`, or below it.
    fn below(&self, nodes: &Nodes, ino: Ino, path: &[u8]) -> Now<Vec<(Ino, Vec<u8>)>> {
        let (mut found, mut open) = (Vec::new(), vec![(ino, path.to_vec())]);
        while let Some((ino, path)) = open.pop() {
            let Some(node) = nodes.node(ino)? else { continue };
            if node.directory().is_some() {
                let names = nodes.names(&node)?.into_iter();
                open.extend(names.map(|named| (named.ino, joined(&path, &named.name))));
            } else if is_told(&node) {
                found.push((ino, path));
            }
        }
        found.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(found)
    }

    fn join(&self, nodes: &Nodes, parent: Ino, name: &[u8]) -> Now<Option<Vec<u8>>> {
        Ok(self.path(nodes, parent)?.map(|parent| joined(&parent, name)))
    }

    fn home(&self, nodes: &Nodes, ino: Ino) -> Now<Option<Name>> {
        match self.homes.get(&ino) {
            Some(home) => Ok(Some(home.clone())),
            None => below_home(nodes, ino),
        }
    }

    /// All paths of a file; none if it has lost all its names.
    fn paths(&self, nodes: &Nodes, ino: Ino) -> Now<Vec<Vec<u8>>> {
        let Some(node) = nodes.node(ino)? else { return Ok(Vec::new()) };
        match node.names {
            0 => Ok(Vec::new()),
            1 if self.is_at_home(nodes, ino)? => Ok(self.path(nodes, ino)?.into_iter().collect()),
            // It has, or had, several names, and that by which it was known may be another's by now.
            _ => {
                let found = Places::of(&nodes.table).paths(ino, &node.below);
                Ok(found.iter().map(|path| path.as_bytes().to_vec()).collect())
            }
        }
    }

    /// Whether the name by which a node is known is still its name.
    fn is_at_home(&self, nodes: &Nodes, ino: Ino) -> Now<bool> {
        let Some((parent, name)) = self.home(nodes, ino)? else { return Ok(false) };
        let Some(parent) = nodes.node(parent)? else { return Ok(false) };
        Ok(nodes.child(&parent, &name)? == Some(ino))
    }

    /// A path of a node; `None` if it is not known.
    fn path(&self, nodes: &Nodes, mut ino: Ino) -> Now<Option<Vec<u8>>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        while ino != Ino::ROOT {
            let home = self.home(nodes, ino)?.filter(|_| names.len() < MOST_NAMES);
            let Some((parent, name)) = home else { return Ok(None) };
            names.push(name);
            ino = parent;
        }
        names.reverse();
        Ok(Some(names.join(&b'/')))
    }
}

/// The name that a node has which nobody has moved: that of the snapshot below.
fn below_home(nodes: &Nodes, ino: Ino) -> Now<Option<Name>> {
    let (Some(node), Some(base)) = (nodes.node(ino)?, &nodes.base) else { return Ok(None) };
    let Some(path) = node.below.first() else { return Ok(None) };
    let parent = match path.parent().map(store::format::tree::TreePath::new) {
        None => Some(Ino::ROOT),
        Some(Ok(parent)) if parent.is_root() => Some(Ino::ROOT),
        Some(Ok(parent)) => base.ino(&parent)?,
        Some(Err(_)) => None,
    };
    Ok(parent.map(|parent| (parent, path.name().to_vec())))
}

impl Noted {
    fn add(&mut self, happened: Happened, ino: Ino, path: Option<Vec<u8>>) {
        self.notes.extend(path.map(|path| (happened, ino, path)));
    }
}

fn is_told(node: &Node) -> bool {
    matches!(node.kind, NodeKind::File(_) | NodeKind::Symlink { .. })
}

fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

/// A number that no other chronicle of a workspace has; it fits a signed one.
fn new_id() -> u32 {
    let [a, b, c, d, ..] = store::id::random::<8>();
    u32::from_le_bytes([a, b, c, d]) >> 1
}

fn rewritten<'a>(
    path: &Path,
    id: u32,
    before: u64,
    notes: impl Iterator<Item = &'a Note>,
) -> io::Result<File> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&before.to_le_bytes());
    notes.for_each(|note| frame(&mut bytes, note));
    let new = path.with_extension("new");
    fs::write(&new, &bytes)?;
    fs::rename(&new, path)?;
    File::options().append(true).open(path)
}

fn frame(out: &mut Vec<u8>, note: &Note) {
    let mut payload = vec![match note.happened {
        Happened::Created => 1,
        Happened::Modified => 2,
        Happened::Deleted => 3,
    }];
    payload.put_varint(note.ino.0);
    payload.extend_from_slice(&note.path);
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
    out.extend_from_slice(&payload);
}

type NoteFrame = (Happened, Ino, Vec<u8>);

/// The id of a chronicle, the number before its first note, and its notes, as far as they are whole.
fn read(bytes: &[u8]) -> Option<(u32, u64, Vec<NoteFrame>)> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (id, rest) = rest.split_first_chunk::<4>()?;
    let (before, mut rest) = rest.split_first_chunk::<8>()?;
    let mut notes = Vec::new();
    while let Some((note, after)) = read_frame(rest) {
        notes.push(note);
        rest = after;
    }
    Some((u32::from_le_bytes(*id), u64::from_le_bytes(*before), notes))
}

fn read_frame(bytes: &[u8]) -> Option<(NoteFrame, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (crc, rest) = rest.split_first_chunk::<4>()?;
    let (payload, after) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    if crc32c::crc32c(payload) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut reader = Reader::new(payload);
    let happened = match reader.u8().ok()? {
        1 => Happened::Created,
        2 => Happened::Modified,
        3 => Happened::Deleted,
        _ => return None,
    };
    let ino = Ino(reader.varint().ok()?);
    Some(((happened, ino, reader.take(reader.remaining()).ok()?.to_vec()), after))
}
