//! `tree` encodes trees as `format-spec/` says, and checks nothing.

use store::format::{
    bytes::Put,
    table::{self, Location},
    tree::{Entry, Extent, Kind, Meta, Time, TreePath},
};

use super::Segment;

const PREFIX: &[u8] = b"pstore/tree/1\n";
/// Where the forger ends a segment: where it likes.
const SEGMENT_BYTES: usize = 1 << 20;
const EXTENTS_OF_AN_ITEM: usize = 256;

/// The segments of a tree. Every chunk has the next of the locations; the last one if there are too few.
pub fn segments(entries: &[Entry], locations: &[Location]) -> Vec<Segment> {
    let mut locations = locations.iter().copied();
    let mut last = None;
    let mut finished = Vec::new();
    let (mut tree, mut places, mut previous) = (PREFIX.to_vec(), Vec::new(), Vec::new());
    for entry in entries {
        item(&mut tree, &mut previous, entry);
        for _ in entry.chunks() {
            last = locations.next().or(last);
            places.extend(last);
        }
        if tree.len() > SEGMENT_BYTES {
            finished.push(segment(std::mem::replace(&mut tree, PREFIX.to_vec()), &mut places));
            previous.clear();
        }
    }
    if tree.len() > PREFIX.len() || finished.is_empty() {
        finished.push(segment(tree, &mut places));
    }
    finished
}

fn segment(tree: Vec<u8>, places: &mut Vec<Location>) -> Segment {
    let places = std::mem::take(places);
    Segment { tree, chunks: places.len() as u32, table: table::encode(&places) }
}

/// Appends an entry. What it shares with the path before is left out, as it must be.
fn item(out: &mut Vec<u8>, previous: &mut Vec<u8>, entry: &Entry) {
    let kind = match entry.kind {
        Kind::File { .. } => 1,
        Kind::Directory => 2,
        Kind::Symlink { .. } => 3,
        Kind::Fifo => 4,
        Kind::Socket => 5,
        Kind::CharDevice { .. } => 6,
        Kind::BlockDevice { .. } => 7,
        Kind::HardLink { .. } => 8,
    };
    out.push(kind);
    let path = entry.path.as_bytes();
    let shared = previous.iter().zip(path).take_while(|(a, b)| a == b).count();
    out.put_varint(shared as u64);
    out.put_bytes(&path[shared..]);
    previous.clear();
    previous.extend_from_slice(path);
    if let Kind::HardLink { target } = &entry.kind {
        return out.put_bytes(target.as_bytes());
    }
    meta(out, &entry.meta);
    match &entry.kind {
        Kind::File { size, extents } => {
            out.put_varint(*size);
            let mut items = extents.chunks(EXTENTS_OF_AN_ITEM);
            put_extents(out, items.next().unwrap_or_default());
            for more in items {
                out.push(9);
                put_extents(out, more);
            }
        }
        Kind::Symlink { target } => out.put_bytes(target),
        Kind::CharDevice { device } | Kind::BlockDevice { device } => out.put_varint(*device),
        _ => {}
    }
}

fn meta(out: &mut Vec<u8>, meta: &Meta) {
    out.put_varint(meta.mode.into());
    out.put_varint(meta.uid.into());
    out.put_varint(meta.gid.into());
    out.put_signed(meta.mtime.seconds);
    out.put_varint(meta.mtime.nanos.into());
    out.put_varint(meta.xattrs.len() as u64);
    for (name, value) in &meta.xattrs {
        out.put_bytes(name);
        out.put_bytes(value);
    }
    out.put_varint(meta.extensions.len() as u64);
    for extension in &meta.extensions {
        out.put_varint(extension.tag);
        out.put_bytes(&extension.value);
    }
}

fn put_extents(out: &mut Vec<u8>, extents: &[Extent]) {
    out.put_varint(extents.len() as u64);
    for extent in extents {
        match extent {
            Extent::Hole(len) => out.put_varint(len << 2),
            Extent::Chunk { id, len } => {
                out.put_varint(u64::from(*len) << 2 | 1);
                out.extend_from_slice(id.as_bytes());
            }
            Extent::Inline(bytes) => {
                out.put_varint((bytes.len() as u64) << 2 | 2);
                out.extend_from_slice(bytes);
            }
        }
    }
}

pub fn entry(path: impl Into<Vec<u8>>, mode: u32, kind: Kind) -> Entry {
    let meta = Meta { mode, mtime: Time { seconds: 1_700_000_000, nanos: 0 }, ..Meta::default() };
    Entry { path: TreePath::new(path).unwrap(), meta, kind }
}

pub fn directory(path: impl Into<Vec<u8>>) -> Entry {
    entry(path, 0o755, Kind::Directory)
}

pub fn symlink(path: &str, target: &str) -> Entry {
    entry(path, 0o777, Kind::Symlink { target: target.into() })
}

/// A file whose bytes are in the tree itself.
pub fn file(path: &str, content: &[u8]) -> Entry {
    let extents = if content.is_empty() { vec![] } else { vec![Extent::Inline(content.to_vec())] };
    entry(path, 0o644, Kind::File { size: content.len() as u64, extents })
}

/// A file that is one hole.
pub fn hole(path: impl Into<Vec<u8>>, size: u64) -> Entry {
    entry(path, 0o644, Kind::File { size, extents: vec![Extent::Hole(size)] })
}

/// Appends an entry to a segment whose last entry is the last of these, and keeps it as the last.
pub fn append(segment: &mut Vec<u8>, entries: &mut Vec<Entry>, entry: Entry) {
    let mut previous = match segment.len() > PREFIX.len() {
        true => entries.pop().map(|entry| entry.path.as_bytes().to_vec()).unwrap_or_default(),
        false => Vec::new(),
    };
    item(segment, &mut previous, &entry);
    entries.push(entry);
}
