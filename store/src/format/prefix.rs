//! Reads the first line of a blob: its kind, and the major version of its layout.

use super::{FormatError, MAJOR, Result, UNNAMED_WRITER, bytes::Reader};

/// A reader of the bytes after `pstore/<kind>/1` and a line end.
pub(super) fn strip<'a>(bytes: &'a [u8], kind: &str) -> Result<Reader<'a>> {
    versioned(bytes, kind, MAJOR.into()).map(|(_, reader)| reader)
}

/// The version, from 1 to `latest`, and a reader of the bytes after `pstore/<kind>/<version>` and a line end.
pub(super) fn versioned<'a>(bytes: &'a [u8], kind: &str, latest: u64) -> Result<(u64, Reader<'a>)> {
    let other = || FormatError::malformed(format!("this is not a {kind}"));
    let rest = bytes.strip_prefix(b"pstore/").and_then(|rest| rest.strip_prefix(kind.as_bytes()));
    let rest = rest.and_then(|rest| rest.strip_prefix(b"/")).ok_or_else(other)?;
    let end = rest.iter().take(6).position(|b| *b == b'\n').ok_or_else(other)?;
    let (digits, body) = (&rest[..end], &rest[end + 1..]);
    if digits.is_empty() || digits[0] == b'0' || !digits.iter().all(u8::is_ascii_digit) {
        return Err(other());
    }
    let found = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    if found > latest {
        return Err(FormatError::Version { found, writer: UNNAMED_WRITER.to_owned() });
    }
    Ok((found, Reader::new(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_version_is_told_from_something_else() {
        assert_eq!(strip(b"pstore/tree/1\nxy", "tree").unwrap().remaining(), 2);
        for version in [2, 12, 99_999] {
            let bytes = format!("pstore/tree/{version}\nwhatever");
            let refused = strip(bytes.as_bytes(), "tree").unwrap_err();
            assert!(matches!(refused, FormatError::Version { found, .. } if found == version));
        }
        for bad in [
            "",
            "pstore/tree/",
            "pstore/tree/\n",
            "pstore/tree/01\n",
            "pstore/root/1\n",
            "pstore/tree/123456\n",
        ] {
            assert!(matches!(strip(bad.as_bytes(), "tree"), Err(FormatError::Malformed(_))), "{bad}");
        }
    }
}
