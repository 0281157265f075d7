//! `vectors` makes every file of `format-spec/vectors`, the same bytes each time.
//!
//! Nothing here asks a compressor, a clock or a source of randomness.

mod catalog;
mod documents;
mod origin;
pub mod refuse;
pub mod show;
mod snapshot;
pub mod steps;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use store::{
    content::chunker::Chunker,
    format::{
        bytes::Put,
        config::Chunking,
        frame,
        segment::SegmentWriter,
        tree::{Entry, Kind, Meta, TreePath},
    },
    id::ChunkKey,
};

/// Vector files, by their path below `format-spec/vectors`.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The tenant's key in all vectors.
pub const KEY: ChunkKey = ChunkKey::from_bytes([
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28,
    29, 30, 31,
]);

/// 64 bytes, and a zstd frame of them that a compressor once made.
pub const TEXT: &[u8; 64] = b"All work and no play makes a dull profile. All work and no play\n";
pub const TEXT_FRAME: &str = "28b52ffd20408d0100c2020a11a0ab03e4ec3c7b8fd78daac180a18a7105e0406a4a2e75dbc63823\
                              07d10fabcef448f859e96e45010073b42a03";

/// Content lengths whose frames of raw blocks differ in shape.
pub const STORED_LENS: [usize; 6] = [0, 1, 255, 256, 65_792, 131_073];

/// The first `len` bytes of BLAKE3's extended output for `seed`.
pub fn noise(seed: &str, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(seed.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// The content of the frame of raw blocks with `len` bytes: 0, 7, 14, … modulo 256.
pub fn stored_content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7) as u8).collect()
}

pub fn stored_frame(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::append_stored(&mut out, raw);
    out
}

/// Where the chunks of `bytes` end.
pub fn cuts(chunking: &Chunking, bytes: &[u8]) -> Vec<usize> {
    let chunker = Chunker::new(chunking);
    let mut ends = Vec::new();
    let each = |chunk: &[u8]| {
        ends.push(ends.last().unwrap_or(&0) + chunk.len());
        Ok::<_, ()>(())
    };
    chunker.cut_all(bytes, true, each).expect("nothing here fails");
    ends
}

/// All vectors.
pub fn all() -> Files {
    let mut files = Files::new();
    for len in STORED_LENS {
        files.insert(format!("frames/stored-{len}.zst"), stored_frame(&stored_content(len)));
    }
    files.insert("frames/text.zst".to_owned(), show::unhex(TEXT_FRAME));
    let mut expected = snapshot::add(&mut files);
    for (name, value) in [
        ("varints", varints()),
        ("chunk_ids", chunk_ids()),
        ("chunker", chunker()),
        ("segment_cutting", segment_cutting()),
        ("startup", startup()),
        ("crc32c", crc32c()),
        ("lock_files", lock_files()),
    ] {
        expected.insert(name.to_owned(), value);
    }
    files.insert("expected.json".to_owned(), show::json_bytes(&Value::Object(expected)));
    refuse::add(&mut files);
    files
}

fn varints() -> Value {
    let unsigned = [0, 1, 127, 128, 300, 16_384, u64::from(u32::MAX), u64::MAX].map(|value| {
        let mut bytes = Vec::new();
        bytes.put_varint(value);
        json!([value.to_string(), show::hex(&bytes)])
    });
    let signed = [0, -1, 1, -2, 1_733_456_500, i64::MIN, i64::MAX].map(|value| {
        let mut bytes = Vec::new();
        bytes.put_signed(value);
        json!([value.to_string(), show::hex(&bytes)])
    });
    json!({ "unsigned": unsigned, "signed": signed })
}

fn chunk_ids() -> Value {
    let inputs: [&[u8]; 4] = [b"", b"x", TEXT, b"pstore/tree/1\n"];
    json!(inputs.map(|bytes| json!({ "bytes": show::hex(bytes), "id": KEY.id_of(bytes) })))
}

fn chunker() -> Value {
    const SEED: &str = "pstore vector: chunker";
    let whole = noise(SEED, 2 << 20);
    let case = |what: &str, chunking: &Chunking, bytes: &[u8]| {
        json!({ "input": what, "chunking": chunking, "blake3": blake3::hash(bytes).to_hex().as_str(),
                "len": bytes.len(), "ends": cuts(chunking, bytes) })
    };
    let odd = &whole[..99_999];
    let zeros = vec![0; 600_000];
    json!([
        case("BLAKE3 extended output of \"pstore vector: chunker\"", &Chunking::default(), &whole),
        case("the first 99 999 bytes of the same", &Chunking::default(), odd),
        case("600 000 zeros", &Chunking::default(), &zeros),
        case("the first 99 999 bytes of the same noise", &origin::chunking(), odd),
    ])
}

fn crc32c() -> Value {
    let inputs: [&[u8]; 3] = [b"", b"123456789", TEXT];
    json!(
        inputs.map(
            |bytes| json!({ "bytes": show::hex(bytes), "crc": format!("{:08x}", crc32c::crc32c(bytes)) })
        )
    )
}

/// The lock files of some objects of a local directory: of the key, and of its folder.
fn lock_files() -> Value {
    let slot = |name: &str| format!("{:02x}", blake3::hash(name.as_bytes()).as_bytes()[0]);
    let keys = ["pstore.json", "content/acme/tenant.json", "snapshots/acme/alice/131/latest.json"];
    let files = keys.map(|key| {
        let folder = key.rsplit_once('/').map_or("", |(folder, _)| folder);
        (key.to_owned(), json!([slot(key), format!("folder-{}", slot(folder))]))
    });
    Value::Object(files.into_iter().collect())
}

/// Values of a record's `startup`, and the chunks they name in a tree of ten.
fn startup() -> Value {
    json!([
        { "value": [[7, 2], [0, 1]], "chunks": [7, 8, 0] },
        { "value": [[8, 5], [12, 3], [1, 1]], "chunks": [8, 9, 1] },
        { "value": [[3, 1], [4, 0]], "chunks": [] },
        { "value": [[3, 1], [4]], "chunks": [] },
        { "value": "soon", "chunks": [] },
        { "value": null, "chunks": [] },
    ])
}

/// Names whose CRC never ends a segment, so that only the length does.
fn segment_cutting() -> Value {
    let mut writer = SegmentWriter::default();
    let entry = |path: &str, xattrs| Entry {
        path: TreePath::new(path).expect("a valid path"),
        meta: Meta { mode: 0o755, xattrs, ..Meta::default() },
        kind: if path.is_empty() { Kind::Directory } else { Kind::Fifo },
    };
    let mut push = |entry: Entry| writer.push(&entry).expect("a valid entry");
    push(entry("", vec![]));
    let names = (0..).map(|n| format!("n-{n:04}")).filter(|name| crc32c::crc32c(name.as_bytes()) & 63 != 0);
    for name in names.take(40) {
        push(entry(&name, vec![(b"user.x".to_vec(), noise(&name, 5000))]));
    }
    let segments: Vec<_> = writer
        .finish()
        .iter()
        .map(|segment| json!({ "entries": segment.span.entries, "len": segment.bytes.len(), "id": KEY.id_of(&segment.bytes) }))
        .collect();
    json!({
        "tree": "the root directory, then the first 40 FIFOs n-0000, n-0001, … whose CRC-32C is not a multiple of 64; \
                 mode 0755, owner 0:0, time 0; each FIFO with user.x = 5000 bytes of BLAKE3 extended output of its name",
        "segments": segments,
    })
}
