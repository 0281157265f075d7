//! `PlainText` lets text through to a terminal, and nothing that a terminal obeys.

use std::io::{self, Write};

/// Why bytes are not written to a terminal.
pub const NOT_PLAIN: &str = "the file holds bytes that would make a terminal do things";

/// Writes text, and fails with [`NOT_PLAIN`] at the first byte that a terminal would obey.
#[derive(Debug)]
pub struct PlainText<W> {
    out: W,
    /// The last byte was the first of two that could be a control character.
    is_between: bool,
}

impl<W> PlainText<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, is_between: false }
    }

    fn is_plain(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| {
            let is_second = std::mem::replace(&mut self.is_between, *byte == 0xc2);
            match byte {
                b'\n' | b'\t' | b'\r' => true,
                0..0x20 | 0x7f => false,
                0x80..0xa0 => !is_second,
                _ => true,
            }
        })
    }
}

impl<W: Write> Write for PlainText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_plain(bytes) {
            return Err(io::Error::other(NOT_PLAIN));
        }
        self.out.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_text_and_no_commands() {
        let shown = |parts: &[&[u8]]| {
            let mut out = PlainText::new(Vec::new());
            parts.iter().try_for_each(|part| out.write_all(part)).is_ok().then_some(out.out)
        };
        assert_eq!(shown(&["Ünï\t日本\r\n".as_bytes()]), Some("Ünï\t日本\r\n".as_bytes().to_vec()));
        for wrong in [&b"\x1b[31m"[..], b"a\0", b"\x07", "\u{9b}31m".as_bytes(), b"\x7f"] {
            assert_eq!(shown(&[b"text", wrong]), None, "{wrong:?}");
        }
        assert_eq!(shown(&[b"\xc2", b"\x9b"]), None);
    }
}
