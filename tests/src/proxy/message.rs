//! `message` reads HTTP/1.1 messages, only as far as one needs to know where they end.

use std::io::{self, BufRead, ErrorKind, Read};

/// Longer heads are not sent by anybody here.
const MAX_HEAD: usize = 64 << 10;

/// A request or an answer, byte by byte as it was sent.
#[derive(Debug)]
pub(super) struct Message {
    /// With the empty line that ends it.
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    /// Where the connection does.
    Close,
}

/// The head of the next message; `None` if the connection has ended.
pub(super) fn read_head(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    loop {
        let before = head.len();
        from.by_ref().take((MAX_HEAD - before) as u64).read_until(b'\n', &mut head)?;
        match &head[before..] {
            [] if before == 0 => return Ok(None),
            b"\r\n" => return Ok(Some(head)),
            line if line.ends_with(b"\n") && head.len() < MAX_HEAD => {}
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

pub(super) fn read_body(from: &mut impl BufRead, framing: Framing) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match framing {
        Framing::Length(length) => {
            from.take(length as u64).read_to_end(&mut body)?;
            if body.len() < length {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Framing::Chunked => while read_chunk(from, &mut body)? {},
        Framing::Close => drop(from.read_to_end(&mut body)?),
    }
    Ok(body)
}

/// Appends the next chunk with its frame; `false` after the last chunk and its trailer.
fn read_chunk(from: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let line = body.len();
    from.read_until(b'\n', body)?;
    let size = body[line..].split(|byte| *byte == b';' || *byte == b'\r').next().unwrap_or_default();
    let size = std::str::from_utf8(size).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
    let size = size.ok_or(ErrorKind::InvalidData)?;
    if size > 0 {
        body.extend(read_body(from, Framing::Length(size + 2))?);
        return Ok(true);
    }
    loop {
        let line = body.len();
        if from.read_until(b'\n', body)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if &body[line..] == b"\r\n" {
            return Ok(false);
        }
    }
}

/// A header's value.
pub(super) fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = std::str::from_utf8(head).ok()?.split("\r\n").skip(1);
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Where the body of a request ends: without a word about it, at once.
pub(super) fn request_framing(head: &[u8]) -> Framing {
    stated(head).unwrap_or(Framing::Length(0))
}

/// Where the body of an answer to a request ends.
pub(super) fn answer_framing(head: &[u8], request: &[u8]) -> Framing {
    if request.starts_with(b"HEAD ") || matches!(status(head), 100..200 | 204 | 304) {
        return Framing::Length(0);
    }
    stated(head).unwrap_or(Framing::Close)
}

fn stated(head: &[u8]) -> Option<Framing> {
    if header(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Some(Framing::Chunked);
    }
    header(head, "content-length")?.parse().ok().map(Framing::Length)
}

/// The number in an answer's first line; 0 if there is none.
pub(super) fn status(head: &[u8]) -> u16 {
    let text = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
