//! `metadata` makes trees, tables and roots that every reader must refuse.

use store::{
    format::{
        bytes::Put,
        frame::Codec,
        root::{self, Blob, PackBytes, Root, SegmentRef, Span},
        segment,
        table::{self, Location},
        tree::TreePath,
        tree_limits::{MAX_CHUNKS, MAX_CONTENT_BYTES, MAX_DEPTH},
    },
    id::{PackId, PackSeq},
};

use super::{
    super::{KEY, TEXT, origin::write_id},
    Cases,
};

pub(super) fn add(cases: &mut Cases<'_>) {
    trees(cases);
    tables(cases);
    roots(cases);
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
    let segment = |raw_len, chunks, span| SegmentRef { tree: blob(raw_len), table: blob(64), chunks, span };
    let root = |raw_len| Root { segments: vec![segment(raw_len, 1, None)] };
    let good = root(64).encode();
    let body = root::PREFIX.len();
    cases.malformed(
        "root",
        "prefix",
        "a prefix that is not a root's",
        [b"pstore/boot/1\n", &good[body..]].concat(),
    );
    let later = [b"pstore/root/3\n", &good[body..]].concat();
    cases.add("root", "major-3", "major version 3", "version", later);
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
    let long = SegmentRef { table: blob(16 << 20), ..segment(16 << 20, 1, None) };
    let metadata = Root { segments: vec![long; 65] };
    cases.malformed("root", "metadata", "one segment of 16 MiB, and its table, 65 times", metadata.encode());
    let chunks = MAX_CHUNKS as u32 + 1;
    let chunks = Root { segments: vec![segment(64, chunks, None)] };
    cases.malformed("root", "chunks", "2^25 chunks and one more", chunks.encode());
    let data = PackId { write: write_id(), seq: PackSeq::Data(0) };
    let spanned = |spans: Vec<Span>| {
        let segments = spans.into_iter().map(|span| segment(64, 1, Some(span)));
        Root { segments: segments.collect() }.encode()
    };
    let span = |first: Option<&[u8]>| Span {
        first: first.map(|path| TreePath::new(path).expect("a valid path")),
        continues: first.is_none(),
        entries: first.iter().count() as u64,
        paths_bytes: first.map_or(0, |path| path.len() as u64),
        packs: vec![PackBytes { pack: data, bytes: 76 }],
        ..Span::default()
    };
    let start = || span(Some(b""));
    Root::decode(&spanned(vec![start(), span(None), span(Some(b"a"))])).expect("a good root");
    for (name, reason, spans) in [
        ("span-first", "a first segment that does not begin with the root", vec![span(Some(b"a"))]),
        ("span-goes-on", "a first segment that goes on", vec![span(None), start()]),
        (
            "span-order",
            "two segments that begin with the same path",
            vec![start(), span(Some(b"a")), span(Some(b"a"))],
        ),
        (
            "span-empty",
            "a segment in which nothing begins or goes on",
            vec![start(), Span { continues: false, ..span(None) }],
        ),
        (
            "span-path",
            "a first path longer than all paths",
            vec![start(), Span { paths_bytes: 0, ..span(Some(b"a")) }],
        ),
        ("span-links", "more links than entries", vec![Span { links: 2, ..start() }]),
        ("span-packs", "chunks and no packs", vec![Span { packs: Vec::new(), ..start() }]),
        (
            "span-packs-order",
            "a pack twice",
            vec![Span { packs: [start().packs, start().packs].concat(), ..start() }],
        ),
    ] {
        cases.malformed("root", name, reason, spanned(spans));
    }
}
