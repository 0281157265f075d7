//! Names of files, which are bytes, for people and programs.

use std::fmt::Write;

use serde_json::{Value, json};

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

/// `path` and `path_hex`, as the documentation of JSON has them.
pub fn json(path: &[u8]) -> (Value, Value) {
    let hex = || path.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match std::str::from_utf8(path) {
        Ok(text) => (json!(text), Value::Null),
        Err(_) => (json!(String::from_utf8_lossy(path)), json!(hex())),
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
    fn json_loses_nothing() {
        assert_eq!(json("ü\n".as_bytes()), (json!("ü\n"), Value::Null));
        assert_eq!(json(b"a\xff"), (json!("a\u{fffd}"), json!("61ff")));
    }
}
