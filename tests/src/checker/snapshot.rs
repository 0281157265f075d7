//! `snapshot` checks records and the objects that they name: I4 to I13, I17 and the visible part of I19.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    State,
    document::{hex, number, text},
    input::{Input, Read},
    pack::{Frame, Pack},
    tree::{Span, Tree, path},
};

/// Where a frame is said to lie.
struct Place {
    pack: String,
    offset: u64,
    stored_len: u64,
    coding: u8,
}

impl State {
    pub(super) fn check_record(&mut self, lineage: &str, key: &str, record: &Value) {
        let parts: Vec<&str> = lineage.split('/').collect();
        let &["snapshots", tenant, profile, major] = &parts[..] else { return };
        let id = key.rsplit("snap-").next().and_then(|name| name.strip_suffix(".json")).unwrap_or_default();
        let Some(config) = self.documents.get(&format!("content/{tenant}/tenant.json")) else {
            return self.findings.must(false, "I4", format_args!("{key} is of no tenant"));
        };
        let named = text(record, "tenant_id") == tenant
            && text(record, "profile_id") == profile
            && number(record, "chrome_major_version").to_string() == major
            && text(record, "record") == id;
        let keyed = ["chunk_key", "hash"].iter().all(|field| record[*field] == config[*field]);
        self.findings.must(named && keyed, "I4", key);
        let state = text(record, "state");
        let known = ["writing", "revoked", "live", "trashed", "tombstone"].contains(&state);
        self.findings.must(known, "I5", format_args!("{key} is {state}"));
        if ["live", "trashed"].contains(&state) {
            let chunk_key = hex(text(config, "chunk_key"));
            let checked = self.check_content(tenant, &chunk_key, record);
            self.findings.whole(checked, "I6–I13, I21", key);
        }
    }

    fn check_content(&self, tenant: &str, chunk_key: &[u8], record: &Value) -> Read<()> {
        let content = &record["content"];
        let swept = self.swept(tenant);
        let mut listed = BTreeMap::new();
        for used in content["packs"].as_array().ok_or("I5: no content")? {
            let pack = text(used, "pack").to_owned();
            must(
                self.packs.contains_key(&(tenant.to_owned(), pack.clone())),
                format!("I12: {pack} is gone"),
            )?;
            must(!swept.contains(&pack), format!("I19: {pack} was swept"))?;
            listed.insert(pack, number(used, "live_bytes"));
        }
        let walk = Walk { state: self, tenant, blobs: BTreeSet::new(), chunks: BTreeMap::new() };
        let (used, content_bytes) = walk.through(content, chunk_key)?;
        let said = number(record, "uncompressed_size_bytes");
        must(
            said == content_bytes,
            format!("I21: {said} bytes of files are said, {content_bytes} are there"),
        )?;
        must(listed == used, format!("I11: {listed:?} are listed and {used:?} used"))
    }

    /// The packs of documents whose list is final.
    fn swept(&self, tenant: &str) -> BTreeSet<String> {
        let prefix = format!("content/{tenant}/condemned/");
        let documents = self.documents.iter().filter(|(key, _)| key.starts_with(&prefix));
        let last = documents.filter(|(_, document)| ["sweep", "swept"].contains(&text(document, "phase")));
        let packs = last.flat_map(|(_, document)| document["packs"].as_array().into_iter().flatten());
        packs.filter_map(|pack| pack.as_str().map(str::to_owned)).collect()
    }
}

fn must(holds: bool, otherwise: impl Into<String>) -> Read<()> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}

/// Pack, offset and stored length of each.
type Frames = BTreeSet<(String, u64, u64)>;

/// Through one snapshot, noting its needs.
struct Walk<'a> {
    state: &'a State,
    tenant: &'a str,
    /// The frames of all blobs.
    blobs: Frames,
    /// How many bytes of each pack all segments need, each its frames once.
    chunks: BTreeMap<String, u64>,
}

impl<'a> Walk<'a> {
    fn through(mut self, content: &Value, chunk_key: &[u8]) -> Read<(BTreeMap<String, u64>, u64)> {
        let root = &content["root"];
        let place = Place {
            pack: text(root, "pack").to_owned(),
            offset: number(root, "offset"),
            stored_len: number(root, "stored_len"),
            coding: (number(root, "codec") | number(root, "encryption") << 4) as u8,
        };
        let ranges = content["meta_ranges"].as_array().cloned().unwrap_or_default();
        let id = hex(text(root, "id"));
        let root = self.blob(&place, 4, &id, number(root, "raw_len"), &ranges)?;
        let mut input = Input(root);
        input.prefix("pstore/root/2\n")?;
        let packs = packs(&mut input)?;
        must(packs.iter().filter(|pack| pack.ends_with("-meta")).count() <= 8, "I13: packs of blobs")?;
        let (mut tree, mut digest) =
            (Tree::default(), blake3::Hasher::new_keyed(chunk_key.try_into().unwrap()));
        let segments = input.varint()?;
        digest.update(b"pstore/snapshot/1\n").update(&segments.to_le_bytes());
        let mut before = Vec::new();
        for segment in 0..segments {
            let chunks = input.varint()? as usize;
            let (id, items) = self.named_blob(&mut input, &packs, 2, &ranges)?;
            let (_, table) = self.named_blob(&mut input, &packs, 3, &ranges)?;
            digest.update(&id);
            let (found, covered) =
                tree.read(items, segment + 1 == segments).map_err(|error| format!("I8: {error}"))?;
            must(found.len() == chunks, "I9: chunks of a tree segment")?;
            let said = span(&mut input, &mut before)?;
            must(said == covered, format!("I9: {said:?} is said of a segment with {covered:?}"))?;
            let needed = self.table(table, &found)?;
            let count = input.length()?;
            let said = (0..count).map(|_| {
                let pack = packs.get(input.varint()? as usize).ok_or("no such pack")?.clone();
                Ok((pack, input.varint()?))
            });
            let said: Vec<_> = said.collect::<Read<_>>()?;
            must(needed.iter().eq(said.iter().map(|(pack, bytes)| (pack, bytes))), "I9: packs of a segment")?;
            for (pack, bytes) in needed {
                *self.chunks.entry(pack).or_default() += bytes;
            }
        }
        must(input.0.is_empty(), "bytes after the root")?;
        tree.end().map_err(|error| format!("I8: {error}"))?;
        must(digest.finalize().as_bytes()[..] == hex(text(content, "snapshot_id")), "I7: the snapshot id")?;
        let mut used = self.chunks;
        for (pack, _, stored_len) in self.blobs {
            *used.entry(pack).or_default() += stored_len;
        }
        let is_named = |pack: &String| used.contains_key(pack);
        must(packs.iter().all(is_named), "a pack in the root's list that is not needed")?;
        Ok((used, tree.content_bytes))
    }

    fn frame(&self, place: &Place) -> Read<&'a Frame> {
        let key = (self.tenant.to_owned(), place.pack.clone());
        let pack: &Pack = self.state.packs.get(&key).ok_or_else(|| format!("I12: {} is gone", place.pack))?;
        let frame = pack.frames.get(&place.offset).ok_or("no frame is there")?;
        let same =
            (frame.stored_len, frame.codec | frame.encryption << 4) == (place.stored_len, place.coding);
        must(same, "the directory says otherwise")?;
        Ok(frame)
    }

    /// The content of a blob that must be of this kind and inside of a range.
    fn blob(&mut self, place: &Place, kind: u8, id: &[u8], raw: u64, ranges: &[Value]) -> Read<&'a [u8]> {
        let frame = self.frame(place).map_err(|error| format!("I6: {error}"))?;
        must(frame.kind == kind && frame.id == id && frame.raw.len() as u64 == raw, "I6: another blob")?;
        let inside = ranges.iter().any(|range| {
            let start = number(range, "offset");
            let end = start + number(range, "len");
            text(range, "pack") == place.pack
                && start <= place.offset
                && place.offset + place.stored_len <= end
        });
        must(inside, "I6: outside of the meta ranges")?;
        must(place.pack.ends_with("-meta"), "I13: packs of blobs")?;
        self.blobs.insert((place.pack.clone(), place.offset, place.stored_len));
        Ok(&frame.raw)
    }

    fn named_blob(
        &mut self,
        input: &mut Input<'_>,
        packs: &[String],
        kind: u8,
        ranges: &[Value],
    ) -> Read<([u8; 32], &'a [u8])> {
        let id: [u8; 32] = input.take(32)?.try_into().unwrap();
        let pack = packs.get(input.varint()? as usize).ok_or("no such pack")?.clone();
        let (offset, stored_len, raw_len) = (input.varint()?, input.varint()?, input.varint()?);
        let place = Place { pack, offset, stored_len, coding: input.byte()? };
        Ok((id, self.blob(&place, kind, &id, raw_len, ranges)?))
    }

    /// The locations of a tree segment's chunks: each must match the tree. Returns how many bytes of
    /// each pack they need, each frame once.
    fn table(&self, table: &[u8], chunks: &[([u8; 32], u64)]) -> Read<BTreeMap<String, u64>> {
        let mut frames = Frames::new();
        let mut input = Input(table);
        input.prefix("pstore/table/1\n")?;
        let packs = packs(&mut input)?;
        must(packs.iter().all(|pack| !pack.ends_with("-meta")), "I13: packs of chunks")?;
        must(input.varint()? == chunks.len() as u64, "I9: locations of a table")?;
        let mut next: Option<(String, u64)> = None;
        for (id, len) in chunks {
            let first = input.varint()?;
            let (stored_len, coding) = (first >> 1, input.byte()?);
            let (pack, offset) = match first & 1 {
                1 => next.clone().ok_or("the first location follows nothing")?,
                _ => {
                    let pack = packs.get(input.varint()? as usize).ok_or("no such pack")?.clone();
                    (pack, input.varint()?)
                }
            };
            must((first & 1 == 1) == (next == Some((pack.clone(), offset))), "a location is misspelt")?;
            next = Some((pack.clone(), offset + stored_len));
            frames.insert((pack.clone(), offset, stored_len));
            let frame = self.frame(&Place { pack, offset, stored_len, coding });
            let frame = frame.map_err(|error| format!("I10: {error}"))?;
            let same = frame.kind == 1 && frame.id == *id && frame.raw.len() as u64 == *len;
            must(same, "I10: another chunk")?;
        }
        must(input.0.is_empty(), "bytes after the table")?;
        let mut needed = BTreeMap::new();
        for (pack, _, stored_len) in frames {
            *needed.entry(pack).or_default() += stored_len;
        }
        Ok(needed)
    }
}

/// A root's span of a segment, but for its packs.
fn span(input: &mut Input<'_>, before: &mut Vec<u8>) -> Read<Span> {
    let head = input.varint()?;
    let mut span = Span { entries: head >> 1, continues: head & 1 == 1, ..Span::default() };
    if span.entries > 0 {
        span.first = Some(path(input, before)?);
        (span.links, span.content_bytes, span.paths_bytes) =
            (input.varint()?, input.varint()?, input.varint()?);
    }
    Ok(span)
}

fn packs(input: &mut Input<'_>) -> Read<Vec<String>> {
    let count = input.length()?;
    (0..count).map(|_| input.pack()).collect()
}
