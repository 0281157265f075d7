//! JSON documents that notice when one of their bits has changed.
//!
//! A document carries `check`: the BLAKE3 digest of itself without that field, written
//! compactly with its keys sorted. Its version is looked at before anything else, so that
//! a document of a later format is refused by name and not taken for damage.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{FormatError, MAJOR, Result};

const CHECK: &str = "check";

/// Encodes a document for people to read too.
pub(super) fn encode(document: &impl Serialize) -> Vec<u8> {
    pretty(&sealed(object(document)))
}

/// Decodes a document of our major version that is no longer than `max` bytes.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8], max: usize) -> Result<T> {
    let mut fields = parse(bytes, max)?;
    unseal(&mut fields)?;
    serde_json::from_value(Value::Object(fields)).map_err(malformed)
}

/// The fields of a document of our major version.
pub(super) fn parse(bytes: &[u8], max: usize) -> Result<Map<String, Value>> {
    if bytes.len() > max {
        return Err(FormatError::malformed(format!("{} bytes, at most {max} are allowed", bytes.len())));
    }
    let Value::Object(fields) = serde_json::from_slice(bytes).map_err(malformed)? else {
        return Err(FormatError::malformed("it is not a JSON object"));
    };
    match fields.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(MAJOR) => Ok(fields),
        Some(found) => {
            let writer = fields.get("writer").and_then(Value::as_str).unwrap_or("an unnamed writer");
            Err(FormatError::Version { found, writer: writer.to_owned() })
        }
        None => Err(FormatError::malformed("it has no version")),
    }
}

/// Adds the digest.
pub(super) fn sealed(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.remove(CHECK);
    let check = digest(&fields);
    fields.insert(CHECK.to_owned(), check.into());
    fields
}

/// Takes the digest away again; it must be right.
pub(super) fn unseal(fields: &mut Map<String, Value>) -> Result<()> {
    let check = fields.remove(CHECK);
    if check.as_ref().and_then(Value::as_str) == Some(&digest(fields)) {
        return Ok(());
    }
    Err(FormatError::malformed("its digest is wrong: some of it has changed"))
}

pub(super) fn object(document: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(document) {
        Ok(Value::Object(fields)) => fields,
        // Every document is a struct of plain fields.
        other => unreachable!("a document is a JSON object, not {other:?}"),
    }
}

pub(super) fn pretty(fields: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(fields).expect("plain JSON always encodes");
    bytes.push(b'\n');
    bytes
}

pub(super) fn malformed(error: serde_json::Error) -> FormatError {
    FormatError::malformed(error.to_string())
}

fn digest(fields: &Map<String, Value>) -> String {
    // A map keeps its keys sorted, at every level.
    let compact = serde_json::to_vec(fields).expect("plain JSON always encodes");
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
    }
}
