//! Escapes every character in foreign text that a terminal would act upon, or that hides or reorders its neighbours.
//!
//! Names of runs and hosts, reasons, labels, notes, names of files and words in documents come from
//! everybody who writes to the store. None of them may move a cursor, break a line or pass for another.

use std::borrow::Cow;

/// One line, with all characters escaped that a terminal would act upon.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, &[])
}

/// As [`line()`], of text that is lines already.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n', '\t'])
}

fn escaped<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let acts = |c: char| !kept.contains(&c) && (c.is_control() || is_invisible(c));
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts(c) { plain.extend(c.escape_debug()) } else { plain.push(c) }
    }
    Cow::Owned(plain)
}

/// Whether a character reorders or hides its neighbours, or separates lines.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_upon_is_escaped() {
        for (text, expected) in [
            ("run-1", "run-1"),
            ("Zoë \"quoted\" C:\\x 日本", "Zoë \"quoted\" C:\\x 日本"),
            ("\x1b[2Jred\r\n\tx", "\\u{1b}[2Jred\\r\\n\\tx"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b\u{2028}c", "a\\u{202e}b\\u{2028}c"),
        ] {
            assert_eq!(line(text), expected);
        }
        for c in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain('\u{200b}'..='\u{200f}') {
            assert_eq!(line(&c.to_string()), format!("\\u{{{:x}}}", c as u32));
        }
        assert_eq!(line("\u{feff}"), "\\u{feff}");
        assert_eq!(lines("a\n\tb\x1b"), "a\n\tb\\u{1b}");
    }
}
