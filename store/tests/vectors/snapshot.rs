//! `snapshot` makes one small store with one snapshot that has everything a tree can hold.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use sha2::Digest;
use store::{
    archive::{self, members},
    content::{
        compress::Frame,
        packer::{Packer, SealedPack},
    },
    format::{
        frame::{self, Codec},
        index::Index,
        layout, pack,
        pack::EntryKind,
        record::{Content, PackRange, PackUse, Record, State},
        root::{Blob, Root, SegmentRef, Span, packs_of},
        segment::{self, SegmentWriter},
        table::{self, Location},
        tree::{Entry, Extension, Extent, Kind, Meta, Time, TreePath},
    },
    id::{ChunkId, PackId, PackSeq, RecordId},
};

use super::{
    Files, KEY, TEXT, TEXT_FRAME, catalog, cuts,
    documents::{collection, pointer, record, store_config, swept, tenant_config},
    noise,
    origin::{CAPTURED_AT_MS, WRITER, chunking, lineage, tomorrow, write_id},
    show, steps, stored_frame,
};

/// The first data pack is sealed after so many chunks, so that there are two.
const FIRST_PACK_CHUNKS: usize = 200;

/// Chunks with their frames, in the order they are first needed.
#[derive(Default)]
struct Chunks {
    order: Vec<ChunkId>,
    frames: HashMap<ChunkId, (Vec<u8>, u32)>,
}

impl Chunks {
    fn add(&mut self, raw: &[u8], frame: Vec<u8>) -> Extent {
        let id = KEY.id_of(raw);
        let len = raw.len() as u32;
        if self.frames.insert(id, (frame, len)).is_none() {
            self.order.push(id);
        }
        Extent::Chunk { id, len }
    }

    /// Cuts one run of data, as it lies between holes.
    fn run(&mut self, bytes: &[u8]) -> Vec<Extent> {
        let ends = cuts(&chunking(), bytes);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts
            .zip(&ends)
            .map(|(start, end)| &bytes[start..*end])
            .map(|raw| self.add(raw, stored_frame(raw)))
            .collect()
    }
}

fn entries(chunks: &mut Chunks) -> Vec<Entry> {
    let meta = |mode| Meta {
        mode,
        uid: 1000,
        gid: 1000,
        mtime: Time { seconds: 1_733_456_500, nanos: 123_456_789 },
        ..Meta::default()
    };
    let path = |path: &[u8]| TreePath::new(path).expect("a valid path");
    let entry = |name: &[u8], mode, kind| Entry { path: path(name), meta: meta(mode), kind };
    let file = |name: &[u8], extents: Vec<Extent>| {
        let size = extents.iter().map(Extent::len).sum();
        entry(name, 0o600, Kind::File { size, extents })
    };
    let text = chunks.add(TEXT, show::unhex(TEXT_FRAME));
    let mut sparse = vec![Extent::Hole(65_536)];
    sparse.extend(chunks.run(&noise("pstore vector: History", 700)));
    sparse.push(Extent::Hole(1_000_000));
    let mut list = vec![
        entry(b"", 0o755, Kind::Directory),
        entry(b"Default", 0o700, Kind::Directory),
        file(b"Default/Cookies", chunks.run(&noise("pstore vector: Cookies 25", 130_000))),
        file(b"Default/Cookies-journal", vec![]),
        file(b"Default/History", sparse),
        file(b"Default/Preferences", vec![Extent::Inline(b"{\"exit_type\":\"Normal\"}\n".to_vec())]),
        entry(b"Default/Preferences.link", 0, Kind::HardLink { target: path(b"Default/Preferences") }),
        file(b"Default/text", vec![text.clone()]),
        file(b"Default/text-twice", vec![text.clone(), text]),
        entry(b"SingletonLock", 0o777, Kind::Symlink { target: b"host-4711".to_vec() }),
        entry(b"block", 0o660, Kind::BlockDevice { device: 0x0800 }),
        entry(b"char", 0o666, Kind::CharDevice { device: 0x0103 }),
        entry(b"fifo", 0o600, Kind::Fifo),
        entry(b"socket", 0o600, Kind::Socket),
        entry(b"many", 0o755, Kind::Directory),
        file(b"\xff\n", vec![]),
    ];
    list[1].meta.xattrs =
        vec![(b"user.empty".to_vec(), vec![]), (b"user.origin".to_vec(), vec![0x00, 0xff, b'x'])];
    list[5].meta.extensions = vec![Extension { tag: 2, value: b"later".to_vec() }];
    list[6].meta = Meta::default();
    let odd = list.last_mut().expect("there are entries");
    odd.meta = Meta { mode: 0o4755, mtime: Time { seconds: -1, nanos: 999_999_999 }, ..Meta::default() };
    list.extend((0..240).map(|n| {
        file(format!("many/file-{n:03}").as_bytes(), vec![Extent::Inline(format!("{n:03}\n").into_bytes())])
    }));
    let mut long = TreePath::root();
    for letter in *b"nopq" {
        long = long.join(&[letter; 255]).expect("a valid name");
        list.push(Entry { path: long.clone(), meta: meta(0o755), kind: Kind::Directory });
    }
    list.sort_by(|a, b| a.path.cmp(&b.path));
    list
}

/// All that an archive holds of an entry but for its content.
fn head(entries: &[Entry], entry: &Entry) -> Option<Vec<u8>> {
    let meta = match &entry.kind {
        Kind::HardLink { target } => entries.iter().find(|file| file.path == *target).map(|file| &file.meta),
        _ => Some(&entry.meta),
    };
    members::head(entry, meta.expect("a link's file is there"), members::Times::Exact)
}

/// The heads of members that differ in how they are written.
fn heads(files: &mut Files, entries: &[Entry]) {
    let long = ["n", "o", "p", "q"].map(|letter| letter.repeat(255)).join("/");
    let named: [(&str, &[u8]); 7] = [
        ("root", b""),
        ("directory", b"Default"),
        ("sparse", b"Default/History"),
        ("hard-link", b"Default/Preferences.link"),
        ("symlink", b"SingletonLock"),
        ("long-path", long.as_bytes()),
        ("not-utf-8", b"\xff\n"),
    ];
    for (name, path) in named {
        let entry = entries.iter().find(|entry| entry.path.as_bytes() == path).expect("it is in the tree");
        let head = head(entries, entry).expect("an archive holds it");
        files.insert(format!("tar/{name}"), head);
    }
}

/// The tree as an archive holds it.
fn tar(entries: &[Entry], chunks: &Chunks) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        let Some(head) = head(entries, entry) else { continue };
        out.extend(head);
        let Kind::File { size, extents } = &entry.kind else { continue };
        for extent in extents {
            match extent {
                Extent::Hole(len) => out.resize(out.len() + *len as usize, 0),
                Extent::Inline(bytes) => out.extend(bytes),
                Extent::Chunk { id, len } => {
                    let (frame, _) = &chunks.frames[id];
                    out.extend(&*frame::decode(Codec::Zstd, frame, *len as usize).expect("a sound frame"));
                }
            }
        }
        out.resize(out.len() + archive::padding(*size), 0);
    }
    out.extend(members::END);
    out
}

/// Makes the checksum of a pack's directory right again.
pub(super) fn reseal(pack: &mut [u8]) {
    let trailer = pack.len() - pack::TRAILER_LEN;
    let mut offset = [0; 8];
    offset.copy_from_slice(&pack[trailer + 56..trailer + 64]);
    let start = u64::from_le_bytes(offset) as usize;
    let check = blake3::hash(&pack[start..trailer + 96]);
    pack[trailer + 96..trailer + 120].copy_from_slice(&check.as_bytes()[..24]);
}

fn seal(packer: Packer, seq: PackSeq) -> SealedPack {
    packer.seal_as(WRITER, PackId { write: write_id(), seq }, KEY)
}

fn data_packs(chunks: &Chunks) -> Vec<SealedPack> {
    let (first, rest) = chunks.order.split_at(FIRST_PACK_CHUNKS);
    [first, rest]
        .into_iter()
        .zip(0..)
        .map(|(ids, seq)| {
            let mut packer = Packer::with_capacity(0);
            for id in ids {
                let (frame, raw_len) = &chunks.frames[id];
                packer.push(*id, EntryKind::Data, *raw_len, Frame::new(frame, &[]));
            }
            seal(packer, PackSeq::Data(seq))
        })
        .collect()
}

/// Adds the store; says what a reader should find in it.
pub(super) fn add(files: &mut Files) -> Map<String, Value> {
    let mut chunks = Chunks::default();
    let entries = entries(&mut chunks);
    let packs = data_packs(&chunks);
    let locations: HashMap<ChunkId, Location> = packs.iter().flat_map(SealedPack::locations).collect();
    let mut writer = SegmentWriter::default();
    entries.iter().for_each(|entry| writer.push(entry).expect("a valid entry"));

    let mut meta = Packer::with_capacity(0);
    let meta_pack = PackId { write: write_id(), seq: PackSeq::Meta };
    let mut place = |kind, raw: &[u8]| {
        let frame = stored_frame(raw);
        let entry = meta.push(KEY.id_of(raw), kind, raw.len() as u32, Frame::new(&frame, &[]));
        let (offset, stored_len, raw_len) = (entry.offset, entry.stored_len, entry.raw_len);
        Blob { id: entry.id, pack: meta_pack, offset, stored_len, raw_len, codec: entry.codec }
    };
    let mut root = Root { segments: Vec::new() };
    for (at, segment) in writer.finish().into_iter().enumerate() {
        let places: Vec<Location> = segment.chunks.iter().map(|(id, _)| locations[id]).collect();
        let table = table::encode(&places);
        let tree = place(EntryKind::Tree, &segment.bytes);
        root.segments.push(SegmentRef {
            tree,
            table: place(EntryKind::Table, &table),
            chunks: segment.chunks.len() as u32,
            span: Some(Span { packs: packs_of(&places), ..segment.span }),
        });
        files.insert(format!("segments/tree-{at}"), segment.bytes);
        files.insert(format!("segments/table-{at}"), table);
    }
    let root_bytes = root.encode();
    let root_blob = place(EntryKind::Root, &root_bytes);
    files.insert("segments/root".to_owned(), root_bytes);
    let mut without_spans = root.clone();
    without_spans.segments.iter_mut().for_each(|segment| segment.span = None);
    files.insert("segments/root-1".to_owned(), without_spans.encode());
    let meta = seal(meta, PackSeq::Meta);

    let in_order: Vec<Location> = entries
        .iter()
        .flat_map(|entry| entry.chunks().map(|(id, _)| locations[&id]).collect::<Vec<_>>())
        .collect();
    let snapshot_id = segment::snapshot_id(&KEY, root.segments.iter().map(|segment| segment.tree.id));
    let content = Content {
        snapshot_id,
        root: root_blob.into(),
        meta_ranges: vec![PackRange {
            pack: meta_pack,
            offset: pack::HEADER_LEN as u64,
            len: root_blob.offset + u64::from(root_blob.stored_len) - pack::HEADER_LEN as u64,
        }],
        packs: used(&root, &meta),
        unknown: tomorrow(),
    };
    let tenant = lineage().name.tenant;
    let mut put = |key: store::key::Key, bytes: Vec<u8>| files.insert(format!("store/objects/{key}"), bytes);
    for pack in packs.iter().chain([&meta]) {
        put(layout::pack(&tenant, pack.id), pack.bytes.to_vec());
    }
    let index =
        Index { key: KEY, writer: WRITER.to_owned(), packs: packs.iter().map(SealedPack::index).collect() };
    let index = index.encode();
    let mut live = record(&entries, chunks.order.len() as u64, content);
    let packs_len: usize = packs.iter().chain([&meta]).map(|pack| pack.bytes.len()).sum();
    live.counts.stored_bytes = (packs_len + index.len()) as u64;
    put(layout::index(&tenant, write_id()), index);
    let mut writing =
        Record { record: RecordId::from_parts(CAPTURED_AT_MS + 60_000, [0x22; 10]), ..live.clone() };
    writing.state = State::Writing;
    writing.content = None;
    let pointer = pointer(&live);
    put(layout::record(&lineage(), live.record), live.encode());
    put(layout::record(&lineage(), writing.record), writing.encode());
    put(layout::latest(&lineage()), pointer.encode());
    for event in [catalog::flip(&live), catalog::eviction()] {
        put(layout::event(&lineage(), event.id), event.encode());
    }
    let merged = catalog::merged_events();
    put(layout::merged_events(&lineage(), merged.id), merged.encode());
    put(layout::lock(&lineage()), catalog::lock().encode());
    put(layout::pin(&tenant, catalog::pin_id()), catalog::pin(&live).encode());
    put(layout::expectations(&lineage().name), catalog::expectations().encode());
    let session = layout::session_root(&tenant, catalog::session_id(), catalog::root_id());
    put(session, catalog::session_root(&lineage(), &live).encode());
    put(layout::store_config(), store_config().encode());
    put(layout::tenant_config(&tenant), tenant_config().encode());
    put(layout::condemned_by(&tenant, collection()), swept().encode());

    files.insert("manifest.json".to_owned(), catalog::manifest(&live).encode());
    files.insert("tombstone.json".to_owned(), catalog::tombstone(&lineage().name).encode());
    files.insert("wip.json".to_owned(), catalog::work_in_progress(&lineage(), live.record).encode());
    files.insert("records/damaged.json".to_owned(), catalog::damaged(&live).encode());
    files.insert("records/hot.json".to_owned(), catalog::hot(&live).encode());
    files.insert("records/moved.json".to_owned(), catalog::moved(&live).encode());
    steps::add(files, &live, &pointer);
    heads(files, &entries);
    let mut expected = Map::new();
    let tar = tar(&entries, &chunks);
    let sha256 = store::id::Sha256::from_bytes(sha2::Sha256::digest(&tar).into());
    expected.insert("tar".to_owned(), json!({ "sha256": sha256, "size_bytes": tar.len() }));
    expected.insert(
        "snapshot".to_owned(),
        json!({
            "snapshot_id": snapshot_id,
            "root": root_blob.id,
            "segments": root.segments.iter().map(|s| json!({ "tree": s.tree.id, "table": s.table.id, "chunks": s.chunks })).collect::<Vec<_>>(),
            "bind": pointer.binding(),
            "lock_bind": catalog::lock().binding(),
        }),
    );
    let packs: BTreeMap<String, Vec<String>> = packs
        .iter()
        .chain([&meta])
        .map(|pack| (pack.id.to_string(), show::pack_lines(&pack.entries)))
        .collect();
    expected.insert("packs".to_owned(), json!(packs));
    expected.insert("entries".to_owned(), show::entries_json(&entries));
    expected.insert("locations".to_owned(), in_order.iter().map(show::location_line).collect());
    expected
}

/// Each segment counts the frames of its chunks once, and each blob is counted once.
fn used(root: &Root, meta: &SealedPack) -> Vec<PackUse> {
    let mut bytes: BTreeMap<PackId, u64> = BTreeMap::new();
    for used in root.segments.iter().flat_map(|segment| &segment.span.as_ref().expect("a span").packs) {
        *bytes.entry(used.pack).or_default() += used.bytes;
    }
    bytes.insert(meta.id, meta.entries.iter().map(|entry| u64::from(entry.stored_len)).sum());
    bytes.into_iter().map(|(pack, live_bytes)| PackUse { pack, live_bytes }).collect()
}
