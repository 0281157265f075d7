//! `path` writes the names of files, which are bytes, for people and programs.

use std::fmt::Write;

/// As it is if that can be read and typed; else in quotes, with what cannot escaped. No
/// name can move the cursor, break the line or pass for another.
pub fn shown(path: &[u8]) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let mut text = String::new();
    let mut plain = !(path.starts_with(b" ") || path.ends_with(b" ") || path == b".");
    for part in path.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '"' | '\\' => {
                    plain = false;
                    text.extend(['\\', c]);
                }
                '\'' => text.push(c),
                _ => {
                    let escaped = c.escape_debug();
                    plain &= escaped.len() == 1;
                    text.extend(escaped);
                }
            }
        }
        for byte in part.invalid() {
            plain = false;
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if plain { text } else { format!("\"{text}\"") }
}

/// A path as the fields `path` and `path_hex` of a document have it: as text, and its bytes if they are none.
pub fn fields(path: &[u8]) -> (String, Option<String>) {
    let hex = || path.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match std::str::from_utf8(path) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (String::from_utf8_lossy(path).into_owned(), Some(hex())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_so_that_none_passes_for_another() {
        for (path, expected) in [
            (&b""[..], "."),
            (b"Default/Web Data", "Default/Web Data"),
            ("Ünïcode/日本".as_bytes(), "Ünïcode/日本"),
            (b"it's", "it's"),
            (b"a\"b", r#""a\"b""#),
            (b"a\\n", r#""a\\n""#),
            (b"a\nb", r#""a\nb""#),
            (b"\x1b[31mred", r#""\u{1b}[31mred""#),
            (b"\xff\xfe.txt", r#""\xff\xfe.txt""#),
            ("a\u{202e}b".as_bytes(), r#""a\u{202e}b""#),
            (b" lead", r#"" lead""#),
            (b"trail ", r#""trail ""#),
        ] {
            assert_eq!(shown(path), expected);
        }
    }

    #[test]
    fn fields_lose_nothing() {
        assert_eq!(fields("ü\n".as_bytes()), ("ü\n".to_owned(), None));
        assert_eq!(fields(b"a\xff"), ("a\u{fffd}".to_owned(), Some("61ff".to_owned())));
    }
}
