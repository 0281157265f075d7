//! `refuse` makes the vectors that every reader must refuse.
//!
//! Each is one small valid thing with one thing wrong. Checksums are made right again
//! after the change, unless the checksum is what is wrong.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::format::{
    bytes::Put,
    config::{Chunking, Features},
    frame::Codec,
    index::{Index, IndexEntry, IndexPack},
    layout,
    pack::{self, Directory, EntryKind, PackEntry},
    root::{self, Blob, Root, SegmentRef},
    segment,
    table::{self, Location},
    tree_limits::{MAX_CHUNKS, MAX_CONTENT_BYTES, MAX_DEPTH},
};
use store::id::{PackId, PackSeq};

use super::{
    Files, KEY, TEXT, catalog, show,
    snapshot::{self, reseal, write_id},
    stored_frame,
};

const LATER: &str = "pstore 9.0.0";

/// One line of `refuse/cases.json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Case {
    pub file: String,
    /// What the bytes pretend to be.
    pub read_as: String,
    pub why: String,
    /// `malformed`, `version` or `feature`.
    pub error: String,
    /// Who the message must name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
}

struct Cases<'a> {
    files: &'a mut Files,
    list: Vec<Case>,
}

impl Cases<'_> {
    fn add(&mut self, read_as: &str, name: &str, why: &str, error: &str, bytes: impl Into<Vec<u8>>) {
        let file = format!("refuse/{}-{name}", read_as.replace(' ', "-"));
        assert!(self.files.insert(file.clone(), bytes.into()).is_none(), "{file} twice");
        self.list.push(Case {
            file,
            read_as: read_as.to_owned(),
            why: why.to_owned(),
            error: error.to_owned(),
            writer: None,
        });
    }

    fn malformed(&mut self, read_as: &str, name: &str, why: &str, bytes: impl Into<Vec<u8>>) {
        self.add(read_as, name, why, "malformed", bytes);
    }

    /// The last one's message must name this writer.
    fn names(&mut self, writer: &str) {
        self.list.last_mut().expect("a case was added").writer = Some(writer.to_owned());
    }
}

pub(super) fn add(files: &mut Files) {
    let mut cases = Cases { files, list: Vec::new() };
    packs(&mut cases);
    indexes(&mut cases);
    trees(&mut cases);
    tables(&mut cases);
    roots(&mut cases);
    frames(&mut cases);
    documents(&mut cases);
    let list = show::json_bytes(&serde_json::to_value(&cases.list).expect("JSON always encodes"));
    cases.files.insert("refuse/cases.json".to_owned(), list);
}

fn packs(cases: &mut Cases<'_>) {
    let frame = stored_frame(TEXT);
    let entry = PackEntry {
        id: KEY.id_of(TEXT),
        kind: EntryKind::Data,
        codec: Codec::Zstd,
        offset: 16,
        stored_len: frame.len() as u32,
        raw_len: TEXT.len() as u32,
        crc: crc32c::crc32c(&frame),
    };
    let written = |writer: &str, entries: Vec<PackEntry>| {
        let mut bytes = pack::header().to_vec();
        bytes.extend_from_slice(&frame);
        let pack = PackId { write: write_id(), seq: PackSeq::Data(0) };
        pack::append_directory(&mut bytes, &Directory { pack, key: KEY, writer: writer.to_owned(), entries });
        bytes
    };
    let make = |entries| written(snapshot::WRITER, entries);
    let good = written(LATER, vec![entry]);
    let (directory, trailer) = (16 + frame.len(), good.len() - pack::TRAILER_LEN);
    let set = |at: usize, bytes: &[u8]| {
        let mut pack = good.clone();
        pack[at..at + bytes.len()].copy_from_slice(bytes);
        reseal(&mut pack);
        pack
    };
    for (name, why, error, at, byte) in [
        ("major-2", "major version 2", "version", trailer + 88, 2),
        ("hash", "hash algorithm 2", "feature", trailer + 64, 2),
        ("kind", "entry kind 9", "feature", directory + 32, 9),
        ("codec", "codec 2, which is reserved", "feature", directory + 33, 2),
        ("encryption", "encryption 1, which is reserved", "feature", directory + 34, 1),
    ] {
        cases.add("pack", name, why, error, set(at, &[byte]));
        cases.names(LATER);
    }
    let end = [&good[..good.len() - 8], b"PSTPEND\r"].concat();
    cases.malformed("pack", "end-magic", "the end magic, damaged as text", end);
    let mut damaged = good.clone();
    damaged[directory] ^= 1;
    cases.malformed("pack", "checksum", "one bit of the directory flipped", damaged);
    cases.malformed("pack", "cut-short", "the last byte is missing", &good[..good.len() - 1]);
    cases.malformed("pack", "too-long", "a byte between frames and directory", {
        [&good[..directory], &[0], &good[directory..]].concat()
    });
    cases.malformed("pack", "number", "pack number 100 000", set(trailer + 48, &100_000u32.to_le_bytes()));
    let long = ((16u32 << 20) + 1).to_le_bytes();
    cases.malformed("pack", "raw-length", "an entry of 16 MiB + 1", set(directory + 40, &long));
    cases.malformed("pack", "raw-empty", "an entry of no bytes", set(directory + 40, &[0; 4]));
    cases.malformed("pack", "stored-empty", "an entry of an empty frame", set(directory + 36, &[0; 4]));
    let outside = make(vec![PackEntry { stored_len: entry.stored_len + 1, ..entry }]);
    cases.malformed("pack", "outside", "an entry that reaches into the directory", outside);
    let header = make(vec![PackEntry { offset: 15, ..entry }]);
    cases.malformed("pack", "in-header", "an entry that begins inside the header", header);
    cases.malformed("pack", "overlap", "two entries that overlap", make(vec![entry, entry]));
}

fn indexes(cases: &mut Cases<'_>) {
    let pack = PackId { write: write_id(), seq: PackSeq::Data(0) };
    let chunk = IndexEntry { id: KEY.id_of(TEXT), offset: 16, stored_len: 76, codec: Codec::Zstd };
    let packs = vec![IndexPack { pack, chunks: vec![chunk] }];
    let good = Index { key: KEY, writer: LATER.to_owned(), packs }.encode();
    let set = |at: usize, bytes: &[u8]| {
        let mut index = good.clone();
        let end = index.len() - 32;
        index[at..at + bytes.len()].copy_from_slice(bytes);
        let check = blake3::hash(&index[..end]);
        index[end..].copy_from_slice(check.as_bytes());
        index
    };
    let mut damaged = good.clone();
    damaged[60] ^= 1;
    cases.malformed("index", "checksum", "one bit flipped", damaged);
    cases.malformed("index", "magic", "the magic with its high bit lost", set(0, &[0x09]));
    let (packs, chunks) = (72, 72 + 24);
    for (name, why, error, at) in [
        ("major-2", "major version 2", "version", 8),
        ("hash", "hash algorithm 2", "feature", 12),
        ("codec", "codec 2, which is reserved", "feature", chunks + 44),
        ("encryption", "encryption 2, which is reserved", "feature", chunks + 45),
    ] {
        cases.add("index", name, why, error, set(at, &[2]));
        cases.names(LATER);
    }
    cases.malformed("index", "packs", "more packs than there are bytes for", set(64, &[0xff; 4]));
    cases.malformed("index", "chunks", "more chunks than there are bytes for", set(packs + 20, &[2]));
    cases.malformed("index", "number", "pack number 100 000", set(packs + 16, &100_000u32.to_le_bytes()));
    let far = ((1u64 << 48) + 1).to_le_bytes();
    cases.malformed("index", "offset", "an offset above 2^48", set(chunks + 32, &far));
    cases.malformed("index", "in-header", "a chunk that begins inside the header", set(chunks + 32, &[15]));
    cases.malformed("index", "empty", "a frame of no bytes", set(chunks + 40, &[0]));
    cases.malformed("index", "long", "a frame longer than any", set(chunks + 40, &[0xff; 4]));
}

const META: [u8; 8] = [0xed, 0x03, 0, 0, 0, 0, 0, 0];
const FILE: u8 = 1;
const DIRECTORY: u8 = 2;

/// A segment that begins with the root directory.
fn tree(items: &[Vec<u8>]) -> Vec<u8> {
    [segment::PREFIX, &[DIRECTORY, 0, 0], &META, &items.concat()].concat()
}

/// An item that shares nothing with the path before it.
fn item(kind: u8, path: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut out = vec![kind, 0];
    out.put_bytes(path);
    out.extend_from_slice(rest);
    out
}

fn fifo(path: &[u8]) -> Vec<u8> {
    item(4, path, &META)
}

/// A file's item: its size and extents as given.
fn file(size: u64, extents: &[Vec<u8>]) -> Vec<u8> {
    let mut rest = META.to_vec();
    rest.put_varint(size);
    rest.put_varint(extents.len() as u64);
    rest.extend(extents.concat());
    item(FILE, b"f", &rest)
}

/// A file at `path` that is one hole.
fn empty_hole(path: &[u8], size: u64) -> Vec<u8> {
    let mut rest = META.to_vec();
    rest.put_varint(size);
    rest.put_varint(1);
    rest.extend(extent(0, size, &[]));
    item(FILE, path, &rest)
}

/// Directories of which each is in the one before.
fn chain(levels: usize) -> Vec<Vec<u8>> {
    let level = |above: usize| {
        let mut out = vec![DIRECTORY];
        out.put_varint((2 * above).saturating_sub(1) as u64);
        out.put_bytes(if above == 0 { b"d" } else { b"/d" });
        out.extend_from_slice(&META);
        out
    };
    (0..levels).map(level).collect()
}

fn extent(kind: u64, len: u64, rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_varint(len << 2 | kind);
    out.extend_from_slice(rest);
    out
}

fn trees(cases: &mut Cases<'_>) {
    let mut bad = |name: &str, why: &str, items: &[Vec<u8>]| cases.malformed("tree", name, why, tree(items));
    let id = KEY.id_of(TEXT);
    let chunk = |len| extent(1, len, id.as_bytes());
    let hole = |len| extent(0, len, &[]);
    let meta = |change: fn(&mut Vec<u8>)| {
        let mut meta = META.to_vec();
        change(&mut meta);
        vec![item(4, b"x", &meta)]
    };
    bad("unsorted", "b before a", &[fifo(b"b"), fifo(b"a")]);
    bad("twice", "one path twice", &[fifo(b"a"), fifo(b"a")]);
    bad("slash-order", "\"a b\" before \"a/b\"", &[item(DIRECTORY, b"a", &META), fifo(b"a b"), fifo(b"a/b")]);
    bad("dot-dot", "a path that leaves the root", &[fifo(b"..")]);
    bad("dot-dot-below", "a path that leaves its directory", &[item(DIRECTORY, b"a", &META), fifo(b"a/..")]);
    bad("dot", "a name that is a dot", &[fifo(b".")]);
    bad("absolute", "a path that begins with a slash", &[fifo(b"/etc")]);
    bad("empty-name", "a path that ends in a slash", &[item(DIRECTORY, b"a", &META), fifo(b"a/")]);
    bad("nul", "a name with a NUL", &[fifo(b"a\0b")]);
    bad("long-name", "a name of 256 bytes", &[fifo(&[b'x'; 256])]);
    bad("no-parent", "an entry whose directory is not there", &[fifo(b"a/b")]);
    bad("parent-is-file", "an entry below something that is no directory", &[fifo(b"a"), fifo(b"a/b")]);
    bad("shared", "more shared bytes than the path before has", &[vec![4, 1, 1, b'a']]);
    bad("more-alone", "extents that belong to no file", &[[vec![9, 1], chunk(64)].concat()]);
    bad("too-many-bytes", "extents that cover more than the size", &[file(63, &[chunk(64)])]);
    bad("too-few-bytes", "extents that cover less than the size", &[file(65, &[chunk(64)])]);
    bad("no-extents", "a size without extents", &[file(64, &[])]);
    bad("interrupted", "another entry before a file is complete", &[file(65, &[chunk(64)]), fifo(b"g")]);
    bad("empty-more", "an item without extents", &[file(65, &[chunk(64)]), vec![9, 0]]);
    bad("empty-chunk", "a chunk of no bytes", &[file(0, &[chunk(0)])]);
    bad("empty-hole", "a hole of no bytes", &[file(0, &[hole(0)])]);
    bad("long-chunk", "a chunk of 16 MiB + 1", &[file((16 << 20) + 1, &[chunk((16 << 20) + 1)])]);
    bad("long-inline", "4097 bytes inline", &[file(4097, &[extent(2, 4097, &[0; 4097])])]);
    bad("many-extents", "257 extents in one item", &[file(257 * 64, &vec![chunk(64); 257])]);
    bad("size", "a size of 2^62", &[file(1 << 62, &[hole((1 << 62) - 1), chunk(1)])]);
    let most = MAX_CONTENT_BYTES;
    bad("content", "files of 2^44 bytes and one more", &[file(most, &[hole(most)]), empty_hole(b"g", 1)]);
    bad("depth", "2049 directories, one in the other", &chain(MAX_DEPTH + 1));
    bad("symlink-nul", "a symbolic link with a NUL", &[item(3, b"x", &[&META[..], &[2, b'a', 0]].concat())]);
    bad("symlink-empty", "a symbolic link to nothing", &[item(3, b"x", &[&META[..], &[0]].concat())]);
    bad("holes", "two holes side by side", &[file(2, &[hole(1), hole(1)])]);
    bad(
        "holes-apart",
        "two holes side by side, in two items",
        &[file(2, &[hole(1)]), [vec![9, 1], hole(1)].concat()],
    );
    bad("inline-beside", "inline bytes beside a chunk", &[file(65, &[chunk(64), extent(2, 1, b"x")])]);
    bad("shared-less", "a path that shares more than it says", &[fifo(b"ab"), fifo(b"ac")]);
    bad("link-missing", "a hard link to what is not there", &[item(8, b"b", b"\x01a")]);
    bad("link-fifo", "a hard link to what is no file", &[fifo(b"a"), item(8, b"b", b"\x01a")]);
    bad(
        "link-link",
        "a hard link to a hard link",
        &[file(0, &[]), item(8, b"g", b"\x01f"), item(8, b"h", b"\x01g")],
    );
    bad("link-forward", "a hard link to what comes later", &[item(8, b"a", b"\x01b"), fifo(b"b")]);
    bad("link-self", "a hard link to itself", &[item(8, b"a", b"\x01a")]);
    bad("link-root", "a hard link to the root", &[item(8, b"a", b"\0")]);
    bad("link-dot-dot", "a hard link out of the tree", &[item(8, b"a", b"\x02..")]);
    bad("mode", "a mode above 07777", &meta(|meta| meta.splice(..2, [0x80, 0x20]).for_each(drop)));
    bad(
        "nanoseconds",
        "a whole second in nanoseconds",
        &meta(|meta| {
            meta.splice(5..6, [0x80, 0x94, 0xeb, 0xdc, 0x03]).for_each(drop);
        }),
    );
    bad(
        "xattr-order",
        "attribute b before a",
        &meta(|meta| {
            meta.splice(6..7, *b"\x02\x01b\0\x01a\0").for_each(drop);
        }),
    );
    bad(
        "xattr-empty",
        "an attribute without a name",
        &meta(|meta| meta.splice(6..7, [1, 0, 0]).for_each(drop)),
    );
    bad("xattr-count", "1025 attributes", &meta(|meta| meta.splice(6..7, [0x81, 0x08]).for_each(drop)));
    bad(
        "varint-long",
        "a varint that is not in its shortest form",
        &meta(|meta| {
            meta.splice(2..3, [0x80, 0x00]).for_each(drop);
        }),
    );
    bad(
        "varint-wide",
        "a varint above 64 bits",
        &meta(|meta| {
            meta.splice(2..3, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).for_each(drop);
        }),
    );
    bad("cut-short", "an item that ends early", &[fifo(b"a")[..5].to_vec()]);
    bad(
        "extension-order",
        "extension 4 before 2",
        &meta(|meta| {
            meta.splice(7..8, [2, 4, 0, 2, 0]).for_each(drop);
        }),
    );
    bad(
        "extension-twice",
        "extension 2 twice",
        &meta(|meta| {
            meta.splice(7..8, [2, 2, 0, 2, 0]).for_each(drop);
        }),
    );
    cases.add("tree", "kind", "entry kind 10", "feature", tree(&[item(10, b"x", &META)]));
    let kind = tree(&[file(1, &[extent(3, 1, &[0])])]);
    cases.add("tree", "extent-kind", "an extent of kind 3", "feature", kind);
    cases.malformed("tree", "no-items", "a segment without items", segment::PREFIX.to_vec());
    let critical = tree(&meta(|meta| meta.splice(7..8, [1, 3, 1, b'x']).for_each(drop)));
    cases.add("tree", "critical-extension", "extension 3: its tag is odd", "feature", critical);
    cases.malformed(
        "tree",
        "no-root",
        "a first entry that is not the root",
        [segment::PREFIX, &fifo(b"a")].concat(),
    );
    let root_fifo = [segment::PREFIX, &[4, 0, 0], &META].concat();
    cases.malformed("tree", "root-kind", "a root that is no directory", root_fifo);
    let later = [b"pstore/tree/2\n", &tree(&[])[segment::PREFIX.len()..]].concat();
    cases.add("tree", "major-2", "major version 2", "version", later);
    cases.malformed("tree", "prefix", "a prefix that is not a tree's", b"pstore/twig/1\n".to_vec());
}

fn tables(cases: &mut Cases<'_>) {
    let pack = PackId { write: write_id(), seq: PackSeq::Data(0) };
    let at = |offset| Location { pack, offset, stored_len: 76, codec: Codec::Zstd };
    let good = table::encode(&[at(16), at(92)]);
    let body = table::PREFIX.len();
    let set = |at: usize, bytes: &[u8]| {
        let mut table = good.clone();
        table[at..at + bytes.len()].copy_from_slice(bytes);
        table
    };
    let first = body + 1 + 20 + 1;
    cases.malformed("table", "prefix", "a prefix that is not a table's", set(0, b"pstore/tbale/1\n"));
    cases.malformed("table", "count", "three locations for two chunks", set(first - 1, &[3]));
    cases.malformed("table", "first-follows", "a first location that follows none", set(first, &[0x99]));
    cases.add("table", "codec", "codec 2, which is reserved", "feature", set(first + 2, &[2]));
    cases.add("table", "encryption", "encryption 1, which is reserved", "feature", set(first + 2, &[0x11]));
    let later = [b"pstore/table/2\n", &good[body..]].concat();
    cases.add("table", "major-2", "major version 2", "version", later);
    cases.malformed("table", "in-header", "a frame that begins inside the header", set(first + 4, &[15]));
    cases.malformed(
        "table",
        "empty",
        "a frame of no bytes",
        table::encode(&[Location { stored_len: 0, ..at(16) }, at(92)]),
    );
    let list = |packs: &[PackId]| {
        let mut table = good[..body].to_vec();
        table.put_varint(packs.len() as u64);
        for pack in packs {
            table.extend_from_slice(&pack.write.to_bytes());
            table.extend_from_slice(&pack.seq.to_u32().to_le_bytes());
        }
        [&table, &good[first - 1..]].concat()
    };
    let other = PackId { seq: PackSeq::Data(1), ..pack };
    cases.malformed("table", "pack-twice", "a pack twice in the list", list(&[pack, pack]));
    cases.malformed("table", "pack-unused", "a pack in the list that holds no chunk", list(&[pack, other]));
    let spelled = [&good[..first + 5], &[0x98, 0x01, 1, 0, 92]].concat();
    cases.malformed("table", "follows", "a location that follows and does not say so", spelled);
    cases.malformed("table", "pack", "a pack that is not in the list", set(first + 3, &[1]));
    cases.malformed("table", "number", "pack number 100 000", set(body + 17, &100_000u32.to_le_bytes()));
    cases.malformed("table", "packs", "more packs than there are bytes for", set(body, &[0x7f]));
    cases.malformed("table", "cut-short", "the last byte is missing", &good[..good.len() - 1]);
    cases.malformed("table", "too-long", "a byte too many", [&good[..], &[0]].concat());
}

fn roots(cases: &mut Cases<'_>) {
    let pack = PackId { write: write_id(), seq: PackSeq::Meta };
    let blob =
        |raw_len| Blob { id: KEY.id_of(TEXT), pack, offset: 16, stored_len: 76, raw_len, codec: Codec::Zstd };
    let root =
        |raw_len| Root { segments: vec![SegmentRef { tree: blob(raw_len), table: blob(64), chunks: 1 }] };
    let good = root(64).encode();
    let body = root::PREFIX.len();
    cases.malformed(
        "root",
        "prefix",
        "a prefix that is not a root's",
        [b"pstore/boot/1\n", &good[body..]].concat(),
    );
    let later = [b"pstore/root/2\n", &good[body..]].concat();
    cases.add("root", "major-2", "major version 2", "version", later);
    let coded = |byte: u8| [&good[..good.len() - 1], &[byte]].concat();
    cases.add("root", "codec", "codec 2, which is reserved", "feature", coded(2));
    cases.add("root", "encryption", "encryption 1, which is reserved", "feature", coded(0x11));
    cases.malformed("root", "no-segments", "a root without segments", Root { segments: vec![] }.encode());
    cases.malformed("root", "too-long", "a byte too many", [&good[..], &[0]].concat());
    cases.malformed("root", "cut-short", "the last byte is missing", &good[..good.len() - 1]);
    cases.malformed("root", "empty-segment", "a segment of no bytes", root(0).encode());
    cases.malformed("root", "long-segment", "a segment of 16 MiB + 1", root((16 << 20) + 1).encode());
    let mut wrong = good.clone();
    wrong[body + 1 + 20 + 1 + 1 + 32] = 1;
    cases.malformed("root", "pack", "a pack that is not in the list", wrong);
    let mut many = good;
    many[body + 21] = 2;
    cases.malformed("root", "count", "more segments than there are bytes for", many);
    let long = SegmentRef { tree: blob(16 << 20), table: blob(16 << 20), chunks: 1 };
    let metadata = Root { segments: vec![long; 65] };
    cases.malformed("root", "metadata", "one segment of 16 MiB, and its table, 65 times", metadata.encode());
    let chunks = MAX_CHUNKS as u32 + 1;
    let chunks = Root { segments: vec![SegmentRef { tree: blob(64), table: blob(64), chunks }] };
    cases.malformed("root", "chunks", "2^25 chunks and one more", chunks.encode());
}

/// Read as the frame of [`TEXT`].
fn frames(cases: &mut Cases<'_>) {
    let good = stored_frame(TEXT);
    let mut other = good.clone();
    other[10] ^= 1;
    cases.malformed("frame", "content", "a sound frame of other bytes", other);
    cases.malformed("frame", "shorter", "a frame of 63 bytes", stored_frame(&TEXT[..63]));
    cases.malformed("frame", "longer", "a frame of 65 bytes", stored_frame(&[&TEXT[..], b"\n"].concat()));
    cases.malformed("frame", "cut-short", "the last byte is missing", &good[..good.len() - 1]);
    let halves = [stored_frame(&TEXT[..32]), stored_frame(&TEXT[32..])].concat();
    cases.malformed("frame", "two", "two frames that hold the bytes together", halves);
    let empty = [&good[..], &stored_frame(b"")].concat();
    cases.malformed("frame", "empty-after", "an empty frame after it", empty);
    // A window instead of a single segment, so that no size has to be stated.
    let unsized_frame = [&good[..4], &[0, 0], &good[6..]].concat();
    cases.malformed("frame", "no-size", "a frame that does not state its content size", unsized_frame);
    cases.malformed("frame", "raw", "the bytes themselves, without a frame", TEXT.to_vec());
}

/// The document with its digest made right again.
fn sealed(mut document: Value) -> Vec<u8> {
    let fields = document.as_object_mut().expect("documents are objects");
    fields.remove("check");
    let compact = serde_json::to_vec(fields).expect("JSON always encodes");
    fields.insert("check".to_owned(), blake3::hash(&compact).to_hex().as_str().into());
    show::json_bytes(&document)
}

fn change(document: &Value, path: &str, to: Value) -> Vec<u8> {
    let mut document = document.clone();
    *document.pointer_mut(path).expect("the field is there") = to;
    sealed(document)
}

fn later(document: &Value) -> Vec<u8> {
    let mut document = document.clone();
    (document["version"], document["writer"]) = (json!(2), json!(LATER));
    sealed(document)
}

fn value(of: impl Serialize) -> Value {
    serde_json::to_value(of).expect("JSON always encodes")
}

fn documents(cases: &mut Cases<'_>) {
    configurations(cases);
    records(cases);
    pointers(cases);
    locks(cases);
    events_and_pins(cases);
    manifests(cases);
    condemned(cases);
}

fn condemned(cases: &mut Cases<'_>) {
    let key = layout::condemned_by(&snapshot::lineage().name.tenant, snapshot::collection());
    let condemned = stored(cases, &key);
    cases.add("condemned", "major-2", "major version 2", "version", later(&condemned));
    cases.names(LATER);
    let phase = change(&condemned, "/phase", json!("pardoned"));
    cases.add("condemned", "phase", "an unknown phase", "feature", phase);
    cases.names(snapshot::WRITER);
    let schema = change(&condemned, "/schema", json!("pstore.store"));
    cases.malformed("condemned", "schema", "another schema", schema);
    let pack = change(&condemned, "/packs/0", json!("01JED0YGZZ6CSK6CSK6CSK6CSK-1"));
    cases.malformed("condemned", "pack", "a pack number of one digit", pack);
    let mut damaged = condemned;
    damaged["packs"] = json!([]);
    cases.malformed(
        "condemned",
        "check",
        "a list that the digest does not cover",
        show::json_bytes(&damaged),
    );
}

fn configurations(cases: &mut Cases<'_>) {
    let features = |read: &[&str], write: &[&str]| {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        value(Features { read: owned(read), write: owned(write), optional: vec![], ..Features::default() })
    };
    let store = value(snapshot::store_config());
    cases.add("store config", "major-2", "major version 2", "version", later(&store));
    cases.names(LATER);
    let needs = change(&store, "/features", features(&["sealed-chunks"], &[]));
    cases.add("store config", "read-feature", "a feature that readers must know", "feature", needs);
    cases.names(snapshot::WRITER);
    cases.malformed(
        "store config",
        "schema",
        "another schema",
        change(&store, "/schema", json!("pstore.tenant")),
    );
    let sizes =
        value(Chunking { min_bytes: 512, average_bytes: 256, pack_bytes: 18 << 20, ..Chunking::default() });
    cases.malformed(
        "store config to write",
        "sizes",
        "min_bytes above average_bytes",
        change(&store, "/chunking", sizes),
    );
    let odd = change(&store, "/chunking/min_bytes", json!(65));
    cases.malformed("store config to write", "odd", "chunk sizes that are not even", odd);
    let average = change(&store, "/chunking/average_bytes", json!(258));
    cases.malformed("store config to write", "average", "an average that is no power of two", average);
    cases.malformed("store config", "no-check", "no digest", show::json_bytes(&store));

    let tenant = value(snapshot::tenant_config());
    cases.add("tenant config", "major-2", "major version 2", "version", later(&tenant));
    cases.names(LATER);
    let hash = change(&tenant, "/hash", json!("sha512"));
    cases.add("tenant config", "hash", "an unknown hash", "feature", hash);
    cases.names(snapshot::WRITER);
    let needs = change(&tenant, "/features", features(&["sealed-chunks"], &[]));
    cases.add("tenant config", "read-feature", "a feature that readers must know", "feature", needs);
    cases.names(snapshot::WRITER);
    let needs = change(&tenant, "/features", features(&[], &["sharded-index"]));
    cases.add("tenant config to write", "feature", "a feature that writers must know", "feature", needs);
    cases.names(snapshot::WRITER);
    let cutter = change(&tenant, "/chunking", json!({ "algorithm": "rabin" }));
    cases.add("tenant config to write", "chunker", "an unknown chunker", "feature", cutter);
    cases.names(snapshot::WRITER);
    let upper = show::hex(KEY.as_bytes()).to_uppercase();
    cases.malformed("tenant config", "key", "a key in capitals", change(&tenant, "/chunk_key", json!(upper)));
    let name = change(&tenant, "/tenant_id", json!("../acme"));
    cases.malformed("tenant config", "name", "a tenant that is a path", name);
}

/// A document of the store that was made before.
fn stored(cases: &Cases<'_>, key: &store::key::Key) -> Value {
    serde_json::from_slice(&cases.files[&format!("store/objects/{key}")]).expect("documents are JSON")
}

fn records(cases: &mut Cases<'_>) {
    let record = stored(cases, &layout::record(&snapshot::lineage(), write_id()));
    cases.add("record", "major-2", "major version 2", "version", later(&record));
    cases.names(LATER);
    let needs = change(&record, "/features", json!(["sealed-chunks"]));
    cases.add("record", "feature", "a feature that readers must know", "feature", needs);
    cases.names(snapshot::WRITER);
    let hash = change(&record, "/hash", json!("sha512"));
    cases.add("record", "hash", "an unknown hash", "feature", hash);
    cases.names(snapshot::WRITER);
    let codec = change(&record, "/content/root/codec", json!(2));
    cases.add("record", "codec", "codec 2, which is reserved", "feature", codec);
    cases.names(snapshot::WRITER);
    let encryption = change(&record, "/content/root/encryption", json!(1));
    cases.add("record", "encryption", "encryption 1, which is reserved", "feature", encryption);
    cases.names(snapshot::WRITER);
    let state = change(&record, "/state", json!("asleep"));
    cases.add("record", "state", "an unknown state", "feature", state);
    cases.names(snapshot::WRITER);
    let mut bad = |name: &str, why: &str, path: &str, to: Value| {
        cases.malformed("record", name, why, change(&record, path, to));
    };
    bad("schema", "another schema", "/schema", json!("pstore.store"));
    bad("no-content", "live without content", "/content", Value::Null);
    bad("ulid", "a record id in small letters", "/record", json!(write_id().to_string().to_lowercase()));
    bad("chrome", "Chrome 0", "/chrome_major_version", json!(0));
    bad("pack", "a pack number of six digits", "/content/root/pack", json!(format!("{}-100000", write_id())));
    bad("snapshot-id", "a snapshot id of 63 digits", "/content/snapshot_id", json!("0".repeat(63)));
    bad("negative", "a negative size", "/uncompressed_size_bytes", json!(-1));
    bad("integer", "an integer of 2^53", "/captured_at_ms", json!(1u64 << 53));
    bad("fraction", "a number with a fraction", "/captured_at_ms", json!(1.5));
    bad("archive", "an archive's digest that is no digest", "/archive_sha256", json!("é".repeat(32)));
    bad("predecessor", "a predecessor in capitals", "/predecessor_sha256", json!("A".repeat(64)));
    let packs = record["content"]["packs"].as_array().expect("a list").clone();
    let meta_first: Vec<Value> = packs.iter().rev().cloned().collect();
    bad("packs", "a meta pack before the data packs of its write", "/content/packs", json!(meta_first));
    let closed = |path: &str| {
        let mut object = record.pointer(path).expect("the field is there").clone();
        object["a_field_of_tomorrow"] = json!(1);
        object
    };
    bad("root-field", "an unknown field in a closed object", "/content/root", closed("/content/root"));
    bad("pack-field", "an unknown field in a closed object", "/content/packs/0", closed("/content/packs/0"));
    let text = String::from_utf8(sealed(record.clone())).expect("JSON is text");
    let twice = text.replacen("\"version\": 1", "\"version\": 1,\n  \"version\": 1", 1);
    cases.malformed("record", "twice", "a field given twice", twice);
    let mut damaged = record.clone();
    damaged["generation"] = json!(1);
    cases.malformed("record", "check", "a number that the digest does not cover", show::json_bytes(&damaged));
}

fn locks(cases: &mut Cases<'_>) {
    let lock = stored(cases, &layout::lock(&snapshot::lineage()));
    let mut later = lock.clone();
    (later["version"], later["writer"]) = (json!(2), json!(LATER));
    cases.add("lock", "major-2", "major version 2", "version", show::json_bytes(&later));
    cases.names(LATER);
    let mut block = lock.clone();
    (block["pstore"]["v"], block["pstore"]["writer"]) = (json!(2), json!(LATER));
    cases.add("lock", "block-2", "a block of version 2", "version", show::json_bytes(&block));
    cases.names(LATER);
    let mut damaged = lock.clone();
    damaged["pstore"]["seq"] = json!(7);
    cases.malformed("lock", "check", "a block that its digest does not cover", show::json_bytes(&damaged));
    let mut unversioned = lock;
    unversioned.as_object_mut().expect("an object").remove("version");
    cases.malformed("lock", "version", "no version", show::json_bytes(&unversioned));
    let mut unnamed = stored(cases, &layout::lock(&snapshot::lineage()));
    unnamed["pstore"].as_object_mut().expect("an object").remove("v");
    unnamed["pstore"] = serde_json::from_slice(&sealed(unnamed["pstore"].take())).expect("JSON");
    cases.malformed("lock", "block-version", "a block without a version", show::json_bytes(&unnamed));
}

fn events_and_pins(cases: &mut Cases<'_>) {
    let event = stored(cases, &layout::event(&snapshot::lineage(), catalog::eviction().id));
    cases.add("event", "major-2", "major version 2", "version", later(&event));
    cases.names(LATER);
    cases.malformed("event", "schema", "another schema", change(&event, "/schema", json!("pstore.pin")));
    cases.malformed("event", "id", "an id that is no ULID", change(&event, "/id", json!("1")));
    let merged = stored(cases, &layout::merged_events(&snapshot::lineage(), catalog::merged_events().id));
    cases.add("merged events", "major-2", "major version 2", "version", later(&merged));
    cases.names(LATER);
    cases.malformed(
        "merged events",
        "schema",
        "another schema",
        change(&merged, "/schema", json!("pstore.event")),
    );
    let twice = json!([merged["events"][1], merged["events"][0]]);
    cases.malformed(
        "merged events",
        "order",
        "events that are not sorted",
        change(&merged, "/events", twice),
    );
    let pin = stored(cases, &layout::pin(&snapshot::lineage().name.tenant, catalog::pin_id()));
    cases.add("pin", "major-2", "major version 2", "version", later(&pin));
    cases.names(LATER);
    cases.malformed("pin", "schema", "another schema", change(&pin, "/schema", json!("pstore.event")));
    let root =
        layout::session_root(&snapshot::lineage().name.tenant, catalog::session_id(), catalog::root_id());
    let root = stored(cases, &root);
    let nameless = json!({ "id": root["session"]["id"] });
    cases.malformed("pin", "session", "a session without its host", change(&root, "/session", nameless));
    let mut damaged = pin;
    damaged["ttl_ms"] = json!(1);
    cases.malformed("pin", "check", "a number that the digest does not cover", show::json_bytes(&damaged));
    let expected = stored(cases, &layout::expectations(&snapshot::lineage().name));
    cases.add("expectations", "major-2", "major version 2", "version", later(&expected));
    cases.names(LATER);
    let outside = change(&expected, "/files", json!(["../Cookies"]));
    cases.malformed("expectations", "outside", "a file outside of the profile", outside);
    let many = json!(vec!["Default"; 65]);
    cases.malformed("expectations", "many", "65 files", change(&expected, "/files", many));
    let tombstone: Value = serde_json::from_slice(&cases.files["tombstone.json"]).expect("JSON");
    cases.add("tombstone", "major-2", "major version 2", "version", later(&tombstone));
    cases.names(LATER);
    let schema = change(&tombstone, "/schema", json!("pstore.pin"));
    cases.malformed("tombstone", "schema", "another schema", schema);
    let state = change(&tombstone, "/deletion/state", json!("undone"));
    cases.malformed("tombstone", "state", "a state that nobody knows", state);
}

fn manifests(cases: &mut Cases<'_>) {
    let manifest: Value = serde_json::from_slice(&cases.files["manifest.json"]).expect("JSON");
    let change = |field: &str, to: Value| {
        let mut manifest = manifest.clone();
        manifest[field] = to;
        show::json_bytes(&manifest)
    };
    for version in [0, 2] {
        let (name, why) = (format!("major-{version}"), format!("major version {version}"));
        cases.add("manifest", &name, &why, "version", change("version", json!(version)));
        cases.names(manifest["captured_by"]["writer_version"].as_str().expect("text"));
    }
    cases.malformed("manifest", "schema", "another schema", change("schema", json!("pstore.pin")));
    cases.malformed("manifest", "tenant", "a tenant that is no name", change("tenant_id", json!("../acme")));
    let capitals = change("archive_sha256", json!("1A".repeat(32)));
    cases.malformed("manifest", "sha256", "a digest in capital digits", capitals);
    let mut missing = manifest.clone();
    missing.as_object_mut().expect("an object").remove("archive_size_bytes");
    cases.malformed("manifest", "field", "a field a loader relies on is missing", show::json_bytes(&missing));
}

fn pointers(cases: &mut Cases<'_>) {
    let pointer = stored(cases, &layout::latest(&snapshot::lineage()));
    let mut later = pointer.clone();
    (later["version"], later["writer"]) = (json!(2), json!(LATER));
    cases.add("pointer", "major-2", "major version 2", "version", show::json_bytes(&later));
    cases.names(LATER);
    let block = |change: fn(&mut Value)| {
        let mut pointer = pointer.clone();
        change(&mut pointer["pstore"]);
        pointer["pstore"] = serde_json::from_slice(&sealed(pointer["pstore"].take())).expect("JSON");
        show::json_bytes(&pointer)
    };
    let version = block(|block| (block["v"], block["writer"]) = (json!(2), json!(LATER)));
    cases.add("pointer", "block-2", "a block of version 2", "version", version);
    cases.names(LATER);
    let unnamed = block(|block| drop(block.as_object_mut().expect("an object").remove("v")));
    cases.malformed("pointer", "block-version", "a block without a version", unnamed);
    let mut unversioned = pointer.clone();
    unversioned.as_object_mut().expect("an object").remove("version");
    cases.malformed("pointer", "version", "no version", show::json_bytes(&unversioned));
    let mut missing = pointer.clone();
    missing.as_object_mut().expect("an object").remove("flipped_at_ms");
    cases.malformed("pointer", "field", "a field of the contract is missing", show::json_bytes(&missing));
    let mut damaged = pointer;
    damaged["pstore"]["recent"] = json!([]);
    cases.malformed("pointer", "check", "a block that its digest does not cover", show::json_bytes(&damaged));
    cases.malformed("pointer", "text", "not JSON", b"\x1f\x8b\x08\0".to_vec());
}
