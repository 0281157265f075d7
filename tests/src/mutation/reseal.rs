//! `reseal` makes the checksums of changed objects right again: otherwise no change gets past them.

use serde_json::Value;

use crate::checker;

/// The last bytes of every table of a LevelDB.
const TABLE_MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// The last 32 bytes are a digest of all before.
pub fn index(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(content) = bytes.len().checked_sub(32) {
        let check = blake3::hash(&bytes[..content]);
        bytes[content..].copy_from_slice(check.as_bytes());
    }
    bytes
}

/// The trailer holds a digest of the directory and of its own beginning.
pub fn pack(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(trailer) = bytes.len().checked_sub(128) else { return bytes };
    let count = u32::from_le_bytes(bytes[trailer + 52..trailer + 56].try_into().unwrap());
    let Some(directory) = trailer.checked_sub(64 * count as usize) else { return bytes };
    let check = blake3::hash(&bytes[directory..trailer + 96]);
    bytes[trailer + 96..trailer + 120].copy_from_slice(&check.as_bytes()[..24]);
    bytes[trailer + 120..].copy_from_slice(b"PSTPEND\n");
    bytes
}

/// The header of every member of a tar archive holds the sum of its bytes.
pub fn tar(mut bytes: Vec<u8>) -> Vec<u8> {
    let (blocks, _) = bytes.as_chunks_mut::<512>();
    for block in blocks.iter_mut().filter(|block| block[257..].starts_with(b"ustar")) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes
}

/// A document's own `check`, and that of the block inside of a contract's document.
pub fn document(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(mut document) = serde_json::from_slice::<Value>(&bytes) else { return bytes };
    for part in ["/pstore", ""] {
        if let Some(Value::Object(fields)) = document.pointer_mut(part)
            && fields.contains_key("check")
        {
            let check = checker::check_of(&Value::Object(fields.clone()));
            fields.insert("check".into(), check.into());
        }
    }
    document.to_string().into_bytes()
}

/// A table's end names two blocks, which lead to all others; each has a checksum after it.
pub fn leveldb_table(mut bytes: Vec<u8>) -> Vec<u8> {
    let Some(footer) = bytes.len().checked_sub(48) else { return bytes };
    bytes[footer + 40..].copy_from_slice(&TABLE_MAGIC.to_le_bytes());
    let handles = bytes[footer..footer + 40].to_vec();
    let mut handles = handles.as_slice();
    for _ in 0..2 {
        let Some((offset, length)) = varint(&mut handles).zip(varint(&mut handles)) else { break };
        // The checksum is of the block and the byte after it, which says how it is compressed.
        let check_at = offset.saturating_add(length).saturating_add(1);
        if check_at.saturating_add(4) <= footer {
            let check = masked(crc32c::crc32c(&bytes[offset..check_at]));
            bytes[check_at..check_at + 4].copy_from_slice(&check.to_le_bytes());
        }
    }
    bytes
}

/// One record of a LevelDB's log or MANIFEST, sealed; it must fit into the log's first block.
pub fn leveldb_log(record: &[u8]) -> Vec<u8> {
    const WHOLE: u8 = 1;
    let sealed = [&[WHOLE], record].concat();
    let length = u16::try_from(record.len()).unwrap();
    [&masked(crc32c::crc32c(&sealed)).to_le_bytes()[..], &length.to_le_bytes(), &sealed].concat()
}

/// LevelDB stores checksums rotated and shifted.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Takes a number in groups of seven bits; none is left when it does not end, or is no place in memory.
fn varint(bytes: &mut &[u8]) -> Option<usize> {
    let length = 1 + bytes.iter().take(9).position(|byte| byte & 0x80 == 0)?;
    let (number, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(number.iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f)))
}
