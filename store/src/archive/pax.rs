//! Writes and reads pax records: attributes of the next member that ustar cannot express.
//!
//! A record is `LENGTH KEY=VALUE\n`, the length that of the whole record in decimal.

use crate::format::{FormatError, Result};

/// Before the name of an extended attribute.
pub(crate) const XATTR: &str = "SCHILY.xattr.";

/// Appends one record. A key has no `=` in it.
pub fn append(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    // The length counts its own digits, which may make it longer.
    let mut len = rest;
    while rest + digits(len) != len {
        len = rest + digits(len);
    }
    out.extend_from_slice(len.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Every record: key and value.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let bad = || FormatError::malformed("a pax header that is not made of records");
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().take(20).position(|byte| *byte == b' ').ok_or_else(bad)?;
        let len = std::str::from_utf8(&bytes[..space]).ok().and_then(|text| text.parse::<usize>().ok());
        let record = len.and_then(|len| bytes.get(space + 1..len)).ok_or_else(bad)?;
        bytes = &bytes[space + 1 + record.len()..];
        let record = record.strip_suffix(b"\n").ok_or_else(bad)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
        records.push((&record[..equals], &record[equals + 1..]));
    }
    Ok(records)
}

/// The name of an extended attribute as part of a key, in which there is no `=`.
pub fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'%' => escaped.extend_from_slice(b"%25"),
            b'=' => escaped.extend_from_slice(b"%3D"),
            byte => escaped.push(*byte),
        }
    }
    escaped
}

/// The name of an extended attribute that was part of a key.
pub(crate) fn unescape(mut name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    while let Some((first, rest)) = name.split_first() {
        let (byte, len) = match name {
            [b'%', b'2', b'5', ..] => (b'%', 3),
            [b'%', b'3', b'D' | b'd', ..] => (b'=', 3),
            _ => (*first, name.len() - rest.len()),
        };
        plain.push(byte);
        name = &name[len..];
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_every_length_are_read_as_they_were_written() {
        let mut all = Vec::new();
        let values: Vec<Vec<u8>> = (0..1100).map(|len| vec![b'v'; len]).collect();
        for value in &values {
            let before = all.len();
            append(&mut all, b"path", value);
            let len = (all.len() - before).to_string();
            assert!(all[before..].starts_with(len.as_bytes()), "{len}");
        }
        append(&mut all, b"SCHILY.xattr.user.x", b"a=b\n\0\xff");
        let read = decode(&all).unwrap();
        assert!(
            read.iter().zip(&values).all(|((key, value), expected)| *key == b"path" && value == expected)
        );
        assert_eq!(read.last(), Some(&(&b"SCHILY.xattr.user.x"[..], &b"a=b\n\0\xff"[..])));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for bad in [
            "5",
            "5 a=",
            "6 a=b",
            "7 a=b\n",
            "3 a=b\n",
            "0 a=b\n",
            "-6 a=b\n",
            "6 abc\n",
            "99999999999999999999 a=b\n",
            " a=b\n",
        ] {
            decode(bad.as_bytes()).unwrap_err();
        }
        assert_eq!(decode(b"").unwrap(), []);
        assert_eq!(decode(b"6 a=b\n").unwrap(), [(&b"a"[..], &b"b"[..])]);
    }

    #[test]
    fn the_names_of_attributes_have_no_equals_sign_in_a_key() {
        assert_eq!(escape(b"user.a=b%"), b"user.a%3Db%25");
        for name in [&b"user.a=b%"[..], b"%25=%3D", b"%", b"user.\xff"] {
            assert_eq!(unescape(&escape(name)), name);
        }
    }
}
