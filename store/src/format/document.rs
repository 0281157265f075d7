//! Encodes and decodes JSON documents that notice when one of their bits has changed.
//!
//! A document carries `check`: the BLAKE3 digest of itself without that field, written
//! compactly with its keys sorted. Its version is looked at before anything else, so that
//! a document of a later format is refused by name and not taken for damage.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    FormatError, MAJOR, Result,
    json::{Sorted, Strict},
};

const CHECK: &str = "check";

/// Fields that this code does not know, kept as they are when a document is rewritten.
pub type Unknown = Map<String, Value>;

/// Encodes a document for people to read too.
pub(super) fn encode(document: &impl Serialize) -> Vec<u8> {
    pretty(&sealed(object(document)))
}

/// The fields of a sound document of our major version that is no longer than `max` bytes.
pub(super) fn open(bytes: &[u8], max: u64) -> Result<Map<String, Value>> {
    let mut fields = parse(bytes, max)?;
    unseal(&mut fields)?;
    Ok(fields)
}

pub(super) fn typed<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(fields)).map_err(malformed)
}

/// The fields of a document of our major version.
pub(super) fn parse(bytes: &[u8], max: u64) -> Result<Map<String, Value>> {
    if bytes.len() as u64 > max {
        return Err(FormatError::malformed(format!("{} bytes, at most {max} are allowed", bytes.len())));
    }
    let strict: Result<Strict> = serde_json::from_slice(bytes).map_err(malformed);
    let value = match strict {
        Ok(Strict(value)) => value,
        // A later version may use what this one refuses, and is still to be told by name.
        Err(error) => match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => return Err(version(&fields).err().unwrap_or(error)),
            _ => return Err(error),
        },
    };
    let Value::Object(fields) = value else {
        return Err(FormatError::malformed("it is not a JSON object"));
    };
    version(&fields)?;
    Ok(fields)
}

fn version(fields: &Map<String, Value>) -> Result<()> {
    match fields.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(MAJOR) => Ok(()),
        Some(found) => Err(FormatError::Version { found, writer: writer(fields) }),
        None => Err(FormatError::malformed("it has no version")),
    }
}

/// The writer of a document, for messages. A manifest names it where the contract wants it.
pub(super) fn writer(fields: &Map<String, Value>) -> String {
    let captured_by = || fields.get("captured_by")?.get("writer_version");
    let named = fields.get("writer").or_else(captured_by).and_then(Value::as_str);
    named.unwrap_or("an unnamed writer").to_owned()
}

/// A word that is none of `known` needs a pstore that knows it; it is no damage.
pub(super) fn known_word(fields: &Map<String, Value>, field: &str, known: &[&str]) -> Result<()> {
    match fields.get(field).and_then(Value::as_str) {
        Some(word) if !known.contains(&word) => {
            Err(FormatError::Feature { feature: format!("{field} {word}"), writer: writer(fields) })
        }
        _ => Ok(()),
    }
}

pub(super) fn check_schema(fields: &Map<String, Value>, expected: &str) -> Result<()> {
    match fields.get("schema").and_then(Value::as_str) {
        Some(found) if found == expected => Ok(()),
        Some(found) => {
            Err(FormatError::malformed(format!("its schema is {found:?} instead of {expected:?}")))
        }
        None => Err(FormatError::malformed("it has no schema")),
    }
}

/// Our block in the contract's documents.
const BLOCK: &str = "pstore";
/// Its version.
pub const BLOCK_VERSION: u64 = 1;

/// Encodes a document of the contract: only our block in it carries a digest.
pub(super) fn encode_contract(document: &impl Serialize) -> Vec<u8> {
    let mut fields = object(document);
    if let Some(Value::Object(block)) = fields.remove(BLOCK) {
        fields.insert(BLOCK.to_owned(), Value::Object(sealed(block)));
    }
    pretty(&fields)
}

/// A document of the contract, whose block, if it has one, is of our version and sound.
pub(super) fn decode_contract<T: DeserializeOwned>(bytes: &[u8], max: u64) -> Result<T> {
    let mut fields = parse(bytes, max)?;
    if let Some(Value::Object(block)) = fields.get_mut(BLOCK) {
        check_block(block)?;
        unseal(block)?;
    }
    typed(fields)
}

/// A block of a later version is neither ours to read nor somebody else's to ignore.
fn check_block(block: &Map<String, Value>) -> Result<()> {
    match block.get("v").and_then(Value::as_u64) {
        Some(BLOCK_VERSION) => Ok(()),
        Some(found) => Err(FormatError::Version { found, writer: writer(block) }),
        None => Err(FormatError::malformed("its block has no version")),
    }
}

/// Adds the digest.
fn sealed(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.remove(CHECK);
    let check = digest(&fields);
    fields.insert(CHECK.to_owned(), check.into());
    fields
}

/// Takes the digest away again; it must be right.
fn unseal(fields: &mut Map<String, Value>) -> Result<()> {
    let check = fields.remove(CHECK);
    if check.as_ref().and_then(Value::as_str) == Some(&digest(fields)) {
        return Ok(());
    }
    Err(FormatError::malformed("its digest is wrong: some of it has changed"))
}

fn object(document: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(document) {
        Ok(Value::Object(fields)) => fields,
        // Every document is a struct of plain fields.
        other => unreachable!("a document is a JSON object, not {other:?}"),
    }
}

fn pretty(fields: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(&Sorted::object(fields)).expect("plain JSON always encodes");
    bytes.push(b'\n');
    bytes
}

pub(super) fn malformed(error: serde_json::Error) -> FormatError {
    FormatError::malformed(error.to_string())
}

fn digest(fields: &Map<String, Value>) -> String {
    let compact = serde_json::to_vec(&Sorted::object(fields)).expect("plain JSON always encodes");
    blake3::hash(&compact).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_is_noticed() {
        let fields = object(&serde_json::json!({"version": 1, "a": {"z": [1, 2], "b": "text"}, "n": null}));
        let bytes = pretty(&sealed(fields.clone()));
        let mut read = parse(&bytes, 1000).unwrap();
        unseal(&mut read).unwrap();
        assert_eq!(read, fields);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let found = parse(&damaged, 1000).and_then(|mut fields| unseal(&mut fields).map(|()| fields));
                // White space alone may differ.
                assert!(found.is_err() || found.as_ref() == Ok(&read), "byte {at} bit {bit}: {found:?}");
            }
        }
    }

    #[test]
    fn a_later_version_is_refused_by_name() {
        let later = br#"{"version": 2, "writer": "pstore 9.0.0", "anything": true}"#;
        assert!(matches!(
            parse(later, 1000),
            Err(FormatError::Version { found: 2, writer }) if writer == "pstore 9.0.0"
        ));
        for bad in [&b"{}"[..], b"[]", b"{\"version\": \"1\"}", b"{\"version\": -1}", b"", b"\xff"] {
            parse(bad, 1000).unwrap_err();
        }
        parse(later, 10).unwrap_err();
        let twice = br#"{"version": 2, "writer": "pstore 9.0.0", "n": 1.5, "n": 2}"#;
        assert!(matches!(parse(twice, 1000), Err(FormatError::Version { found: 2, .. })));
    }
}
