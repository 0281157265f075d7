//! `log` reads LevelDB's log format, in which both data and MANIFEST are written.
//!
//! A file is blocks of 32 KiB; a block is records, each with a header of checksum, length and type; a logical record
//! is one FULL record or FIRST, MIDDLE… and LAST. If the file ends in the middle of a record, the record is torn: its
//! writer died, and LevelDB silently drops it. Any other deviation is damage, as it is for LevelDB. A file is also
//! damaged, not torn, if whole records follow a record that looks torn.

use std::io::{self, Read};

use super::decode::{fixed32, unmasked};
use crate::db_state::Deadline;

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;

const ZERO: u8 = 0;
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// How a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// The last `bytes` of the file are an unfinished record, or zeros.
    Torn {
        bytes: u64,
    },
    Damaged {
        offset: u64,
        what: &'static str,
    },
    OutOfTime,
}

/// A logical record: its length, and as much of its beginning as was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) prefix: &'a [u8],
    pub(super) bytes: u64,
}

/// Calls `on_record` with every whole record before the end or the first damage. Keeps at
/// most `keep` bytes of a record.
pub(super) fn read(
    mut file: impl Read,
    keep: usize,
    deadline: Deadline,
    mut on_record: impl FnMut(Record<'_>),
) -> io::Result<End> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut open: Option<Open> = None;
    let mut prefix = Vec::new();
    let mut block_offset = 0;
    loop {
        if deadline.passed() {
            return Ok(End::OutOfTime);
        }
        let filled = fill(&mut file, &mut block)?;
        let end_offset = block_offset + filled as u64;
        let is_last = filled < BLOCK_BYTES;
        let mut rest = &block[..filled];
        let offset_of = |rest: &[u8]| end_offset - rest.len() as u64;
        while let Some((header, body)) = rest.split_at_checked(HEADER_BYTES) {
            let offset = offset_of(rest);
            let start = open.as_ref().map_or(offset, |open| open.offset);
            let (length, kind) = (usize::from(u16::from_le_bytes([header[4], header[5]])), header[6]);
            let Some(payload) = body.get(..length) else {
                return Ok(if !is_last || has_record(&rest[1..]) {
                    End::Damaged { offset, what: "a record is longer than its block" }
                } else {
                    End::Torn { bytes: end_offset - start }
                });
            };
            if kind == ZERO && length == 0 {
                return rest_is_zero(rest, file, end_offset, start, deadline);
            }
            if fixed32(header).map(unmasked) != Some(crc32c::crc32c_append(crc32c::crc32c(&[kind]), payload))
            {
                return Ok(End::Damaged { offset, what: "a record's checksum does not match" });
            }
            if let Some(what) = misplaced(kind, open.as_ref()) {
                return Ok(End::Damaged { offset, what });
            }
            if matches!(kind, FULL | FIRST) {
                prefix.clear();
                open = Some(Open { offset, bytes: 0 });
            }
            if let Some(record) = &mut open {
                record.bytes += length as u64;
                prefix.extend_from_slice(&payload[..length.min(keep.saturating_sub(prefix.len()))]);
                if matches!(kind, FULL | LAST) {
                    on_record(Record { prefix: &prefix, bytes: record.bytes });
                    open = None;
                }
            }
            rest = &body[length..];
        }
        if is_last {
            let start = open.map_or(offset_of(rest), |open| open.offset);
            return Ok(match end_offset - start {
                0 => End::Whole,
                bytes => End::Torn { bytes },
            });
        }
        block_offset = end_offset;
    }
}

/// A logical record whose end has not been seen.
struct Open {
    offset: u64,
    bytes: u64,
}

fn misplaced(kind: u8, open: Option<&Open>) -> Option<&'static str> {
    match kind {
        // Early writers could leave an empty FIRST at the end of a block.
        FULL | FIRST if open.is_some_and(|open| open.bytes > 0) => Some("a record has no end"),
        MIDDLE | LAST if open.is_none() => Some("a record has no beginning"),
        FULL | FIRST | MIDDLE | LAST => None,
        _ => Some("a record is of an unknown type"),
    }
}

/// Space that was allocated and never written is a torn tail, unless something follows.
fn rest_is_zero(
    rest: &[u8],
    mut file: impl Read,
    mut end: u64,
    start: u64,
    deadline: Deadline,
) -> io::Result<End> {
    let damaged = |offset| End::Damaged { offset, what: "zeros where records should be" };
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    if !is_zero(rest) {
        return Ok(damaged(end - rest.len() as u64));
    }
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        if deadline.passed() {
            return Ok(End::OutOfTime);
        }
        match fill(&mut file, &mut block)? {
            0 => return Ok(End::Torn { bytes: end - start }),
            filled if is_zero(&block[..filled]) => end += filled as u64,
            _ => return Ok(damaged(start)),
        }
    }
}

/// Whether a whole record that holds something begins anywhere in `bytes`, which are less than a block. Seven bytes that
/// hold nothing may be in what a site has written.
fn has_record(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|at| {
        let Some((header, body)) = bytes[at..].split_at_checked(HEADER_BYTES) else { return false };
        let (length, kind) = (usize::from(u16::from_le_bytes([header[4], header[5]])), header[6]);
        let Some(payload) = body.get(..length) else { return false };
        length > 0
            && (FULL..=LAST).contains(&kind)
            && fixed32(header).map(unmasked) == Some(crc32c::crc32c_append(crc32c::crc32c(&[kind]), payload))
    })
}

fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
