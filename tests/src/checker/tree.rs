//! `tree` checks trees: I8 and I17, by section 8. Where items and segments end is tested as they are read, which
//! comes to the same as writing the tree again.

use std::collections::BTreeMap;

use super::input::{Input, Read};

/// The part of a tree that was read so far.
#[derive(Default)]
pub(super) struct Tree {
    /// Every path, with its kind.
    kinds: BTreeMap<Vec<u8>, u8>,
    last: Option<Vec<u8>>,
    /// Of the file that is being read: how many bytes are still to come, and whether its last
    /// item ended where only one that goes on may end.
    file: Option<(u64, bool)>,
    /// The sizes of all files.
    pub(super) content_bytes: u64,
    /// Of the segment that is being read.
    span: Span,
}

/// The span of a segment, as a root has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Span {
    pub(super) first: Option<Vec<u8>>,
    pub(super) continues: bool,
    pub(super) entries: u64,
    pub(super) links: u64,
    pub(super) content_bytes: u64,
    pub(super) paths_bytes: u64,
}

/// A chunk and its length.
type Chunk = ([u8; 32], u64);

fn must(holds: bool, otherwise: &str) -> Read<()> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

impl Tree {
    /// Reads one segment and returns its chunks and its span.
    pub(super) fn read(&mut self, segment: &[u8], is_last: bool) -> Read<(Vec<Chunk>, Span)> {
        let mut input = Input(segment);
        input.prefix("pstore/tree/1\n")?;
        must(!input.0.is_empty(), "a segment without items")?;
        let (mut chunks, mut before) = (Vec::new(), Vec::new());
        self.span = Span { continues: input.0.first() == Some(&9), ..Span::default() };
        while !input.0.is_empty() {
            let boundary = self.item(&mut input, &mut before, &mut chunks)?;
            let length = segment.len() - input.0.len();
            let ends = length >= 65_536 || (length >= 4096 && boundary);
            must(!ends || input.0.is_empty(), "a segment goes on where it should end")?;
            must(ends || !input.0.is_empty() || is_last, "a segment ends where it should go on")?;
        }
        Ok((chunks, std::mem::take(&mut self.span)))
    }

    pub(super) fn end(&self) -> Read<()> {
        must(!self.kinds.is_empty(), "a tree without entries")?;
        self.file_is_over()
    }

    fn file_is_over(&self) -> Read<()> {
        must(self.file.is_none_or(|(left, _)| left == 0), "a file's extents do not cover it")
    }

    /// One item; says whether it is a boundary.
    fn item(&mut self, input: &mut Input<'_>, before: &mut Vec<u8>, chunks: &mut Vec<Chunk>) -> Read<bool> {
        let kind = input.byte()?;
        if kind == 9 {
            must(self.file.is_some_and(|(_, goes_on)| goes_on), "more extents of nothing")?;
            let last = self.extents(input, chunks)?;
            return Ok(last.is_some_and(|id| crc32c::crc32c(&id).is_multiple_of(64)));
        }
        self.file_is_over()?;
        self.file = None;
        let path = path(input, before)?;
        self.place(&path, kind)?;
        self.span.first.get_or_insert_with(|| path.clone());
        self.span.entries += 1;
        self.span.paths_bytes += path.len() as u64;
        match kind {
            1 => {
                meta(input)?;
                let size = input.varint()?;
                self.file = Some((size, false));
                self.content_bytes = self.content_bytes.saturating_add(size);
                self.span.content_bytes += size;
                must(self.content_bytes <= 1 << 44, "more bytes of files than there may be")?;
                self.extents(input, chunks)?;
            }
            2 | 4 | 5 => meta(input)?,
            3 => {
                meta(input)?;
                let target = input.bytes()?;
                must(!target.is_empty(), "a symbolic link to nothing")?;
                self.span.paths_bytes += target.len() as u64;
            }
            6 | 7 => {
                meta(input)?;
                input.varint()?;
            }
            8 => {
                let target = input.bytes()?;
                must(self.kinds.get(target) == Some(&1), "I17: a link to what is no file before it")?;
                self.span.links += 1;
                self.span.paths_bytes += target.len() as u64;
            }
            _ => return Err(format!("kind {kind}")),
        }
        let boundary = crc32c::crc32c(&path).is_multiple_of(64);
        self.kinds.insert(path, kind);
        Ok(boundary)
    }

    /// Order, names and parents.
    fn place(&mut self, path: &[u8], kind: u8) -> Read<()> {
        // A slash sorts before every other byte.
        let order = |path: &[u8]| path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        match &self.last {
            None => must(path.is_empty() && kind == 2, "the first entry is not the root")?,
            Some(last) => {
                must(order(last) < order(path) || last.is_empty(), "paths do not ascend")?;
                let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&path[..0], |at| &path[..at]);
                must(self.kinds.get(parent) == Some(&2), "an entry without its directory")?;
                let plain = |name: &[u8]| {
                    !name.is_empty()
                        && name.len() <= 255
                        && name != b"."
                        && name != b".."
                        && !name.contains(&0)
                };
                must(path.split(|byte| *byte == b'/').all(plain), "a name that is none")?;
                must(path.split(|byte| *byte == b'/').count() <= 2048, "a path of too many names")?;
            }
        }
        self.last = Some(path.to_owned());
        Ok(())
    }

    /// The extents of one item; the id of the last if it is a chunk.
    fn extents(&mut self, input: &mut Input<'_>, chunks: &mut Vec<Chunk>) -> Read<Option<[u8; 32]>> {
        let (mut left, _) = self.file.ok_or("extents of nothing")?;
        let count = input.varint()?;
        must(count <= 256, "too many extents")?;
        let (mut last, mut ends, mut hole) = (None, false, false);
        for place in 1..=count {
            must(!ends, "an item goes on where it should end")?;
            let first = input.varint()?;
            let (len, kind) = (first >> 2, first & 3);
            must(len > 0 && len <= left, "an extent past the end of its file")?;
            left -= len;
            last = None;
            match kind {
                0 => must(!hole, "two holes side by side")?,
                1 => {
                    let id: [u8; 32] = input.take(32)?.try_into().unwrap();
                    chunks.push((id, len));
                    last = Some(id);
                    ends = place >= 16 && id[0].is_multiple_of(64);
                }
                2 => drop(input.take(len as usize)?),
                _ => return Err("an extent of no kind".into()),
            }
            hole = kind == 0;
            ends |= place == 256;
        }
        must(ends || left == 0, "an item ends where it should go on")?;
        self.file = Some((left, left > 0));
        Ok(last)
    }
}

pub(super) fn path(input: &mut Input<'_>, before: &mut Vec<u8>) -> Read<Vec<u8>> {
    let shared = input.varint()? as usize;
    let suffix = input.bytes()?;
    let path = [before.get(..shared).ok_or("more is shared than there is")?, suffix].concat();
    let common = before.iter().zip(&path).take_while(|(a, b)| a == b).count();
    must(common == shared, "not all that is common is shared")?;
    must(path.len() <= 32_768, "a path that is too long")?;
    before.clone_from(&path);
    Ok(path)
}

fn meta(input: &mut Input<'_>) -> Read<()> {
    must(input.varint()? <= 0o7777, "a mode that is none")?;
    let (_uid, _gid, _seconds) = (input.varint()?, input.varint()?, input.varint()?);
    must(input.varint()? < 1_000_000_000, "a time that is none")?;
    for _ in 0..input.varint()? {
        let (_name, _value) = (input.bytes()?, input.bytes()?);
    }
    for _ in 0..input.varint()? {
        let (_tag, _value) = (input.varint()?, input.bytes()?);
    }
    Ok(())
}
