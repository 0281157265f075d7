//! `Forge` writes objects as a hostile tenant can: all digests are right, and their content says anything.
//!
//! A forged snapshot takes the place of the current one of a lineage, in a store that is a directory.
//! Trees are written by an encoder of the tests' own, which checks nothing.

pub mod bend;
pub mod tree;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use store::{
    content::{compress::Compressor, packer::Packer},
    format::{
        frame::{self, Codec},
        layout,
        pack::EntryKind,
        pointer::Pointer,
        record::{Content, PackRange, PackUse, Record},
        root::{Blob, Root, SegmentRef, Span, packs_of},
        segment::{SegmentPart, SegmentReader, snapshot_id},
        table::{self, Location},
        tree::Entry,
    },
    id::{PackId, PackSeq, RecordId},
    name::Lineage,
};

use crate::checker;

/// How many entries a segment has whose span is told.
const SPANNED_ENTRIES: usize = 100;

/// The current snapshot of a lineage, and the means to put another one there.
#[derive(Clone, Debug)]
pub struct Forge {
    objects: PathBuf,
    pub lineage: Lineage,
    pub record: Record,
    pub entries: Vec<Entry>,
    /// Of every chunk, in the order in which the entries name them.
    pub locations: Vec<Location>,
}

/// One segment of a tree and of its table, as they are to be stored.
#[derive(Clone, Debug)]
pub struct Segment {
    pub tree: Vec<u8>,
    pub table: Vec<u8>,
    pub chunks: u32,
}

impl Forge {
    /// `lineage` is as in `acme/alice/131`; `store` is the store's directory.
    pub fn of(store: &Path, lineage: &str) -> Self {
        let (name, major) = lineage.rsplit_once('/').unwrap();
        let lineage = Lineage { name: name.parse().unwrap(), chrome_major: major.parse().unwrap() };
        let objects = store.join("objects");
        let pointer = Pointer::decode(&fs::read(objects.join(layout::latest(&lineage).as_str())).unwrap());
        let record = pointer.unwrap().block().unwrap().record.unwrap();
        let bytes = fs::read(objects.join(layout::record(&lineage, record).as_str())).unwrap();
        let record = Record::decode(&bytes).unwrap();
        let mut forge = Self { objects, lineage, record, entries: Vec::new(), locations: Vec::new() };
        let content = forge.record.content.clone().unwrap();
        let root = Root::decode(&forge.blob(&content.root.blob("").unwrap())).unwrap();
        let mut reader = SegmentReader::default();
        for segment in &root.segments {
            let tree = forge.blob(&segment.tree);
            reader.read(&tree, |entry| forge.entries.push(entry)).unwrap();
            let table = forge.blob(&segment.table);
            forge.locations.extend(table::decode(&table, segment.chunks as usize).unwrap());
        }
        reader.finish().unwrap();
        forge
    }

    /// Where an object lies.
    pub fn path(&self, key: &str) -> PathBuf {
        self.objects.join(key)
    }

    pub fn record_path(&self) -> PathBuf {
        self.path(layout::record(&self.lineage, self.record.record).as_str())
    }

    pub fn pointer_path(&self) -> PathBuf {
        self.path(layout::latest(&self.lineage).as_str())
    }

    fn blob(&self, blob: &Blob) -> Vec<u8> {
        let pack = fs::read(self.pack_path(blob.pack)).unwrap();
        let stored = &pack[blob.offset as usize..][..blob.stored_len as usize];
        frame::decode(blob.codec, stored, blob.raw_len as usize).unwrap().into_owned()
    }

    fn pack_path(&self, pack: PackId) -> PathBuf {
        self.path(layout::pack(&self.lineage.name.tenant, pack).as_str())
    }

    /// Makes this tree the current one; the content of its files follows from it.
    pub fn write(&mut self, entries: &[Entry]) {
        let bytes = entries.iter().map(Entry::size).fold(0u64, u64::saturating_add);
        self.record.uncompressed_size_bytes = bytes.min((1 << 53) - 1);
        let segments = tree::segments(entries, &self.locations);
        self.write_segments(&segments);
    }

    /// The same, with a root that has the span of each segment.
    pub fn write_spanned(&mut self, entries: &[Entry]) {
        self.record.uncompressed_size_bytes = entries.iter().map(Entry::size).sum();
        let mut segments = Vec::new();
        let mut locations = &self.locations[..];
        for part in entries.chunks(SPANNED_ENTRIES) {
            segments.extend(tree::segments(part, locations));
            let used = part.iter().flat_map(Entry::chunks).count();
            locations = &locations[used.min(locations.len())..];
        }
        self.write_bent(&segments, |root| {
            for (named, segment) in root.segments.iter_mut().zip(&segments) {
                let locations = table::decode(&segment.table, segment.chunks as usize).unwrap();
                let span = SegmentPart::read(&segment.tree).unwrap().span;
                named.span = Some(Span { packs: packs_of(&locations), ..span });
            }
        });
    }

    /// Makes a tree of these segments the current one. Equal ones are stored once.
    pub fn write_segments(&mut self, segments: &[Segment]) {
        self.write_bent(segments, |_| {});
    }

    /// The same, with a root that `bend` makes of the right one.
    pub fn write_bent(&mut self, segments: &[Segment], bend: impl FnOnce(&mut Root)) {
        let pack = PackId { write: RecordId::from_bytes(new_id()), seq: PackSeq::Meta };
        let key = self.record.chunk_key;
        let mut packer = Packer::with_capacity(1 << 16);
        let mut compressor = Compressor::new(3).unwrap();
        let mut placed: Vec<Blob> = Vec::new();
        let mut place = |kind, raw: &[u8]| -> Blob {
            let id = key.id_of(raw);
            if let Some(blob) = placed.iter().find(|blob| blob.id == id) {
                return *blob;
            }
            let entry = packer.push(id, kind, raw.len() as u32, compressor.frame(raw).unwrap());
            let (offset, stored_len, raw_len) = (entry.offset, entry.stored_len, entry.raw_len);
            placed.push(Blob { id, pack, offset, stored_len, raw_len, codec: Codec::Zstd });
            placed[placed.len() - 1]
        };
        let segments = segments.iter().map(|segment| SegmentRef {
            tree: place(EntryKind::Tree, &segment.tree),
            table: place(EntryKind::Table, &segment.table),
            chunks: segment.chunks,
            span: None,
        });
        let mut root = Root { segments: segments.collect() };
        bend(&mut root);
        let root_blob = place(EntryKind::Root, &root.encode());
        let sealed = packer.seal(pack, key);
        let len = sealed.bytes.len() as u64;
        overwrite(&self.pack_path(pack), &sealed.bytes);
        let mut packs: Vec<PackId> = self.locations.iter().map(|location| location.pack).collect();
        packs.push(pack);
        packs.sort_unstable();
        packs.dedup();
        self.record.content = Some(Content {
            snapshot_id: snapshot_id(&key, root.segments.iter().map(|segment| segment.tree.id)),
            root: root_blob.into(),
            meta_ranges: vec![PackRange { pack, offset: 16, len: len - 16 }],
            packs: packs.into_iter().map(|pack| PackUse { pack, live_bytes: 1 }).collect(),
            unknown: Default::default(),
        });
        self.publish();
    }

    /// Writes the record, and a pointer that names it.
    pub fn publish(&self) {
        overwrite(&self.record_path(), &self.record.encode());
        let mut pointer = Pointer::decode(&fs::read(self.pointer_path()).unwrap()).unwrap();
        pointer.active_sha256_prefix = self.record.sha256_prefix();
        let binding = pointer.binding();
        let block = pointer.pstore.as_mut().unwrap();
        (block.record, block.bind) = (Some(self.record.record), binding);
        block.snapshot_id = self.record.content.as_ref().map(|content| content.snapshot_id);
        overwrite(&self.pointer_path(), &pointer.encode());
    }

    /// Changes the record as only its owner could: its check is right afterwards.
    pub fn change_record(&self, change: impl FnOnce(&mut Value)) {
        change_document(&self.record_path(), change);
    }
}

/// Changes a document as only its owner could: its check is right afterwards.
pub fn change_document(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut document);
    document["check"] = checker::check_of(&document).into();
    overwrite(path, document.to_string().as_bytes());
}

/// Objects may be read-only: they are replaced, not written to.
pub fn overwrite(path: &Path, bytes: &[u8]) {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// An id that a snapshot taken now would have.
fn new_id() -> [u8; 16] {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut id = getrandom::u64().unwrap().to_le_bytes().repeat(2);
    id[..6].copy_from_slice(&(now.as_millis() as u64).to_be_bytes()[2..]);
    id.try_into().unwrap()
}
