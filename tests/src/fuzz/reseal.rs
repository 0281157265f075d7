//! Makes the checksums of changed objects right again: otherwise no change gets past them.

use serde_json::Value;

use crate::checker;

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
