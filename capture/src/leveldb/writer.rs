//! `writer` writes LevelDB's files, for tests.

use std::{fs, path::Path};

use super::decode::masked;

const BLOCK_BYTES: usize = 32 << 10;

/// A log of these records, as `log::Writer` writes it.
pub(super) fn log(records: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for record in records {
        let (mut rest, mut first) = (record.as_slice(), true);
        loop {
            let left = BLOCK_BYTES - file.len() % BLOCK_BYTES;
            if left < 7 {
                file.resize(file.len() + left, 0);
                continue;
            }
            let (piece, after) = rest.split_at(rest.len().min(left - 7));
            let kind = match (first, after.is_empty()) {
                (true, true) => 1,
                (true, false) => 2,
                (false, false) => 3,
                (false, true) => 4,
            };
            physical(&mut file, kind, piece);
            (rest, first) = (after, false);
            if rest.is_empty() {
                break;
            }
        }
    }
    file
}

/// One record as it is, of any type.
pub(super) fn physical(file: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&[kind]), payload);
    file.extend(masked(crc).to_le_bytes());
    file.extend((payload.len() as u16).to_le_bytes());
    file.push(kind);
    file.extend(payload);
}

/// A table with these data blocks.
pub(super) fn table(blocks: &[&[u8]], compressed: bool) -> Vec<u8> {
    let mut file = Vec::new();
    let handles: Vec<_> = blocks.iter().map(|data| block(&mut file, data, compressed)).collect();
    let filter = block(&mut file, b"filter", false);
    let metaindex = index(&mut file, &[filter], compressed);
    let index = index(&mut file, &handles, compressed);
    let mut footer = [metaindex, index].concat();
    footer.resize(40, 0);
    file.extend(footer);
    file.extend(0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    file
}

fn index(file: &mut Vec<u8>, handles: &[Vec<u8>], compressed: bool) -> Vec<u8> {
    let mut data = Vec::new();
    for (at, handle) in handles.iter().enumerate() {
        // Keys are `kk` and one more; after the first, two bytes are shared.
        let shared = if at == 0 { 0 } else { 2 };
        data.extend([shared, 3 - shared, handle.len() as u8]);
        data.extend(&b"kkx"[usize::from(shared)..]);
        data.extend(handle);
    }
    data.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    block(file, &data, compressed)
}

fn block(file: &mut Vec<u8>, data: &[u8], compressed: bool) -> Vec<u8> {
    let offset = file.len() as u64;
    let mut stored =
        if compressed { snap::raw::Encoder::new().compress_vec(data).unwrap() } else { data.to_vec() };
    let handle = [varint(offset), varint(stored.len() as u64)].concat();
    stored.push(u8::from(compressed));
    let crc = masked(crc32c::crc32c(&stored));
    file.extend(stored);
    file.extend(crc.to_le_bytes());
    handle
}

pub(super) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A batch of changes, of any content.
pub(super) fn batch(bytes: usize) -> Vec<u8> {
    (0..bytes.max(12)).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// A database of two tables, an obsolete log, one that is not the newest, and the newest.
pub(crate) fn database(directory: &Path) {
    let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
    let tables = [table(&[&[1; 5000], &[2; 300]], false), table(&[&[3; 9000], b"", &batch(500)], true)];
    let mut edit = [&[1, 26], &b"leveldb.BytewiseComparator"[..], &[2, 6, 9, 0, 3, 20, 4, 77]].concat();
    for (number, table) in [(4, &tables[0]), (5, &tables[1])] {
        edit.extend([&[7, 0, number], varint(table.len() as u64).as_slice(), &[1, b'a', 1, b'z']].concat());
        write(&format!("{number:06}.ldb"), table);
    }
    write("CURRENT", b"MANIFEST-000002\n");
    write("MANIFEST-000002", &log(&[edit, vec![4, 99]]));
    write("LOCK", b"");
    write("000003.log", b"obsolete and never read");
    write("000006.log", &log(&[batch(100), batch(70_000)]));
    write("000008.log", &log(&[batch(40_000), batch(50), batch(60)]));
}

/// A key, its sequence number, and whether it has a value then.
pub(crate) type Key<'a> = (&'a str, u64, bool);

/// A database with one table and one log of these keys; the table's are sorted here.
pub(crate) fn keyed(directory: &Path, compressed: bool, in_table: &[Key<'_>], in_log: &[Key<'_>]) {
    fs::create_dir_all(directory).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
    let mut sorted = in_table.to_vec();
    sorted.sort_unstable();
    let table = table(&[&data(&sorted)], compressed);
    let mut edit = [&[1, 26], &b"leveldb.BytewiseComparator"[..], &[2, 6, 9, 0, 3, 20, 4, 77]].concat();
    edit.extend([&[7, 0, 4], varint(table.len() as u64).as_slice(), &[1, b'a', 1, b'z']].concat());
    write("000004.ldb", &table);
    write("CURRENT", b"MANIFEST-000002\n");
    write("MANIFEST-000002", &log(&[edit]));
    let batches: Vec<Vec<u8>> = in_log.iter().map(of_one).collect();
    write("000006.log", &log(&batches));
}

/// A block of data: each key shares the longest possible prefix with the one before.
fn data(keys: &[Key<'_>]) -> Vec<u8> {
    let (mut data, mut before) = (Vec::new(), Vec::new());
    for (key, sequence, is_value) in keys {
        let tag = sequence << 8 | u64::from(*is_value);
        let key = [key.as_bytes(), &tag.to_le_bytes()].concat();
        let shared = key.iter().zip(&before).take_while(|(a, b)| a == b).count();
        data.extend([varint(shared as u64), varint((key.len() - shared) as u64), varint(5)].concat());
        data.extend(&key[shared..]);
        data.extend(b"value");
        before = key;
    }
    data.extend([0, 0, 0, 0, 1, 0, 0, 0]);
    data
}

/// A batch of one change.
fn of_one((key, sequence, is_value): &Key<'_>) -> Vec<u8> {
    let mut batch =
        [sequence.to_le_bytes().as_slice(), &1_u32.to_le_bytes(), &[u8::from(*is_value)]].concat();
    batch.extend(varint(key.len() as u64));
    batch.extend(key.as_bytes());
    if *is_value {
        batch.extend([&[5], &b"value"[..]].concat());
    }
    batch
}
