//! `refuse` makes the vectors that every reader must refuse.
//!
//! Each is one small valid thing with one thing wrong. Checksums are made right again
//! after the change, unless the checksum is what is wrong.

mod documents;
mod metadata;

use serde::{Deserialize, Serialize};
use store::{
    format::{
        frame::Codec,
        index::{Index, IndexEntry, IndexPack},
        pack::{self, Directory, EntryKind, PackEntry},
    },
    id::{PackId, PackSeq},
};

use super::{
    Files, KEY, TEXT,
    origin::{self, write_id},
    show,
    snapshot::reseal,
    stored_frame,
};

const LATER: &str = "pstore 9.0.0";

/// One line of `refuse/cases.json`.
#[derive(Debug, Deserialize, Serialize)]
pub struct Case {
    pub file: String,
    /// The kind of object that the bytes pretend to be.
    pub read_as: String,
    pub why: String,
    /// `malformed`, `version` or `feature`.
    pub error: String,
    /// The program that the message must name.
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
    metadata::add(&mut cases);
    frames(&mut cases);
    documents::add(&mut cases);
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
    let make = |entries| written(origin::WRITER, entries);
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
